"""Results of calls: one value with symbolic sizes and numbers for the values of all lanes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.fx.experimental._lanes.calls import Call, Outcome, part
from flambeau.fx.experimental._lanes.columns import number_of
from flambeau.fx.experimental._lanes.sampling import Lane
from flambeau.fx.experimental._lanes.tensor import SymbolicFakeTensor
from flambeau.fx.experimental._lanes.values import LaneFunction, symbolic_size


class Results:
    """The tensors of a program, by handle.

    Args:
        program: the program.
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self._tensors: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._handles: dict[int, int] = {}  # id of a tensor of lane 0 -> handle
        self._count = 0

    def combined(self, call: Call, results: list[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return one value for the values of all lanes."""
        first = results[0]
        kind = type(first)
        if isinstance(first, Tensor):
            return self._tensor(call, results, extract)
        if kind is bool and call.unknown:
            raise self.program.env._unknown(call.unknown[0])
        if kind is int or kind is float:
            found = self.program.columns.expression(call, results, extract)
            return found if type(found) in (int, float) else number_of(self.program.env, found, kind)
        if kind is list or isinstance(first, tuple):
            items = [
                self.combined(call, [r[i] for r in results], part(extract, i)) for i in range(len(first))
            ]
            if kind is flambeau.Size:
                return symbolic_size(items)
            if kind is list:
                return items
            return (
                tuple(items) if kind is tuple else kind(*items) if hasattr(kind, "_fields") else kind(items)
            )
        if isinstance(first, FunctionType | MethodType | partial):
            return self._function(call, results, extract)
        if kind is dict:
            return {k: self.combined(call, [r[k] for r in results], part(extract, k)) for k in first}
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
        geometry = self.program.columns.geometry(call, tensors, extract)
        handle = self._kept(call, tensors, extract)
        made = SymbolicFakeTensor.over(self.program, handle, tensors[0], geometry)
        self._tensors[handle] = made
        weakref.finalize(made, self._forget, handle, id(tensors[0]))
        return made

    def _function(self, call: Call, functions: list[Any], extract: Callable[[Outcome], Any]) -> Any:
        """Return a function that calls the function of each lane."""
        made = LaneFunction(self.program, self._kept(call, functions, extract))
        weakref.finalize(made, self._forget, made.handle, id(functions[0]))
        return made

    def _kept(self, call: Call, values: list[Any], extract: Callable[[Outcome], Any]) -> int:
        """Keep a value of each lane; return its handle."""
        handle = self._count = self._count + 1
        call.outputs.append((handle, extract))
        for lane, value in zip(self.program.lanes, values, strict=True):
            lane.tensors[handle] = value
        self._handles[id(values[0])] = handle
        return handle

    def _forget(self, handle: int, key: int) -> None:
        if self._handles.get(key) == handle:
            del self._handles[key]
        for lane in self.program.lanes:
            lane.tensors.pop(handle, None)

    def keep(self, lane: Lane, call: Call, result: Any) -> None:
        """Keep the results of a call that runs again in a lane."""
        outcome = Outcome(result, None, [])
        for handle, extract in call.outputs:
            try:
                lane.tensors[handle] = extract(outcome)
            except (TypeError, IndexError, KeyError):  # it failed or did something else; agrees() finds this
                return

    def written_geometry(self, call: Call) -> list[Any]:
        """Return the new geometry of arguments that the call may have changed."""
        if not call.may_write:
            return []
        return [
            (
                made,
                self.program.columns.geometry(
                    call,
                    [lane.tensors[made._handle] for lane in self.program.lanes],
                    lambda o, handle=made._handle: o.tensors[handle],
                ),
            )
            for made in call.inputs
        ]
