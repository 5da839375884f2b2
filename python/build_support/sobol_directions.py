"""Write python/flambeau/quasirandom/joe_kuo.bin: ``python -m build_support.sobol_directions``.

The file holds the direction numbers of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better
two-dimensional projections", SIAM J. Sci. Comput. 30 (2008), as published in new-joe-kuo-6.21201 on
https://web.maths.unsw.edu.au/~fkuo/sobol/. They are read from SciPy's copy of the
table.

Layout: one row per dimension from the second on, in the order of the table, as one stream of bits with the
highest bit first. A row with a polynomial of degree s is the s - 1 inner coefficients of the polynomial, then
for i = 2 ... s the i - 1 upper bits of m_i, whose lowest bit is always 1. m_1 is 1.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

TARGET = Path(__file__).resolve().parents[1] / "flambeau" / "quasirandom" / "joe_kuo.bin"


def published() -> tuple[np.ndarray, np.ndarray]:
    """Return the polynomials with all their coefficients, and the rows of m_i padded by zeros."""
    scipy = find_spec("scipy")
    assert scipy is not None and scipy.origin is not None
    table = np.load(Path(scipy.origin).parent / "stats" / "_sobol_direction_numbers.npz")
    return table["poly"], table["vinit"]


def packed() -> bytes:
    """Return the content of the file."""
    bits: list[str] = []
    for polynomial, numbers in zip(*(column[1:].tolist() for column in published()), strict=True):
        degree = polynomial.bit_length() - 1
        inner = polynomial >> 1 & (1 << degree - 1) - 1
        bits.append(f"{inner:0{degree - 1}b}" if degree > 1 else "")
        bits.extend(f"{numbers[i] >> 1:0{i}b}" for i in range(1, degree))
    stream = np.frombuffer("".join(bits).encode(), dtype=np.uint8) - ord("0")
    content: bytes = np.packbits(stream).tobytes()
    return content


if __name__ == "__main__":
    sys.exit(TARGET.write_bytes(packed()) == 0)
