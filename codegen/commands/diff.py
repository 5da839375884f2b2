"""`diff REV`: operators and outputs that changed against a git revision."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from codegen.commands.check import print_text
from codegen.language.schema import show_schema
from codegen.load import load
from codegen.model import Model, Operator
from codegen.reading.files import DERIVATIVES, NATIVE, ROOT
from codegen.targets import emit_all
from codegen.writing import output
from codegen.writing.output import MANIFEST, OUTPUT

_ASPECTS: dict[str, Callable[[Operator], object]] = {
    "schema": lambda op: show_schema(op.schema),
    "family": lambda op: op.family,
    "body": lambda op: op.body,
    "dtype": lambda op: op.dtype,
    "forms": lambda op: tuple((f.name, f.is_function, f.is_method) for f in op.forms),
    "derivative": lambda op: op.derivative,
    "namespace": lambda op: op.namespace,
    "infix": lambda op: op.infix,
    "doc": lambda op: op.doc,
    "test": lambda op: op.test,
    "rules": lambda op: (op.extra, op.batching, op.flops, op.element),
}


def run(argv: list[str]) -> int:
    """Print what a revision would see: + added, - removed, ~ changed."""
    parser = argparse.ArgumentParser(prog="codegen diff", description=__doc__)
    parser.add_argument("revision", help="a git revision, for example HEAD or main")
    revision = parser.parse_args(argv).revision
    with tempfile.TemporaryDirectory() as folder:
        try:
            old = _load_revision(revision, Path(folder))
        except subprocess.CalledProcessError as error:
            print(f"diff: {error.stderr.decode().strip()}", file=sys.stderr)
            return 2
    new, found = load(keep_going=True)
    if found:
        print_text(found, sys.stderr)
    assert new is not None
    changes = list(_operators(old, new))
    print("\n".join(changes) or "no operator changed")
    print("\n".join(_outputs(revision, old, new)))
    return 0


def _git(*args: str) -> bytes:
    result = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, check=True)
    return result.stdout


def _load_revision(revision: str, folder: Path) -> Model:
    for source in (NATIVE, DERIVATIVES):
        (folder / source.name).write_bytes(_git("show", f"{revision}:{source.name}"))
    # Mistakes of the past are not this command's business.
    model, _ = load(folder / NATIVE.name, folder / DERIVATIVES.name, keep_going=True)
    assert model is not None
    return model


def _operators(old: Model, new: Model) -> Iterator[str]:
    before = {op.name: op for op in old.operators}
    after = {op.name: op for op in new.operators}
    for name, op in after.items():
        if name not in before:
            yield f"+ {name}   ({op.position.file}:{op.position.line})"
        elif aspects := _changed(before[name], op):
            yield f"~ {name}: {', '.join(aspects)}   ({op.position.file}:{op.position.line})"
    yield from (f"- {name}" for name in before if name not in after)


def _changed(old: Operator, new: Operator) -> list[str]:
    return [name for name, aspect in _ASPECTS.items() if aspect(old) != aspect(new)]


def _outputs(revision: str, old: Model, new: Model) -> Iterator[str]:
    """Compare fresh outputs with the revision's manifest, or with those that its YAML files give today."""
    after = _hashes(new)
    try:
        text = _git("show", f"{revision}:{OUTPUT.name}/{MANIFEST}").decode()
        before, by = output.read_manifest(text), f"by the {MANIFEST}"
    except subprocess.CalledProcessError:
        before, by = _hashes(old), "by the YAML files alone"
    changed = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    yield f"{OUTPUT.name}: {len(changed)} of {len(after)} outputs change ({by})"
    for name in changed:
        yield f"  {'+' if name not in before else '-' if name not in after else '~'} {name}"


def _hashes(model: Model) -> dict[str, str]:
    return output.read_manifest(output.manifest(emit_all(model)))
