"""``FLAMBEAU_TRACE=directory``: an HTML page about each compilation.

A page shows the user's code, the captured graph, the graphs before and after each pass, the program with its
groups, the guards, why the graph ended, and how long each part took. It needs no other file and no network.
``index.html`` lists the pages. If a page cannot be written, a warning is issued and compilation continues.
"""

from __future__ import annotations

import functools
import html
import inspect
import itertools
import os
import re
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:72rem;padding:1.5rem;color:#1c2430;
background:#fff}
h1{font-size:1.35rem;margin:0 0 .25rem;overflow-wrap:anywhere}p{margin:.25rem 0 1rem;color:#5a6675}
details{border:1px solid #d6dde6;border-radius:6px;margin:.6rem 0;background:#f8fafc}
summary{cursor:pointer;padding:.5rem .8rem;font-weight:600}summary small{font-weight:400;color:#5a6675}
pre{margin:0;padding:.7rem .8rem;overflow-x:auto;border-top:1px solid #d6dde6;background:#fff;
font:13px/1.45 ui-monospace,monospace;border-radius:0 0 6px 6px}
mark{background:#ffe9a8;display:inline-block;min-width:100%}table{border-collapse:collapse;margin:.6rem 0}
td,th{padding:.2rem 1rem .2rem 0;text-align:left}td.n{text-align:right;font-variant-numeric:tabular-nums}
a{color:#0b5cad}.bar{display:inline-block;height:.6rem;background:#5b9bd5;border-radius:2px;vertical-align:middle}
.break{border-left:4px solid #d9822b;padding:.3rem .8rem;background:#fff6ec;white-space:pre-wrap;
font:13px ui-monospace,monospace}
@media(prefers-color-scheme:dark){body{background:#11161d;color:#d7dee8}details{background:#18202a;border-color:#2b3643}
pre{background:#11161d;border-color:#2b3643}mark{background:#5a4a12;color:#fff}.break{background:#2a2118}
a{color:#7db8f0}p,summary small{color:#93a1b3}}
"""
CAPTURED = "Captured graph"  # the title of the section that comes first
_numbers = itertools.count(1)
_thread = threading.local()


@dataclass
class Page:
    """The content of a page.

    Args:
        title: the function that is compiled.
        where: the first position of the graph.
        target: the directory.
    """

    title: str
    where: str
    target: Path
    begin: float = field(default_factory=time.perf_counter)
    code: str = ""  # as HTML
    reason: str = ""
    sections: list[tuple[str, str]] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict)

    def show_code(self, code: types.CodeType, marked: str) -> None:
        """Show a function's source; the line of a position such as ``file.py:3 in f`` is marked."""
        if code.co_filename == "<string>":  # Python 3.13 stores the text of ``python -c`` under this name
            return
        try:
            lines, first = inspect.getsourcelines(code)
        except (OSError, TypeError, IndentationError, SyntaxError):
            return
        found = re.match(rf"{re.escape(code.co_filename)}:(\d+) in ", marked.strip())
        line = int(found[1]) if found else -1
        shown = []
        for number, text in enumerate(lines, max(first, 1)):
            escaped = f"{number:5d}  {html.escape(text.rstrip())}"
            shown.append(f"<mark>{escaped}</mark>" if number == line else escaped)
        self.code = "\n".join(shown)

    def render(self) -> str:
        """Return the page as HTML."""
        total = time.perf_counter() - self.begin
        parts = [f"<h1>{html.escape(self.title)}</h1>", f"<p>{html.escape(self.where)}</p>"]
        if self.reason:
            parts.append(f'<div class="break">The graph ends: {html.escape(self.reason)}</div>')
        parts.append(_table([*self.times.items(), ("in all", total)]))
        if self.code:
            parts.append(f"<details open><summary>User code</summary><pre>{self.code}</pre></details>")
        ordered = sorted(self.sections, key=lambda section: section[0] != CAPTURED)
        for i, (title, text) in enumerate(ordered):
            count = text.count("\n") + 1
            parts.append(
                f"<details{' open' if i == 0 else ''}><summary>{html.escape(title)} "
                f"<small>{count} line{'s' if count > 1 else ''}</small></summary>"
                f"<pre>{html.escape(text)}</pre></details>"
            )
        return document(self.title, "\n".join(parts))


def document(title: str, body: str) -> str:
    """Return an HTML page that needs no other file."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _table(times: list[tuple[str, float]]) -> str:
    longest = max(seconds for _, seconds in times) or 1.0
    rows = "".join(
        f'<tr><td>{html.escape(name)}</td><td class="n">{seconds * 1e3:.2f} ms</td>'
        f'<td><span class="bar" style="width:{max(1, round(200 * seconds / longest))}px"></span></td></tr>'
        for name, seconds in times
    )
    return f"<table>{rows}</table>"


def directory(backend: Any = None) -> Path | None:
    """Return the directory of the pages: the backend's option "trace", or FLAMBEAU_TRACE, or None."""
    keywords = backend.keywords if isinstance(backend, functools.partial) else {}
    options = keywords.get("options") or {}
    name = options.get("trace") or os.environ.get("FLAMBEAU_TRACE")
    return Path(name) if name else None


@contextmanager
def page(title: str, where: str, target: Path | None) -> Iterator[Page | None]:
    """Write a page about the compilations in a region; a nested region adds to the outer region's page.

    Args:
        title: the function that is compiled.
        where: its position in the program.
        target: the directory; None: no page.
    """
    if target is None or getattr(_thread, "page", None) is not None:
        yield getattr(_thread, "page", None)
        return
    made = _thread.page = Page(title, where, target)
    try:
        yield made
    except BaseException as error:
        made.reason = f"{type(error).__name__}: {error}"
        raise
    finally:
        _thread.page = None
        _write(made)


def add(title: str, text: Callable[[], str]) -> None:
    """Add a section to the page of the thread, if there is one.

    Args:
        title: the section's title.
        text: returns the section's text; called only if there is a page.
    """
    current = getattr(_thread, "page", None)
    if current is not None:
        current.sections.append((title, text()))


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Add the time of a region to the page of the thread."""
    begin = time.perf_counter()
    try:
        yield
    finally:
        current = getattr(_thread, "page", None)
        if current is not None:
            current.times[name] = current.times.get(name, 0.0) + time.perf_counter() - begin


def changed(what: str, graph: Any, change: Callable[[Any], None]) -> None:
    """Run a pass on a graph, and show the graph before and after the pass if the pass changes it.

    Args:
        what: the graph's name.
        graph: the `fx.Graph`.
        change: the pass.
    """
    if getattr(_thread, "page", None) is None:
        change(graph)
        return
    before = str(graph)
    name = change.__name__
    with timed(f"pass {name}"):
        change(graph)
    after = str(graph)
    if after == before:
        add(f"{what}: {name} changes nothing", lambda: after)
        return
    add(f"{what} before {name}", lambda: before)
    add(f"{what} after {name}", lambda: after)


def _write(made: Page) -> None:
    name = f"{os.getpid()}_{next(_numbers):04d}_{re.sub('[^A-Za-z0-9_]+', '_', made.title)[:60]}.html"
    try:
        made.target.mkdir(parents=True, exist_ok=True)
        _replace(made.target / name, made.render())
        _replace(made.target / "index.html", _index(made.target))
    except OSError as error:
        warnings.warn(f"FLAMBEAU_TRACE: expected a directory to write to, got {error}", stacklevel=2)


def _index(target: Path) -> str:
    names = sorted(p.name for p in target.glob("*_*_*.html"))
    links = "".join(
        f'<li><a href="{html.escape(name)}">{html.escape(name.removesuffix(".html"))}</a></li>'
        for name in names
    )
    return document("Compilations", f"<h1>Compilations</h1><p>process, number, function</p><ul>{links}</ul>")


def _replace(path: Path, text: str) -> None:
    """Write a file in one step, since other processes may write to the directory too."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
