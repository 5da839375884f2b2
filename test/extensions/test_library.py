"""libflambeau.so and libflambeau_api.so: what they show, and that they work without Python."""

import re
import shutil
import subprocess
from pathlib import Path

import flambeau
import pytest

LIBRARY = Path(flambeau.__file__).parent / "lib" / "libflambeau.so"
INTERFACE = LIBRARY.with_name("libflambeau_api.so")
needs_nm = pytest.mark.skipif(shutil.which("nm") is None, reason="binutils is not installed")


def lines(*options, library):
    command = ["nm", "-D", *options, str(library)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def symbols(*options, library=LIBRARY):
    return [line.split()[-1] for line in lines(*options, library=library)]


def variables(library):
    """Writable data, and variables that a process must have once."""
    rows = [line.split() for line in lines("--defined-only", library=library)]
    return {name for _, kind, name in rows if kind in "BDu" or (kind in "Vv" and "_ZT" not in name)}


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


@needs_nm
def test_the_interface_asks_for_nothing_of_python_and_shows_its_own_names():
    undefined = symbols("--undefined-only", library=INTERFACE)
    defined = symbols("--defined-only", library=INTERFACE)
    assert [name for name in undefined if re.match(r"_?Py", name)] == []
    assert [name for name in defined if not re.match(r"_Z(T[ISVHW])?NK?8flambeau", name)] == []
    assert any("from_blob" in name for name in defined)


@needs_nm
def test_no_variable_is_in_both_libraries():
    """Each library would read a variable of its own."""
    both = variables(LIBRARY) & variables(INTERFACE)
    assert variables(LIBRARY) and both == set()
