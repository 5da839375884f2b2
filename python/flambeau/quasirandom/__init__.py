"""Quasirandom sequences: points that fill the unit cube more evenly than random ones."""

from __future__ import annotations

from operator import index

import flambeau as fb
from flambeau._C import Tensor, dtype
from flambeau._loading.lazy import attributes
from flambeau.quasirandom._directions import MAXBIT, MAXDIM, direction_numbers

__all__ = ["SobolEngine"]


class SobolEngine:
    r"""Generator of the points of a Sobol' sequence, optionally scrambled.

    Point :math:`n` is :math:`2^{-30} (s \oplus \bigoplus_j g_j V_j)`, where :math:`g_j` are the bits of the
    Gray code of :math:`n`, :math:`V_j` the direction numbers of a dimension and :math:`s` a shift, which is 0
    unless the sequence is scrambled. The first :math:`2^m` points are the most even ones.

    Args:
        dimension: number of coordinates of a point, 1 to 21201.
        scramble: whether to multiply the direction numbers by random lower triangular matrices over the field
            of two elements and to draw a random shift. Default: False
        seed: seed of the scrambling; None: it is drawn from the default generator.
    Raises: ValueError if `dimension` is outside of its range.
    Source: Joe & Kuo 2008, "Constructing Sobol sequences with better two-dimensional projections"; Matousek
        1998, "On the L2-discrepancy for anchored boxes" (scrambling).

    Example:
        >>> flambeau.quasirandom.SobolEngine(2).draw(3)
        tensor([[0.0000, 0.0000],
                [0.5000, 0.5000],
                [0.7500, 0.2500]])
    """

    MAXBIT = MAXBIT
    MAXDIM = MAXDIM

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > MAXDIM or dimension < 1:
            raise ValueError(f"SobolEngine: expected dimension in [1, {MAXDIM}], got {dimension}")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        with fb.device("cpu"):
            self.sobolstate = direction_numbers(dimension)
            self.shift = fb.zeros(dimension, dtype=fb.int64)
            if scramble:
                self._scramble()
        self.reset()
        self._first_point = _in_unit_cube(self.shift[None], fb.get_default_dtype())

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: dtype | None = None) -> Tensor:
        """Return the next points.

        Args:
            n: how many. Default: 1
            out: a tensor to write them to; it is resized, and keeps its dtype.
            dtype: float32 or float64. Default: the default dtype
        Shape: ``(n, dimension)``.
        Raises: NotImplementedError for other dtypes, RuntimeError if the first call asks for no point.
        """
        dtype = dtype or fb.get_default_dtype()
        n = self._checked(n, dtype)
        with fb.device("cpu"):
            result = _in_unit_cube(self._points(n), dtype)
            if self.num_generated == 0:
                result[0] = self._first_point[0]
            self._advance(n)
        if out is None:
            return result
        return out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: dtype | None = None) -> Tensor:
        """Return the next ``2**m`` points, after which the number of points drawn must be a power of two.

        Args:
            m: the exponent.
            out: as for `draw`.
            dtype: as for `draw`.
        Shape: ``(2**m, dimension)``.
        Raises: ValueError if the number of points drawn would not be a power of two.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"SobolEngine.draw_base2: expected the number of points drawn to become a power of 2, got "
                f"{self.num_generated} + 2**{m} = {total}; draw() takes any number"
            )
        return self.draw(n, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Go back to the first point."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip the next `n` points."""
        self._advance(n)
        return self

    def _checked(self, n: int, dtype: dtype) -> int:
        n, fresh = index(n), self.num_generated == 0
        if n < fresh:
            raise RuntimeError(f"SobolEngine.draw: expected n >= {int(fresh)}, got {n}")
        if self.num_generated + n > 2**MAXBIT:
            raise ValueError(
                f"SobolEngine.draw: expected at most 2**{MAXBIT} points in all, got {self.num_generated + n}"
            )
        if dtype not in (fb.float32, fb.float64) and not (fresh and n == 1):
            raise NotImplementedError(f"SobolEngine.draw: expected float32 or float64, not {dtype}")
        return n

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}"]
        parts += ["scramble=True"] * bool(self.scramble)
        parts += [f"seed={self.seed}"] * (self.seed is not None)
        return f"{type(self).__name__}({', '.join(parts)})"

    def _scramble(self) -> None:
        generator = None
        if self.seed is not None:
            generator = fb.Generator()
            generator.manual_seed(self.seed)
        bits = fb.randint(2, (self.dimension, MAXBIT), generator=generator)
        self.shift = (bits << fb.arange(MAXBIT)).sum(1)
        matrices = fb.randint(2, (self.dimension, MAXBIT, MAXBIT), generator=generator).tril()
        matrices.diagonal(dim1=1, dim2=2).fill_(1)
        self.sobolstate = _transformed(matrices, self.sobolstate)

    def _point(self, n: int) -> Tensor:
        """Return the integer coordinates of point n, int64[dimension]."""
        point, gray = self.shift.clone(), n ^ n >> 1
        for bit in range(gray.bit_length()):
            if gray >> bit & 1:
                point ^= self.sobolstate[:, bit]
        return point

    def _points(self, n: int) -> Tensor:
        """Return the integer coordinates of the next points.

        Gray codes are linear over the field of two elements: point ``a * 2**k + b`` is point ``a * 2**k``
        plus what b adds to point 0, so that the points of a block follow from one of them.
        """
        bits = max(n - 1, 0).bit_length()
        added = fb.zeros(1, self.dimension, dtype=fb.int64)
        for bit in range(bits):
            step = self.sobolstate[:, bit]
            if bit:
                step = step ^ self.sobolstate[:, bit - 1]
            added = fb.cat([added, added ^ step])
        stop = self.num_generated + n
        blocks = []
        for block in range(self.num_generated >> bits, (stop - 1 >> bits) + 1):
            first = block << bits
            part = added[max(self.num_generated - first, 0) : stop - first]
            blocks.append(part ^ self._point(first))
        return fb.cat(blocks) if blocks else added[:0]

    def _advance(self, n: int) -> None:
        """Count `n` more points as drawn; `quasi` is the last of them."""
        self.num_generated += n
        self.quasi = self._point(max(self.num_generated - 1, 0))


def _in_unit_cube(points: Tensor, dtype: dtype) -> Tensor:
    return points.to(dtype) * 2.0**-MAXBIT


def _transformed(matrices: Tensor, numbers: Tensor) -> Tensor:
    """Multiply numbers, as vectors of bits with the highest first, by matrices over two elements."""
    highest_first = fb.arange(MAXBIT - 1, -1, -1)
    rows = (matrices << highest_first).sum(2)
    result = fb.zeros_like(numbers)
    for i in range(MAXBIT):
        chosen = rows[:, i, None] & numbers
        for width in (16, 8, 4, 2, 1):  # the parity of the bits
            chosen ^= chosen >> width
        result |= (chosen & 1) << MAXBIT - 1 - i
    return result


__getattr__, __dir__ = attributes(__name__)
