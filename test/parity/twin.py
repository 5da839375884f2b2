"""The same thing in the other framework: functions, tensors, dtypes, containers.

Nothing here knows an operator: a function of torch is found under the same dotted path in flambeau, and a
Python function of the operator database is rebuilt with `flambeau` where its globals say `torch`.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
import torch

# Where the functions of the database live, outermost spelling first.
NAMESPACES = (
    "", "nn.functional", "linalg", "fft", "special", "signal.windows", "masked", "sparse", "Tensor",
)  # fmt: skip
REBOUND = ("torch.testing.",)


@contextlib.contextmanager
def _freeze_rng_state(*_: Any, **__: Any) -> Iterator[None]:
    state = flambeau.get_rng_state()
    try:
        yield
    finally:
        flambeau.set_rng_state(state)


# Parts of PyTorch's testing machinery that reach into its insides, done with flambeau's means.
STANDINS = {"freeze_rng_state": _freeze_rng_state}


class Missing(AttributeError):
    """flambeau has nothing of this name."""


def _walk(root: Any, path: str) -> Any:
    for part in filter(None, path.split(".")):
        root = getattr(root, part)
    return root


@functools.cache
def _paths() -> dict[int, str]:
    found: dict[int, str] = {}
    for namespace in NAMESPACES:
        try:
            space = _walk(torch, namespace)
        except AttributeError:
            continue
        for name in sorted(dir(space), key=lambda n: n.startswith("_")):  # public names first
            value = getattr(space, name, None)
            if callable(value):
                found.setdefault(id(value), f"{namespace}.{name}".lstrip("."))
    return found


def _path_of(function: Any) -> str | None:
    if isinstance(function, torch._ops.OpOverloadPacket):
        return f"ops.aten.{function.__name__}"
    if isinstance(function, torch._ops.OpOverload):
        return f"ops.aten.{function._schema.name.split('::')[1]}"
    return _paths().get(id(function))


def twin(function: Callable[..., Any]) -> Callable[..., Any]:
    """What flambeau has in place of a function of torch, or of one written with torch's functions."""
    if isinstance(function, functools.partial):
        return functools.partial(twin(function.func), *function.args, **function.keywords)
    if isinstance(function, types.FunctionType) and function.__module__.startswith(REBOUND):
        return STANDINS.get(function.__name__) or _rebound(function)
    if getattr(operator, getattr(function, "__name__", ""), None) is function:
        return function
    path = _path_of(function)
    if path is None:
        raise Missing(f"no path for {function!r}")
    try:
        return _walk(flambeau, path)
    except AttributeError as error:
        raise Missing(path) from error


def _rebound(function: types.FunctionType) -> Callable[..., Any]:
    space = _Globals(function.__globals__)
    cells = tuple(types.CellType(_other(cell.cell_contents)) for cell in function.__closure__ or ())
    copy = types.FunctionType(
        function.__code__, space, function.__name__, _other(function.__defaults__), cells or None
    )
    copy.__kwdefaults__ = _other(function.__kwdefaults__)
    return copy


class _Globals(dict):
    """The globals of a function of the database, with flambeau for torch and its functions rebuilt alike."""

    def __init__(self, original: dict[str, Any]) -> None:
        super().__init__(
            {k: v for k, v in original.items() if not isinstance(v, types.FunctionType | types.ModuleType)}
        )
        self["__builtins__"] = __builtins__
        for name, value in original.items():
            if value is torch:
                self[name] = flambeau
            elif isinstance(value, types.ModuleType):
                self[name] = self._module(value)
            elif isinstance(value, types.FunctionType):
                self[name] = _Late(value)

    @staticmethod
    def _module(module: types.ModuleType) -> Any:
        if not module.__name__.startswith("torch."):
            return module
        return _LateModule(module.__name__.removeprefix("torch."))


class _Late:
    """A function that is looked for when it is called, since most globals of a module are never used."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return twin(self.function)(*args, **kwargs)


class _LateModule:
    def __init__(self, path: str) -> None:
        self.path = path

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(_walk(flambeau, self.path), name)
        except AttributeError as error:
            raise Missing(f"{self.path}.{name}") from error


def _other(value: Any) -> Any:
    """A default or a closed-over value in flambeau's terms."""
    if isinstance(value, torch.Tensor | torch.dtype | torch.device | tuple | list | dict):
        return to_flambeau(value)
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        return _Late(value)
    return value


# --- values ---------------------------------------------------------------------------------------


def to_flambeau(value: Any) -> Any:
    """A sample in flambeau's terms: tensors keep values, dtype, strides and whether they require grad."""
    if isinstance(value, torch.Tensor):
        return tensor_to_flambeau(value)
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        try:
            return getattr(flambeau, str(value).removeprefix("torch."))
        except AttributeError as error:
            raise Missing(str(value)) from error
    if isinstance(value, torch.device):
        return flambeau.device(str(value))
    if isinstance(value, torch.Size):
        return flambeau.Size(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(to_flambeau, value))
    if isinstance(value, tuple | list):
        return type(value)(map(to_flambeau, value))
    if isinstance(value, dict):
        return {k: to_flambeau(v) for k, v in value.items()}
    if isinstance(value, torch.Generator):
        return flambeau.Generator().set_state(tensor_to_flambeau(value.get_state()))
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        return twin(value)
    if isinstance(value, torch.nn.Module):
        return _layer(value)
    return value


def _layer(value: torch.nn.Module) -> Any:
    """A layer without parameters, such as a distance."""
    twin_layer = getattr(flambeau.nn, type(value).__name__)()
    for name, option in vars(value).items():
        if not name.startswith("_"):
            setattr(twin_layer, name, to_flambeau(option))
    return twin_layer


class NotDense(Exception):
    """A sample with a layout that is out of scope here."""


def tensor_to_flambeau(value: torch.Tensor) -> flambeau.Tensor:
    """A tensor of the same dtype, sizes, strides and values; it shares no memory with `value`."""
    if value.layout != torch.strided or value.is_quantized or value.is_nested:
        raise NotDense(str(value.layout))
    dtype = to_flambeau(value.dtype)
    if value.device.type != "cpu":
        return flambeau.empty_strided(value.shape, value.stride(), dtype=dtype, device=value.device.type)
    plain = value.detach().resolve_conj().resolve_neg()
    if plain.numel() == 0:
        result = flambeau.empty_strided(tuple(plain.shape), plain.stride(), dtype=dtype)
    else:
        span = 1 + sum((size - 1) * stride for size, stride in zip(plain.shape, plain.stride(), strict=True))
        memory = plain.as_strided((span,), (1,)).clone()
        result = flambeau.from_dlpack(memory).as_strided(tuple(plain.shape), plain.stride())
    return result.requires_grad_() if value.requires_grad else result


def to_torch(value: Any) -> Any:
    """A result in torch's terms."""
    if isinstance(value, flambeau.Tensor):
        return _tensor_to_torch(value)
    if isinstance(value, flambeau.dtype):
        return getattr(torch, str(value).split(".")[-1])
    if isinstance(value, flambeau.Size):
        return torch.Size(value)
    if isinstance(value, tuple | list):
        return tuple(map(to_torch, value))
    if isinstance(value, dict):
        return {k: to_torch(v) for k, v in value.items()}
    return value


def _tensor_to_torch(value: flambeau.Tensor) -> torch.Tensor:
    dtype = to_torch(value.dtype)
    if value.device.type != "cpu":
        return torch.empty(tuple(value.shape), dtype=dtype, device=value.device.type)
    if value.is_sparse:
        parts = _tensor_to_torch(value._indices()), _tensor_to_torch(value._values())
        return torch.sparse_coo_tensor(*parts, tuple(value.shape), is_coalesced=value.is_coalesced())
    if value.numel() == 0:
        return torch.empty(tuple(value.shape), dtype=dtype)
    return torch.from_dlpack(value.detach().resolve_conj().resolve_neg().contiguous()).clone()
