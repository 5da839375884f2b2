"""The one jinja2 environment, and the File that every target yields."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parents[1] / "templates"


@dataclass(frozen=True, slots=True)
class File:
    """One output; the path is relative to torchgen_out."""

    path: str
    text: str


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        auto_reload=False,
    )


@cache
def _template(name: str) -> jinja2.Template:
    return _environment().get_template(name)


def render(template: str, path: str, **inputs: Any) -> File:
    """Render a template with exactly these inputs."""
    return File(path, _template(template).render(**inputs))
