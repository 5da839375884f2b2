"""The class of fake tensors whose sizes are symbolic numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._object.subclass import DisableTorchDispatch
from flambeau._subclasses.fake_tensor import FakeTensor
from flambeau._types import symbols
from flambeau.fx.experimental._lanes.values import leaves, symbolic_size
from flambeau.fx.experimental._sizes.numbers import SymInt

_OF_LANE = frozenset(
    "dtype device layout requires_grad is_leaf ndim grad_fn is_cuda is_cpu is_meta is_sparse is_quantized "
    "retains_grad output_nr _version names is_floating_point is_complex is_signed is_conj is_neg dim "
    "element_size itemsize ndimension get_device _is_view is_inference is_mkldnn is_nested".split()
)


class SymbolicFakeTensor(FakeTensor):
    """A fake tensor that has a plain fake tensor in each lane, and expressions for its geometry.

    `FakeTensorMode.from_tensor` makes it under a `ShapeEnv`. Functions and methods on it run in every lane.
    """

    _program: Any
    _handle: int | None  # None for a description, whose lanes are made when they are needed
    _twin: Any

    @staticmethod
    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("SymbolicFakeTensor: expected to be made by FakeTensorMode.from_tensor, got a call")

    @staticmethod
    def over(program: Any, handle: int | None, example: Any, geometry: Any) -> Any:
        """Return a tensor.

        Args:
            program: the program that holds its lanes.
            handle: its number there; None for a description of another tensor.
            example: the tensor of lane 0.
            geometry: sizes, strides and offset.
        """
        with DisableTorchDispatch(), _C.DisableTorchFunction():
            place = (tuple(example.size()), example.stride(), example.storage_offset())
            made = _C._make_wrapper(SymbolicFakeTensor, *place, example.dtype, example.device)
        made._program, made._handle = program, handle
        made.fake_mode = program.mode
        if isinstance(example, flambeau.nn.Parameter):
            made._is_param = True
        made.set_geometry(geometry)
        return made

    def set_geometry(self, geometry: Any) -> None:
        """Take over sizes, strides and the offset."""
        sizes, strides, offset = geometry
        self._sizes, self._strides, self._offset = symbolic_size(sizes), tuple(strides), offset

    def described(self) -> Any:
        """Return a tensor of the same geometry, without history."""
        geometry = (self._sizes, self._strides, self._offset)
        return SymbolicFakeTensor.over(self._program, None, self.lane, geometry)

    def geometry(self) -> list[Any]:
        """Return sizes, strides and the offset in one list."""
        return [*self._sizes, *self._strides, self._offset]

    @property
    def lane(self) -> Any:
        """The tensor for the example sizes."""
        if self._handle is None:
            from flambeau.fx.experimental._lanes.inputs import from_geometry

            self._twin = from_geometry(self._program, self)
            self._handle = self._twin._handle
        return self._program.lanes[0].tensors[self._handle]

    @property
    def _elem(self) -> Any:  # type: ignore[override]
        raise RuntimeError(
            "FakeTensor: expected calls of functions and methods from Python, got a tensor with symbolic "
            f"sizes ({list(self._sizes)}) inside C++, which would use the sizes of the example"
        )

    @property
    def constant(self) -> Any:
        """The elements, if they are known and the sizes are constants; None otherwise."""
        return None

    @property
    def data(self) -> Any:
        """The tensor without its history."""
        return self.detach()

    @data.setter
    def data(self, new: Any) -> None:
        self._program.call(_set_data_, (self, new))

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Answer a question about the geometry; run other functions in every lane."""
        found = next(a for a in leaves((args, kwargs)) if isinstance(a, SymbolicFakeTensor))
        return answered(found._program, func, args, kwargs or {})

    def tolist(self) -> Any:
        """Return the elements as Python numbers, if they are known."""
        return self.lane.tolist()

    def __len__(self) -> int:
        if not self._sizes:
            raise TypeError("len() of a 0-d tensor")
        return int(self._sizes[0])

    def __bool__(self) -> bool:
        return bool(_item(self))

    def __int__(self) -> int:
        return int(_item(self))

    def __index__(self) -> int:
        return int(_item(self))

    def __float__(self) -> float:
        return float(_item(self))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, **_: Any) -> str:
        traits = "" if self.device.type == "cpu" else f"device='{self.device}', "
        size = ", ".join(map(str, self._sizes)) + ("," if len(self._sizes) == 1 else "")
        kind = "" if self.dtype == flambeau.get_default_dtype() else f", dtype={self.dtype}"
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"FakeTensor(..., {traits}size=({size}){kind}{grad})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("FakeTensor: expected constant sizes, got symbolic ones, which cannot be pickled")


def _set_data_(target: Any, source: Any) -> None:
    """Write `data`; the name says, as that of an operator in place, that the geometry may change."""
    target.data = source


def answered(program: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a function, without a call where the geometry of a tensor gives it."""
    name = getattr(func, "__name__", "")
    first = args[0] if args else None
    if name == "__get__":
        name = getattr(func.__self__, "__name__", "")
    if isinstance(first, SymbolicFakeTensor) and program.current is None:
        rule = _GEOMETRY.get(name)
        if rule is not None:
            return rule(first, *args[1:], **kwargs)
        if name in _OF_LANE and getattr(func, "__name__", "") != "__set__":
            with _C.DisableTorchFunction(), DisableTorchDispatch():
                return func(first if first._handle is None else first.lane, *args[1:], **kwargs)
    if name in symbols.__all__ and not any(isinstance(a, Tensor) for a in leaves((args, kwargs))):
        with _C.DisableTorchFunction():
            return func(*args, **kwargs)  # numbers know their own arithmetic
    return program.call(func, args, kwargs)


def _item(x: Any) -> Any:
    found = x._program.call(Tensor.item, (x,))
    if x.dtype == flambeau.bool and isinstance(found, SymInt):
        return operator.eq(found, 1)
    return found


def _size(x: Any, dim: Any = None) -> Any:
    return x._sizes if dim is None else x._sizes[_place("size", x, dim)]


def _stride(x: Any, dim: Any = None) -> Any:
    return x._strides if dim is None else x._strides[_place("stride", x, dim)]


def _place(name: str, x: Any, dim: Any) -> int:
    count = len(x._sizes)
    if count == 0:
        raise IndexError(
            f"{name}: Dimension specified as {dim} but tensor has no dimensions: expected no dimension for a "
            f"tensor without dimensions, got {dim}"
        )
    if not -count <= dim < count:
        raise IndexError(
            f"{name}: Dimension out of range: expected a dimension in [{-count}, {count - 1}], got {dim}"
        )
    return int(dim)


def _numel(x: Any) -> Any:
    return math.prod(x._sizes)


_GEOMETRY: dict[str, Callable[..., Any]] = {
    "shape": _size,
    "size": _size,
    "stride": _stride,
    "storage_offset": lambda x: x._offset,
    "numel": _numel,
    "nelement": _numel,
    "nbytes": lambda x: _numel(x) * x.element_size(),
    "__len__": lambda x: x._sizes[0],
    "__repr__": lambda x, **_: repr(x),
    "item": _item,
}
