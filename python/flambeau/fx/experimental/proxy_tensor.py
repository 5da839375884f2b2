"""make_fx records operators below autograd; that needs tracing at the dispatcher, which is not built yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from flambeau.fx._symbolic_trace import Tracer
from flambeau.fx.experimental.symbolic_shapes import SymBool, SymFloat, SymInt
from flambeau.fx.interpreter import Interpreter

__all__ = [
    "DecompositionInterpreter",
    "ProxyTorchDispatchMode",
    "PythonKeyTracer",
    "dispatch_trace",
    "get_innermost_proxy_mode",
    "get_proxy_mode",
    "is_sym_node",
    "make_fx",
    "maybe_disable_fake_tensor_mode",
    "py_sym_types",
]

py_sym_types = (SymInt, SymFloat, SymBool)


def _missing(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: flambeau does not record operators at the dispatcher; use fx.symbolic_trace, "
        "which records Python calls"
    )


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Any = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    **_options: Any,
) -> Any:
    """Record operators below autograd. Raises NotImplementedError: this is not built yet."""
    _missing("make_fx")


def dispatch_trace(*args: Any, **kwargs: Any) -> Any:
    """Record operators below autograd. Raises NotImplementedError: this is not built yet."""
    _missing("dispatch_trace")


class PythonKeyTracer(Tracer):
    """The class of tracers of operators, for `isinstance`."""


class ProxyTorchDispatchMode:
    """The mode of `make_fx`, for `isinstance`. No object of it exists yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _missing("ProxyTorchDispatchMode")


class DecompositionInterpreter(Interpreter):
    """Runs a graph with decompositions; there are no recorded operators to decompose yet."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _missing("DecompositionInterpreter")


def get_innermost_proxy_mode() -> None:
    """Return None: no mode records operators yet."""


def get_proxy_mode() -> None:
    """Return None: no mode records operators yet."""


@contextmanager
def maybe_disable_fake_tensor_mode() -> Iterator[None]:
    """Do nothing: there is no mode of fake tensors to leave."""
    yield


@contextmanager
def disable_proxy_modes_tracing(enable_current: bool = False) -> Iterator[None]:
    """Do nothing: no mode records operators yet."""
    yield


def is_sym_node(node: Any) -> bool:
    """Return False: no node holds a symbolic number."""
    return isinstance(getattr(node, "meta", {}).get("val"), py_sym_types)
