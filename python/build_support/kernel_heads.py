"""The comment that each kernel file opens with, and which files are kernel files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

# What the comment says, in this order. Each item opens a line and may continue on the next ones.
ITEMS = ("Formula", "Accumulates in", "NaN, infinity", "Error", "Source")

_COMMENT = re.compile(r"\A(?://[^\n]*\n)*")


def is_kernel_file(path: PurePath, text: str, kernels: Iterable[str]) -> bool:
    """Whether a file of aten/ops holds loops, is named as a kernel file, or defines one of `kernels`."""
    if path.parent.name == "loops" or path.stem.endswith("_cpu"):
        return True
    return any(re.search(rf"^\w[^;(\n]*\b{name}\(", text, re.MULTILINE) for name in kernels)


def problems(text: str) -> Iterator[str]:
    """Yield what is wrong with the comment that a kernel file opens with."""
    match = _COMMENT.match(text)
    lines = [line[2:].strip() for line in match.group().splitlines()] if match else []
    found: dict[str, str] = {}
    item = ""
    for line in lines:
        name = next((name for name in ITEMS if line.startswith(f"{name}:")), "")
        if name in found:
            yield f"item '{name}' is there twice"
        item = name or item
        if item:
            found[item] = found.get(item, "") + line.removeprefix(f"{name}:" if name else "").strip()
    if tuple(found) != ITEMS:
        yield f"expected the items {', '.join(ITEMS)} in this order, got {', '.join(found) or 'none'}"
    yield from (f"item '{name}' is empty" for name, said in found.items() if not said)
