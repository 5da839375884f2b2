"""Reductions of half types: dtypes read as they are stored, in every layout, against float64."""

import flambeau as fb
import numpy as np
import pytest

LAYOUTS = {
    "one run": lambda x: x.flatten(),
    "rows": lambda x: x,
    "columns": lambda x: x.t(),
    "every second": lambda x: x[:, ::2],
    "reversed": lambda x: x.flip(1)[:, 1:],
}
# Beyond a block of one loop, a rest of a vector, fewer elements than one vector.
SIZES = [(3, 20_001), (70, 130), (130, 70), (1, 1), (5, 3), (2000, 2)]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", SIZES)
def test_every_layout(size, layout, dtype):
    x = np.random.default_rng(sum(size)).uniform(0.5, 1.5, size)
    t = LAYOUTS[layout](fb.tensor(x).to(getattr(fb, dtype)))
    if t.numel() == 0:
        assert t.sum().item() == 0 and t.mean().isnan()
        return
    exact = t.double().numpy()
    rounding = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype] * 1.01  # float32 sums are far closer
    for dim in (None, *range(t.dim())):
        where = {} if dim is None else {"dim": dim}
        for name, reference in (("sum", np.sum), ("mean", np.mean), ("amax", np.max), ("amin", np.min)):
            got = getattr(fb, name)(t, **where)
            assert got.dtype == t.dtype
            want = reference(exact, axis=dim)
            if dtype == "float16":
                want = np.where(np.abs(want) >= 65520, np.inf, want)
            np.testing.assert_allclose(got.double().numpy(), want, rtol=rounding, err_msg=f"{name} {dim}")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_special_values(dtype):
    x = fb.arange(-50.0, 50.0).reshape(4, 25).to(getattr(fb, dtype))
    x[1, 7], x[2, 3], x[3, 24] = float("nan"), float("inf"), -float("inf")
    assert x.amax(1).isnan().tolist() == [False, True, False, False]
    assert x.amax(1)[2:].tolist() == [float("inf"), 48]
    assert x.amin(1)[3].item() == -float("inf")
    assert x.sum(1).isnan().tolist() == [False, True, False, False]
    assert x.sum(1)[2:].tolist() == [float("inf"), -float("inf")]
    assert x.sum().isnan() and x.any() and not (x * 0).nan_to_num().any()


def test_sums_in_another_dtype():
    x = fb.full((3000,), 1 / 3).to(fb.bfloat16)
    exact = x.double().numpy().sum()
    assert abs(x.sum(dtype=fb.float32).item() - exact) < 1e-3 * exact
    assert x.sum(dtype=fb.float64).item() == exact
    assert x.sum(dtype=fb.float32).dtype == fb.float32
    # An empty sum is the identity.
    assert fb.zeros(0, dtype=fb.bfloat16).sum().item() == 0
    assert fb.zeros(3, 0, dtype=fb.bfloat16).sum(1).tolist() == [0, 0, 0]
