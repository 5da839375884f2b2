"""The class of fake tensors, and queries about their modes."""

from __future__ import annotations

import copy
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau._subclasses._errors import DataDependentOutputException
from flambeau.utils._python_dispatch import (
    TorchDispatchModeKey,
    _pop_mode_temporarily,
    is_traceable_wrapper_subclass,
)

KEY = TorchDispatchModeKey.FAKE
_DATA: Any = vars(Tensor)["data"]


def with_index(device: Any) -> Any:
    """Return a device with its index: that of the first GPU for "cuda"."""
    is_open = device.index is None and device.type == "cuda"
    return flambeau.device("cuda", 0) if is_open else device


class FakeTensor(Tensor):
    """A tensor with sizes, strides, a dtype and a device, but no elements.

    `FakeTensorMode` makes them. Operators return fake tensors and raise the errors that they would raise for
    real tensors. Reading elements raises RuntimeError.

    Args:
        fake_mode: the mode of the tensor, which runs its operators.
        elem: a tensor on the device "meta", with the geometry and dtype.
        device: the device that the tensor claims; the device need not exist.
        constant: a tensor with the elements, if they are known.
        real_tensor: must be None.
    Raises: AssertionError if `elem` is not on the device "meta".

    Example:
        >>> from flambeau._subclasses import FakeTensorMode
        >>> with FakeTensorMode():
        ...     x = flambeau.ones(2, 3, device="cuda")
        >>> x @ x.T
        FakeTensor(..., device='cuda:0', size=(2, 2))
    """

    fake_mode: Any
    _elem: Tensor
    _constant: tuple[Tensor, int] | None = None
    _memory: Any = None  # the counterpart of a real storage, which all its fake tensors share

    @staticmethod
    def __new__(
        cls: Any, fake_mode: Any, elem: Tensor, device: Any, constant: Any = None, real_tensor: Any = None
    ) -> Any:
        if not elem.is_meta or isinstance(elem, FakeTensor):
            raise AssertionError(f"FakeTensor: expected elem on the device meta, got {elem!r}")
        if real_tensor is not None:
            raise AssertionError("FakeTensor: expected real_tensor=None, got a tensor")
        made = fake_mode._wrapped(elem, with_index(flambeau.device(device)))
        if constant is not None:
            made._keep_constant(constant)
        return made

    @property
    def fake_device(self) -> flambeau.device:
        """The device that the tensor claims."""
        return self.device

    @property
    def constant(self) -> Tensor | None:
        """A tensor with the elements, or None if they are not known, for example after a write."""
        if self._constant is None or self._constant[1] != self._version:
            return None
        return self._constant[0]

    @property
    def data(self) -> Any:
        """The tensor without its history; assigning a fake tensor takes over its geometry and storage."""
        return _DATA.__get__(self)

    @data.setter
    def data(self, new: Any) -> None:
        if not isinstance(new, FakeTensor):
            raise RuntimeError(
                f"data: expected a fake tensor for set_data of a fake one, got {type(new).__name__} "
                "(incompatible tensor type)"
            )
        _DATA.__set__(self, new)
        self._elem, self.fake_mode, self._memory = new._elem, new.fake_mode, new._memory

    def _keep_constant(self, constant: Tensor) -> None:
        self._constant = constant, self._version

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator in the mode of the first fake tensor."""
        mode = maybe_get_fake_mode([*args, *(kwargs or {}).values()])
        return NotImplemented if mode is None else mode.dispatch(func, types, args, kwargs)

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: Any) -> FakeTensor:
        """Return the fake counterpart of a tensor; see `FakeTensorMode.from_tensor`."""
        return fake_mode.from_tensor(t)

    def tolist(self) -> Any:
        """Return the elements as Python numbers, if they are known.

        Raises: `DataDependentOutputException` if they are not known.
        """
        if self.constant is None:
            raise DataDependentOutputException(flambeau.ops.aten._local_scalar_dense.default)
        return self.constant.tolist()

    def __copy__(self) -> Any:
        made = self.detach().requires_grad_(self.requires_grad)
        vars(made).update({name: value for name, value in vars(self).items() if name not in vars(made)})
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "__deepcopy__: expected a leaf (only Tensors that are created explicitly by the user support "
                "the deepcopy protocol), got a computed tensor; copy its detach()"
            )
        made = self.detach().clone()
        if isinstance(self, flambeau.nn.Parameter):
            made = flambeau.nn.Parameter(made, self.requires_grad)
        memo[id(self)] = made.requires_grad_(self.requires_grad)
        if self.grad is not None:
            made.grad = copy.deepcopy(self.grad, memo)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        parts = (tuple(self.shape), self.stride(), self.storage_offset(), self.dtype, self.device)
        return _rebuilt, (*parts, self.requires_grad, isinstance(self, flambeau.nn.Parameter))


def _rebuilt(
    size: Any, stride: Any, offset: int, dtype: Any, device: Any, requires_grad: bool, is_parameter: bool
) -> Any:
    """Return a fake tensor of the active mode; pickles call this function."""
    mode = active_mode()
    if mode is None:
        raise RuntimeError("FakeTensor: expected to be unpickled under a FakeTensorMode, got no active mode")
    with _pop_mode_temporarily(KEY):
        reach = (
            1 + offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
        )
        elem = flambeau.empty(reach, dtype=dtype, device="meta").as_strided(size, stride, offset)
    made = mode._wrapped(elem, device)
    return flambeau.nn.Parameter(made, requires_grad) if is_parameter else made.requires_grad_(requires_grad)


def active_mode() -> Any:
    """Return the mode that is active in this thread, or None."""
    return _C._get_dispatch_mode(KEY)


def maybe_get_fake_mode(t: Any) -> Any:
    """Return the mode of a fake tensor, or of the first one inside containers and wrapper tensors; or None.

    Args:
        t: a tensor, or lists, tuples and dicts of them.
    Raises: AssertionError for a tensor whose parts have different modes.

    Example:
        >>> from flambeau._subclasses.fake_tensor import maybe_get_fake_mode
        >>> maybe_get_fake_mode(flambeau.ones(1)) is None
        True
    """
    if isinstance(t, FakeTensor):
        return t.fake_mode
    if isinstance(t, list | tuple | dict):
        found = (maybe_get_fake_mode(part) for part in (t.values() if isinstance(t, dict) else t))
        return next((mode for mode in found if mode is not None), None)
    if is_traceable_wrapper_subclass(t):
        modes = [maybe_get_fake_mode(getattr(t, name)) for name in t.__tensor_flatten__()[0]]
        if any(mode is not modes[0] for mode in modes):
            raise AssertionError("maybe_get_fake_mode: expected parts of one mode, got several")
        return modes[0] if modes else None
    return None


def is_fake(x: Any) -> bool:
    """Whether a tensor is fake, or all its parts are.

    Args:
        x: any object.

    Example:
        >>> from flambeau._subclasses.fake_tensor import is_fake
        >>> is_fake(flambeau.ones(1))
        False
    """
    return isinstance(x, Tensor) and maybe_get_fake_mode(x) is not None
