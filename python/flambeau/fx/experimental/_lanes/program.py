"""A program on tensors with symbolic sizes: its calls run in every lane, and expressions describe the results."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._overrides.lanes import finder
from flambeau._subclasses._errors import DataDependentOutputException
from flambeau._subclasses._tensor import KEY
from flambeau.fx.experimental._lanes import fitting, sampling, separation
from flambeau.fx.experimental._lanes.calls import Call, Outcome, name_of, settings
from flambeau.fx.experimental._lanes.fitting import Form
from flambeau.fx.experimental._lanes.sampling import Lane, Sampler
from flambeau.fx.experimental._lanes.tensor import SymbolicFakeTensor
from flambeau.fx.experimental._lanes.values import SYMBOLIC, LaneFunction, Ref, leaves, mapped, plain_sizes, symbolic_size
from flambeau.fx.experimental._sizes.numbers import SymInt, wrapped
from flambeau.fx.experimental.sym_node import SymNode
from flambeau.utils._python_dispatch import _disable_current_modes

_MOST_PROBES = 24
_LOCAL_SCALAR = flambeau.ops.aten._local_scalar_dense.default
_MOST_GUARDS = 32


class Refit(Exception):
    """A guard was recorded while a result was described, and other lanes must be described."""


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
        self._tensors: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._handles: dict[int, int] = {}  # id of a tensor of lane 0 -> handle
        self._count = 0
        self._columns: dict[Any, tuple[Any, ...]] = {}
        self._exprs: dict[tuple[Any, ...], Any] = {}
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
        for expr in call.basis:
            self.column(expr)
        call.sizes = self._basis((args, kwargs), with_strides=False)
        call.constants = [n for a in call.inputs for n in a.geometry() if type(n) is int]
        call.constants += [n for a in leaves((args, kwargs)) if isinstance(a, Tensor) for n in plain_sizes(a)]
        call.position = len(self.tape)
        self.tape.append(call)
        try:
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
        for symbol in call.unknown:
            self.column(symbol)
        for _ in range(_MOST_GUARDS):
            call.forget_results()
            self._settle(call)
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
        result = self._combined(call, results, lambda o: o.result)
        written = self._written_geometry(call)
        for made, geometry in written:
            made.set_geometry(geometry)
        if plan is not None:
            self.recorder.emit(call, plan)
        return result

    def _settle(self, call: Call) -> None:
        """Record guards until the call does the same in every lane."""
        for _ in range(_MOST_GUARDS):
            bad = [lane for lane in self.lanes if not self.agrees(call, lane, call.outcomes[lane])]
            if not bad:
                return
            separation.separate(self, call, [lane.values for lane in bad])
            self.refresh()
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
        self._keep(lane, call, result)
        return Outcome(result, error, log)

    def _enter(self, stack: ExitStack, lane: Lane, call: Call, log: list[Any]) -> None:
        """Enter the modes of a lane: only lane 0 has those of the program."""
        stack.enter_context(_without_function_modes())
        if lane is not self.lanes[0]:
            stack.enter_context(_disable_current_modes())
        before = _C._unset_dispatch_mode(KEY)
        _C._set_dispatch_mode(self.mode)
        stack.callback(self._leave, before)
        if call.is_recorded:
            stack.enter_context(self.recorder.region(lane, log))
        call.enter(stack)

    @staticmethod
    def _leave(before: Any) -> None:
        _C._unset_dispatch_mode(KEY)
        if before is not None:
            _C._set_dispatch_mode(before)

    # --- values -----------------------------------------------------------------------------------

    def _referred(self, value: Any) -> Any:
        if isinstance(value, LaneFunction):
            return Ref(value.handle)
        if isinstance(value, SymbolicFakeTensor):
            if value._program is not self:
                raise AssertionError("expected tensors of one mode, got several: Mixing fake modes NYI")
            value.lane  # noqa: B018  (makes the lanes of a description)
            return Ref(value._handle)
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

    def column(self, expr: Any) -> tuple[Any, ...]:
        """Return the number of an expression in each lane."""
        found = self._columns.get(expr)
        if found is None:
            found = self._columns[expr] = tuple(self.number(expr, lane.values) for lane in self.lanes)
            self._exprs.setdefault(found, expr)
        return found

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

    def expression(self, call: Call, column: Sequence[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return the expression of a number that a call gives.

        Args:
            call: the call.
            column: the number in each lane.
            extract: returns the number of an outcome.
        Raises: RuntimeError if no expression fits.
        """
        column = tuple(column)
        if all(v == column[0] or v != v for v in column):
            return column[0]
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
        symbols = [s for s in self.sampler.symbols if s not in self.env.replacements and s.is_integer]
        for chosen in (exprs, symbols):
            found = fit(column, [(expr, self.column(expr)) for expr in chosen])
            found = self._tested(call, found, chosen, extract)
            if found:
                return found[0].build()
        self._exclude_exceptions(call, column, exprs, fit, extract)
        sizes = [(lane.values, n) for lane, n in zip(self.lanes, column, strict=True)]
        raise RuntimeError(
            f"{call.name}: expected numbers that are expressions of {', '.join(map(str, exprs)) or 'sizes'}, "
            f"got {'; '.join(f'{n} for {values}' for values, n in sizes)}"
        )

    def _exclude_exceptions(
        self, call: Call, column: tuple[Any, ...], exprs: list[Any], fit: Any, extract: Callable[[Outcome], Any]
    ) -> None:
        """Record a guard that excludes the smallest sizes, if an expression fits without them.

        Raises: `Refit` after a guard was recorded.
        """
        columns = [self.column(expr) for expr in exprs]
        order = sorted(range(1, len(column)), key=lambda i: min((c[i] for c in columns), default=0))
        for count in range(1, len(order) - 3):
            kept = [i for i in range(len(column)) if i not in order[:count]]
            part = [
                (expr, tuple(c[i] for i in kept)) for expr, c in zip(exprs, columns, strict=True)
            ]
            found = [f.build() for f in fit(tuple(column[i] for i in kept), part)[:1]]
            if len({column[i] for i in kept}) == 1:
                found = [self.env._e.constant(column[0])]
            for expr in found:
                call.facts.append((extract, expr))
                bad = [lane.values for lane in self.lanes if not self.agrees(call, lane, call.outcomes[lane])]
                separation.separate(self, call, bad)
                self.refresh()
                raise Refit

    def _tested(
        self, call: Call, found: list[Form], exprs: list[Any], extract: Callable[[Outcome], Any]
    ) -> list[Form]:
        """Run the call for further sizes until one candidate is left, or all agree."""
        probes = 0
        for seed in range(1, 100):
            if len(found) < 2 or probes == _MOST_PROBES:
                break
            values = self.sampler.sample(1 + seed % sampling.COUNT, seed=seed)
            if values is None:
                continue
            basis = [self.number(expr, values) for expr in exprs]
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
            lane = self.replayed(values, call.position - 1)
        except separation.Diverged as found:
            separation.separate(self, found.call, [found.values])
            self.refresh()
            raise Refit from None
        outcome = self.run(lane, call)
        outcome.tensors = lane.tensors
        return extract(outcome) if outcome.signature() == call.signature else None

    # --- results ----------------------------------------------------------------------------------

    def _combined(self, call: Call, results: list[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return one value for the values of all lanes."""
        first = results[0]
        kind = type(first)
        if isinstance(first, Tensor):
            return self._tensor(call, results, extract)
        if kind is int or kind is float:
            found = self.expression(call, results, extract)
            return found if type(found) in (int, float) else _number(self.env, found, kind)
        if kind is list or isinstance(first, tuple):
            items = [
                self._combined(call, [r[i] for r in results], lambda o, i=i: extract(o)[i])
                for i in range(len(first))
            ]
            if kind is flambeau.Size:
                return symbolic_size(items)
            if kind is list:
                return items
            return tuple(items) if kind is tuple else kind(*items) if hasattr(kind, "_fields") else kind(items)
        if isinstance(first, FunctionType | MethodType | partial):
            return self._function(call, results, extract)
        if kind is dict:
            return {k: self._combined(call, [r[k] for r in results], lambda o, k=k: extract(o)[k]) for k in first}
        return first

    def _tensor(self, call: Call, tensors: list[Any], extract: Callable[[Outcome], Any]) -> Any:
        first = tensors[0]
        handle = self._handles.get(id(first))
        known = None if handle is None else self._tensors.get(handle)
        if known is not None:
            return known
        if all(t is first for t in tensors) and not hasattr(first, "_elem"):
            return first  # a real tensor that the program holds
        return self.adopted(call, tensors, extract)

    def adopted(self, call: Call, tensors: list[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return a tensor with symbolic sizes for a new tensor of each lane."""
        geometry = self._geometry(call, tensors, extract)
        handle = self._kept(call, tensors, extract)
        made = SymbolicFakeTensor.over(self, handle, tensors[0], geometry)
        self._tensors[handle] = made
        weakref.finalize(made, self._forget, handle, id(tensors[0]))
        return made

    def _function(self, call: Call, functions: list[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return a function that calls the function of each lane."""
        made = LaneFunction(self, self._kept(call, functions, extract))
        weakref.finalize(made, self._forget, made.handle, id(functions[0]))
        return made

    def _kept(self, call: Call, values: list[Any], extract: Callable[[Outcome], Any]) -> int:
        """Keep a value of each lane; return its handle."""
        handle = self._count = self._count + 1
        call.outputs.append((handle, extract))
        for lane, value in zip(self.lanes, values, strict=True):
            lane.tensors[handle] = value
        self._handles[id(values[0])] = handle
        return handle

    def _forget(self, handle: int, key: int) -> None:
        if self._handles.get(key) == handle:
            del self._handles[key]
        for lane in self.lanes:
            lane.tensors.pop(handle, None)

    def _geometry(self, call: Call, tensors: list[Any], extract: Callable[[Outcome], Any]) -> tuple[Any, ...]:
        """Return sizes, strides and the offset of a tensor of each lane as numbers."""

        def number(read: Callable[[Any], int]) -> Any:
            found = self.expression(call, [read(t) for t in tensors], lambda o: read(extract(o)))
            if type(found) is int:
                return found
            call.further.append(found)
            return _number(self.env, found, int)

        places = range(tensors[0].dim())
        sizes = [number(lambda t, d=d: int(t.size(d))) for d in places]
        strides: dict[int, Any] = {}
        for d in sorted(places, key=lambda d: (tensors[0].stride(d), -d)):
            self._note_products(tensors, sizes, strides)
            strides[d] = number(lambda t, d=d: int(t.stride(d)))
        return sizes, [strides[d] for d in places], number(lambda t: int(t.storage_offset()))

    def _note_products(self, tensors: list[Any], sizes: list[Any], strides: dict[int, Any]) -> None:
        """Note size * stride of dimensions: a usual stride of the next outer dimension."""
        for d in strides:
            column = tuple(int(t.size(d) * t.stride(d)) for t in tensors)
            product = sizes[d] * strides[d]
            if isinstance(product, SymInt) and column not in self._exprs:
                self._exprs[column] = product.node.expr
                self._columns[product.node.expr] = column

    def _keep(self, lane: Lane, call: Call, result: Any) -> None:
        """Keep the results of a call that runs again in a lane."""
        outcome = Outcome(result, None, [])
        for handle, extract in call.outputs:
            try:
                lane.tensors[handle] = extract(outcome)
            except (TypeError, IndexError, KeyError):  # it failed or did something else; agrees() finds this
                return

    def _written_geometry(self, call: Call) -> list[Any]:
        """Return the new geometry of arguments that the call may have changed."""
        if not call.may_write:
            return []
        return [
            (
                made,
                self._geometry(
                    call,
                    [lane.tensors[made._handle] for lane in self.lanes],
                    lambda o, handle=made._handle: o.tensors[handle],
                ),
            )
            for made in call.inputs
        ]

    # --- lanes ------------------------------------------------------------------------------------

    def agrees(self, call: Call, lane: Lane, outcome: Outcome) -> bool:
        """Return whether a call did in a lane what the program recorded."""
        if outcome.signature() != call.signature:
            return False
        outcome.tensors = lane.tensors
        return all(extract(outcome) == self.number(expr, lane.values) for extract, expr in call.facts)

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
        self._columns.clear()
        self._exprs.clear()
        self._seen = (len(env.conditions()), tuple(env.var_to_range.items()), len(env.replacements))

    def check_samples(self, count: int) -> None:
        """Run the program for further sizes; record guards where it does something else."""
        self.refresh()
        for _ in range(_MOST_GUARDS):
            samples = self.sampler.extremes(())
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


def _number(env: Any, expr: Any, kind: type) -> Any:
    """Return the symbolic number of an expression; a Python number if it is constant."""
    return wrapped(SymNode(expr, env, kind))
