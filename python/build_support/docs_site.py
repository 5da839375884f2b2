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
from build_support.docstrings import parse, public_members

ROOT = Path(__file__).parents[2]
MODULES = (
    "nn nn.functional nn.init nn.attention nn.attention.bias nn.attention.flex_attention nn.grad nn.parallel "
    "nn.parameter nn.utils nn.utils.parametrizations nn.utils.parametrize nn.utils.prune nn.utils.rnn "
    "optim optim.lr_scheduler utils.data distributions autograd func amp linalg fft "
    "special fx jit sparse masked random hub library overrides"
).split()
# The layers of `nn` by the files that define them: a page for each.
TOPICS = {
    "activation": "Activations",
    "linear": "Linear maps and tables",
    "conv": "Convolutions",
    "pooling": "Pooling",
    "unpooling": "Pooling by norms and at random, and its inverse",
    "padding": "Padding",
    "normalization": "Normalization",
    "cross_map": "Normalization over neighbouring channels",
    "dropout": "Dropout",
    "rnn": "Recurrent networks",
    "attention": "Attention and bags of vectors",
    "transformer": "Transformers",
    "rearrange": "Rearrangement, resizing and distances",
    "loss": "Losses",
    "margin_loss": "Losses of margins, counts and sequences",
    "adaptive": "Softmax over many classes",
    "containers": "Containers of modules",
    "parameter_containers": "Containers of parameters",
    "parameter": "Parameters and buffers",
    "module": "Module",
    "hooks": "Hooks",
    "lazy": "Layers that take a size from the first input",
    "data_parallel": "Several devices",
}
GUIDES = {
    "Programs under flambeau": [
        "compat.md",
        "extending.md",
        "distributed.md",
        "simulate.md",
        "programs.md",
        "parity.md",
        "overrides-and-autocast.md",
        "fx.md",
        "compile.md",
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


def pages_of(name: str) -> dict[str, str]:
    """Return the pages of a public module by file name: one, or for `nn` a list and a page for each topic."""
    module = importlib.import_module(f"flambeau.{name}")
    members = [(n, v) for n, v in _members(module) if not inspect.ismodule(v) and inspect.getdoc(v)]
    start = [f"# flambeau.{name}", "", inspect.getdoc(module) or "", ""]
    if name != "nn":
        return {f"{name}.md": "\n".join([*start, *(line for n, v in members for line in _member(n, v))])}
    topics: dict[str, list[tuple[str, Any]]] = {}
    for member, value in members:
        topics.setdefault(_topic(value), []).append((member, value))
    if not set(topics) <= set(TOPICS):
        raise SystemExit(f"docs_site: no title for the layers of {sorted(set(topics) - set(TOPICS))}")
    pages = {}
    for topic, title in TOPICS.items():
        file = f"layers/{topic}.md"
        lines = [line for n, v in topics[topic] for line in _member(n, v)]
        pages[file] = "\n".join([f"# {title}", "", *lines])
        listed = ", ".join(f"[{n}]({file}#{n.lower()})" for n, _ in topics[topic])
        start.append(f"- [{title}]({file}): {listed}")
    return {"nn.md": "\n".join([*start, ""]), **pages}


def _members(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a module defines; of a module of operators, which are defined in C++, what it shows."""
    found = list(public_members(module))
    if found:
        yield from found
        return
    for name in sorted(n for n in dir(module) if not n.startswith("_")):
        value = getattr(module, name, None)
        if callable(value):
            yield name, value


def _member(name: str, value: Any) -> Iterator[str]:
    """Yield the lines of a class or function: its signature and the sections of its documentation."""
    yield from (f"## {name}", "", "```text", f"{name}{_signature(value)}", "```", "")
    doc = parse(inspect.getdoc(value))
    yield from (_markdown(doc.summary), "")
    if doc.body:
        yield from (_markdown(doc.body), "")
    for title, text in doc.sections.items():
        yield from (f"**{title}**", "")
        if title in ("Formula", "Gradient", "Example"):
            yield from ("```python" if title == "Example" else "```text", text, "```", "")
        elif title == "See also":
            yield from (", ".join(_link(n.strip(" `")) for n in " ".join(text.split()).split(",")), "")
        elif title == "Args" and doc.arguments:
            yield from (f"- `{n}`: {_markdown(meaning)}" for n, meaning in doc.arguments.items())
            yield ""
        else:
            yield from (_markdown(text), "")


def _link(name: str) -> str:
    """Return a link to a layer, or to a function of `nn.functional` written in Python; else the name."""
    nn = importlib.import_module("flambeau.nn")
    public = name.removeprefix("flambeau.").removeprefix("nn.")
    short = public.removeprefix("functional.")
    layer, function = getattr(nn, public, None), vars(nn.functional).get(short)
    if inspect.isclass(layer) and _topic(layer) in TOPICS:
        return f"[{_markdown(name)}](/modules/layers/{_topic(layer)}.md#{public.lower()})"
    if (getattr(function, "__module__", None) or "").startswith("flambeau.nn.functional"):
        return f"[{_markdown(name)}](/modules/nn.functional.md#{short.lower()})"
    return _markdown(name)


def _topic(layer: type) -> str:
    topic = layer.__module__.rpartition(".")[2]
    return {"_linear_loss": "loss"}.get(topic, topic)


def _markdown(text: str) -> str:
    """Return a text whose signs Markdown would take for its own as they are written."""
    pieces = text.replace("``", "`").split("`")
    escaped = [p if i % 2 else re.sub(r"([\\*_\[\]<>|])", r"\\\1", p) for i, p in enumerate(pieces)]
    return "`".join(escaped)


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
        {"Layers": ["modules/nn.md", *(f"modules/layers/{topic}.md" for topic in TOPICS)]},
        {"Modules": [f"modules/{name}.md" for name in MODULES if name != "nn"]},
        {"Decisions": [f"adr/{p.name}" for p in sorted((pages / "adr").glob("*.md"))]},
    ]


def main() -> None:
    """Collect the pages and run MkDocs over them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output: Path = parser.parse_args().output.resolve()
    pages = output / "pages"
    collect(pages)
    (pages / "modules/layers").mkdir(parents=True)
    for name in MODULES:
        for file, text in pages_of(name).items():
            (pages / "modules" / file).write_text(text)
    settings = {
        "site_name": "flambeau",
        "docs_dir": str(pages),
        "site_dir": str(output / "site"),
        "theme": {"name": "readthedocs", "highlightjs": False},  # no script from elsewhere
        "plugins": ["search"],
        "use_directory_urls": False,
        "nav": navigation(pages),
        "validation": {
            "links": {"anchors": "warn", "not_found": "warn", "absolute_links": "relative_to_docs"}
        },
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
