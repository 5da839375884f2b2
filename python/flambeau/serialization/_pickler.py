"""Writes pickles as PyTorch's reader expects them."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import IO, Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._object.rebuild import sparse_parts, state_of, wrapper_parts
from flambeau._object.storage import Storage
from flambeau._object.typed_storage import CLASS_OF_DTYPE, TypedStorage
from flambeau._types import naming
from flambeau._types.size import Size

from ._places import is_private, saved_location

_PROTOCOL = 2


class _Global:
    """A name that the pickle refers to, though this process cannot import it."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        """Let pickle take it for a function."""


_REBUILD_TENSOR = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_UNTYPED = _Global("torch._utils", "_rebuild_tensor_v3")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_REBUILD_PARAMETER_WITH_STATE = _Global("torch._utils", "_rebuild_parameter_with_state")
_REBUILD_WITH_STATE = _Global("torch._tensor", "_rebuild_from_type_v2")
_REBUILD_SPARSE = _Global("torch._utils", "_rebuild_sparse_tensor")
_REBUILD_WRAPPER = _Global("torch._utils", "_rebuild_wrapper_subclass")
_TENSOR = _Global("torch", "Tensor")
# The format has no class of storages for other dtypes: it says the dtype beside the bytes.
_STORAGE_CLASSES = {dtype: _Global("torch", name) for dtype, name in CLASS_OF_DTYPE.items()}
_UNTYPED_STORAGE = _Global("torch.storage", "UntypedStorage")


class Pickler(pickle._Pickler):
    """A pickler that leaves the bytes of storages to its caller: `storages` has their names."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=_PROTOCOL)
        self.storages: dict[Storage, str] = {}

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Storage):
            obj = TypedStorage(wrap_storage=obj, dtype=_C.uint8)
            cls = _UNTYPED_STORAGE
        elif isinstance(obj, TypedStorage):
            cls = _STORAGE_CLASSES.get(obj.dtype, _UNTYPED_STORAGE)
        else:
            return None
        storage = obj.untyped()
        key = self.storages.setdefault(storage, str(len(self.storages)))
        size = 1 if cls is _UNTYPED_STORAGE else obj.dtype.itemsize
        return "storage", cls, key, saved_location(storage), storage.nbytes() // size

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Size):
            return _Global("torch", "Size"), (tuple(obj),)
        if isinstance(obj, _C.device):
            return _Global("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, _C.layout):
            return _Global("torch.serialization", "_get_layout"), (f"torch.{naming.short(obj)}",)
        if not isinstance(obj, Tensor) or hasattr(obj, "cls_to_become"):
            return NotImplemented  # a lazy parameter has no values yet
        state = {name: value for name, value in vars(obj).items() if name != "grad"}
        if "Parameter" in (base.__name__ for base in type(obj).__mro__):
            data: tuple[Any, ...] = (obj.detach().as_subclass(Tensor), obj.requires_grad, OrderedDict())
            return (_REBUILD_PARAMETER_WITH_STATE, (*data, state)) if state else (_REBUILD_PARAMETER, data)
        rebuild, arguments = _parts(obj)
        if type(obj) is not Tensor:
            return _REBUILD_WITH_STATE, (rebuild, type(obj), arguments, state_of(obj))
        if state:
            return _REBUILD_WITH_STATE, (rebuild, _TENSOR, arguments, state)
        return rebuild, arguments

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        own: Any = self  # the class's stubs leave out what subclasses may use
        base: Any = super()
        if isinstance(obj, _C.dtype):
            obj = _Global("torch", naming.short(obj))
        if isinstance(obj, _Global):
            own.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            return
        base.save(obj, save_persistent_id)


def _parts(tensor: Tensor) -> tuple[_Global, tuple[Any, ...]]:
    """Return what makes a tensor, and from what."""
    if _C._has_no_memory(tensor):
        return _REBUILD_WRAPPER, wrapper_parts(tensor)
    if tensor.is_sparse:
        return _REBUILD_SPARSE, sparse_parts(tensor)
    plain = tensor.detach() if is_private(tensor.device.type) else tensor.detach().cpu()
    pending = {name: True for name, on in (("conj", plain.is_conj()), ("neg", plain.is_neg())) if on}
    storage = TypedStorage(wrap_storage=plain.untyped_storage(), dtype=plain.dtype)
    geometry = (plain.storage_offset(), tuple(plain.shape), plain.stride())
    arguments: tuple[Any, ...] = (storage, *geometry, tensor.requires_grad, OrderedDict())
    rebuild = _REBUILD_TENSOR
    if plain.dtype not in _STORAGE_CLASSES:
        rebuild, arguments = _REBUILD_UNTYPED, (*arguments, plain.dtype)
    return rebuild, (*arguments, pending) if pending else arguments
