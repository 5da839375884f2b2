"""`make build` says what it compiles and why: the reasons that ninja gives for a small project."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "python" / "build_support" / "explain_build.py"
NINJA = ROOT / ".venv" / "bin" / "ninja"
PROJECT = """
flags = -O0
rule copy
  command = true $flags; cp $in $out
  description = Building C object $out
build all.gch: copy ../all.h
build one.o: copy ../one.c | ../shared.h all.gch
build two.o: copy ../two.c | ../shared.h all.gch
build all: phony one.o two.o
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    if not NINJA.exists():
        pytest.skip("ninja is not installed in .venv")
    for name in ("one.c", "two.c", "shared.h", "all.h"):
        (tmp_path / name).write_text(name)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "build.ninja").write_text(PROJECT)
    return tmp_path


def explained(project: Path) -> str:
    command = [sys.executable, SCRIPT, NINJA, project / "build"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def build(project: Path) -> None:
    subprocess.run([NINJA, "-C", project / "build"], check=True, capture_output=True)


def touch(path: Path) -> None:
    newest = max(p.stat().st_mtime_ns for p in path.parent.rglob("*")) + 10**9
    os.utime(path, ns=(newest, newest))


def test_a_first_build_compiles_everything(project: Path):
    assert explained(project) == "compiling 2:\n  2 because never compiled\n"
    build(project)
    assert explained(project) == "nothing to compile\n"


def test_a_changed_source_and_a_changed_header_are_named(project: Path):
    build(project)
    touch(project / "two.c")
    assert explained(project) == "compiling 1:\n  1 because two.c changed\n"
    touch(project / "shared.h")
    assert "2 because shared.h changed" in explained(project)


def test_a_header_inside_a_precompiled_one_is_named(project: Path):
    build(project)
    touch(project / "all.h")
    assert explained(project) == "compiling 2:\n  2 because all.h changed\n"


def test_changed_options_are_named(project: Path):
    build(project)
    rules = project / "build" / "build.ninja"
    rules.write_text(rules.read_text().replace("-O0", "-O2"))
    assert "2 because the compiler's options changed" in explained(project)


def test_the_question_compiles_nothing(project: Path):
    explained(project)
    assert not list((project / "build").glob("*.*o"))
