"""docs/adding-an-operator.md and what `new` writes, built in a clean copy and tested by the generated tests.

Objects come from the compiler cache, which all checkouts share; what the four entries change is compiled.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_adding_an_operator import OPERATORS, blocks, put

ROOT = Path(__file__).resolve().parents[2]


# What `new` writes is built with the page's operators, in families that are compiled for them anyway.
SCAFFOLDED = {
    "pointwise": "activation",
    "reduce": "reduction",
    "composite": "norm",
    "kernels": "transform",
}


def clone(root: Path) -> None:
    """Copy what git knows, with its times, so that make sees an environment as new as here."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    (root / ".venv").symlink_to((ROOT / ".venv").resolve())


def run(root: Path, *command: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHONPATH"))}
    environment["PYTHONPATH"] = "python"
    result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, (result.stdout + result.stderr)[-6000:]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not list((ROOT / ".venv" / "bin").glob("ccache")) and shutil.which("ccache") is None:
        pytest.skip("without a compiler cache this is a whole build")
    root = tmp_path_factory.mktemp("clone") / "flambeau"
    root.mkdir()
    clone(root)
    for block in blocks():
        if block.language in ("yaml", "cpp", "python"):
            put(root, block)
    for kind, family in SCAFFOLDED.items():
        name = f"scaffolded_{kind}"
        run(root, ".venv/bin/python", "-m", "codegen", "new", name, "--kind", kind, "--family", family)
    run(root, "make", "build", "JOBS=2")
    return root


def test_the_generated_tests_of_their_operators_pass(built: Path):
    python = str(built / ".venv" / "bin" / "python")
    chosen = " or ".join([*OPERATORS, "scaffolded"])
    files = [str(p.relative_to(built)) for p in sorted((built / "test" / "ops").glob("test_*.py"))]
    run(built, python, "-m", "pytest", "-q", "-n0", *files, "-k", chosen)


def test_each_is_where_explain_says(built: Path):
    python = str(built / ".venv" / "bin" / "python")
    program = """
import flambeau as fb, flambeau.nn.functional
x = fb.tensor([[1.0, 2.0], [3.0, 5.0]])
assert fb.nn.functional.squareplus(x).shape == x.shape
assert fb.geometric_mean(x).item() > 2.3
assert fb.standardize(x).shape == x.shape
assert fb.hadamard_transform(x).tolist() == [[3.0, -1.0], [8.0, -2.0]]
assert x.geometric_mean(1).shape == (2,)
"""
    run(built, python, "-c", program)
