"""Bits of integers: signs, shifts by more than the width and by negative counts, wrong types."""

from __future__ import annotations

import numpy as np
import pytest
from side_by_side import refuse_alike, same

TYPES = [np.uint8, np.int8, np.int16, np.int32, np.int64]


@pytest.mark.parametrize("dtype", TYPES)
def test_all_bits(dtype):
    ends = np.iinfo(dtype)
    x = np.array([ends.min, ends.max, 0, 1, 0x5A, ends.max // 3], dtype)

    def program(m, a, b):
        return [a & b, a | b, a ^ b, ~a, a & 3, 3 ^ a]

    same(program, x, x[::-1].copy())
    same(program, x[:0].copy(), x[:0].copy())
    same(lambda m, a, b: a.reshape(2, 3).t() & b.reshape(3, 2), x, x)


@pytest.mark.parametrize("dtype", TYPES)
def test_shifts_beyond_the_width(dtype):
    """Left shifts by the width or more give 0, right shifts the sign, as do negative counts."""
    ends, width = np.iinfo(dtype), np.dtype(dtype).itemsize * 8
    x = np.repeat(np.array([ends.min, ends.max, 1, 3], dtype), 6)
    counts = [0, 1, width - 1, min(width, 100), min(width + 1, 100), 2 if ends.min == 0 else -1]
    same(lambda m, a, b: [a << b, a >> b], x, np.tile(np.array(counts, dtype), 4))


def test_bool_and_wrong_types():
    flags = np.array([True, False, True])
    same(lambda m, a: [a & True, a | False, a ^ a, ~a, a & m.tensor([3, 1, 2])], flags)
    refuse_alike(lambda m, a: a & a, np.ones(2))
