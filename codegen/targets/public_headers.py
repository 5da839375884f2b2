"""Headers under the names that programs include: include/torch/extension.h and others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from codegen.model import Model
from codegen.writing.render import File, render

_TABLE = Path(__file__).parents[1] / "public_headers.yaml"


@cache
def table() -> dict[str, list[str]]:
    """Return header that implements names -> headers that programs include for them."""
    import yaml

    rows: dict[str, list[str]] = yaml.safe_load(_TABLE.read_text())
    return rows


def emit(_: Model) -> Iterator[File]:
    """Yield one forwarding header per name."""
    for implementation, names in table().items():
        for name in names:
            yield render("public_header.h.j2", f"include/{name}", implementation=implementation)
