"""Compilation of programs. The compiler is not built yet: `compile` returns what it is given.

Programs ask whether a graph is being captured (`is_compiling`: never), and mark functions for the compiler
(`disable`, `allow_in_graph`): the marks do nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from flambeau._loading.lazy import attributes
from flambeau.compiler import config

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "config", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
    "substitute_in_graph", "wrap_numpy",
]  # fmt: skip

F = TypeVar("F")

BACKENDS = ("inductor", "eager", "aot_eager", "cudagraphs", "tvm", "onnxrt", "openxla")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile")

_told = False


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Return `model` unchanged, with a warning once per process: there is no compiler yet.

    Args:
        model: a function or Module; without it, a decorator is returned.
        fullgraph: whether one graph must hold the whole function; accepted.
        dynamic: whether sizes may change; accepted.
        backend: the name of a backend, or a function; checked, not called.
        mode: "default", "reduce-overhead", "max-autotune" or "max-autotune-no-cudagraphs".
        options: of the backend; only without `mode`.
        name: of the compiled function in logs; accepted.
        disable: return the model without the warning.
        recompile_limit: how often it may be compiled; accepted.
        isolate_recompiles: whether this call has a limit of its own; accepted.
        shapes_spec: which sizes may change; accepted.

    Raises:
        RuntimeError: both `mode` and `options`, or a mode or backend that does not exist.

    >>> import flambeau
    >>> compile(flambeau.sin, disable=True) is flambeau.sin
    True
    """
    if mode is not None and options is not None:
        raise RuntimeError("compile: expected mode or options, got both")
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"compile: expected a mode of {list(MODES)}, got {mode!r}")
    if not callable(backend) and backend not in BACKENDS:
        raise RuntimeError(
            f"compile: expected backend to be a function or one of {list(BACKENDS)}, got {backend!r}"
        )
    if model is None:
        return lambda function: compile(function, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: expected a function or Module, got {type(model).__name__}")
    if not disable:
        _tell()
    return model


def _tell() -> None:
    global _told
    if not _told:
        _told = True
        warnings.warn("compile: flambeau has no compiler yet; programs run as they are", stacklevel=3)


def is_compiling() -> bool:
    """Whether a graph is being captured: False."""
    return False


def is_dynamo_compiling() -> bool:
    """Whether a graph is being captured from bytecode: False."""
    return False


def is_exporting() -> bool:
    """Whether a program is being exported: False."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark a function as not to be compiled; without it, return a decorator."""
    return fn if fn is not None else lambda function: function


def allow_in_graph(fn: Any) -> Any:
    """Mark a function, or each function of a list, as one node of a graph."""
    if isinstance(fn, list | tuple):
        return [allow_in_graph(one) for one in fn]
    if not callable(fn):
        raise AssertionError(f"allow_in_graph: expected a function, got {type(fn).__name__}")
    return fn


def assume_constant_result(fn: F) -> F:
    """Mark a function whose result does not change between calls."""
    return fn


def substitute_in_graph(original_fn: Any, *, can_constant_fold_through: bool = False, **options: Any) -> Any:
    """Mark a Python function as the replacement of `original_fn` in graphs."""
    return lambda replacement: replacement


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that runs a function of NumPy arrays.

    >>> import flambeau
    >>> wrap_numpy(lambda x: x + 1)(flambeau.ones(2))
    tensor([2., 2.])
    """
    import functools

    import flambeau
    from flambeau.utils._pytree import tree_map_only

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        import numpy

        args, kwargs = tree_map_only(flambeau.Tensor, lambda t: t.numpy(), (args, kwargs))
        return tree_map_only((numpy.ndarray, numpy.generic), flambeau.as_tensor, fn(*args, **kwargs))

    return run


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Return an empty list: no backend can compile yet."""
    return []


def reset() -> None:
    """Do nothing: no compiled code is cached."""


def cudagraph_mark_step_begin() -> None:
    """Accept the mark of a new iteration; it has no effect."""


class set_stance:
    """Check the name of a stance and ignore it: there is no compiler yet. Also a context manager."""

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"set_stance: expected one of {list(_STANCES)}, got {stance!r}")
        self.stance = stance

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...

    def __call__(self, fn: F) -> F:
        return fn


__getattr__, __dir__ = attributes(__name__)
