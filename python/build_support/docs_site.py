"""Builds the documentation's site with MkDocs: guides, operators by family, classes by module.

``docs_site.py OUTPUT``: pages are collected in OUTPUT/pages, the site is written to OUTPUT/site. A link that
leads nowhere ends the build.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
MODULES = (
    "nn nn.init nn.utils optim optim.lr_scheduler utils.data distributions autograd func amp linalg fft "
    "special fx jit sparse masked random hub library overrides"
).split()
GUIDES = {
    "Programs under flambeau": [
        "compat.md",
        "programs.md",
        "parity.md",
        "overrides-and-autocast.md",
        "fx.md",
    ],
    "Operators": ["spec-language.md", "adding-an-operator.md", "vmap-loops.md"],
    "How it works": ["architecture.md", "autograd.md", "transforms.md", "performance.md"],
}


def collect(pages: Path) -> None:
    """Copy guides, decisions, pictures and the generated reference to one folder."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    shutil.copytree(ROOT / "torchgen_out/docs", pages / "reference")
    (pages / "reference/README.md").rename(pages / "reference/index.md")
    start = (ROOT / "README.md").read_text().replace("](docs/", "](").replace('src="docs/', 'src="')
    (pages / "index.md").write_text(start)
    for page in pages.rglob("*.md"):
        page.write_text("".join(_without_outside_links(page, pages)))


def _without_outside_links(page: Path, pages: Path) -> Iterator[str]:
    """Yield the page's lines; what links to a file outside the site names it instead."""
    for line in page.read_text().splitlines(keepends=True):
        for text, target in re.findall(r"\[([^\]]+)\]\(([^)#\s]+)[^)]*\)", line):
            inside = target.startswith(("http", "mailto")) or _leads_to_a_page(page, target, pages)
            if not inside and _in_repository(page, target, pages):
                line = re.sub(rf"\[{re.escape(text)}\]\({re.escape(target)}[^)]*\)", text, line)
        yield line


def _leads_to_a_page(page: Path, target: str, pages: Path) -> bool:
    found = (page.parent / target).resolve()
    return found.is_file() and found.is_relative_to(pages.resolve())


def _in_repository(page: Path, target: str, pages: Path) -> bool:
    """Whether a link of a guide, or of the README, leads to a file of the repository."""
    folders = (ROOT / "docs" / page.relative_to(pages).parent, ROOT)
    return any((folder / target).resolve().exists() for folder in folders)


def of_module(name: str) -> str:
    """Return the page of a public module: its functions and classes with what `help()` says of them."""
    module = importlib.import_module(f"flambeau.{name}")
    lines = [f"# flambeau.{name}", "", inspect.getdoc(module) or "", ""]
    public = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    for member in sorted(set(public)):
        value = getattr(module, member, None)
        if inspect.ismodule(value) or not callable(value) or not inspect.getdoc(value):
            continue
        lines += [
            f"## {member}",
            "",
            "```text",
            f"{member}{_signature(value)}",
            "",
            inspect.getdoc(value) or "",
            "```",
            "",
        ]
    return "\n".join(lines)


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value)).replace("'", "")
    except (TypeError, ValueError):  # generated functions begin their documentation with it
        return "(...)"


def navigation(pages: Path) -> list[Any]:
    """Return the site's table of contents."""
    families = sorted(p.name for p in (pages / "reference").glob("*.md") if p.name != "index.md")
    return [
        {"Start": "index.md"},
        *({title: files} for title, files in GUIDES.items()),
        {"Operators by family": ["reference/index.md", *(f"reference/{name}" for name in families)]},
        {"Modules": [f"modules/{name}.md" for name in MODULES]},
        {"Decisions": [f"adr/{p.name}" for p in sorted((pages / "adr").glob("*.md"))]},
    ]


def main() -> None:
    """Collect the pages and run MkDocs over them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output: Path = parser.parse_args().output.resolve()
    pages = output / "pages"
    collect(pages)
    (pages / "modules").mkdir()
    for name in MODULES:
        (pages / f"modules/{name}.md").write_text(of_module(name))
    settings = {
        "site_name": "flambeau",
        "docs_dir": str(pages),
        "site_dir": str(output / "site"),
        "theme": {"name": "readthedocs", "highlightjs": False},  # no script from elsewhere
        "plugins": ["search"],
        "use_directory_urls": False,
        "nav": navigation(pages),
        "validation": {"links": {"anchors": "warn", "not_found": "warn", "absolute_links": "warn"}},
    }
    (output / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False))
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(output / "mkdocs.yml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    print(f"wrote {output / 'site' / 'index.html'}: {len(list(pages.rglob('*.md')))} pages")


if __name__ == "__main__":
    main()
