"""Fake tensors: operators on them compute sizes, strides, dtypes and devices, but no elements.

A fake tensor consists of two tensors without memory. The tensor itself reports the device that it claims, so
that autocast, composites and programs see this device. The other tensor, its twin, has the same geometry on
the device "meta"; operators run on the twin and compute only shapes.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._loading.lazy import attributes
from flambeau._object.subclass import DisableTorchDispatch
from flambeau._subclasses._conversion import FakeTensorConverter
from flambeau._subclasses._errors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorDeviceMismatchError,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from flambeau._subclasses._operators import answer
from flambeau._subclasses._tensor import KEY, FakeTensor, is_fake, maybe_get_fake_mode, with_index
from flambeau.overrides import TorchFunctionMode
from flambeau.utils._python_dispatch import TorchDispatchMode, _pop_mode_temporarily

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeCopyMode",
    "FakeTensor",
    "FakeTensorConverter",
    "FakeTensorDeviceMismatchError",
    "FakeTensorMode",
    "UnsupportedFakeTensorException",
    "UnsupportedOperatorException",
    "is_fake",
    "maybe_get_fake_mode",
    "unset_fake_temporarily",
]


class _Entered(threading.local):
    """The stack of modes that were active in this thread when another mode was entered."""

    def __init__(self) -> None:
        self.before: list[Any] = []


class FakeTensorMode(TorchDispatchMode):
    """A region in which factories make fake tensors, and operators accept only fake tensors.

    Modes nest; the innermost one is active. Operators on fake tensors also work outside the region.

    Args:
        allow_fallback_kernels: accepted; all operators have rules for tensors without memory.
        allow_non_fake_inputs: whether operators convert real tensors; a write to one is lost.
        shape_env: a `ShapeEnv`; sizes of tensors that `from_tensor` makes are its symbols. Default: sizes are
            numbers.
        static_shapes: whether sizes are numbers in spite of `shape_env`. Default: if there is no `shape_env`.
        export: accepted; has no effect.
    Raises: Operators raise AssertionError for real tensors, and for fake
        tensors of other modes.

    Example:
        >>> from flambeau._subclasses import FakeTensorMode
        >>> mode = FakeTensorMode()
        >>> with mode:
        ...     layer = flambeau.nn.Linear(1_000_000, 1_000_000)  # takes no memory
        >>> layer(mode.from_tensor(flambeau.ones(2, 1_000_000))).shape
        flambeau.Size([2, 1000000])
    """

    _mode_key = KEY

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        self.in_kernel_invocation = False
        self.epoch = 0
        self.fake_tensor_converter = FakeTensorConverter()
        self._entered = _Entered()
        self._lanes: Any = None
        if shape_env is not None:
            self._lanes = _lanes_of(self, shape_env)

    def __enter__(self) -> FakeTensorMode:
        self._entered.before.append(_C._unset_dispatch_mode(KEY))
        _C._set_dispatch_mode(self)
        if self._lanes is not None:
            self._lanes.enter()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lanes is not None:
            self._lanes.leave()
        _C._unset_dispatch_mode(KEY)
        before = self._entered.before.pop()
        if before is not None:
            _C._set_dispatch_mode(before)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the result of an operator, without elements."""
        return self.dispatch(func, types, args, kwargs)

    def dispatch(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return the result of an operator; NotImplemented if an argument's unknown class must handle it.

        Args:
            func: the overload.
            types: classes with ``__torch_dispatch__`` among the arguments.
            args: its arguments by position.
            kwargs: its arguments by name.
        """
        for kind in types:
            if kind is not FakeTensor and not issubclass(kind, FakeTensor):
                return NotImplemented
        if self._lanes is not None:
            return self._lanes.answer(func, args, kwargs or {})
        return answer(self, func, args, kwargs or {})

    def from_tensor(
        self,
        tensor: Any,
        *,
        static_shapes: bool | None = None,
        source: Any = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> Any:
        """Return the fake counterpart of a tensor, the same one at each call.

        Args:
            tensor: a real tensor; a fake tensor of this mode is returned unchanged.
            static_shapes: whether sizes are numbers. Default: as the mode.
            source: the name of the tensor in guards.
            symbolic_context: how its dimensions become symbols.
            trace: accepted; has no effect.
        Raises: `UnsupportedFakeTensorException` for layouts and classes that fake tensors do not support,
            AssertionError for a fake tensor of another mode.
        """
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError(
                    "from_tensor: expected a fake tensor of this mode, got another's: Mixing fake modes NYI"
                )
            return tensor
        if self._lanes is not None and not self._lanes.is_running:
            is_static = self.static_shapes if static_shapes is None else static_shapes
            return self._lanes.from_tensor(tensor, source, symbolic_context, is_static)
        return self.fake_tensor_converter.from_real_tensor(self, tensor)

    def _wrapped(self, elem: Any, device: Any, source: Any = None, views: int = 0) -> Any:
        """Return a fake tensor over `elem`.

        Args:
            elem: the tensor without memory.
            device: the device that the result claims.
            source: a fake tensor whose storage the result shares.
            views: the number of views of `source` that the operator returns; 0 if the result is not a view.
        """
        place = elem.shape, elem.stride(), elem.storage_offset()
        if views and (elem.is_conj() or elem.is_neg()):  # C++ would resolve the wrapper's, without a twin
            with DisableTorchDispatch():
                elem = _C._rebuild(elem.untyped_storage().tensor, elem.dtype, *place)
        made = _C._make_wrapper(FakeTensor, *place, elem.dtype, device)
        made._elem, made.fake_mode = elem, self
        if source is not None:
            _C._share_storage(made, source, views)
            made._memory = source._memory
        return made

    def _adopt(self, tensor: Any, device: Any) -> Any:
        """Return the fake tensor of a tensor that was made from Python data; keep its elements."""
        with _pop_mode_temporarily(KEY):
            made = self._wrapped(flambeau.empty_like(tensor, device="meta"), with_index(device))
        made._keep_constant(tensor)
        return made


def _lanes_of(mode: FakeTensorMode, shape_env: Any) -> Any:
    from flambeau.fx.experimental._lanes.region import Lanes
    from flambeau.fx.experimental.symbolic_shapes import ShapeEnv

    if not isinstance(shape_env, ShapeEnv):
        raise ValueError(f"FakeTensorMode: expected a ShapeEnv as shape_env, got {shape_env!r}")
    return Lanes(mode, shape_env)


@contextmanager
def unset_fake_temporarily() -> Iterator[Any]:
    """A region without the active fake tensor mode; yields that mode, or None.

    Example:
        >>> from flambeau._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
        >>> with FakeTensorMode(), unset_fake_temporarily():
        ...     flambeau.ones(1)
        tensor([1.])
    """
    with _pop_mode_temporarily(KEY) as mode:
        yield mode


_DEEPCOPY: Any = getattr(Tensor, "__deepcopy__")  # noqa: B009  (stubs do not list it)


class FakeCopyMode(TorchFunctionMode):
    """A region in which deep copies of real tensors and modules are fake.

    Args:
        fake_mode: the mode of the copies.

    Example:
        >>> import copy
        >>> from flambeau._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
        >>> with FakeCopyMode(FakeTensorMode()):
        ...     layer = copy.deepcopy(flambeau.nn.Linear(2, 2))
        >>> layer.bias
        Parameter containing:
        FakeTensor(..., size=(2,), requires_grad=True)
    """

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        super().__init__()
        self.fake_mode = fake_mode

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Return fake tensors for the tensors that copies make."""
        kwargs = kwargs or {}
        if func is Tensor.clone:
            return func(self.fake_mode.from_tensor(args[0]), **kwargs)
        if func is _DEEPCOPY:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor)
            return memo[id(tensor)]
        return func(*args, **kwargs)


def deepcopy_to_fake_tensor(obj: Any, fake_mode: FakeTensorMode) -> Any:
    """Return a deep copy whose tensors are fake.

    Args:
        obj: a module, or any object that can be copied.
        fake_mode: the mode of the copies.
    """
    with FakeCopyMode(fake_mode):
        return copy.deepcopy(obj)


def snapshot(fake: Any) -> Any:
    """Return a fake tensor with the present geometry and storage of another one, without its history."""
    described = getattr(fake, "described", None)  # sizes are symbolic
    if described is not None:
        return described()
    with DisableTorchDispatch():
        return fake.fake_mode._wrapped(fake._elem.detach(), fake.device, fake)


__getattr__, __dir__ = attributes(__name__)
