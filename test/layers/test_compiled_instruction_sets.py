"""Tables of loops refer weakly to each instruction set: those that the build names must all be there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import flambeau as fb
import pytest

PACKAGE = Path(fb.__file__).parent


def undefined_loops() -> set[str]:
    """The instruction sets of tables that no file of the build defines."""
    if shutil.which("nm") is None:
        pytest.skip("nm (binutils) is not installed")
    found: set[str] = set()
    for library in (PACKAGE / "lib" / "libflambeau.so", Path(fb._C.__file__)):
        command = ["nm", "-D", "--undefined-only", library]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found |= set(re.findall(r"_loops_(x86_64|v3|v4|generic)E?\b", names))
    return found


def test_the_sets_that_the_build_names_are_complete():
    sets = fb._C._cpu_capabilities()
    assert sets and not undefined_loops() & set(sets)


def test_the_set_in_use_is_one_of_the_build():
    assert fb.backends.cpu.get_cpu_capability() in fb._C._cpu_capabilities()
    assert f"loops for: {', '.join(fb._C._cpu_capabilities())}" in fb.__config__.show()
