"""The library exports every symbol that the extension needs: a weak one would not be missed at import."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import flambeau as fb
import pytest

LIBRARY = Path(fb.__file__).parent / "lib" / "libflambeau.so"


def symbols(library: Path, kind: str) -> set[str]:
    command = ["nm", "-D", "--format=posix", f"--{kind}-only", library]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in (line.split(" ")[0] for line in lines) if "8flambeau" in name}


@pytest.mark.skipif(shutil.which("nm") is None, reason="nm (binutils) is not installed")
def test_the_library_exports_what_the_extension_needs():
    needed = symbols(Path(fb._C.__file__), "undefined")
    assert needed and not needed - symbols(LIBRARY, "defined")
