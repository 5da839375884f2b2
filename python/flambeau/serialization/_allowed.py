"""What files that are not trusted may refer to, call and change."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict
from functools import cache
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._object.rebuild import _rebuild_sparse_tensor, _rebuild_wrapper_subclass
from flambeau._object.tensor import _rebuild_tensor
from flambeau._object.typed_storage import CLASS_OF_DTYPE, TypedStorage
from flambeau._types import naming
from flambeau._types.size import Size

from ._opcodes import check_key, names_in


def _expect(given: bool, what: str, got: str = "something else") -> None:
    if not given:
        raise pickle.UnpicklingError(f"expected {what}, got {got}")


def _integers(values: Any) -> tuple[int, ...]:
    _expect(isinstance(values, tuple | list) and all(type(v) is int for v in values), "a tuple of integers")
    return tuple(values)


def tensor_v1(storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    """Return a tensor of a file from before tensors knew about gradients."""
    return tensor_v2(storage, offset, size, stride, False, None)


def tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, _: Any, metadata: Any = None
) -> Tensor:
    """Return a tensor over a storage that knows its dtype."""
    _expect(isinstance(storage, TypedStorage), "a storage")
    return _tensor(storage, storage.dtype, (offset, size, stride), requires_grad, metadata)


def tensor_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    _: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """Return a tensor over a storage of bytes."""
    _expect(isinstance(storage, TypedStorage) and isinstance(dtype, _C.dtype), "a storage and a dtype")
    return _tensor(storage, dtype, (offset, size, stride), requires_grad, metadata)


def _tensor(storage: TypedStorage, dtype: Any, geometry: Any, requires_grad: Any, metadata: Any) -> Tensor:
    offset, size, stride = geometry
    _expect(type(offset) is int, "an integer as storage_offset")
    sizes = _integers(size)
    out = _rebuild_tensor(Tensor, storage.untyped(), dtype, offset, sizes, _integers(stride), False)
    for name in metadata or ():
        _expect(isinstance(metadata, dict) and name in _PENDING, "no other metadata than conj and neg")
        out = _PENDING[name](out) if metadata[name] else out
    return out.requires_grad_() if requires_grad is True else out


def sparse_tensor(layout: Any, data: Any) -> Tensor:
    """Return a sparse tensor of parts that are checked."""
    _expect(isinstance(layout, _C.layout) and isinstance(data, tuple) and len(data) in (3, 4), "sparse parts")
    _expect(all(isinstance(part, Tensor) for part in data[:2]), "tensors of indices and values")
    _expect(isinstance(data[2], tuple), "sizes as a tuple")
    _integers(data[2])
    return _rebuild_sparse_tensor(layout, data)


def wrapper(
    cls: Any, dtype: Any, size: Any, stride: Any, offset: Any, layout: Any, device: Any, requires_grad: Any
) -> Any:
    """Return a tensor without memory of a class that `add_safe_globals` has added."""
    _expect(isinstance(cls, type) and issubclass(cls, Tensor) and is_safe(cls), "a class of tensors")
    _expect(isinstance(dtype, _C.dtype) and isinstance(layout, _C.layout), "a dtype and a layout")
    _expect(isinstance(device, _C.device) and type(offset) is int, "a device and an integer as offset")
    geometry = (_integers(size), _integers(stride), offset)
    return _rebuild_wrapper_subclass(cls, dtype, *geometry, layout, device, requires_grad is True)


_PENDING: dict[str, Any] = {"conj": Tensor.conj, "neg": Tensor.neg}


def parameter(data: Any, requires_grad: Any, *_: Any) -> Any:
    """Return a parameter."""
    _expect(isinstance(data, Tensor), "a tensor as a parameter's data")
    return _parameter_class()(data, requires_grad is True)


def _parameter_class() -> Any:
    from flambeau.nn.parameter import Parameter

    return Parameter


def parameter_with_state(data: Any, requires_grad: Any, _: Any, state: Any) -> Any:
    """Return a parameter with attributes."""
    out = parameter(data, requires_grad)
    set_attributes(out, state)
    return out


def tensor_with_state(function: Any, cls: Any, args: Any, state: Any) -> Any:
    """Return a tensor with attributes."""
    _expect(
        function in (tensor_v2, tensor_v3, sparse_tensor, wrapper) and isinstance(args, tuple),
        "a function that makes a tensor",
    )
    _expect(
        isinstance(cls, type) and (cls in (Tensor, _parameter_class()) or is_safe(cls)), "a class of tensors"
    )
    out = function(*args)
    out = out if cls is Tensor or type(out) is cls else out.as_subclass(cls)
    set_attributes(out, {} if state is None else state)
    return out


def as_bytes(text: Any, encoding: Any) -> bytes:
    """Return what protocol 2 has instead of bytes."""
    _expect(isinstance(text, str) and encoding == "latin1", "bytes as latin1")
    encoded: bytes = text.encode("latin1")
    return encoded


def layout(name: Any) -> Any:
    """Return one of the two layouts that tensors have."""
    _expect(name in ("torch.strided", "torch.sparse_coo"), "torch.strided or torch.sparse_coo")
    return _C.strided if name == "torch.strided" else _C.sparse_coo


def _pairs(items: Any) -> Any:
    _expect(isinstance(items, dict | list | tuple), "pairs")
    pairs = items.items() if isinstance(items, dict) else items
    return [(check_key(key), value) for key, value in pairs]


def _ordered(items: Any = ()) -> Any:
    return OrderedDict(_pairs(items))


def _counter(items: Any = ()) -> Any:
    out: Counter[Any] = Counter()
    for key, count in _pairs(items):
        out[key] = count
    return out


def _items(values: Any = ()) -> Any:
    _expect(isinstance(values, list | tuple), "a list")
    return map(check_key, values)


def _bytearray(text: Any = b"", encoding: Any = "latin1") -> bytearray:
    if isinstance(text, str):
        return bytearray(as_bytes(text, encoding.replace("-", "")))
    _expect(isinstance(text, bytes), "bytes")
    return bytearray(text)


def _complex(real: Any, imaginary: Any) -> complex:
    _expect(isinstance(real, float) and isinstance(imaginary, float), "two numbers")
    return complex(real, imaginary)


@cache
def _allowed() -> dict[tuple[str, str], Any]:
    """Return what has which name in files."""
    dtypes = [value for value in vars(_C).values() if isinstance(value, _C.dtype)]
    return {
        ("torch._utils", "_rebuild_tensor_v2"): tensor_v2,
        ("torch._utils", "_rebuild_tensor_v3"): tensor_v3,
        ("torch._utils", "_rebuild_sparse_tensor"): sparse_tensor,
        ("torch._utils", "_rebuild_wrapper_subclass"): wrapper,
        ("torch._utils", "_rebuild_parameter"): parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): parameter_with_state,
        ("torch._tensor", "_rebuild_from_type_v2"): tensor_with_state,
        ("torch", "Tensor"): Tensor,
        ("torch.nn.parameter", "Parameter"): _parameter_class(),
        ("torch.storage", "UntypedStorage"): _C.uint8,  # bytes
        ("torch", "Size"): Size,
        ("torch", "device"): _C.device,
        ("collections", "OrderedDict"): OrderedDict,
        ("collections", "Counter"): Counter,
        ("torch._utils", "_rebuild_tensor"): tensor_v1,
        **{("torch", name): dtype for dtype, name in CLASS_OF_DTYPE.items()},
        **{("torch", naming.short(dtype)): dtype for dtype in dtypes},
        **{("torch.cuda", name): dtype for dtype, name in CLASS_OF_DTYPE.items()},  # of older files
        **{("builtins", t.__name__): t for t in (set, frozenset, complex, bytearray)},
        ("_codecs", "encode"): as_bytes,
        ("torch.serialization", "_get_layout"): layout,
    }


# What a call does instead; other names in files may not be called.
_CALLS: dict[Any, Any] = {
    **{
        f: f
        for f in (
            tensor_v1,
            tensor_v2,
            tensor_v3,
            sparse_tensor,
            wrapper,
            parameter,
            parameter_with_state,
            tensor_with_state,
            as_bytes,
            layout,
        )
    },
    Size: lambda sizes=(): Size(_integers(sizes)),
    _C.device: _C.device,
    OrderedDict: _ordered,
    Counter: _counter,
    set: lambda values=(): set(_items(values)),
    frozenset: lambda values=(): frozenset(_items(values)),
    complex: _complex,
    bytearray: _bytearray,
}
_safe: dict[tuple[str, str], Any] = {}


def is_safe(target: Any) -> bool:
    """Whether `add_safe_globals` has added this very class or function."""
    return any(target is known for known in _safe.values())


def set_attributes(obj: Any, state: Any) -> None:
    """Set attributes that do not hide those of the class."""
    _expect(isinstance(state, dict), "attributes as a dict")
    for name, value in state.items():
        _expect(isinstance(name, str) and not hasattr(type(obj), name), "an attribute that the class lacks")
        vars(obj)[name] = value


class SafeRules:
    """Rules for files that are not trusted.

    Args:
        storages: gives a storage for what a file calls it.
    """

    def __init__(self, storages: Any) -> None:
        self.resolve = storages

    def find(self, module: str, name: str) -> Any:
        """Return what an allowed name stands for."""
        key = ("builtins" if module == "__builtin__" else module, name)  # its name in Python 2
        if key in _safe:
            return _safe[key]
        if key not in _allowed():
            raise pickle.UnpicklingError(f"the file refers to {module}.{name}, which is not allowed")
        return _allowed()[key]

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Call what a name stands for, with arguments that it can take."""
        if is_safe(function):
            return function(*args)
        known = [call for target, call in _CALLS.items() if target is function]
        _expect(bool(known), "a function that may be called", type(function).__name__)
        return known[0](*args)

    def make(self, cls: Any, args: tuple[Any, ...]) -> Any:
        """Return a new object of a class that `add_safe_globals` has added."""
        if isinstance(cls, type) and is_safe(cls):
            return cls.__new__(cls, *args)
        return self.call(cls, args)

    def set_state(self, obj: Any, state: Any) -> None:
        """Set the state of an object of a class that has any."""
        cls = type(obj)
        if isinstance(obj, type):
            raise pickle.UnpicklingError("the file sets attributes of a class")
        if is_safe(cls):
            _set_state(obj, state)
        else:
            _expect(cls in (OrderedDict, Tensor, _parameter_class()), "an object with state", cls.__name__)
            set_attributes(obj, state)

    def is_list(self, obj: Any) -> bool:
        """Whether it is a list, or an object of an added class of lists."""
        return type(obj) is list or (isinstance(obj, list) and is_safe(type(obj)))

    def is_dict(self, obj: Any) -> bool:
        """Whether it is a dict, or an object of an added class of dicts."""
        return type(obj) in (dict, OrderedDict, Counter) or (isinstance(obj, dict) and is_safe(type(obj)))


def _set_state(obj: Any, state: Any) -> None:
    if hasattr(obj, "__setstate__"):
        obj.__setstate__(state)
        return
    slots: Any = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    _expect(isinstance(state or {}, dict) and isinstance(slots or {}, dict), "attributes as a dict")
    vars(obj).update(state or {})
    for name, value in (slots or {}).items():
        setattr(obj, name, value)


def _named(entry: Any) -> tuple[tuple[str, str], Any]:
    """The name in files, and what it stands for, of an entry of `add_safe_globals`."""
    if isinstance(entry, tuple):
        target, name = entry
        module, _, rest = name.rpartition(".")
        return (module, rest), target
    return (entry.__module__, entry.__qualname__), entry


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Allow classes and functions in files that ``load(weights_only=True)`` reads.

    Args:
        safe_globals: classes, functions, or pairs of one of them and its name in files.
    Returns: None.
    See also: `safe_globals`, `get_unsafe_globals_in_checkpoint`

    Example:
        >>> from collections import Counter
        >>> flambeau.serialization.add_safe_globals([Counter])
        >>> Counter in flambeau.serialization.get_safe_globals()
        True
    """
    _safe.update(_named(entry) for entry in safe_globals)


def get_safe_globals() -> list[Any]:
    """Return the classes and functions that `add_safe_globals` has added.

    Returns: a list.

    Example:
        >>> from collections import Counter
        >>> with flambeau.serialization.safe_globals([Counter]):
        ...     Counter in flambeau.serialization.get_safe_globals()
        True
    """
    return [t if (m, n) == _named(t)[0] else (t, f"{m}.{n}") for (m, n), t in _safe.items()]


def clear_safe_globals() -> None:
    """Remove all classes and functions that `add_safe_globals` has added.

    Returns: None.

    Example:
        >>> from collections import Counter
        >>> flambeau.serialization.add_safe_globals([Counter])
        >>> flambeau.serialization.clear_safe_globals()
        >>> Counter in flambeau.serialization.get_safe_globals()
        False
    """
    _safe.clear()


class safe_globals:
    """Context manager that allows classes and functions, as `add_safe_globals` does, in a block.

    Args:
        safe_globals: classes, functions, or pairs of one of them and its name in files.

    Example:
        >>> from collections import Counter
        >>> with flambeau.serialization.safe_globals([Counter]):
        ...     Counter in flambeau.serialization.get_safe_globals()
        True
    """

    def __init__(self, safe_globals: list[Any]) -> None:
        self.added = list(safe_globals)

    def __enter__(self) -> None:
        self.before = dict(_safe)
        add_safe_globals(self.added)

    def __exit__(self, *_: object) -> None:
        _safe.clear()
        _safe.update(self.before)


def refused_names(text: bytes) -> list[str]:
    """Return the names to which a pickle refers and that are not allowed, in their order, each once."""
    rules, found = SafeRules(None), []
    for module, name in names_in(text):
        try:
            rules.find(module, name)
        except pickle.UnpicklingError:
            found.append(f"{module}.{name}")
    return list(dict.fromkeys(found))
