"""Writing torchgen_out/: only what changed, no orphans, a manifest, and a stamp for the no-op."""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from codegen.writing import entry_digests

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "torchgen_out"
MANIFEST = "MANIFEST"
STAMP = ".stamp"
KEPT = ("README.md", MANIFEST, STAMP, entry_digests.ENTRIES)
_SOURCES = {
    "codegen": (".py", ".j2", ".yaml"),
    "aten/ops": (".cpp", ".cu", ".cuh"),
    "aten/core": ("shape_rules.cpp",),
}


@dataclass(frozen=True, slots=True)
class Changes:
    """What a run did to the output folder."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int


def walk(folder: Path) -> Iterator[str]:
    """Yield every file below a folder, relative to it."""
    pending = [""]
    while pending:
        below = pending.pop()
        with os.scandir(folder / below) as entries:
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path)
                else:
                    yield path


def input_hash(inputs: Iterable[Path]) -> str:
    """Hash everything that the outputs depend on: YAML, generator, handwritten sources."""
    digest = hashlib.sha256(f"{sys.version}\n".encode())
    files = list(inputs)
    for folder, suffixes in _SOURCES.items():
        base = ROOT / folder
        if base.is_dir():
            names = sorted(n for n in walk(base) if n.endswith(suffixes))
            files += [base / name for name in names]
    for path in files:
        data = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def is_current(folder: Path, inputs: Collection[str], with_manifest: bool) -> bool:
    """Whether the stamp says that one of these inputs gave exactly the files that are there."""
    stamp = folder / STAMP
    if not stamp.is_file():
        return False
    made_by, manifest_hash, *state = [*stamp.read_text(encoding="utf-8").splitlines(), "", ""]
    if made_by not in inputs or state[:-2] != list(_state(folder)):
        return False
    path = folder / MANIFEST
    return not with_manifest or (path.is_file() and _hash(path.read_bytes()) == manifest_hash)


def write_stamp(folder: Path, inputs: str, files: Mapping[str, str]) -> None:
    """Record the inputs, the manifest that belongs to them, and the state of every output."""
    text = "\n".join([inputs, _hash(manifest(files).encode()), *_state(folder)]) + "\n"
    (folder / STAMP).write_text(text, encoding="utf-8")


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _state(folder: Path) -> Iterator[str]:
    """Size and time of each output: an edit by hand shows."""
    for path in sorted(walk(folder)):
        if path not in KEPT:
            stat = (folder / path).stat()
            yield f"{stat.st_size} {stat.st_mtime_ns} {path}"


def write_files(folder: Path, files: Mapping[str, str]) -> Changes:
    """Write what differs, remove what is not an output any more."""
    written: list[str] = []
    for path, text in files.items():
        target = folder / path
        data = text.encode()
        if target.is_file() and target.read_bytes() == data:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        written.append(path)
    removed = sorted(p for p in walk(folder) if p not in files and p not in KEPT)
    for path in removed:
        target = folder / path
        target.unlink()
        parent = target.parent
        while parent != folder and not any(parent.iterdir()):
            parent.rmdir()
            parent = parent.parent
    return Changes(tuple(written), tuple(removed), len(files) - len(written))


def manifest(files: Mapping[str, str]) -> str:
    """Return one line per output: path and sha256."""
    lines = [f"{path} {_hash(text.encode())}\n" for path, text in sorted(files.items())]
    return "".join(lines)


def write_manifest(folder: Path, files: Mapping[str, str]) -> None:
    """Write the manifest if its text has changed."""
    path, text = folder / MANIFEST, manifest(files)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def read_manifest(text: str) -> dict[str, str]:
    """Return path -> sha256."""
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if line)


def verify(folder: Path, files: Mapping[str, str], remedy: str) -> int:
    """Compare outputs with the manifest of a folder; print what differs and return an exit status."""
    path = folder / MANIFEST
    committed = read_manifest(path.read_text(encoding="utf-8")) if path.is_file() else {}
    fresh = read_manifest(manifest(files))
    if committed == fresh:
        print(f"{MANIFEST}: {len(fresh)} outputs reproduce")
        return 0
    for name in sorted(committed.keys() | fresh.keys()):
        if committed.get(name) != fresh.get(name):
            state = "new" if name not in committed else "gone" if name not in fresh else "differs"
            print(f"{MANIFEST}: {state:<8} {name}", file=sys.stderr)
    print(remedy, file=sys.stderr)
    return 1


# In a source tree and in an installed package: what tells whether code fits the flambeau that loads it.
_PACKAGES = (ROOT / "python" / "flambeau", ROOT.parent)


def built_for() -> str:
    """Return flambeau's version and the fingerprint of its specification, which `flambeau.ops` compares."""
    package = next(path for path in _PACKAGES if (path / "_loading" / "staleness.py").is_file())
    scope = runpy.run_path(str(package / "_loading" / "staleness.py"))
    version = re.search(r'^__version__ = "(.*)"', (package / "version.py").read_text(encoding="utf-8"), re.M)
    assert version is not None
    return f"flambeau {version[1]}, specification {scope['fingerprint'](str(ROOT))[:16]}"
