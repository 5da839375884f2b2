"""Copies between arrays that are contiguous along different dimensions, against NumPy."""

from __future__ import annotations

import itertools
import random

import flambeau as fb
import numpy as np
import pytest

DTYPES = ("uint8", "int16", "float32", "float64", "complex128")
# Around the sides of squares in registers, of lines of memory, and pixels of few channels.
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130)


def numbered(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_of_all_sizes(dtype: str):
    for rows, columns in itertools.product(SIZES, SIZES):
        x = numbered((rows, columns), dtype)
        assert np.array_equal(fb.tensor(x).t().contiguous().numpy(), x.T.copy()), (rows, columns)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_of_several_tiles(dtype: str):
    x = numbered((4099, 70), dtype)
    assert np.array_equal(fb.tensor(x).t().contiguous().numpy(), x.T.copy())
    assert np.array_equal(fb.tensor(x.T.copy()).t().contiguous().numpy(), x)


@pytest.mark.parametrize("seed", range(60))
def test_permuted_slices_write_nothing_else(seed: int):
    draw = random.Random(seed)
    dtype = draw.choice(DTYPES)
    shape = [draw.choice(SIZES[:13]) for _ in range(draw.choice((2, 3, 4)))]
    while np.prod(shape) > 100_000:
        shape[draw.randrange(len(shape))] = 3
    order = draw.sample(range(len(shape)), len(shape))
    part = tuple(draw.choice((slice(None), slice(None), slice(1, None), slice(None, None, 2))) for _ in shape)
    x = numbered(tuple(shape), dtype)
    expected = x[part].transpose(order)
    source = fb.tensor(x)[part].permute(order)
    assert np.array_equal(source.contiguous().numpy(), expected)
    # Into a part of a larger tensor: the rest keeps its zeros.
    frame = fb.zeros([size + 1 for size in expected.shape], dtype=source.dtype)
    inner = tuple(slice(0, size) for size in expected.shape)
    frame[inner].copy_(source)
    written = frame.numpy().copy()
    assert np.array_equal(written[inner], expected)
    written[inner] = 0
    assert not written.any()


@pytest.mark.parametrize("shape", [(2, 3, 37, 41), (2, 2, 8, 8), (1, 4, 5, 7), (3, 64, 14, 14)])
def test_channels_last_and_back(shape: tuple[int, ...]):
    x = numbered(shape, "float32")
    last = fb.tensor(x).contiguous(memory_format=fb.channels_last)
    assert np.array_equal(last.permute(0, 2, 3, 1).numpy(), x.transpose(0, 2, 3, 1))
    assert np.array_equal(last.contiguous().numpy(), x)


def test_bytes_of_nan_and_negative_zero_are_kept():
    bits = np.array([0x7FC00001, 0xFFC12345, 0x80000000, 0x7F800001] * 64, dtype=np.uint32).reshape(8, 32)
    x = fb.tensor(bits.view(np.int32)).view(fb.float32)
    assert np.array_equal(x.t().contiguous().view(fb.int32).numpy(), bits.view(np.int32).T)
