"""Which entries of the YAML files an edit has changed: one digest per entry, kept beside the outputs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

ENTRIES = ".entries"
_START = re.compile(r"^- (?:func|name): *([\w.]+)", re.MULTILINE)
_COMMENT = re.compile(r"^#.*\n", re.MULTILINE)


def digests(inputs: Iterable[Path]) -> dict[str, str]:
    """Return "native_functions.yaml: mish" -> a digest of its text; comments between entries do not count."""
    found: dict[str, str] = {}
    for path in inputs:
        text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
        starts = list(_START.finditer(text))
        ends = [*(match.start() for match in starts[1:]), len(text)]
        for match, end in zip(starts, ends, strict=True):
            entry = text[match.start() : end].rstrip()
            found[f"{path.name}: {match[1]}"] = hashlib.sha256(entry.encode()).hexdigest()[:16]
    return found


def read(folder: Path) -> dict[str, str]:
    """Return the digests of the last run; none before the first."""
    path = folder / ENTRIES
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return dict(line.rsplit(" ", 1) for line in lines)


def write(folder: Path, found: Mapping[str, str]) -> None:
    """Keep the digests for the next run."""
    lines = [f"{name} {digest}\n" for name, digest in found.items()]
    (folder / ENTRIES).write_text("".join(lines), encoding="utf-8")


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the entries that are new, gone or different."""
    names = dict.fromkeys([*after, *before])
    return [name for name in names if before.get(name) != after.get(name)]
