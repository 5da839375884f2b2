"""docs/adding-an-operator.md followed in a clone: `make build`, and the generated tests of its operators.

It builds for minutes, so that `make test-page` runs it, in CI too, and `make test` does not. The clone holds
what git would, uses this environment, and shares the compiler's cache with every other checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_adding_an_operator import OPERATORS, ROOT, blocks, put

JOBS = str(os.cpu_count() or 1)


def run_in(clone: Path, *command: str) -> None:
    inherited = {
        k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PYTEST", "FLAMBEAU"))
    }
    environment = {**inherited, "PYTHONPATH": "python"}
    result = subprocess.run(
        command,
        cwd=clone,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{' '.join(command)}\n{result.stdout[-4000:]}"


def place(folder: Path) -> Path:
    """A path as many folders deep as this tree: what is compiled is cached by relative paths."""
    missing = len(ROOT.parts) - len(folder.parts) - 1
    return folder.joinpath(*["deeper"] * missing, "clone")


@pytest.fixture(scope="module")
def clone() -> Iterator[Path]:
    """What a clone of this tree holds, its uncommitted edits included; and the blocks of the page, built."""
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        yield follow(place(Path(folder).resolve()))


def follow(root: Path) -> Path:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        source = ROOT / name
        if source.is_file():  # with its time: the environment's stamps are compared with it
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, root / name)
    (root / ".venv").symlink_to(sys.prefix)
    for block in blocks():
        if block.language != "console":
            put(root, block)
    run_in(root, "make", "build", f"JOBS={JOBS}")
    return root


def test_the_generated_tests_of_the_operators_pass(clone: Path):
    report = clone / "build" / "page.xml"
    chosen = " or ".join([*OPERATORS, "transforming_twice"])
    run_in(
        clone, sys.executable, "-m", "pytest", "-n", JOBS, f"--junitxml={report}", "-k", chosen, "test/ops"
    )
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    skipped = {case.get("name") for case in cases if case.find("skipped") is not None}
    passed = {case.get("name") for case in cases} - skipped
    for name in OPERATORS:
        for kind in ("test_values", "test_every_dtype_claimed", "test_gradient"):
            assert f"{kind}[{name}]" in passed, f"{kind}[{name}] did not run: {sorted(passed)}"
    assert "test_transforming_twice_scales_by_the_size" in passed


def test_the_package_has_the_operators_and_does_not_warn(clone: Path):
    names = [f"nn.functional.{OPERATORS[0]}", *OPERATORS[1:]]
    program = f"import flambeau as fb; [fb.{', fb.'.join(names)}]"
    run_in(clone, sys.executable, "-W", "error", "-c", program)
