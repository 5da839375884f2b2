"""Storages seen as elements of a dtype, and a class of them for each dtype that has one in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from flambeau import _C
from flambeau._C import Tensor
from flambeau._object.storage import UntypedStorage, position
from flambeau._types import naming, older_names

# The classes that PyTorch has for storages of a dtype, which are their names in files as well.
CLASS_OF_DTYPE = {
    getattr(_C, dtype): f"{stem}Storage"
    for dtype, stem in older_names.NAMES.items()
    if dtype not in ("uint16", "uint32", "uint64", "complex32") and not dtype.startswith(("float8", "float4"))
}


class TypedStorage:
    """A storage seen as elements of a dtype.

    Args:
        args: none, how many elements, not initialised, or their values.
        wrap_storage: the bytes, instead.
        dtype: of the elements. Default: the class's, or the default dtype.
        device: where the bytes are.
    """

    is_sparse = False
    filename = None
    _class_dtype: ClassVar[Any] = None
    dtype: Any
    _untyped_storage: UntypedStorage

    def __new__(cls, *args: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None) -> Any:
        """Make one; classes for a dtype make plain ones."""
        if len(args) > 1 or (args and wrap_storage is not None):
            raise TypeError(
                f"{cls.__name__}: expected a number of elements, a sequence, or wrap_storage, got "
                f"{args or wrap_storage!r}"
            )
        if args and isinstance(args[0], TypedStorage | UntypedStorage | Tensor):
            raise TypeError(f"{cls.__name__}: expected a number or a sequence, got {type(args[0]).__name__}")
        if wrap_storage is not None and dtype is None and cls._class_dtype is None:
            raise RuntimeError(f"{cls.__name__}: argument 'dtype' must be specified: wrap_storage has none")
        out = object.__new__(TypedStorage)
        out.dtype = dtype or cls._class_dtype or _C.get_default_dtype()
        if wrap_storage is None:
            wrap_storage = _elements(args[0] if args else 0, out.dtype).untyped_storage()
        if not isinstance(wrap_storage, UntypedStorage):
            raise TypeError(
                f"{cls.__name__}: expected wrap_storage to be an UntypedStorage, got "
                f"{type(wrap_storage).__name__}"
            )
        out._untyped_storage = wrap_storage if device is None else wrap_storage.to(device)
        return out

    def _elements(self) -> Tensor:
        """All elements as a tensor over the same memory."""
        return _C._rebuild(self._untyped_storage.tensor, self.dtype, (self.size(),), (1,), 0)

    def size(self) -> int:
        """Return the number of elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    _size = __len__ = size

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.dtype.itemsize

    @property
    def device(self) -> _C.device:
        """Where the bytes are."""
        return self._untyped_storage.device

    @property
    def is_hpu(self) -> bool:
        """Whether the bytes are on an HPU: never."""
        return False

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes are on a CUDA device."""
        return self.device.type == "cuda"

    def untyped(self) -> UntypedStorage:
        """Return the bytes."""
        return self._untyped_storage

    def data_ptr(self) -> int:
        """Return the memory address of element 0."""
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    def get_device(self) -> int | None:
        """Return the index of the device; None for the host."""
        return self._untyped_storage.get_device()

    def resizable(self) -> bool:
        """Whether `resize_` can succeed."""
        return self._untyped_storage.resizable()

    def is_shared(self) -> bool:
        """Whether other processes can see the elements."""
        return self._untyped_storage.is_shared()

    def is_pinned(self, device: Any = "cuda") -> bool:
        """Whether the memory is pinned for copies to a device; never, here."""
        return False

    def tolist(self) -> list[Any]:
        """Return the elements as numbers."""
        return self._elements().tolist()

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the class for the dtype, or the elements converted to another dtype."""
        if dtype is None:
            return f"{naming.root}.{CLASS_OF_DTYPE.get(self.dtype, 'TypedStorage')}"
        name = dtype.replace("Storage", "Tensor") if isinstance(dtype, str) else dtype
        return self._converted(getattr(dtype, "_class_dtype", None) or older_names.dtype_of(name))

    def pickle_storage_type(self) -> str:
        """Return the name that files have for storages of the dtype."""
        return CLASS_OF_DTYPE[self.dtype]

    def _converted(self, dtype: _C.dtype) -> TypedStorage:
        made = self._elements().to(dtype, copy=True)
        return TypedStorage(wrap_storage=made.untyped_storage(), dtype=dtype)

    def _over(self, storage: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=storage, dtype=self.dtype)

    def to(self, *, device: Any, non_blocking: bool = False) -> TypedStorage:
        """Return the elements on a device."""
        return self._over(self._untyped_storage.to(device))

    def cpu(self) -> TypedStorage:
        """Return the elements on the host."""
        return self.to(device="cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """Return the elements on a CUDA device; RuntimeError if there is none."""
        return self.to(device="cuda" if device is None else device)

    def hpu(self, device: Any = None, non_blocking: bool = False) -> TypedStorage:
        """Refuse: there is no HPU."""
        raise AssertionError("TypedStorage.hpu: HPU device module is not loaded")

    def clone(self) -> TypedStorage:
        """Return a copy."""
        return self._over(self._untyped_storage.clone())

    def pin_memory(self, device: Any = "cuda") -> TypedStorage:
        """Return the storage: memory of the host needs no pinning."""
        return self

    def share_memory_(self) -> TypedStorage:
        """Move the elements to memory that processes share; no tensor may see them yet."""
        self._untyped_storage.share_memory_()
        return self

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element."""
        self._elements().fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Copy the bytes of another storage; it must have the same number of bytes."""
        self._untyped_storage.copy_(source)
        return self

    def resize_(self, size: int) -> TypedStorage:
        """Change the number of elements, in place."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    @classmethod
    def from_buffer(cls, *args: Any, dtype: Any = None, device: Any = None, **options: Any) -> TypedStorage:
        """Return a copy of an object's memory; see `UntypedStorage.from_buffer`."""
        kind = dtype or cls._class_dtype or _C.get_default_dtype()
        made = UntypedStorage.from_buffer(*args, dtype=kind, **options)
        return TypedStorage(wrap_storage=made, dtype=kind)

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """Return the elements of a file, mapped into memory."""
        kind = cls._class_dtype or _C.get_default_dtype()
        made = UntypedStorage.from_file(filename, shared, size * kind.itemsize)
        return TypedStorage(wrap_storage=made, dtype=kind)

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = None) -> TypedStorage:
        kind = cls._class_dtype or _C.get_default_dtype()
        return TypedStorage(wrap_storage=UntypedStorage._new_shared(size * kind.itemsize), dtype=kind)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError(
                f"{type(self).__name__}: expected an integer index, got a slice; untyped() takes slices"
            )
        if not isinstance(index, int):
            raise RuntimeError(
                f"{type(self).__name__}: expected an integer index, got {type(index).__name__}"
            )
        return self._elements()[position(index, self.size())].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, int | slice):
            raise RuntimeError(
                f"{type(self).__name__}: expected an integer index, got {type(index).__name__}"
            )
        self._elements()[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __repr__(self) -> str:
        rows = " " + "\n ".join(map(str, self)) if self.device.type == "cpu" else "..."
        return (
            f"{rows}\n[flambeau.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"
        )

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return self._over(self._untyped_storage.__deepcopy__(memo))

    def __reduce__(self) -> Any:
        return _typed_over, (self._untyped_storage, self.dtype)


def _elements(source: Any, dtype: _C.dtype) -> Tensor:
    if isinstance(source, int):
        return _C._functions.empty((source,), dtype=dtype)
    return _C.tensor(source, dtype, None)


def _typed_over(storage: UntypedStorage, dtype: _C.dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=storage, dtype=dtype)


class _OfDtype(type):
    """The type of classes for one dtype: their instances are the storages of that dtype."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype == getattr(cls, "dtype", None)


def _class_for(dtype: _C.dtype, name: str) -> Any:
    namespace = {"__doc__": f"A storage of {dtype}.", "__module__": naming.root, "_class_dtype": dtype}
    return _OfDtype(name, (TypedStorage,), {**namespace, "dtype": dtype})


CLASSES = {name: _class_for(dtype, name) for dtype, name in CLASS_OF_DTYPE.items()}


def _converter(name: str, dtype: _C.dtype) -> Callable[[Any], TypedStorage]:
    def convert(self: Any) -> TypedStorage:
        converted: TypedStorage = self._converted(dtype)
        return converted

    convert.__name__, convert.__doc__ = name, f"Convert the elements to {dtype}."
    return convert


_BYTE_FLOATS = ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz")


def _install() -> None:
    dtypes = {name: getattr(_C, name) for name in "double float half long int short bool bfloat16".split()}
    dtypes |= {"char": _C.int8, "byte": _C.uint8}
    dtypes |= {name: getattr(_C, name) for name in _BYTE_FLOATS}
    dtypes |= {"complex_double": _C.complex128, "complex_float": _C.complex64}
    for name, dtype in dtypes.items():
        for cls in (UntypedStorage, TypedStorage):
            setattr(cls, name, _converter(name, dtype))


_install()
