"""Importing an extension that was built from other YAML files warns; anything else is silent and cheap."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import flambeau as fb
import pytest
from flambeau._loading.staleness import FILES, fingerprint, is_stale

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The package, linked, with YAML files of its own beside it that are newer than the extension."""
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "flambeau").symlink_to(Path(fb.__file__).parent)
    for name in FILES:
        shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def imported(root: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(root / "python")}
    command = [sys.executable, "-W", "error::UserWarning", "-c", "import flambeau"]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


def test_the_extension_knows_what_it_was_built_from():
    assert fb._C._spec_hash == fingerprint(str(ROOT)), "build first: the YAML files have changed"


def test_an_edited_operator_warns(checkout: Path):
    native = checkout / "native_functions.yaml"
    native.write_text(native.read_text().replace("pointwise: self * sigmoid(self)", "pointwise: self", 1))
    result = imported(checkout)
    assert result.returncode != 0
    assert "run `make build`" in result.stderr


def test_the_same_files_with_newer_times_do_not(checkout: Path):
    assert imported(checkout).returncode == 0


def test_comments_and_blank_lines_do_not(checkout: Path):
    native = checkout / "native_functions.yaml"
    native.write_text("# One more comment.\n\n" + native.read_text())
    assert imported(checkout).returncode == 0


def test_an_installed_package_does_not(tmp_path: Path):
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "flambeau").symlink_to(Path(fb.__file__).parent)
    assert imported(tmp_path).returncode == 0
    assert not is_stale(str(tmp_path), fb._C.__file__, "")


def test_files_older_than_the_extension_are_not_read(checkout: Path):
    for name in FILES:
        (checkout / name).write_text("other")
        os.utime(checkout / name, ns=(0, 0))
    assert not is_stale(str(checkout), fb._C.__file__, fb._C._spec_hash)
