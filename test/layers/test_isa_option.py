"""FLAMBEAU_ISA, which `make build ISA=native` sets: loops are compiled for one instruction set."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BITS = {"x86_64": 1, "v3": 2, "v4": 4}  # of FLAMBEAU_COMPILED_ISAS

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="other machines have one set of loops")


def configure(folder: Path, isa: str) -> subprocess.CompletedProcess[str]:
    tools = Path(sys.executable).parent
    cmake, ninja = (shutil.which(name, path=tools) or shutil.which(name) for name in ("cmake", "ninja"))
    if cmake is None or ninja is None:
        pytest.skip("cmake and ninja are not installed")
    options = [
        "-DFLAMBEAU_INPLACE=OFF",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_MAKE_PROGRAM={ninja}",
    ]
    command = [cmake, "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DFLAMBEAU_ISA={isa}", *options]
    return subprocess.run(command, capture_output=True, text=True)


def compiled_sets(folder: Path) -> tuple[set[str], set[int]]:
    """The instruction sets of the loops that a build compiles, and what it tells c10/core/isa.cpp."""
    rules = (folder / "build.ninja").read_text()
    sets = set(re.findall(r"CMakeFiles/flambeau_loops_(\w+)\.dir/torchgen_out/\S+\.o:", rules))
    return sets, {int(bits) for bits in re.findall(r"FLAMBEAU_COMPILED_ISAS=(\d+)u", rules)}


@pytest.mark.parametrize("isa", ["native", "v3", ""])
def test_the_option_chooses_the_loops(isa: str, tmp_path: Path):
    result = configure(tmp_path, isa)
    assert result.returncode == 0, result.stderr
    sets, told = compiled_sets(tmp_path)
    assert len(sets) == (1 if isa else 3)
    assert sets == {isa} or isa in ("native", "")
    assert told == {sum(BITS[name] for name in sets)}


def test_an_unknown_set_is_an_error_that_names_the_others(tmp_path: Path):
    result = configure(tmp_path, "avx2")
    assert result.returncode != 0
    assert "native, x86_64, v3, v4" in result.stderr and "got avx2" in " ".join(result.stderr.split())
