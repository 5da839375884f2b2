"""Methods of Tensor by which its memory is shared with NumPy and, by DLPack, with other libraries."""

from __future__ import annotations

from typing import Any

from flambeau import _C
from flambeau._C import Tensor

_HOST, _CUDA = 1, 2  # DLPack's numbers of devices


class _SharedArray:
    """Carries a tensor's memory to NumPy, which keeps this object, and with it the memory, alive."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, tensor: Tensor) -> None:
        self.__array_interface__, self.memory = tensor._array_interface()


class ExchangeMethods:
    """Copied into Tensor, as the other methods that are written in Python."""

    __array_priority__ = 1000  # NumPy leaves `array + tensor` to us
    __slots__ = ()

    def numpy(self: Any, *, force: bool = False) -> Any:
        """Return a NumPy array that shares this tensor's memory.

        The memory lives as long as the array, and cannot grow meanwhile.

        Args:
            force: detach first, and copy where the memory is not the host's or does not hold the values.
        """
        import numpy

        source = self.detach().cpu().resolve_conj().resolve_neg() if force else self
        return numpy.asarray(_SharedArray(source))

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        if dtype is None or array.dtype == dtype:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError(
                f"__array__: expected a dtype without conversion for copy=False, got {self.dtype} to "
                f"become {dtype}"
            )
        return array.astype(dtype)

    def __array_wrap__(self: Any, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
        """Return what a function of NumPy made of this tensor, as a tensor; truth values become bytes."""
        from flambeau._object.conversion import from_numpy

        return from_numpy(array.astype("uint8") if array.dtype == bool else array)

    def __array_namespace__(self: Any, *, api_version: str | None = None) -> Any:
        """Return the namespace of the array API standard.

        Raises: ValueError for a version that it does not follow.
        """
        from flambeau import array_api

        if api_version not in (None, "2021.12", "2022.12", "2023.12", array_api.__array_api_version__):
            raise ValueError(f"__array_namespace__: expected version 2024.12 or earlier, got {api_version!r}")
        return array_api

    def __dlpack__(
        self: Any,
        *,
        stream: Any = -1,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule with the memory, for one consumer of the DLPack protocol.

        Args:
            stream: None or -1: memory of the host has no streams.
            max_version: the newest version that the consumer knows; from 1.0 on the capsule has a version.
            dl_device: where the memory is to be, as DLPack numbers devices; None: where it is.
            copy: True: always copy; False: never; None: only to another device.
        Raises: BufferError for a tensor that requires gradients or that holds no values.
        """
        if not (stream is None or type(stream) is int):
            raise TypeError(f"__dlpack__: expected an integer or None as stream, got {type(stream).__name__}")
        if stream not in (None, -1):
            raise AssertionError(f"__dlpack__: stream should be None on the CPU: expected None, got {stream}")
        source, copied = self, False
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            if copy is False:
                raise ValueError(
                    f"__dlpack__: expected the tensor's own device for copy=False, got {dl_device}"
                )
            if self.requires_grad:
                raise BufferError("__dlpack__: the tensor requires grad; export its detach()")
            source, copied = _copied_to(self, dl_device), True
        return source._to_dlpack(max_version is not None and max_version[0] >= 1, copied)


def _copied_to(tensor: Tensor, dl_device: Any) -> Tensor:
    kind, index = dl_device or (_HOST, 0)
    if kind not in (_HOST, _CUDA):
        raise BufferError(f"__dlpack__: expected DLPack's device type {_HOST} or {_CUDA}, got {kind}")
    return tensor.to("cpu" if kind == _HOST else f"cuda:{index}", copy=True)


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule with the tensor's memory, in the layout before version 1.0 of DLPack.

    The library that takes it over can do so once.
    """
    return tensor._to_dlpack(False, False)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor that shares memory by the DLPack protocol.

    Memory that its owner only reads is shared as well: writing to the tensor is then undefined.

    Args:
        ext_tensor: an object with ``__dlpack__``, or a capsule.
        device: where the result is to be; by default where the memory is.
        copy: True: always copy; False: never; None: only to another device.
    Returns: the tensor.
    Raises: ValueError if a copy is needed that may not be made, RuntimeError if the value is not a capsule,
        or if the capsule was used before, AssertionError for a `device` or `copy` beside a capsule.

    Example:
        >>> x = flambeau.zeros(2)
        >>> flambeau.from_dlpack(x).fill_(1.0)
        tensor([1., 1.])
        >>> x
        tensor([1., 1.])
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        if device is not None or copy is not None:
            raise AssertionError(
                "from_dlpack: expected an object with __dlpack__ where device or copy is given, got "
                f"{type(ext_tensor).__name__}"
            )
        return _C._from_dlpack_capsule(ext_tensor)
    options: dict[str, Any] = {"max_version": (1, 0)}
    target = None if device is None else _C.device(device)
    if copy is not None:
        options["copy"] = copy
    if target is not None:
        options["dl_device"] = (_HOST if target.type == "cpu" else _CUDA, target.index or 0)
    return _C._from_dlpack_capsule(_exported(ext_tensor, options))


def _exported(ext_tensor: Any, options: dict[str, Any]) -> Any:
    try:
        return ext_tensor.__dlpack__(**options)
    except TypeError:
        # Exporters from before version 1.0 know no max_version.
        del options["max_version"]
        return ext_tensor.__dlpack__(**options)
