"""Tensors without memory, for which their class answers by `__torch_dispatch__`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._object import questions


class DisableTorchDispatch:
    """A region in which modes and classes with `__torch_dispatch__` are not asked.

    Operators then run on the memory of their arguments, which tensors of `_make_wrapper_subclass` lack.
    """

    def __enter__(self) -> None:
        self._before = _C._excluded_keys()
        _C._set_excluded_keys(self._before | _C._dispatch_key_bit("BackendMode"))

    def __exit__(self, *exception: object) -> None:
        _C._set_excluded_keys(self._before)


def _dense_strides(size: Sequence[int], memory_format: Any) -> list[int]:
    """Strides of a dense tensor: row-major, or as the memory format says."""
    from flambeau import contiguous_format, empty

    with DisableTorchDispatch():
        return list(empty(size, device="meta", memory_format=memory_format or contiguous_format).stride())


def make_wrapper_subclass(
    cls: Any,
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    storage_size: int | None = None,
) -> Any:
    """Return a tensor of a subclass that has sizes, a dtype and a device, but no memory.

    Every operator on it is answered by the class's ``__torch_dispatch__``; what reads memory raises
    RuntimeError.

    Args:
        cls: a subclass of Tensor with a ``__torch_dispatch__``.
        size: the sizes.
        strides: one per dimension, in elements; row-major by default.
        storage_offset: the place of the first element; 0 by default.
        memory_format: the order of dimensions in memory, instead of `strides`.
        dtype: default: the default dtype.
        layout: strided, the default.
        device: default: the CPU. It may be one that this build has no backend for.
        pin_memory: accepted; there is no memory.
        requires_grad: whether operators on it are recorded.
        dispatch_sizes_strides_policy: "strides": the class answers for strides and contiguity;
            "sizes": for sizes, dimension, number of elements and storage offset too. Default: those
            given here. Operators of the class that are not answered in Python use those given here.
        dispatch_device: whether the class answers for the device.
        dispatch_layout: whether the class answers for the layout.
        storage_size: accepted; there is no memory.
    """
    if not (isinstance(cls, type) and issubclass(cls, _C.Tensor)):
        raise TypeError(f"_make_wrapper_subclass: expected a subclass of Tensor, got {cls!r}")
    dispatch: Any = getattr(cls, "__torch_dispatch__", None)
    if dispatch is _C._disabled_torch_dispatch_impl:
        raise TypeError(
            f"_make_wrapper_subclass: expected a class that defines __torch_dispatch__, got {cls.__name__}"
        )
    from flambeau import get_default_dtype, strided

    if layout not in (None, strided):
        raise RuntimeError(f"_make_wrapper_subclass: expected the layout strided, got {layout}")
    if strides is not None and memory_format is not None:
        raise RuntimeError("_make_wrapper_subclass: expected strides or a memory format, got both")
    size = list(size)
    strides = _dense_strides(size, memory_format) if strides is None else list(strides)
    dtype = get_default_dtype() if dtype is None else dtype
    policy = dispatch_sizes_strides_policy
    asked = questions.bits_of("_make_wrapper_subclass", policy, dispatch_device, dispatch_layout)
    made = _C._make_wrapper(cls, size, strides, storage_offset or 0, dtype, device or "cpu")
    if requires_grad:
        made.requires_grad_()
    _C._ask_class(made, asked)
    return made


def another_wrapper(tensor: Any) -> Any:
    """Return a tensor without memory like this one, without its attributes; no operator is called."""
    from flambeau._object.rebuild import _rebuild_wrapper_subclass, wrapper_parts

    return _rebuild_wrapper_subclass(*wrapper_parts(tensor))


def copied_wrapper(tensor: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy of a tensor without memory: its clone, with copies of its attributes and gradient.

    Raises:
        RuntimeError: its class's ``__torch_dispatch__`` makes another type of `clone`.
    """
    from flambeau import no_grad

    with no_grad():
        made = tensor.clone()
    if type(made) is not type(tensor):
        raise RuntimeError(
            f"Tensor.__deepcopy__: expected clone() of {type(tensor).__name__} to keep the type, got "
            f"{type(made).__name__}; define __deepcopy__, or answer aten.clone"
        )
    vars(made).update(copy.deepcopy(vars(tensor), memo))
    if tensor.requires_grad:
        made.requires_grad_()
    if tensor.grad is not None:
        made.grad = copy.deepcopy(tensor.grad, memo)
    return made


class SubclassMethods:
    """Copied into Tensor, as the other methods that are written in Python."""

    __slots__ = ()

    @staticmethod
    def _make_subclass(
        cls: Any,
        data: Tensor,
        require_grad: bool = False,
        *,
        dispatch_sizes_strides_policy: str | None = None,
        dispatch_device: bool = False,
        dispatch_layout: bool = False,
        device_for_backend_keys: Any = None,
    ) -> Any:
        """Return an object of the class over the data's memory; a leaf.

        Args:
            cls: a subclass of Tensor; with a ``__torch_dispatch__`` it takes over operators.
            data: the tensor whose memory it shares.
            require_grad: whether operators on it are recorded.
            dispatch_sizes_strides_policy: as in `_make_wrapper_subclass`.
            dispatch_device: whether the class answers for the device.
            dispatch_layout: whether the class answers for the layout.
            device_for_backend_keys: accepted; kernels are chosen by the device of `data`.
        """
        policy = dispatch_sizes_strides_policy
        asked = questions.bits_of("_make_subclass", policy, dispatch_device, dispatch_layout)
        with DisableTorchDispatch():
            made = data.detach().as_subclass(cls).requires_grad_(require_grad)
        _C._ask_class(made, asked)
        return made

    _make_wrapper_subclass = staticmethod(make_wrapper_subclass)
    __torch_dispatch__ = _C._disabled_torch_dispatch_impl

    @classmethod
    def __init_subclass__(cls: Any, **kwargs: Any) -> None:
        """Leave results as ``__torch_dispatch__`` makes them, where a class has only that."""
        base: Any = Tensor
        super(base, cls).__init_subclass__(**kwargs)
        own = vars(cls)
        default = vars(base)["__torch_function__"].__func__
        takes_default = getattr(cls.__torch_function__, "__func__", None) is default
        if "__torch_dispatch__" in own and "__torch_function__" not in own and takes_default:
            cls.__torch_function__ = _C._disabled_torch_function_impl
