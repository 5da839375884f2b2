"""Calls of operators on fake tensors: the operator runs on their twins on "meta", which have no memory."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._subclasses._errors import (
    DynamicOutputShapeException,
    FakeTensorDeviceMismatchError,
    UnsupportedOperatorException,
)
from flambeau._subclasses._plans import Plan, named_device, plan_of
from flambeau._subclasses._tensor import FakeTensor, with_index

_META = flambeau.device("meta")
_CPU = flambeau.device("cpu")
# Operators compute with constants of at most this many elements.
_MOST_CONSTANT = 1


_NUMBERS = frozenset({int, float, bool, complex, type(None), flambeau.dtype, str})


def answer(mode: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of an operator on fake tensors.

    Args:
        mode: the mode of the result.
        func: the overload.
        args: its arguments by position.
        kwargs: its arguments by name.
    """
    call = Call(mode, func)
    return call.run(args, kwargs) if kwargs or not call.plan.is_plain else call.run_plain(args)


class Call:
    """One call of an operator.

    Args:
        mode: the mode of the result.
        func: the overload.
    """

    __slots__ = ("fakes", "func", "indices", "mode", "plan")

    def __init__(self, mode: Any, func: Any) -> None:
        self.mode, self.func = mode, func
        self.plan: Plan = plan_of(func)
        self.fakes: list[Any] = []
        self.indices: list[Any] = []  # fake tensors that may be on the CPU while others are on a device

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result."""
        plan = self.plan
        if plan.operator is not None:
            return self._run_defined(plan.operator, args, kwargs)
        given = tuple([self._elem(a, i in plan.indices) for i, a in enumerate(args)])
        named = {name: self._elem(value) for name, value in kwargs.items()} if kwargs else {}
        known = None
        if plan.is_repeatable and self.fakes and all(f._constant is not None for f in self.fakes):
            known = self._computed(args, kwargs)
            if isinstance(known, bool | int | float | complex):
                return known
        device = self._device(args, kwargs)
        if plan.device is not None:
            given, named = self._on_meta(given, named)
        result = self._checked(given, named)
        for place, name in plan.written:
            written = args[place] if place < len(args) else kwargs.get(name)
            for f in written if isinstance(written, list | tuple) else [written]:
                if isinstance(f, Tensor):
                    self._follow(f)
        made = self._faked(result, device, self._source(args, kwargs))
        if isinstance(known, Tensor) and isinstance(made, FakeTensor):
            if plan.written:  # otherwise the dispatcher does this after the constant is kept
                flambeau.autograd.graph.increment_version(made)
            made._keep_constant(known)
        return made

    def run_plain(self, args: tuple[Any, ...]) -> Any:
        """Return the result of a common call: only numbers, and tensors of unknown elements on one device."""
        mode, fakes, device, given = self.mode, self.fakes, None, []
        for a in args:
            kind = type(a)
            if kind is FakeTensor:
                if a._constant is not None or a.fake_mode is not mode:
                    break
                if device is None:
                    device = a.device
                elif a.device != device:
                    break
                fakes.append(a)
                a = a._elem
            elif kind not in _NUMBERS and (kind is not list or not all(type(item) is int for item in a)):
                break
            given.append(a)
        if device is None or len(given) < len(args):
            self.fakes = []
            return self.run(args, {})
        result = self._checked(tuple(given), {})
        place = self.plan.source
        if place is None and type(result) is Tensor and result.is_meta:
            for a in fakes:
                if a._elem is result:
                    return a
            return mode._wrapped(result, device)
        return self._faked(result, device, None if place is None else args[place])

    # --- arguments --------------------------------------------------------------------------------

    def _elem(self, value: Any, is_index: bool = False) -> Any:
        """Return a value with fake tensors replaced by their twins; note the fake tensors."""
        kind = type(value)
        if kind is list or kind is tuple:
            return [self._elem(item, is_index) for item in value]
        if not isinstance(value, Tensor):
            return value
        fake: Any = value if kind is FakeTensor else self._input(value)
        if fake.fake_mode is not self.mode:
            raise AssertionError(
                f"{self.func}: expected tensors of one mode, got several: Mixing fake modes NYI"
            )
        (self.indices if is_index else self.fakes).append(fake)
        return fake._elem

    def _input(self, value: Any) -> Any:
        if isinstance(value, FakeTensor):  # an instance of a subclass
            return value
        if type(value) is Tensor and value.dim() == 0 and value.is_cpu and not value.requires_grad:
            return self.mode._adopt(value.clone(), _CPU)  # composites make such tensors from numbers
        if not self.mode.allow_non_fake_inputs:
            raise AssertionError(
                f"{self.func}: expected fake tensors, got a {type(value).__name__} with memory: Please "
                "convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                "'allow_non_fake_inputs'"
            )
        return self.mode.from_tensor(value)

    def _on_meta(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        place: Any = self.plan.device
        if place < len(args):
            return (*args[:place], _META, *args[place + 1 :]), kwargs
        return args, {**kwargs, "device": _META}

    def _device(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the device of the results."""
        named = named_device(self.plan, args, kwargs)
        if named is not None:
            return with_index(named)
        if not self.fakes:
            return with_index(flambeau.get_default_device()) if self.plan.device is not None else _CPU
        first = self.fakes[0].device
        if len(self.fakes) == 1 or self.plan.is_between_devices:
            return first
        return self._common_device(first)

    def _common_device(self, first: Any) -> Any:
        """Return the device of all tensors; CPU tensors of zero dimensions are accepted on any device."""
        found, is_number = first, _is_number(self.fakes[0])
        for f in self.fakes[1:]:
            device = f.device
            if device == found:
                is_number = is_number and _is_number(f)
            elif is_number:
                found, is_number = device, _is_number(f)
            elif not _is_number(f):
                name = self.func._packet.__name__
                raise FakeTensorDeviceMismatchError(
                    f"{name}: Expected all tensors to be on the same device, got {found} and {device} "
                    f"(Unhandled FakeTensor Device Propagation for {self.func}, found two different devices "
                    f"{found}, {device})"
                )
        return found

    def _source(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the fake tensor whose memory results share."""
        place = self.plan.source
        if place is None:
            return None
        found = args[place] if place < len(args) else kwargs.get(self.plan.source_name)
        return self.mode.from_tensor(found) if isinstance(found, Tensor) else None

    # --- results ----------------------------------------------------------------------------------

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the operator on the twins; refuse results that depend on elements."""
        try:
            return self.func(*args, **kwargs)
        except NotImplementedError as error:
            is_masked = any(f.dtype in (flambeau.bool, flambeau.uint8) for f in self.indices)
            other = DynamicOutputShapeException if is_masked else UnsupportedOperatorException
            raise (self.plan.refusal or other)(self.func) from error
        except RuntimeError as error:
            if self.plan.refusal is None:
                raise
            raise self.plan.refusal(self.func) from error

    def _computed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result computed from constants; None if elements are unknown or the result is long."""
        constants = [f.constant for f in (*self.fakes, *self.indices)]
        if any(c is None for c in constants):
            return None
        result = self.func(*_constants(args), **_constants(kwargs))
        is_long = isinstance(result, list | tuple) or (
            isinstance(result, Tensor) and result.numel() > _MOST_CONSTANT
        )
        return None if is_long or self.plan.device is not None else result

    def _faked(self, result: Any, device: Any, source: Any, views: int = 1) -> Any:
        if isinstance(result, Tensor):
            return self._wrapped(result, device, source, views)
        if isinstance(result, list | tuple):
            made = [self._faked(item, device, source, views=2) for item in result]
            return made if type(result) is list else _as(type(result), made)
        return result

    def _wrapped(self, elem: Any, device: Any, source: Any, views: int = 1) -> Any:
        for f in self.fakes:
            if f._elem is elem:
                return f
        for f in self.indices:
            if f._elem is elem:
                return f
        if not elem.is_meta:  # the operator made a table of numbers on the CPU
            return self.mode._adopt(elem, elem.device)
        return self.mode._wrapped(elem, device, source, views if elem._is_view() else 0)

    def _follow(self, fake: Any) -> None:
        """Give a fake tensor the geometry and storage that its twin has after a write."""
        if not isinstance(fake, FakeTensor):
            fake = self.mode.from_tensor(fake)
        elem = fake._elem
        if self.plan.changes_storage:
            source = next((f for f in self.fakes if f is not fake), fake)
            elem = source._elem.detach()
        elif (
            elem.shape == fake.shape
            and elem.stride() == fake.stride()
            and elem.storage_offset() == fake.storage_offset()
        ):
            return
        else:
            source = fake
        fake.data = self.mode._wrapped(elem, fake.device, source)

    # --- operators that programs define -----------------------------------------------------------

    def _run_defined(self, operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function that `register_fake` registered, on the fake tensors themselves."""
        from flambeau._arguments.schemas import bind
        from flambeau.library import _context

        def converted(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return [converted(item) for item in value]
            return self._noted(value) if isinstance(value, Tensor) else value

        try:
            kernel = operator._kernel("meta")
        except NotImplementedError as error:
            raise UnsupportedOperatorException(self.func) from error
        given = tuple([converted(a) for a in args])
        named = {name: converted(value) for name, value in kwargs.items()}
        values = bind(operator.name, operator.schema.parameters, operator.schema.defaults, given, named)
        with self.mode, _context.without_sizes(lambda: DynamicOutputShapeException(self.func)):
            return operator._call(kernel, values)

    def _noted(self, value: Any) -> Any:
        self._elem(value)
        return self.fakes[-1]


def _is_number(fake: Any) -> bool:
    return fake.dim() == 0 and fake.device.type == "cpu"


def _constants(value: Any) -> Any:
    if isinstance(value, Tensor):  # a write changes only the copy
        return value.constant if isinstance(value, FakeTensor) else value.clone()
    if isinstance(value, dict):
        return {name: _constants(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_constants, value))
    return value


def _as(kind: Any, items: list[Any]) -> Any:
    """Return a tuple of the class that the operator returns."""
    return tuple(items) if kind is tuple else kind(items)
