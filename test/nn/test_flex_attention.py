"""flex_attention against PyTorch: functions of scores, masks by blocks, grouped heads, masked rows."""

import importlib

import flambeau as fb
import numpy as np
import pytest
from flambeau.nn.attention import _blocks
from flambeau.nn.attention.flex_attention import create_block_mask, flex_attention
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


@scenario
def blocks_of_all_kinds(torch):
    module, (q, k, v) = parts(torch, heads=2)
    slopes = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)

    def causal(b, h, i, j):
        return i >= j

    def by_head(b, h, i, j):
        return (i + b >= j) & (i - j <= h + 1)

    def by_batch(b, h, i, j):
        return i + b >= j

    def relative(score, b, h, i, j):
        return score + (i - j) * slopes[h]

    found = []
    for mod, b, h, size in ((causal, None, None, (1, 2)), (by_head, 2, 4, 2), (by_batch, 2, None, (2, 3)),
                            (lambda b, h, i, j: j < 0, None, None, 2), (causal, 1, 4, 128)):  # fmt: skip
        mask = module.create_block_mask(mod, b, h, 5, 7, device="cpu", BLOCK_SIZE=size)
        for score_mod in (None, relative):
            options = {"enable_gqa": True, "kernel_options": {"BLOCK_M": 16}}
            found.append(module.flex_attention(q, k, v, score_mod, mask, **options))
    return found


test_as_in_pytorch = scenario.test()


@pytest.fixture(params=["rows of blocks", "measured choice"])
def is_forced(request, monkeypatch):
    if request.param == "rows of blocks":
        monkeypatch.setattr(_blocks, "_SCORES_PER_ROW", -1)
    return request.param == "rows of blocks"


@pytest.mark.usefixtures("is_forced")
@pytest.mark.parametrize("case", [masks_by_blocks, blocks_of_all_kinds], ids=lambda case: case.__name__)
def test_rows_of_blocks_as_in_pytorch(case):
    test_as_in_pytorch(case)


@pytest.mark.usefixtures("is_forced")
def test_gradients_reach_inputs_and_what_functions_close_over():
    slopes = fb.randn(2, dtype=fb.float64, requires_grad=True)
    q, k, v = (fb.randn(1, 2, n, 3, dtype=fb.float64, requires_grad=True) for n in (5, 7, 7))
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i != 2), None, None, 5, 7, BLOCK_SIZE=(1, 2))

    def attention(q, k, v, slopes):
        def relative(score, b, h, i, j):
            return score + (i - j) * slopes[h]

        return flex_attention(q, k, v, relative, mask)

    assert fb.autograd.gradcheck(attention, (q, k, v, slopes))
    grads = fb.autograd.grad(attention(q, k, v, slopes).sum(), (q, k, v, slopes))
    i, j = fb.arange(5)[:, None], fb.arange(7)
    scores = q @ k.mT / 3**0.5 + (i - j) * slopes[:, None, None]
    weights = scores.masked_fill(i < j, -float("inf")).softmax(-1) * (i != 2)
    for got, expected in zip(grads, fb.autograd.grad((weights @ v).sum(), (q, k, v, slopes)), strict=True):
        assert fb.allclose(got, expected)


def test_excluded_blocks_are_not_computed():
    seen = []

    def score(s, b, h, i, j):
        return s

    real = _blocks.over_all

    def watched(mod, with_score):
        made = real(mod, with_score)

        def run(*args):
            if with_score:
                seen.append(args[0].shape[-2:])
            return made(*args)

        return run

    q = fb.randn(1, 2, 1024, 4)
    mask = create_block_mask(lambda b, h, i, j: i // 256 == j // 256, None, None, 1024, 1024)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_blocks, "over_all", watched)
        out = flex_attention(q, q, q, score, mask)
    assert [tuple(s) for s in seen] == [(256, 256)] * 4
    for n in range(4):
        part = q[:, :, n * 256 : n * 256 + 256]
        expected = fb.nn.functional.scaled_dot_product_attention(part, part, part)
        assert fb.allclose(out[:, :, n * 256 : n * 256 + 256], expected, atol=1e-5)


def test_half_precision_and_transforms():
    q = fb.randn(2, 2, 512, 8)
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 512, 512)
    exact = flex_attention(q, q, q, block_mask=mask)
    half = flex_attention(*[q.bfloat16()] * 3, block_mask=mask)
    assert half.dtype == fb.bfloat16 and fb.allclose(half.float(), exact, atol=0.05)
    mapped = fb.vmap(lambda x: flex_attention(x, x, x, block_mask=mask))(fb.stack([q, q * 2]))
    assert fb.allclose(mapped[0], exact, atol=1e-5)


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
