"""`new NAME`: scaffold an operator: its entry, its derivative and a test."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml

from codegen.commands.check import print_text
from codegen.fields import is_identifier
from codegen.load import DERIVATIVES, NATIVE, ROOT, load

KINDS = ("pointwise", "reduce", "composite", "kernels")
SCAFFOLD = Path(__file__).parent.with_name("scaffold.yaml")
_BANNER = re.compile(r"^# ==== (\w+) ====$", re.MULTILINE)


def run(argv: list[str]) -> int:
    """Append to both YAML files and write a test; all three pass `check`."""
    parser = argparse.ArgumentParser(prog="codegen new", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--kind", choices=KINDS, default="pointwise")
    parser.add_argument("--family", help="default: the operator's own name")
    options = parser.parse_args(argv)
    family = options.family or options.name
    problem = _problem(options.name, family)
    if problem:
        print(f"new: {problem}", file=sys.stderr)
        return 1
    before = {path: path.read_text(encoding="utf-8") for path in (NATIVE, DERIVATIVES)}
    texts = {key: text.format(name=options.name, family=family) for key, text in _scaffold(options.kind)}
    _append(NATIVE, family, texts["entry"])
    if "derivative" in texts:
        _append(DERIVATIVES, family, texts["derivative"])
    if "kernel" in texts:
        _write(ROOT / "aten" / "ops" / family / f"{options.name}_cpu.cpp", texts["kernel"])
    _, found = load()
    own = [d for d in found if options.name in d.message]
    if own:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
        print_text(own, sys.stderr)
        return 1
    _write(ROOT / "test" / "ops" / f"test_{options.name}.py", texts["test"])
    print("next: edit the entry, run `make codegen`, then `make build`")
    return 0


def _problem(name: str, family: str) -> str | None:
    if not is_identifier(name) or not is_identifier(family):
        return f"expected an identifier, got '{name if not is_identifier(name) else family}'"
    model, _ = load(keep_going=True)
    assert model is not None
    if any(op.schema.name.base == name for op in model.operators):
        return f"operator '{name}' exists already: see `python -m codegen where {name}`"
    return None


def _append(path: Path, family: str, entry: str) -> None:
    """Put an entry at the end of its family's section, which is made where it is missing."""
    text = path.read_text(encoding="utf-8")
    banners = list(_BANNER.finditer(text))
    index = next((i for i, b in enumerate(banners) if b.group(1) >= family), len(banners))
    exists = index < len(banners) and banners[index].group(1) == family
    after = index + 1 if exists else index
    at = banners[after].start() if after < len(banners) else len(text)
    head = text[:at].rstrip("\n")
    if not exists:
        head += f"\n\n# ==== {family} ===="
    alone = head.endswith(f"# ==== {family} ====")
    tail = text[at:]
    text = head + ("\n" if alone else "\n\n") + entry + ("\n" + tail if tail else "")
    path.write_text(text, encoding="utf-8")
    line = text[: text.index(entry)].count("\n") + 1
    print(f"{path.name}:{line}")


def _scaffold(kind: str) -> Iterable[tuple[str, str]]:
    """Yield entry, derivative (where the kind needs one) and test."""
    texts: dict[str, dict[str, str]] = yaml.safe_load(SCAFFOLD.read_text(encoding="utf-8"))
    return texts[kind].items()


def _write(path: Path, text: str) -> None:
    """Write a new file; one that exists is the author's."""
    if path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(f"{path.relative_to(ROOT).as_posix()}:1")
