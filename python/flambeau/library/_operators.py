"""Operators that a program defines: their kernels by device, derivatives, and how a call finds them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau import _C
from flambeau._arguments.schemas import bind, classes_of, parts_of_type, without_aliases
from flambeau._C import Tensor
from flambeau._operators.casts import is_eligible
from flambeau.library._context import fake_kernel
from flambeau.library._schemas import FunctionSchema
from flambeau.ops import CUSTOM, Overload, OverloadPacket, entry_name

Function = Callable[..., Any]

# What a kernel may be registered for, and the device that it serves; None: every device.
KEYS: dict[str, str | None] = {
    "CPU": "cpu",
    "CUDA": "cuda",
    "Meta": "meta",
    "CompositeImplicitAutograd": None,
    "CompositeExplicitAutograd": None,
    "CompositeExplicitAutogradNonFunctional": None,
    "Autograd": None,
    "AutogradCPU": "cpu",
    "AutogradCUDA": "cuda",
    "AutocastCPU": "cpu",
    "AutocastCUDA": "cuda",
    "AutocastXPU": "xpu",
    "BackendSelect": None,
    "PrivateUse1": "privateuseone",
    "MPS": "mps",
    "XPU": "xpu",
}


def device_of_key(key: str) -> str | None:
    """Return the device kind of a key's kernels, by its present name; None if they are for all kinds."""
    return _C._get_privateuse1_backend_name() if key == "PrivateUse1" else KEYS[key]


_IMPLICIT = "CompositeImplicitAutograd"
_BACKENDS = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", _IMPLICIT)


_registration = threading.RLock()  # calls do not take it


class _Nesting(threading.local):
    """The operators whose kernels for Autograd are running in this thread: they call below it."""

    def __init__(self) -> None:
        self.operators: list[Any] = []


_below = _Nesting()


class UnaliasedKernel:
    """A kernel whose results must not share memory with arguments; calls of the operator check it."""

    def __init__(self, function: Function) -> None:
        self.function, self.__name__ = function, getattr(function, "__name__", "kernel")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def device_kinds(given: str | Sequence[str] | None) -> list[str]:
    """Return the names under which a kernel for device types is kept: "" for all of them.

    Raises: RuntimeError for a type that does not exist, or a device with an index.
    """
    if given is None:
        return [""]
    devices = [(text, flambeau.device(text)) for text in ([given] if isinstance(given, str) else given)]
    for text, device in devices:
        if device.index is not None:
            raise RuntimeError(f"register_kernel: expected device types without an index, got {text!r}")
    return [device.type for _, device in devices]


class CustomOperator(_C._DefinedOperator):
    """One overload with its kernels. C++ runs plain calls; all others come to `_call_slowly`.

    Args:
        namespace: the library's.
        schema: its schema.
    """

    def __init__(self, namespace: str, schema: FunctionSchema) -> None:
        self.namespace, self.schema = namespace, schema
        self.kernels: dict[str, Function] = {}  # the active ones
        self._registered: dict[str, dict[object, Function]] = {}  # by key and registration
        self.tags: list[Any] = []
        self.by_device: dict[str, Function] = {}
        self.disabled: set[str] = set()  # devices whose kernel in `by_device` is not called
        self.fake: Function | None = None
        self.backward: tuple[Function, Function | None] | None = None
        self.vmap: Function | None = None
        self.casts: dict[str, Any] = {}
        #: Whether Autograd records the operator itself, which then needs a derivative; else its kernel
        #: is recorded, operator by operator.
        self.is_opaque = False
        self._differentiable: Any = None
        self.callers: list[Any] = []  # objects whose calls C++ passes to this operator
        self._describe(self.name, self._described_parameters(), self._described_results())

    def _described_parameters(self) -> list[tuple[Any, ...]]:
        def classes(type_: str) -> tuple[type, ...]:  # Python code looks at the items of tuples and dicts
            return () if parts_of_type(type_.removesuffix("?"))[0] else classes_of(type_)

        return [
            (
                *(p.name, p.type, classes(p.type), p.keyword_only, p.name in self.schema.mutates),
                *([self.schema.defaults[p.name]] if p.name in self.schema.defaults else []),
            )
            for p in sorted(self.schema.parameters, key=lambda p: p.keyword_only)
        ]

    def _described_results(self) -> list[tuple[str, Any]]:
        types = [without_aliases(text) for text in self.schema.results]
        return [(text, classes_of(text)) for text in types]

    def changed(self) -> None:
        """Let the next call look up its kernel again, after a registration."""
        self._differentiable = None
        self._forget_kernels()

    def removed(self) -> None:
        """Let objects that called this operator look it up again."""
        for caller in self.callers:
            caller._call_target(None)
        self.callers.clear()

    def add_kernel(self, key: str, token: object, function: Function) -> None:
        """Make a kernel the active one of a key, until its token is removed."""
        with _registration:
            self._registered.setdefault(key, {})[token] = function
            self._refresh(key)

    def remove_kernel(self, key: str, token: object) -> None:
        """Take a kernel away; the one that was registered before it is active again."""
        with _registration:
            self._registered.get(key, {}).pop(token, None)
            self._refresh(key)

    def _refresh(self, key: str) -> None:
        last = next(reversed(self._registered[key].values()), None) if self._registered.get(key) else None
        if last is None or getattr(last, "__name__", "") == "fallthrough_kernel":
            self.kernels.pop(key, None)
        else:
            self.kernels[key] = last
        self.changed()

    @property
    def name(self) -> str:
        """``namespace::name`` with the overload."""
        overload = f".{self.schema.overload}" if self.schema.overload else ""
        return f"{self.namespace}::{self.schema.base}{overload}"

    def _call_slowly(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the operator under modes, overrides, transforms or autocast, or with odd arguments."""
        given = (*args, *kwargs.values())
        if _C._has_torch_function(given):
            return _C._call_overrides(self.overload, given, args, kwargs, False)
        values = bind(self.name, self.schema.parameters, self.schema.defaults, args, kwargs)
        tensors = list(tensors_in(values))
        device = tensors[0].device.type if tensors else "cpu"
        if not _C._profiler_enabled():
            return self._cast(values, device, tensors)
        handle, result = _C._profiler_enter_operator(self.name, tuple(values.values())), None
        try:
            result = self._cast(values, device, tensors)
        finally:
            _C._profiler_exit_operator(handle, result)
        return result

    def _cast(self, values: dict[str, Any], device: str, tensors: list[Tensor]) -> Any:
        kernel = self.kernels.get(f"Autocast{device.upper()}")
        dtype: Any = self.casts.get(device)
        if (kernel is None and dtype is None) or not flambeau.is_autocast_enabled(device):
            return self._recorded(values, device, tensors)
        if kernel is not None:  # it turns autocast off before it calls the operator again
            return self._call(kernel, values)
        cast = {
            name: _map(value, lambda t: t.to(dtype) if is_eligible(t, device) else t)
            for name, value in values.items()
        }
        with flambeau.autocast(device, enabled=False):
            return self._recorded(cast, device, list(tensors_in(cast)))

    def _recorded(self, values: dict[str, Any], device: str, tensors: list[Tensor]) -> Any:
        """Run the kernel for Autograd, or one that records the registered derivative."""
        at = self.kernels.get(f"Autograd{device.upper()}") or self.kernels.get("Autograd")
        if at is not None and self not in _below.operators:
            _below.operators.append(self)
            try:
                return self._call(at, values)
            finally:
                _below.operators.pop()
        kernel = self._kernel(device)
        if not (self._is_recorded(kernel) or self.vmap is not None) or not (
            self.vmap is not None or (flambeau.is_grad_enabled() and any(t.requires_grad for t in tensors))
        ):
            return self._run(kernel, values)
        from flambeau.library._derivatives import apply

        return apply(self, kernel, values)

    def _kernel_for(self, device: str) -> tuple[Any, ...]:
        """What C++ runs for tensors of a device, until `changed`."""
        from flambeau.library._derivatives import recorder_of

        kernel = self._kernel(device)
        is_unaliased = isinstance(kernel, UnaliasedKernel)
        is_composite = not self._is_recorded(kernel)
        return (
            kernel.function if isinstance(kernel, UnaliasedKernel) else kernel,
            None if is_composite else recorder_of(self),
            self.backward[1] if self.backward else None,
            is_unaliased,
            is_composite,
            f"Autocast{device.upper()}" in self.kernels or device in self.casts,
            f"Autograd{device.upper()}" in self.kernels or "Autograd" in self.kernels,
        )

    def _is_recorded(self, kernel: Function) -> bool:
        is_composite = kernel is self.kernels.get(_IMPLICIT)
        return not is_composite and (self.is_opaque or self.backward is not None)

    def has_meta_in_dispatcher(self) -> bool:
        """Whether C++ gives sizes and dtypes of results; a function of Python does here."""
        return False

    def _kernel(self, device: str) -> Function:
        if device == "meta":
            named = fake_kernel(self.fake) if self.fake else self.kernels.get("Meta")
        else:
            key = next((k for k in KEYS if device_of_key(k) == device and not k.startswith("Auto")), "")
            own = None if device in self.disabled else self.by_device.get(device)
            named = own or self.kernels.get(key)
        found = named or next((self.kernels[k] for k in _BACKENDS if k in self.kernels), None)
        found = found or self.by_device.get("")
        if device == "meta" and named is None and _IMPLICIT not in self.kernels:
            found = None
        if found is None:
            have = sorted({*self.kernels, *self.by_device} - {""}) or "none"
            remedy = "; register_fake() gives one" if device == "meta" else ""
            raise NotImplementedError(
                f"{self.name}: expected a kernel for device {device!r}, found {have}{remedy}"
            )
        return found

    def _run(self, kernel: Function, values: dict[str, Any]) -> Any:
        """Run a backend's kernel, unless a mode or a class with `__torch_dispatch__` answers."""
        tensors = list(tensors_in(values))
        if kernel is not self.kernels.get(_IMPLICIT) and _C._has_torch_dispatch(tensors):
            args = tuple(values[p.name] for p in self.schema.parameters if not p.keyword_only)
            kwargs = {p.name: values[p.name] for p in self.schema.parameters if p.keyword_only}
            return _C._call_torch_dispatch(self.overload, tensors, args, kwargs)
        return self._call(kernel, values)

    @property
    def overload(self) -> Any:
        """The object that `ops` has for it."""
        packet = getattr(getattr(flambeau.ops, self.namespace), self.schema.base)
        return getattr(packet, self.schema.overload or "default")

    def _call(self, kernel: Function, values: dict[str, Any]) -> Any:
        is_unaliased = isinstance(kernel, UnaliasedKernel)
        function = kernel.function if isinstance(kernel, UnaliasedKernel) else kernel
        return self._run_kernel(function, is_unaliased, list(values.values()))

    def call_kernel(self, kernel: Function, values: dict[str, Any]) -> Any:
        """Run a kernel below Autograd."""
        with flambeau.no_grad():
            return self._run(kernel, values)


def tensors_in(values: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors among arguments, and in lists of them."""
    for value in values.values():
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, Tensor))


def _map(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    return [_map(item, change) for item in value] if isinstance(value, list | tuple) else value


def define(namespace: str, schema: FunctionSchema) -> CustomOperator:
    """Add an operator; RuntimeError if there is one of this name and overload."""
    if entry := namespace != "aten" and entry_name(schema.base, schema.overload, namespace):
        raise RuntimeError(f"library: {entry} is already defined by a compiled extension")
    overloads = CUSTOM.setdefault((namespace, schema.base), {})
    if schema.overload in overloads:
        raise RuntimeError(f"library: {overloads[schema.overload].name} is already defined")
    for other in overloads.values():
        other.removed()  # a name that stood for one overload stands for several now
    operator = overloads[schema.overload] = CustomOperator(namespace, schema)
    _forget(namespace, schema.base)
    return operator


def remove(operator: CustomOperator) -> None:
    """Take an operator away again."""
    key = (operator.namespace, operator.schema.base)
    if CUSTOM.get(key, {}).get(operator.schema.overload) is operator:
        del CUSTOM[key][operator.schema.overload]
        if not CUSTOM[key]:
            del CUSTOM[key]
        operator.removed()
        _forget(*key)


def _forget(namespace: str, name: str) -> None:
    """Remove the name from the cache of `ops`."""
    vars(getattr(flambeau.ops, namespace)).pop(name, None)


def name_of(op: Any) -> str:
    """Return ``namespace::name``, with the overload if there is one, of a name, overload or definition."""
    if isinstance(op, CustomOperator):
        return op.name
    inner = getattr(op, "_opoverload", op)
    if isinstance(inner, Overload | OverloadPacket):
        return inner.qualified.removesuffix(".default")
    if not isinstance(inner, str):
        raise ValueError(f"library: expected an operator or 'namespace::name', got {type(op).__name__}")
    if inner.count("::") != 1:
        raise ValueError(f"library: expected 'namespace::name', got {inner!r}")
    return inner.removesuffix(".default")


def defined(space: str, base: str, overload: str) -> CustomOperator | None:
    """Return the operator that Python, or a compiled library, has defined under a name; None: neither."""
    found = CUSTOM.get((space, base), {}).get(overload)
    if found is None:
        from flambeau.library._compiled import define_new

        define_new()
        found = CUSTOM.get((space, base), {}).get(overload)
    return found


def find(op: Any) -> CustomOperator:
    """Return the operator for a name, an overload or a definition; raise RuntimeError if there is none."""
    if isinstance(op, CustomOperator):
        return op
    name = name_of(op)
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    found = defined(space, base, overload)
    if found is None:
        known = "" if space != "aten" else "; operators of aten take kernels by Library.impl only"
        raise RuntimeError(f"library: operator {name} does not exist{known}")
    return found


def below_autograd() -> bool:
    """Whether the kernel for Autograd of a custom operator is running."""
    return bool(_below.operators) or not _C.is_grad_enabled()
