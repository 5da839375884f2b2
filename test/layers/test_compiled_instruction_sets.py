"""The libraries of loops: one for each instruction set of the build; a process loads one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import flambeau as fb
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = Path(fb.__file__).parent
SETS = fb._C._cpu_capabilities()
needs_libraries = pytest.mark.skipif(SETS == ["generic"], reason="loops are linked into libflambeau.so")
needs_nm = pytest.mark.skipif(shutil.which("nm") is None, reason="nm (binutils) is not installed")
LOADED = """
import flambeau
flambeau.ones(3) + 1
maps = open("/proc/self/maps").read().split()
print(*sorted({name.rsplit("/", 1)[1] for name in maps if "libflambeau_loops" in name}))
"""


def output_of(code: str, package: Path = PACKAGE.parent, **environment: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(package), **environment}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def library(isa: str) -> Path:
    return PACKAGE / "lib" / f"libflambeau_loops_{isa}.so"


def named_tables() -> set[str]:
    """The tables that the sources ask for by name, when they are first used."""
    sources = [*ROOT.glob("aten/**/*.cpp"), *ROOT.glob("torchgen_out/aten/*.cpp")]
    return {
        name for source in sources for name in re.findall(r"FLAMBEAU_LOOP_TABLE\((\w+)\)", source.read_text())
    }


def exported(path: Path) -> list[str]:
    command = ["nm", "-D", "--defined-only", path]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.split()[-1] for line in lines]


@needs_libraries
@needs_nm
@pytest.mark.parametrize("isa", SETS)
def test_a_library_has_the_tables_that_the_sources_name_and_shows_nothing_else(isa: str):
    tables = [
        re.fullmatch(rf"_ZN8flambeau5loops\d+(\w+)_loops_{isa}E", name) for name in exported(library(isa))
    ]
    assert None not in tables
    assert {table[1] for table in tables} == named_tables()


@needs_libraries
@pytest.mark.parametrize("isa", SETS[: SETS.index(fb._C._cpu_capability()) + 1])
def test_a_process_loads_the_loops_of_its_set_alone(isa: str):
    assert output_of(LOADED, FLAMBEAU_CPU_ISA=isa).split() == [library(isa).name]


def without_loops(folder: Path) -> Path:
    """The package by links, except the libraries of loops."""
    (folder / "flambeau" / "lib").mkdir(parents=True)
    for file in [*PACKAGE.iterdir(), *(PACKAGE / "lib").iterdir()]:
        if file.name != "lib" and not file.name.startswith("libflambeau_loops"):
            (folder / "flambeau" / file.relative_to(PACKAGE)).symlink_to(file.resolve())
    return folder


@needs_libraries
def test_a_missing_library_is_an_error_that_names_its_path(tmp_path: Path):
    code = (
        "import flambeau\n"
        "for _ in range(2):\n"
        "    try: flambeau.ones(3) + 1\n"
        "    except RuntimeError as e: print(e)"
    )
    lines = output_of(code, without_loops(tmp_path)).splitlines()
    path = f"{tmp_path}/flambeau/lib/{library(fb._C._cpu_capability()).name}"
    assert (
        len([line for line in lines if f"expected the loops of this processor in {path}, got" in line]) == 2
    )


def test_the_set_in_use_is_one_of_the_build():
    assert fb.backends.cpu.get_cpu_capability() in SETS
    assert f"loops for: {', '.join(SETS)}" in fb.__config__.show()
