"""Expressions for numbers that an operator returned at several sample sizes.

A number of a result is known as a column: its value in each lane. Candidates are linear forms in a size, products
and quotients of sizes, extrema, rounded quotients, and linear forms in two or three of these. A candidate must
equal the column in every lane. The lanes need not distinguish rounded quotients, so several can be returned.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from flambeau.fx.experimental._sizes import expressions as e

Column = tuple[Any, ...]
Term = tuple[Any, Column]  # an expression and its value in each lane

_LARGEST_DIVISOR = 32
_LARGEST_FACTOR = 4
_MOST_TERMS = 10


def candidates(column: Column, basis: Sequence[Term]) -> list[Any]:
    """Return the simplest expressions that equal a column in every lane; an empty list if none does.

    Args:
        column: the values of an integer, one per lane.
        basis: the sizes and numbers of the operator's arguments that depend on symbols.
    """
    basis = _distinct(basis)
    terms = basis + _products(basis)
    for family in (_exact, _quotients, _extrema, _rounded, _sums):
        found = list(family(column, basis, terms))
        if found:
            return found
    return []


def float_candidates(column: Column, basis: Sequence[Term]) -> list[Any]:
    """Return expressions for a column of floating-point numbers: an integer, its reciprocal, or their roots.

    Args:
        column: the values of a number, one per lane.
        basis: the sizes and numbers of the operator's arguments that depend on symbols.
    """
    shapes = (
        (lambda v: v, e.ToFloat),
        (lambda v: 1 / v, lambda n: e.IntTrueDiv(e.constant(1), n)),
        (lambda v: v * v, lambda n: e.sympy.sqrt(n)),
        (lambda v: 1 / (v * v), lambda n: 1 / e.sympy.sqrt(n)),
    )
    for invert, build in shapes:
        if any(v == 0 for v in column):
            continue
        whole = tuple(round(invert(v)) for v in column)
        close = (abs(invert(v) - n) <= 1e-12 * abs(n) for v, n in zip(column, whole, strict=True))
        if all(close) and len(set(whole)) > 1:
            found = candidates(whole, basis)
            if found:
                return [build(n) for n in found]
    return []


def _distinct(basis: Sequence[Term]) -> list[Term]:
    found: dict[Column, Any] = {}
    for expr, column in basis:
        if len(set(column)) > 1:
            found.setdefault(column, expr)
    return [(expr, column) for column, expr in found.items()][:_MOST_TERMS]


def _products(basis: Sequence[Term]) -> list[Term]:
    """Return the products of two and of all terms."""
    found = [
        (a * b, tuple(x * y for x, y in zip(u, v, strict=True)))
        for (a, u), (b, v) in itertools.combinations_with_replacement(basis, 2)
    ]
    if len(basis) > 2:
        for (a, u), (b, v), (c, w) in itertools.combinations(basis[:6], 3):
            found.append((a * b * c, tuple(x * y * z for x, y, z in zip(u, v, w, strict=True))))
    if len(basis) > 3:
        expr, column = basis[0]
        for other, more in basis[1:]:
            expr, column = expr * other, tuple(x * y for x, y in zip(column, more, strict=True))
        found.append((expr, column))
    return found


def _line(column: Column, term: Column) -> tuple[Fraction, Fraction] | None:
    """Return (a, b) with column = a * term + b in every lane."""
    low, high = min(range(len(term)), key=term.__getitem__), max(range(len(term)), key=term.__getitem__)
    if term[low] == term[high]:
        return None
    a = Fraction(column[high] - column[low], term[high] - term[low])
    b = column[low] - a * term[low]
    return (a, b) if all(v == a * n + b for v, n in zip(column, term, strict=True)) else None


def _exact(column: Column, basis: Sequence[Term], terms: Sequence[Term]) -> Iterator[Any]:
    for expr, values in terms:
        found = _line(column, values)
        if found is None:
            continue
        a, b = found
        if a.denominator == 1:
            yield int(a) * expr + int(b)
        else:
            shared = (a.denominator * b).denominator * a.denominator
            yield e.FloorDiv(int(a * shared) * expr + int(b * shared), e.constant(shared))
        return


def _quotients(column: Column, basis: Sequence[Term], terms: Sequence[Term]) -> Iterator[Any]:
    for (a, u), (b, v) in itertools.permutations(terms, 2):
        if all(y != 0 and x // y == n for x, y, n in zip(u, v, column, strict=True)):
            yield e.FloorDiv(a, b)
            return


def _extrema(column: Column, basis: Sequence[Term], terms: Sequence[Term]) -> Iterator[Any]:
    for choose, build in ((min, e.sympy.Min), (max, e.sympy.Max)):
        for expr, values in terms:
            limit = -choose(-v for v in column)
            inner = [(v, n) for v, n in zip(column, values, strict=True) if v != limit]
            for shift in {v - n for v, n in inner}:
                if all(choose(n + shift, limit) == v for v, n in zip(column, values, strict=True)):
                    yield build(expr + shift, e.constant(limit))
        for (a, u), (b, v) in itertools.combinations(terms, 2):
            if all(choose(x, y) == n for x, y, n in zip(u, v, column, strict=True)):
                yield build(a, b)


def _rounded(column: Column, basis: Sequence[Term], terms: Sequence[Term]) -> Iterator[Any]:
    """Return (a * size + b) // c for each c that the slope allows, also for differences and sums of two sizes."""
    pairs = [
        (a + w * b, tuple(x + w * y for x, y in zip(u, v, strict=True)))
        for (a, u), (b, v) in itertools.permutations(basis, 2)
        for w in (-1, 1, -2, -3)
    ]
    for expr, values in (*terms, *pairs):
        low, high = min(values), max(values)
        if low == high or sorted(column) not in (
            by_size := [v for _, v in sorted(zip(values, column, strict=True))],
            by_size[::-1],
        ):
            continue
        slope = abs(column[values.index(high)] - column[values.index(low)]) / (high - low)
        for c, a in itertools.product(range(2, _LARGEST_DIVISOR + 1), range(1, _LARGEST_FACTOR + 1)):
            if abs(a / c - slope) > 1 / (high - low) + 1e-9 or Fraction(a, c).denominator != c:
                continue
            sign = 1 if column[values.index(high)] >= column[values.index(low)] else -1
            least, most = _offsets(column, values, sign * a, c)
            yield from (e.FloorDiv(sign * a * expr + b, e.constant(c)) for b in range(least, most + 1))


def _offsets(column: Column, values: Column, a: int, c: int) -> tuple[int, int]:
    """Return the range of b for which (a * value + b) // c equals the column in every lane."""
    least = max(v * c - a * n for v, n in zip(column, values, strict=True))
    most = min(v * c + c - 1 - a * n for v, n in zip(column, values, strict=True))
    return least, most


def _sums(column: Column, basis: Sequence[Term], terms: Sequence[Term]) -> Iterator[Any]:
    """Return linear forms in two or three terms, and the sum of all terms."""
    total = tuple(map(sum, zip(*(values for _, values in basis), strict=True)))
    found = _line(column, total) if total else None
    if found is not None and found[0].denominator == found[1].denominator == 1:
        yield int(found[0]) * sum(expr for expr, _ in basis) + int(found[1])
        return
    for count, pool in ((2, terms[:40]), (3, terms[:12])):
        for chosen in itertools.combinations(pool, count):
            weights = _solved(column, [values for _, values in chosen])
            if weights is not None:
                yield sum(w * expr for w, (expr, _) in zip(weights, chosen, strict=False)) + weights[-1]
                return


_PRIME = 2**61 - 1


def _solved(column: Column, terms: Sequence[Column]) -> list[int] | None:
    """Return integers w with column = w[0] * terms[0] + ... + w[-1] in every lane.

    The elimination computes modulo a large prime, so that its numbers stay small.
    """
    count = len(terms) + 1
    rows = [[*(t[i] for t in terms), 1, column[i]] for i in range(len(column))]
    for k in range(count):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k] % _PRIME), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        inverse = pow(rows[k][k], -1, _PRIME)
        rows[k] = [x * inverse % _PRIME for x in rows[k]]
        for i in range(len(rows)):
            factor = rows[i][k]
            if i != k and factor:
                rows[i] = [(x - factor * y) % _PRIME for x, y in zip(rows[i], rows[k], strict=True)]
    weights = [row[-1] if row[-1] <= _PRIME // 2 else row[-1] - _PRIME for row in rows[:count]]
    if any(w == 0 for w in weights[:-1]):
        return None
    values = zip(*terms, strict=True)
    sums = (sum(w * v for w, v in zip(weights, row, strict=False)) + weights[-1] for row in values)
    return weights if all(a == b for a, b in zip(sums, column, strict=True)) else None
