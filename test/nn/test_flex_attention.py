"""flex_attention against PyTorch: functions of scores, masks by blocks, grouped heads, masked rows."""

import importlib

import flambeau as fb
import numpy as np
import pytest
from sides import Scenarios, raised

scenario = Scenarios()


def parts(torch, *shape, heads=2):
    module = importlib.import_module(torch.__name__ + ".nn.attention.flex_attention")
    rng = np.random.default_rng(0)
    sizes = [(2, 4, 5, 8), (2, heads, 7, 8), (2, heads, 7, 6)]
    return module, [torch.tensor(rng.standard_normal(s)) for s in sizes]


@scenario
def scores_by_position(torch):
    module, (q, k, v) = parts(torch, heads=4)

    def relative(score, b, h, i, j):
        return score + (i - j) * 0.1 * (h + 1) + b

    out, lse = module.flex_attention(q, k, v, score_mod=relative, return_lse=True)
    return [out, lse]


@scenario
def masks_by_blocks(torch):
    module, (q, k, v) = parts(torch, heads=4)

    def causal(b, h, i, j):
        return i >= j + 1  # the first row is masked altogether

    def window(b, h, i, j):
        return i - j <= 2

    found = []
    for mod in (causal, window, module.and_masks(causal, window), module.or_masks(causal, window)):
        mask = module.create_block_mask(mod, None, None, 5, 7, device="cpu", BLOCK_SIZE=(2, 4))
        out, lse = module.flex_attention(q, k, v, block_mask=mask, scale=0.3, return_lse=True)
        found.append([out, torch.nan_to_num(lse, neginf=-9.0), list(mask.shape), mask.sparsity()])
        found.append([mask.to_dense(), mask.kv_num_blocks, mask.full_kv_num_blocks])
        found.append(module.create_mask(mod, 1, 1, 5, 7, device="cpu"))
    return found


@scenario
def grouped_heads(torch):
    module, (q, k, v) = parts(torch, heads=2)
    out = module.flex_attention(q, k, v, enable_gqa=True)
    wrong = raised("same number of heads", module.flex_attention, q, k, v)
    return [out, wrong, raised("4D", module.flex_attention, q[0], k, v)]


test_as_in_pytorch = scenario.test()


@pytest.mark.parametrize("length", [1, 127, 128, 129])
def test_a_causal_mask_is_causal_attention(length):
    flex = importlib.import_module("flambeau.nn.attention.flex_attention")
    q, k, v = (fb.randn(1, 2, length, 4) for _ in range(3))
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, 1, 1, length, length)
    expected = fb.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert fb.allclose(flex.flex_attention(q, k, v, block_mask=mask), expected, atol=1e-5)


def test_gradients_of_scores_and_values():
    flex = importlib.import_module("flambeau.nn.attention.flex_attention")
    bias = fb.randn(3, dtype=fb.float64, requires_grad=True)
    q, k, v = (fb.randn(1, 1, 3, 2, dtype=fb.float64, requires_grad=True) for _ in range(3))
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j + 1, 1, 1, 3, 3, BLOCK_SIZE=2)

    def attend(q, k, v, bias):
        return flex.flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[j], mask)

    assert fb.autograd.gradcheck(attend, (q, k, v, bias))
