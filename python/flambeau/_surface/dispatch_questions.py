"""What libraries ask the dispatcher: which operators and kernels there are, and the key sets of a thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flambeau import _C
from flambeau._surface.dispatch_keys import (
    ALIASES,
    BACKENDS,
    DispatchKey,
    DispatchKeySet,
    _is_runtime,
    _priority,
    bits_of,
    check_key,
    set_of_bits,
)

_DEVICES = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "privateuseone": "PrivateUse1"}


def _key_of_device(kind: str) -> str | None:
    """Return the key of a device kind; None if it has none of its own."""
    return "PrivateUse1" if kind == _C._get_privateuse1_backend_name() else _DEVICES.get(kind)


def _name_of(key: Any) -> str:
    if isinstance(key, DispatchKey):
        return str(key.name)
    if not isinstance(key, str):
        raise TypeError(f"DispatchKey: expected a key or its name, got {type(key).__name__}")
    check_key(key)
    return key


def _split(name: str) -> tuple[str, str, str]:
    space, mark, rest = name.partition("::")
    if not mark:
        raise RuntimeError(f"ops: expected an operator's name 'namespace::name', got {name!r}")
    base, _, overload = rest.partition(".")
    return space, base, "" if overload == "default" else overload


def _found(name: str) -> tuple[str, Any]:
    """The entry of an operator of the specification, or the operator of a program; "" and None: neither."""
    from flambeau.ops import CUSTOM, entry_name

    space, base, overload = _split(name)
    custom = CUSTOM.get((space, base), {}).get(overload)
    entry = entry_name(base, overload) if space == "aten" and custom is None else ""
    return entry, custom


def _keys_of_entry(entry: str) -> set[str]:
    """The keys for which an operator of the specification has kernels, in PyTorch's names."""
    from flambeau.library._interposed import registered

    bits, is_composite = _C._kernel_keys(entry)
    if is_composite:
        names = {"CompositeImplicitAutograd"}
    else:
        named = {"CPU": "CPU", "CUDA": "CUDA", "Meta": "Meta", "PrivateUse1": "PrivateUse1"}
        named |= {"PrivateUse3": "SparseCPU", "Autograd": "Autograd"}
        names = {name for key, name in named.items() if bits & _C._dispatch_key_bit(key)}
    if bits & _C._dispatch_key_bit("Autocast"):
        names |= {"AutocastCPU", "AutocastCUDA"} & set(_autocast_keys(entry))
    return names | set(registered(entry))


def _autocast_keys(entry: str) -> list[str]:
    return [f"Autocast{device}" for device in _C._cast_devices(entry)]


def _keys_of_custom(operator: Any) -> set[str]:
    names = set(operator.kernels)
    for device in operator.by_device:
        names.add(_key_of_device(device) or "CompositeExplicitAutograd")
    if operator.fake is not None:
        names.add("Meta")
    if operator.backward is not None:
        names.add("Autograd")
    return names | {f"Autocast{device.upper()}" for device in operator.casts}


def _keys(name: str) -> set[str]:
    entry, custom = _found(name)
    if not entry and custom is None:
        raise RuntimeError(f"ops: expected an operator that is defined, got {name}, which does not exist")
    return _keys_of_entry(entry) if entry else _keys_of_custom(custom)


def _dispatch_has_kernel(name: str) -> bool:
    """Whether there is an operator of this name with a kernel."""
    entry, custom = _found(name)
    return bool(entry) or (custom is not None and bool(_keys_of_custom(custom)))


def _dispatch_has_kernel_for_dispatch_key(name: str, key: Any) -> bool:
    """Whether a kernel is registered for exactly this key."""
    return _name_of(key) in _keys(name)


def _dispatch_has_kernel_for_any_dispatch_key(name: str, keyset: DispatchKeySet) -> bool:
    """Whether a kernel is registered for a key of the set."""
    return any(key.name in _keys(name) for key in keyset._keys)


def _dispatch_has_computed_kernel_for_dispatch_key(name: str, key: Any) -> bool:
    """Whether a call with this key finds a kernel, of the key itself or of an alias for it."""
    return bool(_sources(_keys(name), _name_of(key)))


def _sources(names: set[str], key: str) -> list[str]:
    """The keys of registrations from which a key takes its kernel, the first one with a kernel."""
    composite = [name for name in ALIASES if name.startswith("Composite") and name in names]
    if key in names:
        return [key]
    if key in BACKENDS:
        return composite[::-1]
    if key.startswith("Autograd"):
        return (["Autograd"] if "Autograd" in names else []) + composite + ["fallthrough"]
    return ["fallthrough"] if key.startswith("Autocast") else []


def _dispatch_kernel_for_dispatch_key_is_fallthrough(name: str, key: Any) -> bool:
    """Whether a call with this key passes on to the next one."""
    return _sources(_keys(name), _name_of(key))[:1] in ([], ["fallthrough"])


def _dispatch_dump(name: str) -> str:
    """Return a text about an operator and the keys of its kernels; "" if there is none."""
    entry, custom = _found(name)
    if not entry and custom is None:
        return ""
    schema = str(_dispatch_find_schema_or_throw(*_halves(name)).schema)
    keys = sorted(_keys(name))
    lines = [f"name: {name}", f"schema: {schema}", "alias analysis kind: FROM_SCHEMA"]
    return "\n".join([*lines, *(f"{key}: [ kernel ]" for key in keys)]) + "\n"


def _dispatch_dump_table(name: str) -> str:
    """Return a line for every key with which a call finds a kernel."""
    names = _keys(name)
    members = [key.name for key in DispatchKey if _is_runtime(key)]
    lines = [f"{key}: {found[0]}" for key in members if (found := _sources(names, key))]
    return "\n".join(lines) + "\n"


def _halves(name: str) -> tuple[str, str]:
    space, base, overload = _split(name)
    return f"{space}::{base}", overload


class _Handle:
    """An operator that was found."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema


def _dispatch_find_schema_or_throw(name: str, overload: str) -> _Handle:
    """Return a handle whose `schema` is the operator's; RuntimeError if there is none."""
    from flambeau import ops

    full = f"{name}.{overload}" if overload else name
    entry, custom = _found(full)
    if not entry and custom is None:
        raise RuntimeError(f"ops: expected an operator that is defined, got {full} (Could not find schema)")
    space, base, rest = _split(full)
    return _Handle(getattr(getattr(getattr(ops, space), base), rest or "default")._schema)


def _dispatch_get_all_op_names() -> list[str]:
    """Return the names of all operators, with their overloads."""
    from flambeau.ops import CUSTOM

    names = [f"aten::{schema.partition('(')[0]}" for schema in _C._operator_schemas()]
    return names + [op.name for overloads in CUSTOM.values() for op in overloads.values()]


def _dispatch_get_registrations_for_dispatch_key(key: Any = "") -> list[str]:
    """Return the operators that have a kernel for a key; without a key all that have kernels."""
    named = [(name, _keys(name)) for name in _dispatch_get_all_op_names()]
    return [name for name, keys in named if (_name_of(key) in keys if key else keys)]


def keys_of_arguments(values: Iterable[Any]) -> DispatchKeySet:
    """Return the keys with which a backend's kernel for these arguments is called."""
    bits = 0
    for value in values:
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, _C.Tensor):
                bits |= bits_of(DispatchKeySet(_key_of_device(item.device.type) or "CPU"))
    return set_of_bits(bits)


def _dispatch_keys(tensor: Any) -> DispatchKeySet:
    """Return the keys of a tensor in PyTorch's terms, where autograd and autocast have keys per device."""
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"_dispatch_keys: expected a Tensor, got {type(tensor).__name__}")
    backend = _key_of_device(tensor.device.type) or "PrivateUse1"
    names = [("Sparse" if tensor.is_sparse else "") + backend]
    if not tensor.is_inference():
        names += ["ADInplaceOrView", f"Autograd{backend}"]
    if f"Autocast{backend}" in DispatchKey.__members__:
        names.append(f"Autocast{backend}")
    names += ["Conjugate"] * tensor.is_conj() + ["Negative"] * tensor.is_neg()
    if getattr(type(tensor), "__torch_dispatch__", _C._disabled_torch_dispatch_impl) is not (
        _C._disabled_torch_dispatch_impl
    ):
        names += ["Python", "PythonTLSSnapshot"]
    return DispatchKeySet._of(frozenset(DispatchKey(name) for name in names))


def _dispatch_key_set(tensor: Any) -> str:
    """Return the text of a tensor's keys."""
    return repr(_dispatch_keys(tensor))


def _dispatch_keyset_to_string(keyset: DispatchKeySet) -> str:
    """Return the text of a set."""
    return repr(keyset)


def _dispatch_keyset_full() -> DispatchKeySet:
    """Return the set of all keys."""
    return DispatchKeySet._of(frozenset(key for key in DispatchKey if _is_runtime(key)))


def _dispatch_keyset_full_after(key: Any) -> DispatchKeySet:
    """Return the set of all keys that dispatch serves after a key."""
    first = _priority(DispatchKey(_name_of(key)))
    below = (k for k in DispatchKey if _is_runtime(k) and _priority(k)[0] < first[0])
    return DispatchKeySet._of(frozenset(below))


def _dispatch_key_name(key: Any) -> str:
    """Return the name of a key."""
    return _name_of(key)


def _dispatch_key_parse(name: str) -> Any:
    """Return the key of a name; RuntimeError if there is none."""
    return DispatchKey(_name_of(name))


def _dispatch_num_backends() -> int:
    """Return the number of backends that keys exist for."""
    return len(BACKENDS)


def _dispatch_key_for_device(device: str) -> str:
    """Return the name of the key of a device type."""
    found = _C.device(device)
    if found.index is not None:
        raise RuntimeError(
            f"_dispatch_key_for_device: expected device_type string to not have a device index; got {device}"
        )
    kind = found.type
    return _key_of_device(kind) or kind.upper()


def _dispatch_is_alias_key(key: Any) -> bool:
    """Whether a key stands for several others."""
    return _name_of(key) in ALIASES


def _dispatch_is_included_in_alias(key: Any, alias: Any) -> bool:
    """Whether an alias stands for a key, among others."""
    name, of = _name_of(key), _name_of(alias)
    if of == "Autograd":
        return name.startswith("Autograd") and name not in ("Autograd", "AutogradFunctionality")
    if of.startswith("CompositeImplicit"):
        return name in BACKENDS or name.startswith("Autograd")
    return of.startswith("CompositeExplicit") and name in BACKENDS


def _dispatch_has_backend_fallback(key: Any) -> bool:
    """Whether operators without a kernel for a key have a common one."""
    from flambeau.library._interposed import number_of

    name = _name_of(key)
    if name.startswith(("Autograd", "Autocast")) or name in ("ADInplaceOrView", "BackendSelect"):
        return True  # calls pass on to the next key
    number = number_of(name)
    return number >= 0 and bool(_C._has_fallback(number))


def _dispatch_get_backend_keyset_from_autograd(key: Any) -> DispatchKeySet:
    """Return the backend whose tensors have a key for autograd."""
    name = _name_of(key).removeprefix("Autograd")
    return DispatchKeySet(name if name in BACKENDS else "Undefined")


def _dispatch_isTensorSubclassLike(tensor: Any) -> bool:
    """Whether a tensor's class or a function transform answers for it."""
    from flambeau._surface.functorch import is_functorch_wrapped_tensor

    return _dispatch_keys(tensor).has("Python") or bool(is_functorch_wrapped_tensor(tensor))


def _dispatch_find_dangling_impls() -> list[str]:
    """Return the operators that have kernels and no definition."""
    from flambeau.library._library import waiting

    return sorted({name for name in waiting() if _found(name) == ("", None)})


# --- the sets of a thread ------------------------------------------------------------------------


def _dispatch_tls_local_include_set() -> DispatchKeySet:
    """Return the keys that calls of this thread have beside those of their arguments."""
    return (
        set_of_bits(_C._included_keys()) | DispatchKeySet("BackendSelect") | DispatchKeySet("ADInplaceOrView")
    )


def _dispatch_tls_local_exclude_set() -> DispatchKeySet:
    """Return the keys that calls of this thread leave out."""
    held = set_of_bits(_C._excluded_keys())
    off = [name for name in DispatchKey.__members__ if name.startswith("Autocast") and not _is_cast(name)]
    recorded = _C._excluded_keys() & _C._dispatch_key_bit("Autograd")
    off += [f"Autograd{backend}" for backend in BACKENDS if recorded]
    return held | DispatchKeySet._of(frozenset(DispatchKey(name) for name in off))


def _is_cast(name: str) -> bool:
    device = name.removeprefix("Autocast").lower()
    return device in ("cpu", "cuda") and bool(_C.is_autocast_enabled(device))


def _dispatch_tls_is_dispatch_key_excluded(key: Any) -> bool:
    """Whether calls of this thread leave out a key."""
    return bool(_dispatch_tls_local_exclude_set().has(DispatchKey(_name_of(key))))


def _dispatch_tls_is_dispatch_key_included(key: Any) -> bool:
    """Whether calls of this thread have a key beside those of their arguments."""
    return bool(_dispatch_tls_local_include_set().has(DispatchKey(_name_of(key))))


def _dispatch_tls_set_dispatch_key_excluded(key: Any, excluded: bool) -> None:
    """Leave a key out of the calls of this thread, or no longer."""
    name = _name_of(key)
    if name.startswith("Autocast"):
        device = name.removeprefix("Autocast").lower()
        if device in ("cpu", "cuda"):
            _C.set_autocast_enabled(device, not excluded)
        return
    bits, before = bits_of(key if isinstance(key, DispatchKey) else name), _C._excluded_keys()
    _C._set_excluded_keys(before | bits if excluded else before & ~bits)


def _get_schema(name: str, overload: str) -> Any:
    """Return the schema of an operator; RuntimeError if there is none.

    Args:
        name: the operator, ``namespace::name``.
        overload: its overload; empty for the default one.
    """
    return _dispatch_find_schema_or_throw(name, overload).schema


def _jit_get_schemas_for_operator(name: str) -> list[Any]:
    """Return the schemas of all overloads of an operator.

    Args:
        name: the operator, ``namespace::name``.
    """
    from flambeau.ops import packet_of

    try:
        return list(packet_of(name.removeprefix("aten::"))._schemas.values())
    except AttributeError:
        return []


__all__ = [name for name in globals() if name.startswith("_dispatch")]
__all__ += ["_get_schema", "_jit_get_schemas_for_operator"]
