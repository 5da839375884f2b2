"""scaled_dot_product_attention: blocks, masks, heads and gradients."""

import flambeau as fb
import layer_references
import numpy as np
import pytest
from flambeau.nn import functional as F

pytestmark = pytest.mark.products

RNG = np.random.default_rng(0)


def random(*sizes, dtype=np.float64):
    return RNG.standard_normal(sizes).astype(dtype)


def close(result, expected, tolerance=1e-11):
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (63, 65), (130, 1100), (700, 600)])
def test_lengths_across_blocks(rows, columns, is_causal):
    q, k, v = random(2, rows, 8), random(2, columns, 8), random(2, columns, 5)
    result = F.scaled_dot_product_attention(*map(fb.from_numpy, (q, k, v)), is_causal=is_causal)
    close(result, layer_references.attention(q, k, v, None, is_causal, None))


@pytest.mark.parametrize("shape", [(6, 9), (1, 9), (6, 1), (2, 1, 6, 9), (3, 6, 9)])
def test_masks_broadcast(shape):
    q, k, v = random(2, 3, 6, 4), random(2, 3, 9, 4), random(2, 3, 9, 4)
    added, allowed = random(*shape), RNG.random(shape) < 0.6
    tensors = [fb.from_numpy(x) for x in (q, k, v)]
    for mask in (added, allowed):
        result = F.scaled_dot_product_attention(*tensors, attn_mask=fb.from_numpy(mask))
        close(result, layer_references.attention(q, k, v, mask, False, None))


def test_a_row_that_attends_to_nothing_gives_zero_and_no_gradient():
    q, k, v = (fb.from_numpy(random(3, 4)).requires_grad_() for _ in range(3))
    mask = fb.tensor([[True, True, False], [False, False, False], [True, False, False]])
    result = F.scaled_dot_product_attention(q, k, v, mask)
    assert (result[1] == 0).all()
    result.sum().backward()
    assert (q.grad[1] == 0).all() and (k.grad[2] == 0).all() and not v.grad.isnan().any()


def test_heads_of_keys_are_shared():
    q, k, v = random(1, 6, 5, 4), random(1, 2, 7, 4), random(1, 2, 7, 4)
    result = F.scaled_dot_product_attention(*map(fb.from_numpy, (q, k, v)), enable_gqa=True)
    wide = [np.repeat(x, 3, axis=1) for x in (k, v)]
    close(result, layer_references.attention(q, *wide, None, False, None))


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_in_blocks_are_those_of_the_whole_matrix(is_causal):
    arrays = [random(2, 200, 6), random(2, 560, 6), random(2, 560, 3)]
    cotangent = fb.from_numpy(random(2, 200, 3))

    def gradients(create_graph):
        inputs = [fb.from_numpy(x).requires_grad_() for x in arrays]
        output = F.scaled_dot_product_attention(*inputs, is_causal=is_causal)
        return fb.autograd.grad(output, inputs, cotangent, create_graph=create_graph)

    for block, whole in zip(gradients(False), gradients(True), strict=True):
        close(block, whole.detach().numpy())


def test_half_types_compute_in_float():
    q, k, v = (random(70, 16, dtype=np.float32) for _ in range(3))
    halves = [fb.from_numpy(x).to(fb.bfloat16) for x in (q, k, v)]
    result = F.scaled_dot_product_attention(*halves)
    assert result.dtype == fb.bfloat16
    exact = layer_references.attention(*(h.double().numpy() for h in halves), None, False, None)
    np.testing.assert_allclose(result.double().numpy(), exact, atol=8e-3)


def test_nan_spreads_over_its_row_only():
    q, k, v = (fb.from_numpy(random(3, 4)) for _ in range(3))
    q[1, 0] = float("nan")
    result = F.scaled_dot_product_attention(q, k, v)
    assert result[1].isnan().all() and not result[0].isnan().any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.scaled_dot_product_attention(x[0], x[0], x[0]), "at least 2 dimensions"),
        (lambda x: F.scaled_dot_product_attention(x, x.float(), x), "of one dtype"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, fb.ones(4, 4) > 0, is_causal=True), "is_causal"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, fb.ones(3, 3) > 0), "broadcasts to"),
    ],
)
def test_errors(call, message):
    with pytest.raises(RuntimeError, match=message):
        call(fb.zeros(4, 4, dtype=fb.float64))


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64])
@pytest.mark.parametrize("keys", [1, 5, 16, 17, 70])
def test_scores_that_are_not_numbers_spread_from_any_place(keys: int, dtype: fb.dtype):
    fb.manual_seed(0)
    q, k, v = fb.randn(3, 4, dtype=dtype), fb.randn(keys, 4, dtype=dtype), fb.randn(keys, 2, dtype=dtype)
    for place in {0, keys // 2, keys - 1}:
        bias = fb.zeros(3, keys, dtype=dtype)
        bias[1, place] = float("nan")
        result = fb.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        assert result.isnan().all(dim=1).tolist() == [False, True, False]
        assert not result[[0, 2]].isnan().any()


@pytest.mark.parametrize("layout", ["heads inside", "columns first", "rows apart", "one head for all"])
def test_layouts_of_operands_give_the_same_numbers_and_gradients(layout: str):
    plain = [fb.from_numpy(random(2, 3, 70, 8, dtype=np.float32)) for _ in range(3)]
    laid = {
        "heads inside": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        "columns first": lambda x: x.mT.contiguous().mT,
        "rows apart": lambda x: fb.cat([x, x * 2], -1)[..., :8],
        "one head for all": lambda x: x[:, :1].expand(2, 3, 70, 8),
    }[layout]
    leaves = [laid(x).detach().requires_grad_() for x in plain]
    copies = [x.detach().contiguous().requires_grad_() for x in leaves]
    results = []
    for given in (leaves, copies):
        result = F.scaled_dot_product_attention(*given, is_causal=True)
        result.square().sum().backward()
        results.append([result, *(x.grad for x in given)])
    for one, other in zip(*results, strict=True):
        close(one, other.detach().numpy(), 2e-5)
