"""Direction numbers of Sobol' sequences, read from the packed table of Joe and Kuo.

`python/build_support/sobol_directions.py` writes the table and says how it is laid out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import flambeau as fb
from flambeau._C import Tensor

MAXBIT = 30
MAXDIM = 21201

# How many primitive polynomials over the field of two elements have degree 1, 2, ... 18.
_POLYNOMIALS = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776)
_TABLE = Path(__file__).with_name("joe_kuo.bin")


def _rows(count: int) -> Iterator[tuple[int, Tensor]]:
    """Yield the degree and the bits of the table's first rows, all rows of a degree together."""
    start = 0
    with _TABLE.open("rb") as table:
        for degree, polynomials in enumerate(_POLYNOMIALS, start=1):
            rows = min(count, polynomials)
            width = (degree - 1) * (degree + 2) // 2
            stop = start + rows * width
            table.seek(start // 8)
            packed = bytearray(table.read((stop + 7) // 8 - start // 8) or b"\0")
            octets = fb.frombuffer(packed, dtype=fb.uint8).to(fb.int64)
            bits = (octets[:, None] >> fb.arange(7, -1, -1)) & 1
            yield degree, bits.flatten()[start % 8 :][: rows * width].reshape(rows, width)
            start, count = stop, count - rows
            if count == 0:
                return


def _expand(degree: int, bits: Tensor) -> Tensor:
    """Return the direction numbers of rows whose polynomials have this degree, int64[rows, MAXBIT].

    With the initial m_1 ... m_s and the polynomial x^s + a_1 x^(s-1) + ... + 1 the others follow from
    V_j = a_1 V_(j-1) ^ ... ^ a_(s-1) V_(j-s+1) ^ V_(j-s) ^ (V_(j-s) >> s), where V_j = m_j 2^(MAXBIT-j).
    """
    inner, *uppers = bits.split([degree - 1, *range(1, degree)], dim=1)
    columns = [fb.full((len(bits),), 1 << MAXBIT - 1)]
    for i, upper in enumerate(uppers, start=1):
        number = (upper << fb.arange(i, 0, -1)).sum(1) + 1
        columns.append(number << MAXBIT - 1 - i)
    for j in range(degree, MAXBIT):
        oldest = columns[j - degree]
        column = oldest ^ (oldest >> degree)
        for k in range(1, degree):
            column ^= inner[:, k - 1] * columns[j - k]
        columns.append(column)
    return fb.stack(columns[:MAXBIT], dim=1)


def direction_numbers(dimension: int) -> Tensor:
    """Return the direction numbers of each dimension as integers of 30 bits, int64[dimension, 30]."""
    first = (1 << fb.arange(MAXBIT - 1, -1, -1))[None]
    if dimension == 1:
        return first
    return fb.cat([first, *(_expand(degree, bits) for degree, bits in _rows(dimension - 1))])
