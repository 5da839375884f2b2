"""Levels of the loggers of flambeau's parts, by short names, and loggers of single artifacts.

The environment variable ``TORCH_LOGS`` sets them too: ``TORCH_LOGS="+dynamo,guards"``, or ``help``.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau._logging import _settings
from flambeau._logging._tables import ARTIFACTS, COMPONENTS

__all__ = ["LazyString", "getArtifactLogger", "set_logs", "warning_once"]


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """Return a module's logger of one kind of artifact, such as "graph_code"; `set_logs` turns it on.

    Raises: ValueError for a kind that is not known.
    """
    if artifact_name not in ARTIFACTS:
        raise ValueError(
            f"getArtifactLogger: expected an Artifact name of {sorted(ARTIFACTS)}, got {artifact_name!r}"
        )
    return _settings.artifact_logger(module_qname, artifact_name)


def set_logs(*, modules: dict[str, int | bool] | None = None, **settings: Any) -> None:
    """Set the levels of parts and turn artifacts on; what is not named goes back to its default.

    The environment variable ``TORCH_LOGS`` has priority: where it is set, the call only warns.

    Args:
        modules: levels of loggers by the names of their modules; True for an artifact's name.
        settings: a level by the name of a part ("dynamo", "autograd", ..., "all"), or a bool by that of an
            artifact.
    Raises: TypeError for other names, ValueError for other values, ModuleNotFoundError or ValueError for
        modules that do not exist.
    """
    if _IS_SET_BY_ENVIRONMENT:
        logging.getLogger("torch").warning("set_logs: %s is set and keeps priority", _settings.VARIABLE)
        return
    _check(settings)
    made = _settings.Settings()
    for name, value in settings.items():
        if name in COMPONENTS and value is not None:
            made.levels |= dict.fromkeys(COMPONENTS[name], int(value))
        elif name in ARTIFACTS and value:
            made.artifacts.add(name)
    for name, level in (modules or {}).items():
        if not _settings.is_module(name):
            parent = name.rpartition(".")[0]
            kind = ModuleNotFoundError if parent and not _settings.is_module(parent) else ValueError
            raise kind(f"set_logs: expected modules that can be imported, got {name!r}")
        made.levels[name] = int(level)
    _settings.apply(made)


def _check(settings: dict[str, Any]) -> None:
    known = (0, 10, 20, 30, 40, 50)
    for name, value in settings.items():
        if name in COMPONENTS:
            if value is not None and value not in known:
                raise ValueError(
                    f"set_logs: Unrecognized log level for {name}: expected one of {known}, got {value!r}"
                )
        elif name not in ARTIFACTS:
            raise TypeError(
                f"set_logs: expected one of {sorted({*COMPONENTS, *ARTIFACTS})}, got an unexpected keyword "
                f"argument {name!r}"
            )
        elif not isinstance(value, bool):
            raise ValueError(f"set_logs: Expected bool for the artifact {name}, got {value!r}")


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


_IS_SET_BY_ENVIRONMENT = _settings.from_environment()

__getattr__, __dir__ = attributes(__name__)
