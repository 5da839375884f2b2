"""Expressions for numbers that an operator returned at several sample sizes.

A number of a result is known as a column: its value in each lane. Candidates are linear forms in a size,
products and quotients of sizes, extrema, rounded quotients, and linear forms in two or three of these. A
candidate must equal the column in every lane. The lanes need not distinguish rounded quotients, so several
can be returned.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

Column = tuple[Any, ...]
Term = tuple[Any, Column]  # an expression and its value in each lane

_LARGEST_DIVISOR = 32
_LARGEST_FACTOR = 4
_MOST_TERMS = 12
_PRIME = 2**61 - 1


def _e() -> Any:
    """Return the module of expressions, which is imported when an expression is built."""
    from flambeau.fx.experimental._sizes import expressions

    return expressions


class Form:
    """A candidate; its expression is built only if it is chosen, because this is slow.

    Args:
        build: returns the expression.
        of: returns the number for numbers of the basis.
        column: the number in each lane.
    """

    __slots__ = ("build", "column", "of")

    def __init__(self, build: Callable[[], Any], of: Callable[[Sequence[Any]], Any], column: Column) -> None:
        self.build, self.of, self.column = build, of, column


def candidates(column: Column, basis: Sequence[Term]) -> list[Form]:
    """Return the simplest forms that equal a column in every lane; an empty list if none does.

    Args:
        column: the values of an integer, one per lane.
        basis: expressions of the operator's arguments, with their values in each lane.
    """
    singles = _distinct(basis)
    found = list(_of_floats(column, singles, basis))
    if found:
        return found
    terms = singles + _products(singles)
    for family in (_exact, _quotients, _extrema, _rounded, _sums):
        found = list(family(column, singles, terms))
        if found:
            return found
    return []


def float_candidates(column: Column, basis: Sequence[Term]) -> list[Form]:
    """Return forms for floats: n, 1 / n, n / (n - 1), and square roots of n and 1 / n, for an integer n.

    Args:
        column: the values of a number, one per lane.
        basis: expressions of the operator's arguments, with their values in each lane.
    """
    shapes: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]], ...] = (
        (lambda v: v, float, _e().ToFloat),
        (lambda v: 1 / v, lambda n: 1 / n, lambda n: _e().IntTrueDiv(_e().constant(1), n)),
        (lambda v: v / (v - 1), lambda n: n / (n - 1), lambda n: _e().IntTrueDiv(n, n - 1)),
        (lambda v: v * v, math.sqrt, lambda n: _e().sympy.sqrt(n)),
        (lambda v: 1 / (v * v), lambda n: 1 / math.sqrt(n), lambda n: 1 / _e().sympy.sqrt(n)),
    )
    if any(v == 0 or v != v or abs(v) == math.inf for v in column):
        return []
    for invert, compute, build in shapes:
        if invert is shapes[2][0] and 1 in column:
            continue
        whole = tuple(round(invert(v)) for v in column)
        if len(set(whole)) > 1 and all(n > 0 and compute(n) == v for v, n in zip(column, whole, strict=True)):
            found = candidates(whole, basis)
            if found:
                return [_applied(f, compute, build) for f in found]
    return []


def _applied(form: Form, compute: Callable[[Any], Any], build: Callable[[Any], Any]) -> Form:
    return Form(lambda: build(form.build()), lambda v: compute(form.of(v)), tuple(map(compute, form.column)))


def _distinct(basis: Sequence[Term]) -> list[Form]:
    found: dict[Column, Form] = {}
    for i, (expr, column) in enumerate(basis):
        is_whole = all(type(n) is int for n in column)
        if is_whole and len(set(column)) > 1 and column not in found:
            found[column] = Form(lambda expr=expr: expr, lambda v, i=i: v[i], column)  # type: ignore[misc]
    return list(found.values())[:_MOST_TERMS]


def _of_floats(column: Column, singles: Sequence[Form], basis: Sequence[Term]) -> Iterator[Form]:
    """Return rounded products of an integer and a floating-point argument, such as a scale factor.

    A quotient of integers is no substitute, because the product of the floats is rounded before.
    """
    roundings: tuple[tuple[str, Callable[[float], int]], ...] = (
        ("FloorToInt", math.floor),
        ("CeilToInt", math.ceil),
        ("RoundToInt", round),
    )
    for i, (expr, values) in enumerate(basis):
        if not all(type(v) is float and math.isfinite(v) for v in values):
            continue
        for term, (name, compute) in itertools.product(singles, roundings):
            if all(compute(n * v) == m for n, v, m in zip(term.column, values, column, strict=True)):
                yield Form(
                    lambda expr=expr, t=term, name=name: getattr(_e(), name)(t.build() * expr),  # type: ignore[misc]
                    lambda v, i=i, t=term, compute=compute: compute(t.of(v) * v[i]),  # type: ignore[misc]
                    column,
                )


def _product(forms: Sequence[Form]) -> Form:
    column = tuple(math.prod(values) for values in zip(*(f.column for f in forms), strict=True))
    return Form(
        lambda: math.prod(f.build() for f in forms), lambda v: math.prod(f.of(v) for f in forms), column
    )


def _products(singles: Sequence[Form]) -> list[Form]:
    """Return the products of two, three and all forms."""
    found = [_product(pair) for pair in itertools.combinations_with_replacement(singles, 2)]
    found += [_product(triple) for triple in itertools.combinations(singles[:7], 3)]
    found += [_product(four) for four in itertools.combinations(singles[:6], 4)]
    if len(singles) > 4:
        found.append(_product(singles))
    return found


def _sum(forms: Sequence[Form], weights: Sequence[int], constant: int = 0) -> Form:
    rows = zip(*(f.column for f in forms), strict=True)
    column = tuple(sum(w * n for w, n in zip(weights, row, strict=True)) + constant for row in rows)
    return Form(
        lambda: sum(w * f.build() for w, f in zip(weights, forms, strict=True)) + constant,
        lambda v: sum(w * f.of(v) for w, f in zip(weights, forms, strict=True)) + constant,
        column,
    )


def _divided(form: Form, c: int) -> Form:
    return _applied(form, lambda n: n // c, lambda n: _e().FloorDiv(n, _e().constant(c)))


def _line(column: Column, term: Column) -> tuple[Fraction, Fraction] | None:
    """Return (a, b) with column = a * term + b in every lane."""
    low, high = min(range(len(term)), key=term.__getitem__), max(range(len(term)), key=term.__getitem__)
    if term[low] == term[high]:
        return None
    step, rise = term[high] - term[low], column[high] - column[low]
    start = column[low] * step - rise * term[low]
    if any(v * step != rise * n + start for v, n in zip(column, term, strict=True)):
        return None
    return Fraction(rise, step), Fraction(start, step)


def _exact(column: Column, singles: Sequence[Form], terms: Sequence[Form]) -> Iterator[Form]:
    for term in terms:
        found = _line(column, term.column)
        if found is None:
            continue
        shared = math.lcm(found[0].denominator, found[1].denominator)
        whole = _sum([term], [int(found[0] * shared)], int(found[1] * shared))
        yield whole if shared == 1 else _divided(whole, shared)
        return


def _quotients(column: Column, singles: Sequence[Form], terms: Sequence[Form]) -> Iterator[Form]:
    for a, b in itertools.product(terms, terms[:40]):
        rows = zip(a.column, b.column, column, strict=True)
        if all(y != 0 and x // y == n for x, y, n in rows):
            yield Form(
                lambda a=a, b=b: _e().FloorDiv(a.build(), b.build()),  # type: ignore[misc]
                lambda v, a=a, b=b: a.of(v) // b.of(v),  # type: ignore[misc]
                column,
            )
            return


def _extrema(column: Column, singles: Sequence[Form], terms: Sequence[Form]) -> Iterator[Form]:
    """Return min or max of a number and a constant, or of two numbers."""
    for choose, build in ((min, _e().sympy.Min), (max, _e().sympy.Max)):
        limit = max(column) if choose is min else min(column)
        shifted = []
        for term in terms[:60]:
            shifts = {v - n for v, n in zip(column, term.column, strict=True)}
            for shift in shifts:
                if all(choose(n + shift, limit) == v for v, n in zip(column, term.column, strict=True)):
                    yield _chosen(choose, build, _sum([term], [1], shift), limit)
            shifted += [_sum([term], [1], s) for s in shifts if abs(s) <= 2 or len(singles) <= 3]
        for a, b in itertools.combinations(shifted[:120], 2):
            if all(choose(x, y) == n for x, y, n in zip(a.column, b.column, column, strict=True)):
                yield _chosen(choose, build, a, b)


def _chosen(choose: Callable[..., Any], build: Callable[..., Any], a: Form, b: Form | int) -> Form:
    if isinstance(b, int):
        return Form(
            lambda: build(a.build(), _e().constant(b)),
            lambda v: choose(a.of(v), b),
            tuple(choose(n, b) for n in a.column),
        )
    return Form(
        lambda: build(a.build(), b.build()),
        lambda v: choose(a.of(v), b.of(v)),
        tuple(map(choose, a.column, b.column)),
    )


def _rounded(column: Column, singles: Sequence[Form], terms: Sequence[Form]) -> Iterator[Form]:
    """Return (a * term + b) // c for each c that the slope allows; a term may be a sum of two sizes."""
    pairs = [_sum(pair, (1, w)) for pair in itertools.permutations(singles[:8], 2) for w in (-1, 1, -2, -3)]
    for term in (*terms[:40], *pairs):
        low, high = min(term.column), max(term.column)
        rise = column[term.column.index(high)] - column[term.column.index(low)]
        if low == high:
            continue
        sign, slope = (1 if rise >= 0 else -1), abs(rise) / (high - low)
        for c, a in itertools.product(range(2, _LARGEST_DIVISOR + 1), range(1, _LARGEST_FACTOR + 1)):
            if abs(a / c - slope) > 1 / (high - low) + 1e-9 or math.gcd(a, c) > 1:
                continue
            rows = list(zip(column, term.column, strict=True))
            least = max(v * c - sign * a * n for v, n in rows)
            most = min(v * c + c - 1 - sign * a * n for v, n in rows)
            yield from (_divided(_sum([term], [sign * a], b), c) for b in range(least, most + 1))


def _sums(column: Column, singles: Sequence[Form], terms: Sequence[Form]) -> Iterator[Form]:
    """Return linear forms in two, three or all terms, also divided by 2."""
    total = _sum(singles, [1] * len(singles)) if singles else None
    found = _line(column, total.column) if total is not None else None
    if found is not None and total is not None and found[0].denominator == found[1].denominator == 1:
        yield _sum([total], [int(found[0])], int(found[1]))
        return
    for count, pool, divisor in ((2, 40, 1), (3, 16, 1), (2, 20, 2)):
        scaled = tuple(divisor * v for v in column)
        for chosen in itertools.combinations(terms[:pool], count):
            weights = _solved(scaled, [f.column for f in chosen])
            if weights is not None:
                form = _sum(chosen, weights[:-1], weights[-1])
                yield form if divisor == 1 else _divided(form, divisor)
                return


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
    if any(row[-1] for row in rows[count:]):
        return None
    weights = [row[-1] if row[-1] <= _PRIME // 2 else row[-1] - _PRIME for row in rows[:count]]
    if any(w == 0 for w in weights[:-1]):
        return None
    values = zip(*terms, strict=True)
    sums = (sum(w * v for w, v in zip(weights, row, strict=False)) + weights[-1] for row in values)
    return weights if all(a == b for a, b in zip(sums, column, strict=True)) else None
