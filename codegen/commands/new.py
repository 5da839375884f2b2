"""`new NAME`: scaffold an operator: its entry, its derivative and a test."""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import yaml

from codegen.commands.check import print_text
from codegen.language.spelling import CPP_KEYWORDS
from codegen.load import load
from codegen.model import Model
from codegen.reading.fields import is_identifier
from codegen.reading.files import DERIVATIVES, NATIVE, ROOT
from codegen.source.diagnostics import did_you_mean

KINDS = ("pointwise", "reduce", "composite", "kernels")
SCAFFOLD = Path(__file__).parent.with_name("scaffold.yaml")
# How derived forms end, and what gives them.
_DERIVED = {
    "_out": "and put `out` into its variants",
    "_copy": "a view, and put `copy` into its variants",
}
_BANNER = re.compile(r"^# ==== (\w+) ====$", re.MULTILINE)


def run(argv: list[str]) -> int:
    """Append to both YAML files and write a test; all three pass `check`."""
    parser = argparse.ArgumentParser(prog="codegen new", description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--kind", choices=KINDS, default="pointwise")
    parser.add_argument("--family", help="the family that it joins; see the sections of the YAML files")
    parser.add_argument("--new-family", action="store_true", help="begin the family, and its section")
    options = parser.parse_args(argv)
    family = options.family or (options.name if options.new_family else "")
    problem = _problem(options.name, family, options.new_family)
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


def _problem(name: str, family: str, new_family: bool) -> str | None:
    if not is_identifier(name) or not name.islower():
        return f"expected a lower-case identifier, got '{name}'"
    model, _ = load(keep_going=True)
    if model is None:
        return "the YAML files cannot be read: see `python -m codegen check`"
    families = sorted({op.family for op in model.operators if not op.internal})
    return _taken(name, model) or _wrong_family(family, families, new_family)


def _taken(name: str, model: Model) -> str | None:
    """A name is taken by an operator, by a form that is derived from one, or by another name of one."""
    if name in CPP_KEYWORDS or keyword.iskeyword(name):
        return f"'{name}' is a keyword of C++ or Python"
    for op in model.operators:
        names = {str(form.schema.name).partition(".")[0] for form in op.forms}
        if name == op.schema.name.base and name in names:
            return f"operator '{name}' exists already: see `python -m codegen where {name}`"
        if name in names or name in {alias.rpartition(".")[2] for alias in op.aliases}:
            kind = "a form" if name in names else "an alias"
            return f"'{name}' is {kind} of '{op.name}': see `python -m codegen explain {op.name}`"
    if name.endswith("_"):
        return f"in-place forms are derived: make '{name.rstrip('_')}', and put `inplace` into its variants"
    for ending, remedy in _DERIVED.items():
        if name.endswith(ending):
            return f"forms '*{ending}' are derived: make '{name.removesuffix(ending)}', {remedy}"
    if name.startswith("_foreach_"):
        return f"overloads over lists are derived: make '{name.removeprefix('_foreach_')}' with `foreach:`"
    return None


def _wrong_family(family: str, families: list[str], is_new: bool) -> str | None:
    if not family:
        return f"name its family: --family F, one of {', '.join(families)}; or begin one: --new-family"
    if not is_identifier(family) or not family.islower():
        return f"expected a lower-case identifier, got '{family}'"
    if is_new and family in families:
        return f"family '{family}' exists already: leave --new-family out"
    if not is_new and family not in families:
        hint = did_you_mean(family, families) or f"families: {', '.join(families)}"
        return f"there is no family '{family}'; {hint} To begin one, add --new-family"
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
