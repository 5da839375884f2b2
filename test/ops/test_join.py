"""cat and stack: layouts, promotion, errors."""

from __future__ import annotations

import flambeau as fb
import numpy as np
import pytest

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()


def counted(*sizes: int) -> fb.Tensor:
    """0, 1, 2, ... in row-major order."""
    return fb.arange(int(np.prod(sizes))).reshape(sizes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_every_element_size_moves_unchanged(dtype: str, dim: int) -> None:
    x = counted(2, 3, 40).to(getattr(fb, dtype))
    joined = fb.cat([x, x.flip(dim)], dim)
    halves = joined.chunk(2, dim)
    assert halves[0].equal(x) and halves[1].equal(x.flip(dim))


def test_strided_and_expanded_parts() -> None:
    x = counted(3, 4)
    joined = fb.cat([x.t(), x.t()[:, :1].expand(4, 2), x.t()[:, ::2]], 1)
    wide = x.numpy().T
    np.testing.assert_array_equal(joined.numpy(), np.concatenate([wide, wide[:, [0, 0]], wide[:, ::2]], 1))


def test_large_rows_are_joined_by_several_threads() -> None:
    x = counted(300, 1000)
    joined = fb.cat([x, x + 1], 1)
    np.testing.assert_array_equal(joined.numpy(), np.concatenate([x.numpy(), x.numpy() + 1], 1))


def test_dtypes_are_promoted() -> None:
    assert fb.cat([fb.ones(2, dtype=fb.int32), fb.ones(2, dtype=fb.float16)]).dtype == fb.float16
    assert fb.stack([fb.ones(2, dtype=fb.bool), fb.ones(2, dtype=fb.uint8)]).dtype == fb.uint8


def test_empty_vectors_count_as_nothing() -> None:
    assert fb.cat([fb.empty(0), fb.ones(2, 3), fb.empty(0)], 1).shape == (2, 3)


def test_channels_last_is_kept() -> None:
    x = fb.zeros(2, 3, 4, 5).contiguous(memory_format=fb.channels_last)
    assert fb.cat([x, x], 1).stride() == (120, 1, 30, 6)
    assert fb.cat([x, x.contiguous()], 1).is_contiguous()


def test_out_may_be_strided() -> None:
    out = fb.zeros(3, 4).t()
    fb.cat([counted(2, 3), counted(2, 3)], out=out)
    np.testing.assert_array_equal(out.numpy(), np.concatenate([counted(2, 3).numpy()] * 2))


@pytest.mark.parametrize(
    ("parts", "dim", "error", "message"),
    [
        (
            [(2, 3), (2, 4)],
            0,
            RuntimeError,
            r"expected 3 and got 4 in tensor 1",
        ),
        ([(2, 3), (2,)], 0, RuntimeError, "number of dimensions, got 2 and 1"),
        ([(), (2,)], 0, RuntimeError, r"zero-dimensional tensor \(at position 0\) cannot be concatenated"),
        ([(2, 3), (2, 3)], 2, IndexError, r"range of \[-2, 1\], got 2"),
        ([], 0, ValueError, "non-empty TensorList"),
    ],
)
def test_cat_errors(parts: list[tuple[int, ...]], dim: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fb.cat([fb.zeros(*p) if p else fb.tensor(1.0) for p in parts], dim)


@pytest.mark.parametrize(
    ("parts", "dim", "error", "message"),
    [
        ([(2,), (3,)], 0, RuntimeError, r"equal size, got \[float32\[2\], float32\[3\]\]"),
        ([(2,), (2,)], 2, IndexError, r"range of \[-2, 1\], got 2"),
        ([], 0, RuntimeError, "non-empty TensorList"),
    ],
)
def test_stack_errors(parts: list[tuple[int, ...]], dim: int, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fb.stack([fb.zeros(*p) for p in parts], dim)
