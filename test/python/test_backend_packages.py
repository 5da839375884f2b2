"""Packages of devices that an entry point registers at import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "python"
SHOW = "import flambeau; print(flambeau.device('meteor:3'))"
SHOW_TORCH = (
    "import flambeau.compat; flambeau.compat.install(); import torch; print(torch.device('meteor:3'))"
)
REGISTER = "import {name}\n\ndef register():\n    {name}.utils.rename_privateuse1_backend('meteor')\n"


def run(program, *folders, **switches):
    path = os.pathsep.join(map(str, [SOURCE, *folders]))
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, **switches},
        capture_output=True,
        text=True,
        timeout=120,
    )


def package(folder, text, group="flambeau.backends", kind="dist-info"):
    """Write a package with an entry point as an installer leaves it."""
    metadata = folder / f"meteor-1.0.{kind}"
    metadata.mkdir(parents=True)
    (folder / "meteor.py").write_text(text)
    (metadata / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text(
        "Name: meteor\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(f"[{group}]\nmeteor = meteor:register\n")
    return folder


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_an_entry_point_registers_its_device(tmp_path, kind):
    folder = package(tmp_path / "with space", REGISTER.format(name="flambeau"), kind=kind)
    assert run(SHOW, folder).stdout == "meteor:3\n"


@pytest.mark.parametrize("switch", ["FLAMBEAU_DEVICE_BACKEND_AUTOLOAD", "TORCH_DEVICE_BACKEND_AUTOLOAD"])
def test_a_variable_turns_it_off(tmp_path, switch):
    folder = package(tmp_path, REGISTER.format(name="flambeau"))
    assert "expected one of" in run(SHOW, folder, **{switch: "0"}).stderr
    assert run(SHOW, folder, **{switch: "1"}).stdout == "meteor:3\n"


def test_packages_for_pytorch_are_loaded_where_flambeau_answers_for_it(tmp_path):
    folder = package(tmp_path, REGISTER.format(name="torch"), group="torch.backends")
    assert run(SHOW_TORCH, folder).stdout == "meteor:3\n"
    assert "expected one of" in run(SHOW, folder).stderr, "without compat, torch is PyTorch"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("def register():\n    raise OSError('no driver')\n", "OSError: no driver"),
        ("import a_missing_module\n", "ModuleNotFoundError: No module named 'a_missing_module'"),
        ("other = 1\n", "AttributeError"),
        ("register = 5\n", "TypeError"),
    ],
)
def test_a_broken_package_is_named(tmp_path, text, cause):
    error = run(SHOW, package(tmp_path, text)).stderr.strip().splitlines()[-1]
    assert error.startswith(
        "RuntimeError: flambeau: expected a device package that can be loaded, got 'meteor'"
    )
    assert cause in error and error.endswith("FLAMBEAU_DEVICE_BACKEND_AUTOLOAD=0 turns loading off")


def test_odd_entries_of_the_path_are_passed_over(tmp_path):
    (tmp_path / "a_file").write_text("[flambeau.backends]")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "a.dist-info").write_text("a file where a folder is expected")
    (tmp_path / "odd" / "b.dist-info").mkdir()
    (tmp_path / "odd" / "b.dist-info" / "entry_points.txt").mkdir()
    folder = package(tmp_path / "good", REGISTER.format(name="flambeau"))
    odd = [tmp_path / "a_file", tmp_path / "missing", tmp_path / "odd"]
    assert run(SHOW, *odd, folder).stdout == "meteor:3\n"


def test_without_such_packages_metadata_is_not_imported():
    program = "import sys, flambeau; print('importlib.metadata' in sys.modules)"
    assert run(program).stdout == "False\n"
