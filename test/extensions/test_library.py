"""libflambeau.so: what it shows, and that it works without Python."""

import re
import shutil
import subprocess
from pathlib import Path

import flambeau
import pytest

LIBRARY = Path(flambeau.__file__).parent / "lib" / "libflambeau.so"
needs_nm = pytest.mark.skipif(shutil.which("nm") is None, reason="binutils is not installed")


def symbols(*options):
    text = subprocess.run(
        ["nm", "-D", *options, str(LIBRARY)], capture_output=True, text=True, check=True
    ).stdout
    return [line.split()[-1] for line in text.splitlines()]


@needs_nm
def test_the_library_asks_for_nothing_of_python():
    wanted = symbols("--undefined-only")
    assert wanted
    assert [name for name in wanted if re.match(r"_?Py", name)] == []


@needs_nm
def test_the_library_shows_its_own_names_alone():
    shown = symbols("--defined-only")
    assert [name for name in shown if not re.match(r"_Z(T[ISVHW])?NK?8flambeau", name)] == []
    assert any("add_Tensor5entry" in name for name in shown)
    assert [name for name in shown if "9generated" in name] == []


def test_the_module_and_the_library_are_loaded_once(run_python):
    code = (
        "import flambeau; text = open('/proc/self/maps').read();"
        "print(len({line.split()[-1] for line in text.splitlines() if 'libflambeau' in line}))"
    )
    assert run_python("-c", code).split() == ["1"]
