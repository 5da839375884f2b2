"""Lanes: assignments of sample sizes to symbols, under which the operators of a program run."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

# Sizes by lane and by the place of the symbol: small, prime, with many divisors, odd multiples, large, the
# least, small and large in turn, descending.
_SIZES: tuple[tuple[int, ...], ...] = (
    (2, 3, 5, 7, 4, 6, 8, 9),
    (3, 2, 7, 5, 6, 4, 9, 8),
    (11, 13, 17, 19, 23, 29, 31, 37),
    (24, 36, 40, 60, 72, 48, 30, 84),
    (9, 15, 21, 25, 27, 33, 35, 39),
    (101, 103, 107, 109, 113, 127, 131, 137),
    (2, 2, 2, 2, 2, 2, 2, 2),
    (3, 67, 5, 71, 2, 73, 4, 79),
    (89, 61, 43, 23, 14, 8, 4, 2),
)
_LEAST = 7
_FREE = (-1, 0, 1, 2, -2, 3, 7, -3, 5, 100, 12)  # for integers that are no sizes
_NEAR = len(_SIZES) + 1  # the lane whose sizes are near the examples
COUNT = _NEAR
_ATTEMPTS = 200
_LARGEST = 1 << 40
_MOST_SCANNED = 200
_STRIDE = 1_000_003


class Lane:
    """One assignment of numbers to symbols, and the tensors of the program for it.

    Args:
        index: 0 for the lane of the example sizes.
        values: symbol -> number.
    """

    def __init__(self, index: int, values: dict[Any, Any]) -> None:
        self.index, self.values = index, values
        self.tensors: dict[int, Any] = {}
        self.known: Any = None  # the nodes of its tensors, while the program is recorded
        self.pending: Any = None  # what the present call did

    def __repr__(self) -> str:
        return f"Lane({self.index}, {self.values})"


class Sampler:
    """Chooses numbers for the symbols of an environment that satisfy its conditions.

    Args:
        env: the environment.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.symbols: list[Any] = []  # in the order of their first use
        self._usual: dict[Any, Any] = {}
        self._solved_for: Any = None
        self._solved: dict[Any, Any] = {}

    def note(self, symbol: Any) -> None:
        """Note a symbol of the program."""
        if symbol not in self.symbols:
            self.symbols.append(symbol)

    def default(self, index: int, symbol: Any) -> Any:
        """Return the number that a symbol has in a lane if no condition excludes it."""
        env = self.env
        hint = env.var_to_val.get(symbol)
        if index == 0 and hint is not None:
            return hint
        place = self.symbols.index(symbol)
        if not symbol.is_integer:
            return (-1) ** index * (2.375 + 1.25 * index + place) if index != _LEAST else 0.0
        bounds = env.var_to_range.get(symbol)
        if bounds is not None and (bounds.lower, bounds.upper) == (0, 1):
            return (index + place) % 2
        if self._is_stride(symbol):
            return (hint or 1) * _STRIDE + 7 * index
        if self._least(symbol) < 0:
            number = _FREE[(index + place) % len(_FREE)]
            return number + 11 if number == hint else number
        if 1 <= index < _NEAR:
            number = _SIZES[index - 1][place % 8] + (9 * (place // 8) if index != _LEAST else 0)
        else:
            number = (hint or 5) + 1 + place
        return number + 1 if number == hint and index not in (0, _LEAST) else number

    def _least(self, symbol: Any) -> int:
        """Return the least number that is tried; integers that are no sizes may be negative."""
        bounds = self.env.var_to_range.get(symbol)
        if bounds is None or bounds.lower is None:
            return -4 if symbol in self.env.var_to_val else 2
        return max(2, int(bounds.lower))

    def _is_stride(self, symbol: Any) -> bool:
        return any("stride" in str(source) for source in self.env.var_to_sources.get(symbol, ()))

    def holds(self, values: dict[Any, Any], extra: Sequence[Any] = ()) -> bool:
        """Return whether numbers satisfy bounds, recorded conditions and further ones."""
        env = self.env
        for s, n in values.items():
            bounds = env.var_to_range.get(s)
            if bounds is not None and not (
                (bounds.lower is None or n >= bounds.lower) and (bounds.upper is None or n <= bounds.upper)
            ):
                return False
        return all(truth(env, c, values) is not False for c in (*env.conditions(), *extra) if c.free_symbols)

    def sample(self, index: int, extra: Sequence[Any] = (), seed: int = 0) -> dict[Any, Any] | None:
        """Return numbers for all symbols that satisfy the conditions; None if none were found.

        Args:
            index: the lane; lane 0 has the example sizes.
            extra: further conditions.
            seed: chooses among the numbers.
        """
        solved, limits = self._determined(extra), self._limits(extra)
        self._usual = {s: self.default(index, s) for s in self.symbols}
        generator = random.Random(100 * index + seed)
        for attempt in range(1 if index == 0 else _ATTEMPTS):
            values = {
                s: self._usual[s] if attempt == seed == 0 else self._other(index, s, generator, limits[s])
                for s in self.symbols
                if s not in solved
            }
            if self._complete(values, solved) and self.holds(values, extra):
                return values
        return None

    def _determined(self, extra: Sequence[Any]) -> dict[Any, Any]:
        """Return the symbols that equalities determine, with their expressions."""
        key = (tuple(extra), len(self.env.replacements))
        if key != self._solved_for:
            self._solved_for, self._solved = key, self._solve(extra)
        return self._solved

    def _solve(self, extra: Sequence[Any]) -> dict[Any, Any]:
        solved = dict(self.env.replacements)
        for condition in extra:
            if condition.is_Relational and condition.rel_op == "==":
                rest = self.env.replace(condition)
                while rest.free_symbols & solved.keys():
                    rest = rest.subs(solved)
                pair = self.env._e.solved(rest) if rest.is_Relational else None
                if pair is not None and pair[1].free_symbols.isdisjoint(solved):
                    solved[pair[0]] = pair[1]
        return solved

    def near(self, values: dict[Any, Any], extra: Sequence[Any]) -> list[dict[Any, Any]]:
        """Return numbers that satisfy further conditions, with at most one free symbol changed.

        Args:
            values: symbol -> number.
            extra: further conditions.
        """
        solved = self._determined(extra)
        used = sorted({s for c in extra for s in c.free_symbols if s not in solved}, key=str)
        found = []
        for changed in ([], *([s] for s in used)):
            hints = {s: self.env.var_to_val.get(s, values[s]) for s in changed}
            made = {s: hints.get(s, values[s]) for s in self.symbols if s not in solved and s in values}
            if self._complete(made, solved) and self.holds(made, extra):
                found.append(made)
        return found

    def with_number(self, expr: Any, number: int) -> dict[Any, Any] | None:
        """Return the examples with one symbol changed so that an expression has a number, or None.

        Args:
            expr: the expression.
            number: its number.
        """
        solved, hint = self._determined(()), self.env.var_to_val
        for changed in sorted((s for s in expr.free_symbols if s in hint and s not in solved), key=str):
            start = {s: hint.get(s, self.default(0, s)) for s in self.symbols if s not in solved}
            usual, least = hint[changed], self._least(changed)
            numbers = range(least, _MOST_SCANNED + 2 * abs(usual))
            for n in sorted(numbers, key=partial(_distance, usual)):
                made = {**start, changed: n}
                fits = self._complete(made, solved) and self.env._e.evaluate(expr, made) == number
                if fits and self.holds(made):
                    return made
        return None

    def extremes(self, extra: Sequence[Any], symbols: Sequence[Any] | None = None) -> list[dict[Any, Any]]:
        """Return the examples with one symbol, or two, as small or as large as conditions allow.

        Args:
            extra: further conditions.
            symbols: the symbols to change; default: each one, and no two.
        """
        solved, hint = self._determined(extra), self.env.var_to_val
        start = {s: hint.get(s, self.default(0, s)) for s in self.symbols if s not in solved}
        open_symbols = [s for s in start if s in hint and not self._is_stride(s)]
        chosen = open_symbols if symbols is None else [s for s in open_symbols if s in symbols]
        small = {s: [*range(self._least(s), max(3, hint[s] + 1))][:12] for s in chosen}
        large = {s: [hint[s] + 150, hint[s] + 1, hint[s]] for s in chosen}
        ways: list[Any] = [((s, numbers[s]),) for s in chosen for numbers in (small, large)]
        if symbols is not None:
            ways += [((s, small[s]), (t, large[t])) for s in chosen[:8] for t in chosen[:8] if s is not t]
        found = (self._first_of(start, way, solved, extra) for way in ways)
        return [values for values in found if values is not None]

    def small(self, count: int, extra: Sequence[Any]) -> list[dict[Any, Any]]:
        """Return samples whose numbers are all small, which many conditions on two sizes tell apart.

        Args:
            count: the number of samples to try.
            extra: further conditions.
        """
        solved, limits = self._determined(extra), self._limits(extra)
        generator, found = random.Random(count), []
        for _ in range(4 * count):
            made = {
                s: generator.randint(limits[s][0], max(limits[s][0], min(limits[s][1], limits[s][0] + 7)))
                if s.is_integer and not self._is_stride(s)
                else self.default(1, s)
                for s in self.symbols
                if s not in solved
            }
            if self._complete(made, solved) and self.holds(made, extra):
                found.append(made)
        return found[:count]

    def _first_of(
        self, start: dict[Any, Any], way: Any, solved: dict[Any, Any], extra: Sequence[Any]
    ) -> dict[Any, Any] | None:
        """Return the first numbers that satisfy the conditions."""
        for numbers in itertools.product(*(choices for _, choices in way)):
            made = {**start, **{s: n for (s, _), n in zip(way, numbers, strict=True)}}
            if self._complete(made, solved) and self.holds(made, extra):
                return made
        return None

    def _limits(self, extra: Sequence[Any]) -> dict[Any, tuple[int, int]]:
        """Return the least and the greatest number of each symbol that is a size."""
        found = {}
        for s in self.symbols:
            bounds = self.env.var_to_range.get(s)
            lower = self._least(s)
            upper = _LARGEST if bounds is None or bounds.upper is None else bounds.upper
            found[s] = lower, upper
        for condition in extra:
            bound = self.env._e.bound(condition)
            if bound is not None and bound[0] in found:
                s, lower, upper = bound
                old = found[s]
                found[s] = (
                    old[0] if lower is None else max(old[0], lower),
                    old[1] if upper is None else min(old[1], upper),
                )
        return found

    def _other(self, index: int, symbol: Any, generator: random.Random, limits: tuple[int, int]) -> Any:
        usual = self._usual[symbol]
        if not symbol.is_integer or index == 0 or self._is_stride(symbol):
            return usual
        hint = self.env.var_to_val.get(symbol)
        base, low = 5 if hint is None else hint, limits[0]
        kind = generator.randrange(9)
        if kind < 2:
            number = usual if kind else base
        elif kind == 2:
            number = base * generator.randint(1, 6)
        elif kind == 3:
            number = base + generator.randint(-3, 9)
        elif kind == 4:
            number = low + generator.randint(0, 9)
        elif kind == 5:
            number = generator.randint(low, low + 60)
        elif kind == 6:
            number = 12 * generator.randint(1, 5) // generator.choice((1, 3, 4))
        elif kind == 7:
            number = usual + generator.randint(1, 12)
        else:
            number = generator.choice((low, 3, 50, 200))
        if limits[0] <= number <= limits[1]:
            return number
        return generator.randint(low, max(low, min(limits[1], low + 60)))

    def _complete(self, values: dict[Any, Any], solved: dict[Any, Any]) -> bool:
        """Add the symbols that equalities determine."""
        open_symbols = [s for s in self.symbols if s in solved]
        for _ in range(len(open_symbols) + 1):
            for s in [s for s in open_symbols if s not in values]:
                if solved[s].free_symbols <= values.keys():
                    number = self.env._e.evaluate(solved[s], values)
                    if number != int(number):
                        return False
                    values[s] = int(number)
        return len(values) == len(self.symbols)


def _distance(a: int, b: int) -> int:
    return abs(a - b)


def truth(env: Any, condition: Any, values: dict[Any, Any]) -> bool | None:
    """Return the truth of a condition; None if it has a symbol without a number."""
    if not condition.free_symbols <= values.keys():
        return None
    try:
        return bool(env._e.evaluate(condition, values))
    except ZeroDivisionError:
        return False
