"""Which loggers are on: settings of the environment and of `set_logs`, and the handlers that print."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from flambeau._logging._format import artifact_of, formatter
from flambeau._logging._tables import ARTIFACTS, COMPONENTS

VARIABLE, _OUT = "TORCH_LOGS", "TORCH_LOGS_OUT"
_LEVELS = {"+": logging.DEBUG, "": logging.INFO, "-": logging.ERROR}
_made: dict[str, set[str]] = {}  # artifact -> its loggers
_handlers: list[logging.Handler] = []


@dataclass
class Settings:
    """Levels of loggers by name, and the artifacts that are on."""

    levels: dict[str, int] = field(default_factory=dict)
    artifacts: set[str] = field(default_factory=set)


_current = Settings()


def help_text(is_long: bool = False) -> str:
    """Return what `TORCH_LOGS` can be set to; all artifacts where `is_long`."""
    lines = [
        f"{VARIABLE}: a list of names with commas between them.",
        "  name    a part or a module at level INFO, or an artifact",
        "  +name   the same at level DEBUG",
        "  -name   the same at level ERROR",
        "  help    this text; +help: with all artifacts",
        f"{_OUT} names a file that gets the lines too, TORCH_LOGS_FORMAT is a format of logging.Formatter.",
        "",
        "Parts:",
        *(f"  {name}" for name in sorted(COMPONENTS)),
        "",
        "Artifacts:",
    ]
    for name, one in sorted(ARTIFACTS.items()):
        if is_long or one.in_help:
            lines.append(f"  {name:<28}{one.description}" + (" (by name only)" if one.needs_name else ""))
    return "\n".join(lines)


def _wrong(name: str, who: str) -> str:
    valid = ", ".join(sorted({*COMPONENTS, *ARTIFACTS}))
    return (
        f"{who}: Invalid log settings: expected names of parts, artifacts or modules, got {name!r}; "
        f"valid names are {valid}"
    )


def is_module(name: str) -> bool:
    """Return whether a module can be imported; PyTorch's names mean those of flambeau."""
    first, dot, rest = name.partition(".")
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        return importlib.util.find_spec(("flambeau" if first == "torch" else first) + dot + rest) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def parsed(text: str) -> Settings:
    """Read the value of `TORCH_LOGS`; later names win."""
    out = Settings()
    for item in filter(None, (part.strip() for part in text.split(","))):
        sign = item[0] if item[0] in "+-" else ""
        name = item[len(sign) :]
        if name == "help":
            raise ValueError(help_text(is_long=sign == "+"))
        if name in ARTIFACTS:
            out.artifacts.add(name)
        elif name in COMPONENTS or is_module(name):
            for logger in COMPONENTS.get(name, (name,)):
                out.levels[logger] = _LEVELS[sign]
        else:
            raise ValueError(_wrong(item, VARIABLE))
    return out


def apply(settings: Settings) -> None:
    """Replace the active settings."""
    global _current
    for name in {*_current.levels, *(n for all_ in COMPONENTS.values() for n in all_)}:
        logging.getLogger(name).setLevel(logging.WARNING if name == "torch" else logging.NOTSET)
    _current = settings
    for name, level in settings.levels.items():
        logging.getLogger(name).setLevel(level)
    for artifact, names in _made.items():
        for name in names:
            _set_artifact(artifact, name)
    _set_handlers(settings.levels)


def _set_artifact(artifact: str, name: str) -> None:
    is_on = artifact in _current.artifacts
    logger = logging.getLogger(name)
    logger.setLevel(logging.DEBUG if is_on else logging.NOTSET)
    logger.propagate = is_on or not ARTIFACTS[artifact].needs_name
    if not logger.propagate and not logger.handlers:
        logger.addHandler(logging.NullHandler())  # else the last resort prints warnings


def artifact_logger(module: str, artifact: str) -> logging.Logger:
    """Return the logger of an artifact in a module."""
    name = f"{module}.__{artifact}"
    _made.setdefault(artifact, set()).add(name)
    _set_artifact(artifact, name)
    _set_handlers(_current.levels)
    return logging.getLogger(name)


def _set_handlers(levels: Iterable[str]) -> None:
    """Let the loggers of the framework, and others that have settings, print to stderr and the file."""
    if not _handlers:
        _handlers.append(logging.StreamHandler())
        if os.environ.get(_OUT):
            _handlers.append(logging.FileHandler(Path(os.environ[_OUT]), delay=True))
        for handler in _handlers:
            handler.setFormatter(formatter())
            handler.setLevel(logging.DEBUG)
    others = {name for name in levels if not name.startswith("torch.")}
    named = {name for names in _made.values() for name in names if not name.startswith("torch.")}
    for name in {"torch", *others, *named}:
        logger = logging.getLogger(name)
        is_covered = any(parent != name and name.startswith(parent + ".") for parent in others)
        is_silent = name in named and artifact_of(name) not in _current.artifacts
        if is_covered or is_silent:
            continue
        for handler in _handlers:
            if handler not in logger.handlers:
                logger.addHandler(handler)
        logger.propagate = False


def from_environment() -> bool:
    """Apply the settings of `TORCH_LOGS`; return whether there are any."""
    text = os.environ.get(VARIABLE, "")
    if text.strip():
        apply(parsed(text))
    return bool(text.strip())
