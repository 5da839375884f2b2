"""Levels of the loggers of flambeau's parts, by short names, and loggers of single artifacts."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from flambeau._loading.lazy import attributes

__all__ = ["LazyString", "getArtifactLogger", "set_logs", "warning_once"]

# Short name -> loggers. They go by PyTorch's names, since programs set and read them by those.
_COMPONENTS = {
    "all": ("torch",),
    "dynamo": ("torch._dynamo",),
    "aot": ("torch._functorch.aot_autograd", "torch._functorch._aot_autograd"),
    "autograd": ("torch.autograd",),
    "dynamic": ("torch.fx.experimental.symbolic_shapes", "torch.fx.experimental.sym_node"),
    "inductor": ("torch._inductor",),
    "distributed": ("torch.distributed",),
    "c10d": ("torch.distributed.distributed_c10d", "torch.distributed.rendezvous"),
    "ddp": ("torch.nn.parallel.distributed",),
    "fsdp": ("torch.distributed.fsdp",),
    "dtensor": ("torch.distributed._tensor", "torch.distributed.tensor"),
    "onnx": ("torch.onnx",),
    "export": ("torch.export", "torch._export"),
}
_ARTIFACTS = frozenset(
    "bytecode aot_graphs aot_joint_graph ddp_graphs graph graph_code graph_code_verbose graph_breaks "
    "side_effects graph_sizes guards recompiles recompiles_verbose trace_source trace_call trace_bytecode "
    "output_code kernel_code schedule perf_hints pre_grad_graphs post_grad_graphs ir_pre_fusion "
    "ir_post_fusion onnx_diagnostics fusion overlap cudagraphs sym_node compiled_autograd "
    "compiled_autograd_verbose cudagraph_static_inputs benchmarking autotuning incremental "
    "graph_region_expansion inductor_metrics hierarchical_compile compute_dependencies caching".split()
)
_made: dict[str, set[str]] = {}  # artifact -> its loggers
_on: set[str] = set()
_modules: set[str] = set()


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """Return a module's logger of one kind of artifact, such as "graph_code"; `set_logs` turns it on.

    Raises: ValueError for a kind that is not known.
    """
    if artifact_name not in _ARTIFACTS:
        raise ValueError(
            f"getArtifactLogger: expected an artifact name of {sorted(_ARTIFACTS)}, got {artifact_name!r}"
        )
    name = f"{module_qname}.__{artifact_name}"
    _made.setdefault(artifact_name, set()).add(name)
    logger = logging.getLogger(name)
    logger.setLevel(logging.DEBUG if artifact_name in _on else logging.NOTSET)
    return logger


def set_logs(*, modules: dict[str, int | bool] | None = None, **settings: Any) -> None:
    """Set the levels of parts and turn artifacts on; what is not named goes back to its default.

    Args:
        modules: levels of loggers by the names of their modules.
        settings: a level by the name of a part ("dynamo", "autograd", ..., "all"), or a bool by that of an
            artifact.
    Raises: TypeError for other names, ValueError for other values.
    """
    _check(settings)
    levels = {name: level for name, level in (modules or {}).items() if _is_module(name)}
    _reset()
    for name, value in settings.items():
        if name in _COMPONENTS and value is not None:
            for logger in _COMPONENTS[name]:
                logging.getLogger(logger).setLevel(value)
        elif name in _ARTIFACTS and value:
            _on.add(name)
            for logger in _made.get(name, ()):
                logging.getLogger(logger).setLevel(logging.DEBUG)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    _modules.update(levels)


def _check(settings: dict[str, Any]) -> None:
    known = (0, 10, 20, 30, 40, 50)
    for name, value in settings.items():
        if name in _COMPONENTS:
            if value is not None and value not in known:
                raise ValueError(
                    f"set_logs: Unrecognized log level for {name}: expected one of {known}, got {value!r}"
                )
        elif name not in _ARTIFACTS:
            raise TypeError(
                "set_logs: expected a component or an artifact as keyword, got an unexpected keyword "
                f"argument {name!r}"
            )
        elif not isinstance(value, bool):
            raise ValueError(f"set_logs: Expected bool for the artifact {name}, got {value!r}")


def _is_module(name: str) -> bool:
    import_module(name)
    return True


def _reset() -> None:
    _on.clear()
    for names in (*_COMPONENTS.values(), *_made.values(), _modules):
        for name in names:
            logging.getLogger(name).setLevel(logging.WARNING if name == "torch" else logging.NOTSET)
    _modules.clear()


@functools.lru_cache(None)
def warning_once(logger_obj: Any, *args: Any, **kwargs: Any) -> None:
    """Log a warning, once for the same arguments."""
    logger_obj.warning(*args, **kwargs)


class LazyString:
    """Text that a function makes when it is printed, for arguments of loggers."""

    def __init__(self, func: Callable[..., str], *args: Any, **kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


@contextmanager
def hide_warnings(filter_fn: Callable[..., bool] = lambda *args, **kwargs: True) -> Iterator[None]:
    """Within the block, drop warnings for which the function, called as `showwarning` is, gives False."""
    shown = warnings.showwarning

    def show(*args: Any, **kwargs: Any) -> None:
        if filter_fn(*args, **kwargs):
            shown(*args, **kwargs)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown


def trace_structured(name: str, *args: Any, **kwargs: Any) -> None:
    """Do nothing: the trace of compilations is off, as it is unless the environment names a folder for it."""


dtrace_structured = trace_structured


def get_structured_logging_overhead() -> float | None:
    """Return None, the time that the trace took: it is off."""
    return None


__getattr__, __dir__ = attributes(__name__)
