"""Kernels as objects, what a program says about an operator's arguments, and operators made of Triton."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from flambeau import _C
from flambeau.library._custom import custom_op
from flambeau.library._interposed import number_of
from flambeau.library._operators import KEYS, CustomOperator, device_of_key, find
from flambeau.ops import CUSTOM, Overload, OverloadPacket, entry_name, overload_of

Function = Callable[..., Any]

# namespace::name -> the arguments for which `register_symm_mem_args` asks for shared memory of devices.
symmetric_memory: dict[str, list[str]] = {}


class SafeKernelFunction:
    """A kernel that was found for a dispatch key."""

    def __init__(self, name: str, key: str, function: Function) -> None:
        self._name, self._key, self._function = name, key, function

    def call_boxed(self, keyset: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call the kernel with the dispatch keys by which it passes calls on."""
        return self._function(keyset, *args, **kwargs)

    def __repr__(self) -> str:
        return f"SafeKernelFunction(debug='{self._name} for {self._key}')"


def _kernel_of(operator: CustomOperator, key: str) -> Function:
    if key not in KEYS:
        raise RuntimeError(f"get_kernel: expected a dispatch key of {sorted(KEYS)}, got {key!r}")
    found = operator.kernels.get(key)
    device = device_of_key(key)
    if found is None and device is not None and not key.startswith("Auto"):
        try:
            found = operator._kernel(device)
        except NotImplementedError:
            found = None
    if found is None:
        raise RuntimeError(f"get_kernel: no kernel for {key} for {operator.name}")
    return found


def get_kernel(op: Any, dispatch_key: Any) -> SafeKernelFunction:
    """Return the kernel that an operator runs for a dispatch key.

    Args:
        op: the operator: a definition, an overload or ``namespace::name``.
        dispatch_key: the key, such as "CPU".
    Returns: an object whose ``call_boxed(None, *args)`` runs the kernel.
    Raises: RuntimeError if there is no such operator or kernel, TypeError if the key is not a dispatch key.

    Example:
        >>> kernel = flambeau.library.get_kernel("aten::add.Tensor", "CPU")
        >>> hasattr(kernel, "call_boxed")
        True
    """
    if not isinstance(dispatch_key, str) and not hasattr(dispatch_key, "name"):
        raise TypeError(f"get_kernel: expected a dispatch key, got {type(dispatch_key).__name__}")
    key = dispatch_key if isinstance(dispatch_key, str) else str(dispatch_key.name)
    inner = getattr(op, "_opoverload", op)
    name = inner if isinstance(inner, str) else getattr(inner, "qualified", "")
    if isinstance(inner, Overload | OverloadPacket | str) and name.startswith("aten::"):
        if name.removesuffix(".default").removeprefix("aten::") not in _defined_in_aten():
            return SafeKernelFunction(name, key, _aten(name, key))
    operator = find(op)
    found = _kernel_of(operator, key)
    return SafeKernelFunction(operator.name, key, lambda keys, /, *args, **kwargs: found(*args, **kwargs))


def _defined_in_aten() -> set[str]:
    return {op.name.removeprefix("aten::") for ops in CUSTOM.values() for op in ops.values()}


def _aten(name: str, key: str) -> Function:
    """The kernel that an operator of the specification has for a key now, whatever replaces it later."""
    from flambeau._surface.dispatch_keys import bits_of, is_key

    base, _, overload = name.removeprefix("aten::").partition(".")
    entry = entry_name(base, overload)
    if not entry:
        raise RuntimeError(f"get_kernel: operator {name} does not exist")
    if not is_key(key):
        raise ValueError(f"get_kernel: Invalid dispatch key: expected the name of a key, got {key}")
    number = number_of("Autograd" if key.startswith("Autograd") else key)
    kernel = _C._kernel_at(entry, number) if number >= 0 else None
    if kernel is None:
        raise RuntimeError(f"get_kernel: no kernel for {key} for {name}")

    def call(*args: Any, **kwargs: Any) -> Any:
        keys = args[0]
        result = _C._call_kernel(kernel, args[1:], kwargs, 0 if keys is None else bits_of(keys))
        if result is NotImplemented:
            raise RuntimeError(f"{name}: expected arguments that fit its schema, got others")
        return result

    return call


def register_torch_dispatch(
    op: Any,
    torch_dispatch_class: Any,
    func: Function | None = None,
    /,
    *,
    lib: Any = None,
) -> Any:
    """Register a function that answers for an operator in place of a ``__torch_dispatch__``.

    Args:
        op: an overload, a definition of `custom_op`, or "namespace::name".
        torch_dispatch_class: a subclass of Tensor or of `TorchDispatchMode`.
        func: ``func(mode_or_class, op, types, args, kwargs)``, asked instead of ``__torch_dispatch__``;
            without it a decorator is returned.
        lib: accepted; rules live as long as the process.
    Returns: `func`, or the decorator.
    Raises: RuntimeError if the operator has a rule for the class, or does not exist.

    Example:
        >>> import flambeau
        >>> from flambeau.utils._python_dispatch import TorchDispatchMode
        >>> class Zeros(TorchDispatchMode): ...
        >>> @flambeau.library.register_torch_dispatch("aten::exp", Zeros)
        ... def rule(mode, op, types, args=(), kwargs=None):
        ...     return args[0] * 0
        >>> x = flambeau.ones(2)
        >>> with Zeros():
        ...     y = flambeau.exp(x)
        >>> y
        tensor([0., 0.])
    """
    if func is None:
        return lambda function: register_torch_dispatch(op, torch_dispatch_class, function, lib=lib)
    inner = getattr(op, "_opoverload", op)
    if isinstance(inner, Overload):
        overload = inner
    elif isinstance(inner, str) and inner.startswith("aten::"):
        overload = overload_of(inner.removeprefix("aten::").removesuffix(".default"))
    else:
        overload = find(inner).overload
    key = (overload, torch_dispatch_class)
    if key in _C._torch_dispatch_rules:
        raise RuntimeError(
            f"register_torch_dispatch: {overload} already has a rule for {torch_dispatch_class.__name__}"
        )
    _C._torch_dispatch_rules[key] = func
    return func


def triton_op(
    name: str,
    fn: Function | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    schema: str | None = None,
) -> Any:
    """Decorate a function that launches Triton kernels to make it an operator.

    flambeau runs it like an operator of `custom_op`, on any device; launching a Triton kernel raises an
    error.

    Args:
        name: the name, ``namespace::name``.
        fn: the function. None makes a decorator.
        mutates_args: the names of the tensors that the function writes to, or "unknown".
        schema: the schema, ``(Tensor x, ...) -> Tensor``. None derives it from the annotations.
    Returns: the operator. `register_autograd` registers its gradient.
    Raises: ValueError for another form of name, or annotations that do not determine a schema.

    Example:
        >>> @flambeau.library.triton_op("docs_library::plus_one", mutates_args=())
        ... def plus_one(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x + 1
        >>> plus_one(flambeau.ones(2))
        tensor([2., 2.])
    """
    if fn is None:
        return lambda function: triton_op(name, function, mutates_args=mutates_args, schema=schema)
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Function, /) -> NoReturn:
    """Refuse a Triton kernel, because flambeau has no CUDA device to run it.

    Args:
        triton_kernel: the kernel.
    Returns: never.
    Raises: ModuleNotFoundError.

    Example:
        >>> flambeau.library.wrap_triton.__name__
        'wrap_triton'
    """
    raise ModuleNotFoundError(
        "wrap_triton: flambeau has no Triton kernels, which need a CUDA device", name="triton"
    )


def set_symmetric_memory(operator: CustomOperator, arg_names: Sequence[str]) -> None:
    """Note the arguments of an operator that other devices must reach; nothing reads it without them."""
    symmetric_memory[operator.name] = list(arg_names)
