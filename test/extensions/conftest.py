"""A folder for compiled extensions that all processes of a run share."""

import os
import subprocess
import sys
from pathlib import Path

import flambeau
import pytest
from flambeau.utils import cpp_extension


@pytest.fixture(scope="session")
def build_root(tmp_path_factory):
    """Return the folder; skip where nothing can be compiled."""
    compiler = cpp_extension.get_cxx_compiler()
    if not cpp_extension.get_compiler_abi_compatibility_and_version(compiler)[0]:
        pytest.skip(f"{compiler} cannot compile extensions")
    if not cpp_extension.is_ninja_available():
        pytest.skip("ninja is not installed")
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "extensions"
    root.mkdir(exist_ok=True)
    return root


@pytest.fixture(scope="session")
def run_python():
    """Return a function that runs Python with this flambeau and returns what it prints."""
    package = str(Path(flambeau.__file__).resolve().parents[1])

    def run(*arguments, path=(), **options):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), package])}
        argv = [sys.executable, *map(str, arguments)]
        result = subprocess.run(argv, env=env, capture_output=True, text=True, **options)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run


@pytest.fixture(scope="session")
def start_python():
    """Return a function that starts Python with this flambeau, in a process group of its own."""
    package = str(Path(flambeau.__file__).resolve().parents[1])

    def start(*arguments, env=None):
        argv = [sys.executable, *map(str, arguments)]
        env = {**os.environ, **(env or {}), "PYTHONPATH": package}
        return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)

    return start
