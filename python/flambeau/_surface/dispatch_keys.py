"""PyTorch's dispatch keys as values: libraries name them when they register kernels or turn autocast off.

A set here holds the keys that it was made of; PyTorch's also holds what their backends and functionalities
make together.
"""

from __future__ import annotations

import enum
from typing import Any

from flambeau import _C

# The keys in the order of their numbers, from 0.
_PLAIN = """
Undefined Dense FPGA Vulkan Metal Quantized CustomRNGKeyId MkldnnCPU Sparse SparseCsr NestedTensor
BackendSelect Fake Python FuncTorchDynamicLayerBackMode Functionalize Conjugate Negative ZeroTensor
ADInplaceOrView AutogradOther AutogradFunctionality AutogradNestedTensor Tracer AutocastCPU AutocastMTIA
AutocastMAIA AutocastXPU AutocastIPU AutocastHPU AutocastXLA AutocastMPS AutocastCUDA AutocastPrivateUse1
FuncTorchBatched BatchedNestedTensor FuncTorchVmapMode Batched VmapMode FuncTorchGradWrapper
DeferredInit PythonTLSSnapshot FuncTorchDynamicLayerFrontMode TESTING_ONLY_GenericWrapper
TESTING_ONLY_GenericMode PreDispatch PythonDispatcher EndOfFunctionalityKeys
""".split()
BACKENDS = (
    "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta".split()
)
# Functionality of one key per backend -> what the names of these keys, and of their range, begin with.
_PER_BACKEND = {
    "Dense": ("", "Dense"),
    "Quantized": ("Quantized", "Quantized"),
    "Sparse": ("Sparse", "Sparse"),
    "SparseCsr": ("SparseCsr", "SparseCsr"),
    "NestedTensor": ("NestedTensor", "NestedTensor"),
    "AutogradFunctionality": ("Autograd", "AutogradFunctionality"),
}
# Aliases for several keys, which sets cannot contain.
ALIASES = """
Autograd CompositeImplicitAutograd FuncTorchBatchedDecomposition CompositeImplicitAutogradNestedTensor
CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional
""".split()
# Numbered in PyTorch, but not members of its Python class.
_UNNAMED = set(
    "FPGA Vulkan Metal CustomRNGKeyId MkldnnCPU Fake Tracer AutocastMTIA AutocastMAIA AutocastXLA "
    "BatchedNestedTensor Batched VmapMode DeferredInit TESTING_ONLY_GenericWrapper TESTING_ONLY_GenericMode "
    "EndOfFunctionalityKeys".split()
)


def _numbered() -> dict[str, int]:
    """Return name -> number of the members of `DispatchKey`."""
    names = list(_PLAIN)
    ends = {}
    for prefix, range_ in _PER_BACKEND.values():
        names += [f"StartOf{range_}Backends", *(prefix + backend for backend in BACKENDS)]
        ends[f"EndOf{range_}Backends"] = len(names) - 1
    names += ALIASES
    return {name: number for number, name in enumerate(names) if name not in _UNNAMED} | ends


class _Key(enum.Enum):
    """What a kernel is registered for, and what can be excluded; a name stands for its member."""

    def __int__(self) -> int:
        return int(self.value)

    @classmethod
    def _missing_(cls, value: Any) -> Any:
        return cls.__members__.get(value) if isinstance(value, str) else None


_enumerate: Any = _Key  # the functional interface, which a checker takes for a look-up
DispatchKey = _enumerate("DispatchKey", _numbered(), module="flambeau._C")


# PyTorch's keys that dispatch here has by another name.
OURS = {
    "Python": "BackendMode",
    "PythonTLSSnapshot": "Python",
    "FuncTorchDynamicLayerBackMode": "FuncTorchBack",
    "FuncTorchDynamicLayerFrontMode": "FuncTorch",
    "Tracer": "Tracing",
}


def bits_of(keys: Any) -> int:
    """Return a set of keys, or one key, as the dispatcher holds it; keys that it has not are left out."""
    members = keys._keys if isinstance(keys, DispatchKeySet) else [DispatchKey(keys)]
    names = set()
    for key in members:
        name = key.name
        for prefix in ("Autograd", "Autocast"):
            if name.startswith(prefix):
                names |= {prefix, name.removeprefix(prefix)}
        names.add(OURS.get(name, name))
    return sum(_C._dispatch_key_bit(name) for name in names)


def is_key(name: str) -> bool:
    """Whether it is the name of a dispatch key."""
    return name in DispatchKey.__members__ or name in _UNNAMED


def check_key(name: str) -> None:
    """Raise RuntimeError for a name that is not a dispatch key."""
    if not is_key(name):
        raise RuntimeError(
            f"DispatchKey: expected the name of a key, got {name!r} (could not parse dispatch key)"
        )


def set_of_bits(bits: int) -> DispatchKeySet:
    """Return the dispatcher's set of keys in PyTorch's names, of keys per backend those of its backends."""
    held = {name for name in (*BACKENDS, "Autograd", "Autocast") if bits & _C._dispatch_key_bit(name)}
    backends = [name for name in BACKENDS if name in held and name not in ("PrivateUse2", "PrivateUse3")]
    names = list(backends)
    for prefix in ("Autograd", "Autocast"):
        if prefix in held:
            names += [prefix + backend for backend in backends if prefix + backend in DispatchKey.__members__]
    names += [key for key, ours in OURS.items() if bits & _C._dispatch_key_bit(ours)]
    names += [key for key in ("Conjugate", "Negative") if bits & _C._dispatch_key_bit(key)]
    return DispatchKeySet._of(frozenset(DispatchKey(name) for name in names if name not in _UNNAMED))


def _priority(key: Any) -> tuple[int, int]:
    """Order keys as dispatch does: by functionality, then by backend."""
    for functionality, (prefix, _) in _PER_BACKEND.items():
        backend = key.name.removeprefix(prefix)
        if key.name.startswith(prefix) and backend in BACKENDS:
            return _PLAIN.index(functionality), BACKENDS.index(backend)
    return int(key), 0


def _is_runtime(key: Any) -> bool:
    """Whether a set can hold the key: it is not an alias, no functionality and no end of a range."""
    other = {"Undefined", *ALIASES, *_PER_BACKEND}
    return key.name not in other and not key.name.startswith("StartOf")


class DispatchKeySet:
    """A set of dispatch keys: `|`, `&` and `-` make others, `has` asks.

    >>> both = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(DispatchKey.CPU)
    >>> both, both.has(DispatchKey.CPU)
    (DispatchKeySet(CPU, AutocastCPU), True)
    """

    __slots__ = ("_keys",)

    def __init__(self, key: Any, /) -> None:
        if not isinstance(key, DispatchKey | str):
            raise TypeError(f"DispatchKeySet: expected a DispatchKey, got {type(key).__name__}")
        key = DispatchKey(key)
        self._keys = frozenset([key] if _is_runtime(key) else [])

    @classmethod
    def _of(cls, keys: frozenset[Any]) -> DispatchKeySet:
        made = cls(DispatchKey.Undefined)
        made._keys = keys
        return made

    def has(self, key: Any, /) -> bool:
        """Whether the set holds a key."""
        return DispatchKey(key) in self._keys

    def add(self, key: Any, /) -> DispatchKeySet:
        """Return the set with a key."""
        return self | DispatchKeySet(key)

    def remove(self, key: Any, /) -> DispatchKeySet:
        """Return the set without a key."""
        return self - DispatchKeySet(key)

    def highestPriorityTypeId(self) -> Any:
        """Return the key that dispatch serves first; Undefined for the empty set."""
        return max(self._keys, key=_priority, default=DispatchKey.Undefined)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys | other._keys) if isinstance(other, DispatchKeySet) else NotImplemented

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys & other._keys) if isinstance(other, DispatchKeySet) else NotImplemented

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._of(self._keys - other._keys) if isinstance(other, DispatchKeySet) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self._keys == other._keys if isinstance(other, DispatchKeySet) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in sorted(self._keys, key=_priority))})"


# What a kernel for Autograd passes a call on with: all keys below it.
_after_autograd_keyset = DispatchKeySet._of(
    frozenset(
        key
        for key in DispatchKey
        if _is_runtime(key)
        and _priority(key)[0] < _PLAIN.index("AutogradOther")
        and "Autograd" not in key.name
    )
)


class _ExcludeDispatchKeyGuard:
    """A region in which dispatch leaves out the keys of the set.

    An Autocast key of a device turns off autocast for that device. Keys of backends stay, because every call
    needs one.
    """

    def __init__(self, keyset: DispatchKeySet, /) -> None:
        if not isinstance(keyset, DispatchKeySet):
            raise TypeError(
                f"_ExcludeDispatchKeyGuard: expected a DispatchKeySet, got {type(keyset).__name__}"
            )
        names = {key.name for key in keyset._keys}
        other = [key for key in keyset._keys if not key.name.startswith("Autocast")]
        self._bits = bits_of(DispatchKeySet._of(frozenset(other)))
        # Devices that flambeau does not have, such as xpu, have no autocast to turn off.
        self._devices = [device for device in ("cpu", "cuda") if f"Autocast{device.upper()}" in names]
        self._before: list[tuple[str, bool]] = []
        self._excluded = 0

    def __enter__(self) -> None:
        self._before = [(device, _C.is_autocast_enabled(device)) for device in self._devices]
        for device in self._devices:
            _C.set_autocast_enabled(device, False)
        self._excluded = _C._excluded_keys()
        _C._set_excluded_keys(self._excluded | self._bits)

    def __exit__(self, *exception: Any) -> None:
        _C._set_excluded_keys(self._excluded)
        for device, enabled in self._before:
            _C.set_autocast_enabled(device, enabled)


class _AutoDispatchBelowAutograd(_ExcludeDispatchKeyGuard):
    """A region in which calls are not recorded, and kernels for Autograd do not run."""

    def __init__(self) -> None:
        super().__init__(DispatchKeySet(DispatchKey.AutogradCPU))
