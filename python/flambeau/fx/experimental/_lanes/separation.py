"""Conditions that separate the sizes for which a call does what it does for the example from other sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from flambeau.fx.experimental._lanes import sampling
from flambeau.fx.experimental._lanes.values import plain_ints

_SAMPLES = 4
_FACTORS = (2, 3, 4)  # gates of recurrent layers, heads, halves


class Diverged(RuntimeError):
    """A call does something else for other sizes.

    Args:
        call: the call.
        values: symbol -> number, for which it does.
    """

    def __init__(self, call: Any, values: dict[Any, Any]) -> None:
        super().__init__(
            f"{call.name}: expected it to do the same when it runs again, got a change for {values}"
        )
        self.call, self.values = call, values


def separate(program: Any, call: Any, bad: list[dict[Any, Any]]) -> None:
    """Record guards that exclude sizes for which a call does something else than for the example.

    Guards are conditions on the sizes of the arguments that hold for the example, exclude the given sizes,
    and for whose further samples the call does the same as for the example: the fewest equalities, bounds and
    ratios, or one other condition. If there is none, the fewest symbols become constants.

    Args:
        program: the program.
        call: the call.
        bad: symbol -> number, for each of the sizes to exclude.
    Raises: `GuardOnDataDependentSymNode` if the condition is on numbers that depend on elements.
    """
    found: list[Any] = []
    for basis in (call.sizes, call.basis):
        search = _Search(program, call, bad, basis)
        found = found or search.first()
    for condition in found or search.fewest(search.constants()) or search.constants(of_all=True):
        _record(program, condition)


class _Search:
    """The search for guards.

    Args:
        program: the program.
        call: the call.
        bad: the sizes to exclude.
        basis: the expressions that conditions are about.
    """

    def __init__(self, program: Any, call: Any, bad: list[dict[Any, Any]], basis: list[Any]) -> None:
        self.program, self.call, self.bad = program, call, bad
        self.env, self.e, self.hint = program.env, program.env._e, program.lanes[0].values
        exprs = [expr for expr in dict.fromkeys(map(self.env.replace, basis)) if expr.free_symbols]
        self.whole = [expr for expr in exprs if expr.is_integer][:12]
        self.number = {expr: program.number(expr, self.hint) for expr in exprs}
        self.ints = sorted({n for n in _ints(call) if n > 1}, reverse=True)
        self.good = [lane.values for lane in program.lanes if not any(lane.values is b for b in bad)]

    def first(self) -> list[Any]:
        """Return the first conditions that are enough: equalities, one other condition, bounds, ratios."""
        equal = self.equalities()
        found = self.fewest(equal) or self.single(keeps_good=True)
        if found:
            return found
        bounds, pinned = _divided(self.bounds(self.whole))
        further, _ = _divided(self.bounds(self.differences()))
        found = self.fewest([*equal, *bounds])
        if len(found) != 1:
            related = self.fewest([*equal, *further])
            found = related if related and (not found or len(related) < len(found)) else found
        return (
            found
            or self.fewest([*equal, *bounds, *further])
            or self.fewest([*equal, *self.ratios(), *bounds])
            or self.fewest([*equal, *pinned, *bounds])
            or self.single(keeps_good=False)
        )

    def _excludes(self, conditions: list[Any]) -> bool:
        """Return whether conditions hold for the example and exclude each of the given sizes."""
        truths = [[sampling.truth(self.env, c, values) for c in conditions] for values in self.bad]
        return (
            bool(conditions)
            and all(sampling.truth(self.env, c, self.hint) for c in conditions)
            and all(False in t for t in truths)
        )

    def _is_enough(self, conditions: list[Any], thorough: bool) -> bool:
        return self._excludes(conditions) and _is_confirmed(
            self.program, self.call, conditions, self.bad, thorough
        )

    def fewest(self, conditions: list[Any]) -> list[Any]:
        """Return the conditions without those that are not needed; an empty list if all are not enough."""
        if not self._is_enough(conditions, thorough=True):
            return []
        for thorough in (False, True):
            found = conditions
            for condition in conditions[::-1]:
                rest = [c for c in found if c is not condition]
                if self._is_enough(rest, thorough):
                    found = rest
            if thorough or self._is_enough(found, thorough=True):
                return found
        return conditions

    def equalities(self) -> list[Any]:
        """Return the equalities of sizes that hold for the example, those with constants last."""
        pairs = [
            self.e.sympy.Eq(a, b)
            for a, b in itertools.combinations(self.whole, 2)
            if self.number[a] == self.number[b]
        ]
        return pairs + [self.e.sympy.Eq(a, self.number[a]) for a in self.whole if self.number[a] in self.ints]

    def ratios(self) -> list[Any]:
        """Return equalities of a size and a multiple of another one."""
        return [
            self.e.sympy.Eq(a, factor * b)
            for a, b in itertools.permutations(self.whole, 2)
            for factor in _FACTORS
            if self.number[a] == factor * self.number[b]
        ]

    def constants(self, of_all: bool = False) -> list[Any]:
        """Return equalities of symbols with their example values."""
        used = set().union(*(expr.free_symbols for expr in self.whole))
        differing = {s for b in self.bad for s in b if b[s] != self.hint[s]}
        chosen = differing if of_all or not used else used
        return [self.e.sympy.Eq(s, self.hint[s]) for s in sorted(chosen, key=str)]

    def single(self, keeps_good: bool) -> list[Any]:
        """Return one condition that is enough, as a list; an empty list if there is none.

        Args:
            keeps_good: whether it must hold in all lanes that do what is done for the example.
        """
        for condition in self._others():
            if not self._excludes([condition]):
                continue
            holds = all(sampling.truth(self.env, condition, values) for values in self.good)
            if (holds or not keeps_good) and self._is_enough([condition], thorough=True):
                return [condition]
        return []

    def _others(self) -> Iterator[Any]:
        """Yield conditions other than equalities and bounds, the usual ones first."""
        e, whole = self.e, self.whole
        products = whole + [a * b for a, b in itertools.combinations(whole[:6], 2)]
        for a, n in itertools.product(products, self.ints):
            if n < 1 << 16:
                yield e.sympy.Eq(e.Mod(a, e.constant(n)), 0)
        for a, b in itertools.permutations(whole, 2):
            if self.number[b]:
                yield e.sympy.Eq(e.Mod(a, b), 0)
        for a, b in itertools.combinations(whole, 2):
            yield e.sympy.Ne(a, b)

    def differences(self) -> list[Any]:
        """Return the differences of two sizes, each in one direction."""
        return [a - b for a, b in itertools.combinations(self.whole[:9], 2)]

    def bounds(self, exprs: list[Any]) -> list[Any]:
        """Return bounds between which the call does the same if other symbols have example values."""
        found = []
        for a in exprs:
            hint = self.program.number(a, self.hint)
            excluded = [self.program.number(a, values) for values in self.bad]
            least = self._end(a, min(*excluded, hint))
            most = self._end(a, max(*excluded, hint))
            if least == most == hint:
                found.append(self.e.sympy.Eq(a, hint))
                continue
            found += [] if least is None else [self.e.sympy.Ge(a, least)]
            found += [] if most is None else [self.e.sympy.Le(a, most)]
        return found

    def _end(self, a: Any, outside: int) -> int | None:
        """Return the last number towards `outside` for which the call does the same; None: `outside`."""
        inside = self.program.number(a, self.hint)
        if inside == outside or self._does_the_same_with(a, outside):
            return None
        while abs(inside - outside) > 1:
            middle = (inside + outside) // 2
            inside, outside = (middle, outside) if self._does_the_same_with(a, middle) else (inside, middle)
        return int(inside)

    def _does_the_same_with(self, a: Any, number: int) -> bool:
        """Whether the call does the same if an expression has a number; True if no sizes give this number."""
        values = self.program.sampler.with_number(a, number)
        return values is None or _does_the_same(self.program, self.call, values)


def _divided(conditions: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the conditions that are inequalities, and those that are equalities."""
    return [c for c in conditions if c.rel_op != "=="], [c for c in conditions if c.rel_op == "=="]


def _record(program: Any, condition: Any) -> None:
    env = program.env
    condition = env._e.readable(env.replace(condition))
    if any(env.is_unbacked_symint(s) or not s.is_integer for s in condition.free_symbols):
        raise env._unknown(condition)
    if condition not in (env._e.sympy.true, env._e.sympy.false) and condition.free_symbols:
        env.add_guard(condition)


def _is_confirmed(
    program: Any, call: Any, conditions: list[Any], bad: list[dict[Any, Any]], thorough: bool
) -> bool:
    """Return whether the call does the same for samples that satisfy conditions, also near excluded sizes.

    Args:
        program: the program.
        call: the call.
        conditions: the conditions.
        bad: the excluded sizes.
        thorough: whether to try corners and more samples.
    """
    sampler = program.sampler
    used = {s for expr in call.basis for s in program.env.replace(expr).free_symbols}
    samples = [values for b in bad[:_SAMPLES] for values in sampler.near(b, conditions)]
    samples += [sampler.sample(1 + i, conditions, seed=i) for i in range(sampling.COUNT)]
    samples += sampler.small(40 if thorough else 8, conditions)
    if thorough:
        samples += sampler.extremes(conditions, sorted(used, key=str))
    chosen = {tuple(v.values()): v for v in samples if v is not None}
    return all(_does_the_same(program, call, values) for values in chosen.values())


def _does_the_same(program: Any, call: Any, values: dict[Any, Any]) -> bool:
    try:
        program.replayed(values, call.position)
    except Diverged as found:
        return found.call is not call
    return True


def _ints(call: Any) -> Iterator[int]:
    """Yield the integers of a call's arguments and the constant sizes of its tensors."""
    yield from plain_ints(call.args)
    yield from plain_ints(call.kwargs)
    yield from call.constants
