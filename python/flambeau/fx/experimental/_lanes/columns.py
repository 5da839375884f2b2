"""Numbers of results as columns, with a value in each lane, and their expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flambeau import Tensor
from flambeau.fx.experimental._lanes import fitting, sampling, separation
from flambeau.fx.experimental._lanes.calls import Call, Outcome
from flambeau.fx.experimental._lanes.fitting import Form
from flambeau.fx.experimental._sizes.numbers import SymInt, wrapped
from flambeau.fx.experimental.sym_node import SymNode

_MOST_PROBES = 24


class Refit(Exception):
    """A guard was recorded while a result was described, and other lanes must be described."""


def number_of(env: Any, expr: Any, kind: type) -> Any:
    """Return the symbolic number of an expression; a Python number if it is constant."""
    return wrapped(SymNode(expr, env, kind))


def _read(method: Callable[..., Any], dim: int, tensor: Any) -> int:
    return int(method(tensor, dim))


class Columns:
    """The columns of a program and their expressions.

    Args:
        program: the program.
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self._columns: dict[Any, tuple[Any, ...]] = {}
        self._exprs: dict[tuple[Any, ...], Any] = {}

    def clear(self) -> None:
        """Forget all columns, because lanes were replaced."""
        self._columns.clear()
        self._exprs.clear()

    def column(self, expr: Any) -> tuple[Any, ...]:
        """Return the number of an expression in each lane."""
        found = self._columns.get(expr)
        if found is None:
            found = self._columns[expr] = tuple(
                self.program.number(expr, lane.values) for lane in self.program.lanes
            )
            self._exprs.setdefault(found, expr)
        return found

    def expression(self, call: Call, column: Sequence[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return the expression of a number that a call gives.

        Args:
            call: the call.
            column: the number in each lane.
            extract: returns the number of an outcome.
        Raises: RuntimeError if no expression fits.
        """
        column = tuple(column)
        first = column[0]
        if all(v == first or (v != v and first != first) for v in column):
            call.facts.append((extract, first))
            return first
        found = self._exprs.get(column)
        if found is None:
            found = self._fitted(call, column, extract)
            self._columns[found] = column
            self._exprs[column] = found
        call.facts.append((extract, found))
        return found

    def _fitted(self, call: Call, column: tuple[Any, ...], extract: Callable[[Outcome], Any]) -> Any:
        is_float = any(type(v) is float for v in column)
        fit = fitting.float_candidates if is_float else fitting.candidates
        exprs = [*dict.fromkeys([*call.further[::-1][:4], *call.basis, *call.further[::-1]])]
        symbols = [
            s for s in self.program.sampler.symbols if s not in self.program.env.replacements and s.is_integer
        ]
        for chosen in (exprs, symbols):
            found = fit(column, [(expr, self.column(expr)) for expr in chosen])
            found = self._tested(call, found, chosen, extract)
            if found:
                return found[0].build()
        self._exclude_exceptions(call, column, exprs, fit, extract)
        sizes = [(lane.values, n) for lane, n in zip(self.program.lanes, column, strict=True)]
        raise RuntimeError(
            f"{call.name}: expected numbers that are expressions of {', '.join(map(str, exprs)) or 'sizes'}, "
            f"got {'; '.join(f'{n} for {values}' for values, n in sizes)}"
        )

    def _exclude_exceptions(
        self,
        call: Call,
        column: tuple[Any, ...],
        exprs: list[Any],
        fit: Any,
        extract: Callable[[Outcome], Any],
    ) -> None:
        """Record a guard that excludes the smallest sizes, if an expression fits without them.

        Raises: `Refit` after a guard was recorded.
        """
        columns = [self.column(expr) for expr in exprs]
        order = sorted(range(1, len(column)), key=lambda i: min((c[i] for c in columns), default=0))
        for count in range(1, len(order) - 3):
            kept = [i for i in range(len(column)) if i not in order[:count]]
            part = [(expr, tuple(c[i] for i in kept)) for expr, c in zip(exprs, columns, strict=True)]
            found = [f.build() for f in fit(tuple(column[i] for i in kept), part)[:1]]
            if len({column[i] for i in kept}) == 1:
                found = [self.program.env._e.constant(column[0])]
            for expr in found:
                call.facts.append((extract, expr))
                bad = [
                    lane.values
                    for lane in self.program.lanes
                    if not self.program.agrees(call, lane, call.outcomes[lane])
                ]
                separation.separate(self.program, call, bad)
                self.program.refresh()
                raise Refit

    def _tested(
        self, call: Call, found: list[Form], exprs: list[Any], extract: Callable[[Outcome], Any]
    ) -> list[Form]:
        """Run the call for further sizes until one candidate is left, or all agree."""
        probes = 0
        for seed in range(1, 100):
            if len(found) < 2 or probes == _MOST_PROBES:
                break
            values = self.program.sampler.sample(1 + seed % sampling.COUNT, seed=seed)
            if values is None:
                continue
            basis = [self.program.number(expr, values) for expr in exprs]
            numbers = [form.of(basis) for form in found]
            if len(set(numbers)) < 2:
                continue
            probes += 1
            number = self._probed(call, values, extract)
            if number is not None:
                found = [form for form, n in zip(found, numbers, strict=True) if n == number]
        return found

    def _probed(self, call: Call, values: dict[Any, Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return a number of a call for further sizes; None if the call does something else for them."""
        try:
            lane = self.program.replayed(values, call.position - 1)
        except separation.Diverged as found:
            separation.separate(self.program, found.call, [found.values])
            self.program.refresh()
            raise Refit from None
        outcome = self.program.run(lane, call)
        outcome.tensors = lane.tensors
        return extract(outcome) if outcome.signature() == call.signature else None

    def geometry(self, call: Call, tensors: list[Any], extract: Callable[[Outcome], Any]) -> tuple[Any, ...]:
        """Return sizes, strides and the offset of a tensor of each lane as numbers."""

        def number(read: Callable[[Any], int]) -> Any:
            found = self.expression(call, [read(t) for t in tensors], lambda o: read(extract(o)))
            if type(found) is int:
                return found
            call.further.append(found)
            return number_of(self.program.env, found, int)

        places = range(tensors[0].dim())
        sizes = [number(partial(_read, Tensor.size, d)) for d in places]
        strides: dict[int, Any] = {}
        for d in sorted(places, key=lambda d: (tensors[0].stride(d), -d)):
            self._note_products(tensors, sizes, strides)
            strides[d] = number(partial(_read, Tensor.stride, d))
        return sizes, [strides[d] for d in places], number(lambda t: int(t.storage_offset()))

    def _note_products(self, tensors: list[Any], sizes: list[Any], strides: dict[int, Any]) -> None:
        """Note size * stride of dimensions: a usual stride of the next outer dimension."""
        for d in strides:
            column = tuple(int(t.size(d) * t.stride(d)) for t in tensors)
            product = sizes[d] * strides[d]
            if isinstance(product, SymInt) and column not in self._exprs:
                self._exprs[column] = product.node.expr
                self._columns[product.node.expr] = column
