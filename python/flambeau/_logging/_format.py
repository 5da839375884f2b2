"""Lines of the log: level, time, process, place, artifact, message."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

_LETTERS = {"DEBUG": "V", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "C"}
_FOLDER = str(Path(__file__).resolve().parents[2]) + os.sep


def artifact_of(name: str) -> str | None:
    """Return the artifact of a logger's name, or None."""
    last = name.rpartition(".")[2]
    return last[2:] if last.startswith("__") and not last.endswith("__") else None


class LineFormatter(logging.Formatter):
    """Formatter that begins each line of a message with a prefix.

    The prefix is that of PyTorch: ``V1231 23:59:59.123000 4711 file.py:12] [__guards]``, with the letters
    V, I, W, E and C for the levels DEBUG to CRITICAL.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            text += "\n" + self.formatStack(record.stack_info)
        path = record.pathname.removeprefix(_FOLDER)
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micro = int(record.msecs) * 1000
        letter = _LETTERS.get(record.levelname, record.levelname)
        artifact = artifact_of(record.name)
        mark = f"[__{artifact}] " if artifact else ""
        prefix = f"{letter}{moment}.{micro:06d} {record.process} {path}:{record.lineno}] {mark}"
        return "\n".join(prefix + line for line in text.split("\n"))


def formatter() -> logging.Formatter:
    """Return the formatter of the environment (``TORCH_LOGS_FORMAT``), or the default one."""
    given = os.environ.get("TORCH_LOGS_FORMAT")
    return logging.Formatter(given) if given else LineFormatter()
