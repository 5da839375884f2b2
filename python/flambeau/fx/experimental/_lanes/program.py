"""A program on tensors with symbolic sizes: its calls run in every lane."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._overrides.lanes import finder
from flambeau._subclasses._errors import DataDependentOutputException
from flambeau._subclasses._tensor import KEY
from flambeau.fx.experimental._lanes import sampling, separation
from flambeau.fx.experimental._lanes.calls import Call, Outcome, settings
from flambeau.fx.experimental._lanes.columns import Columns, Refit
from flambeau.fx.experimental._lanes.results import Results
from flambeau.fx.experimental._lanes.sampling import Lane, Sampler
from flambeau.fx.experimental._lanes.tensor import SymbolicFakeTensor
from flambeau.fx.experimental._lanes.values import (
    SYMBOLIC,
    LaneFunction,
    Ref,
    leaves,
    mapped,
    plain_sizes,
)
from flambeau.utils._python_dispatch import TorchDispatchModeKey, _disable_current_modes

_LOCAL_SCALAR = flambeau.ops.aten._local_scalar_dense.default
_MOST_GUARDS = 32


class Program:
    """The calls of a program under one `FakeTensorMode` with a `ShapeEnv`.

    Args:
        mode: the mode.
        env: the environment of the symbols.
    """

    def __init__(self, mode: Any, env: Any) -> None:
        self.mode, self.env = mode, env
        self.sampler = Sampler(env)
        self.lanes = [Lane(i, {}) for i in range(sampling.COUNT + 1)]
        self.tape: list[Call] = []
        self.recorder: Any = None
        self.current: tuple[Lane, Call] | None = None
        self.columns, self.results = Columns(self), Results(self)
        self._seen: Any = None
        finder.find = _program_in

    # --- calls ------------------------------------------------------------------------------------

    def call(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a function in every lane and return its result with symbolic sizes and numbers.

        Args:
            func: the function.
            args: its arguments by position.
            kwargs: its arguments by name.
        """
        if self.current is not None:
            return self._call_in_lane(func, args, kwargs or {})
        self.refresh()
        call = Call(func, mapped(self._referred, args), mapped(self._referred, kwargs or {}), settings())
        call.is_recorded = self.recorder is not None
        call.inputs = [a for a in leaves((args, kwargs)) if isinstance(a, SymbolicFakeTensor)]
        call.basis = self._basis((args, kwargs))
        call.sizes = self._basis((args, kwargs), with_strides=False)
        call.constants = [n for a in call.inputs for n in a.geometry() if type(n) is int]
        call.constants += [n for a in leaves((args, kwargs)) if isinstance(a, Tensor) for n in plain_sizes(a)]
        call.position = len(self.tape)
        self.tape.append(call)
        try:
            with _without_function_modes():
                result = self._run_in_all(call)
        except BaseException:
            del self.tape[call.position :]
            raise
        finally:
            call.outcomes, call.inputs = {}, []
        return result

    def _call_in_lane(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a function that a function of the program calls, in the lane of the outer call."""
        assert self.current is not None
        lane = self.current[0]

        def converted(value: Any) -> Any:
            return self.in_lane(lane, self._referred(value))

        return func(*mapped(converted, args), **mapped(converted, kwargs))

    def _run_in_all(self, call: Call) -> Any:
        call.outcomes = {}
        for lane in self.lanes:
            call.outcomes[lane] = self.run(lane, call)
        hint = call.outcomes[self.lanes[0]]
        call.signature = hint.signature()
        for _ in range(_MOST_GUARDS):
            call.forget_results()
            self._settle(call)
            for expr in (*call.unknown, *call.basis):
                self.columns.column(expr)  # so that equal columns of results get these expressions
            if hint.error is not None:
                raise self._cause(call, hint.error)
            try:
                return self._described(call)
            except Refit:
                continue
        raise RuntimeError(f"{call.name}: expected sizes that are expressions of its arguments, got others")

    @staticmethod
    def _cause(call: Call, error: Exception) -> Exception:
        """Return the error of a call: numbers that depend on elements have no values that it could check."""
        if not call.unknown:
            return error
        made = DataDependentOutputException(_LOCAL_SCALAR)
        made.__cause__ = error
        return made

    def _described(self, call: Call) -> Any:
        """Return the result of a call that did the same in every lane."""
        plan = None if self.recorder is None else self.recorder.planned(call)
        results = [call.outcomes[lane].result for lane in self.lanes]
        result = self.results.combined(call, results, lambda o: o.result)
        written = self.results.written_geometry(call)
        for made, geometry in written:
            made.set_geometry(geometry)
        if plan is not None:
            self.recorder.emit(call, plan)
        return result

    def _settle(self, call: Call) -> None:
        """Record guards until the call does the same in every lane."""
        for _ in range(_MOST_GUARDS):
            self.refresh()  # the call itself may have recorded guards
            bad = [lane for lane in self.lanes if not self.agrees(call, lane, call.outcomes[lane])]
            if not bad:
                return
            separation.separate(self, call, [lane.values for lane in bad])
        raise RuntimeError(f"{call.name}: expected sizes for which it does the same, got a condition on each")

    def run(self, lane: Lane, call: Call) -> Outcome:
        """Run a call in a lane."""
        before, self.current = self.current, (lane, call)
        call.unknown_count = 0
        log: list[Any] = []
        try:
            with ExitStack() as stack:
                self._enter(stack, lane, call, log)
                try:
                    args = mapped(lambda v: self.in_lane(lane, v), call.args)
                    kwargs = mapped(lambda v: self.in_lane(lane, v), call.kwargs)
                    result, error = call.func(*args, **kwargs), None
                except Exception as raised:
                    result, error = None, raised
        finally:
            self.current = before
        self.results.keep(lane, call, result)
        return Outcome(result, error, log)

    def _enter(self, stack: ExitStack, lane: Lane, call: Call, log: list[Any]) -> None:
        """Enter the modes of a lane: only lane 0 has those of the program."""
        if lane is not self.lanes[0]:
            stack.enter_context(_disable_current_modes())
        for key in (KEY, TorchDispatchModeKey.PROXY):
            stack.callback(self._restore, key, _C._unset_dispatch_mode(key))
        _C._set_dispatch_mode(self.mode)
        if call.is_recorded:
            stack.enter_context(self.recorder.region(lane, log))
        call.enter(stack)

    @staticmethod
    def _restore(key: TorchDispatchModeKey, before: Any) -> None:
        _C._unset_dispatch_mode(key)
        if before is not None:
            _C._set_dispatch_mode(before)

    # --- values -----------------------------------------------------------------------------------

    def _referred(self, value: Any) -> Any:
        if isinstance(value, LaneFunction):
            return Ref(value.handle)
        if isinstance(value, SymbolicFakeTensor):
            if value._program is not self:
                raise AssertionError(
                    "FakeTensorMode: expected tensors of one mode, got several: Mixing fake modes NYI"
                )
            value.lane  # noqa: B018  (makes the lanes of a description)
            return Ref(int(value._handle or 0))
        return value

    def in_lane(self, lane: Lane, value: Any) -> Any:
        """Return the value that a symbolic number or a tensor has in a lane."""
        if isinstance(value, Ref):
            return lane.tensors[value.handle]
        if isinstance(value, SYMBOLIC):
            return value.node.pytype(self.number(value.node._expr, lane.values))
        return value

    def number(self, expr: Any, values: dict[Any, Any]) -> Any:
        """Return the number of an expression for given sizes."""
        return self.env._e.evaluate(expr, values)

    def _basis(self, value: Any, with_strides: bool = True) -> list[Any]:
        """Return the symbolic expressions of numbers and of the geometry of tensors."""
        numbers: list[Any] = []
        for leaf in leaves(value):
            if isinstance(leaf, SymbolicFakeTensor):
                numbers.extend(leaf.geometry() if with_strides else leaf._sizes)
            else:
                numbers.append(leaf)
        found: dict[Any, None] = {}
        for n in numbers:
            if isinstance(n, SYMBOLIC):
                found.setdefault(n.node.expr)
        return [expr for expr in found if expr.free_symbols]

    # --- lanes ------------------------------------------------------------------------------------

    def agrees(self, call: Call, lane: Lane, outcome: Outcome) -> bool:
        """Return whether a call did in a lane what the program recorded."""
        if outcome.signature() != call.signature:
            return False
        outcome.tensors = lane.tensors
        return all(self._is(extract(outcome), expr, lane) for extract, expr in call.facts)

    def _is(self, value: Any, expr: Any, lane: Lane) -> bool:
        """Return whether a number equals an expression in a lane."""
        expected = expr if type(expr) in (int, float) else self.number(expr, lane.values)
        if isinstance(value, float):
            return math.isclose(value, expected, rel_tol=1e-12) or (value != value and expected != expected)
        return bool(value == expected)

    def replayed(self, values: dict[Any, Any], last: int) -> Any:
        """Return a lane for other sizes; the calls up to a place of the tape have run in it.

        Raises: `separation.Diverged` at the first call that does something else.
        """
        lane = Lane(-1, values)
        for call in self.tape[: last + 1]:
            outcome = self.run(lane, call)
            if not self.agrees(call, lane, outcome):
                raise separation.Diverged(call, values)
            if call.outcomes:
                lane.pending = outcome
            if self.recorder is not None:
                self.recorder.bind(lane, call, outcome)
        return lane

    def refresh(self) -> None:
        """Replace lanes that do not satisfy the recorded conditions; give new symbols numbers."""
        env = self.env
        state = (len(env.conditions()), tuple(env.var_to_range.items()), len(env.replacements))
        if state == self._seen:
            return
        self._note_symbols()
        for _ in range(_MOST_GUARDS):
            if self._replace_one() and self._fix_constant_symbols():
                break
        self.columns.clear()
        self._seen = (len(env.conditions()), tuple(env.var_to_range.items()), len(env.replacements))

    def check_samples(self, count: int) -> None:
        """Run the program for further sizes; record guards where it does something else."""
        with _without_function_modes():
            self._check_samples(count)

    def _check_samples(self, count: int) -> None:
        self.refresh()
        for _ in range(_MOST_GUARDS):
            samples: list[Any] = list(self.sampler.extremes(()))
            samples += [self.sampler.sample(1 + i % sampling.COUNT, seed=1000 + i) for i in range(count)]
            try:
                for values in samples:
                    if values is not None:
                        self.replayed(values, len(self.tape) - 1)
                return
            except separation.Diverged as found:
                separation.separate(self, found.call, [found.values])
                self.refresh()

    def _note_symbols(self) -> None:
        for s in self.env.var_to_range:
            if s not in self.sampler.symbols:
                self.sampler.note(s)
                for lane in self.lanes:
                    lane.values[s] = self.sampler.default(max(lane.index, 0), s)

    def _replace_one(self) -> bool:
        """Replace each lane that conditions exclude; return whether all others satisfy them."""
        for place, lane in enumerate(self.lanes):
            if place == 0 or self.sampler.holds(lane.values):
                continue
            for seed in range(4):
                values = self.sampler.sample(place, seed=seed)
                if values is None:
                    continue
                try:
                    made = self.replayed(values, len(self.tape) - 1)
                except separation.Diverged as found:
                    separation.separate(self, found.call, [found.values])
                    return False
                break
            else:
                made = self.replayed(dict(self.lanes[0].values), len(self.tape) - 1)
            self._put(place, made)
        return True

    def _put(self, place: int, lane: Lane) -> None:
        old, lane.index = self.lanes[place], place
        self.lanes[place] = lane
        if self.tape and self.tape[-1].outcomes:
            pending = self.tape[-1]
            pending.outcomes.pop(old, None)
            pending.outcomes[lane] = lane.pending

    def _fix_constant_symbols(self) -> bool:
        """Record that a symbol is constant if no lane has another number for it."""
        values = [lane.values for lane in self.lanes]
        for s in self.sampler.symbols:
            if s in self.env.var_to_val and s not in self.env.replacements:
                if all(v[s] == values[0][s] for v in values):
                    self.env.specialize(s, int)
        return all(self.sampler.holds(lane.values) for lane in self.lanes)


@contextmanager
def _without_function_modes() -> Iterator[None]:
    """A region without the function modes of the program."""
    modes = [_C._pop_torch_function_stack() for _ in range(_C._len_torch_function_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            _C._push_on_torch_function_stack(mode)


def _program_in(value: Any) -> Any:
    """Return the program of the first tensor with symbolic sizes in a value; None if there is none."""
    return next((leaf._program for leaf in leaves(value) if isinstance(leaf, SymbolicFakeTensor)), None)
