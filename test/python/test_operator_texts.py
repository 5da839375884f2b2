"""The file of help texts: damaged or missing, it costs the texts and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python/flambeau"
NAME = "_operator_texts.txt"
PROGRAM = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import flambeau
texts = [w for w in caught if "texts of help()" in str(w.message)]
print(flambeau.relu(flambeau.tensor([-1.0, 2.0])).tolist(), flambeau.relu.__doc__ is None, len(texts))
"""


def use(folder: Path, content: bytes | None) -> str:
    """Import a package like ours with another file of texts, in a process of its own."""
    package = folder / "flambeau"
    package.mkdir()
    for entry in PACKAGE.iterdir():
        if entry.name not in (NAME, "__pycache__"):
            (package / entry.name).symlink_to(entry)
    if content is not None:
        (package / NAME).write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture(scope="module")
def whole() -> bytes:
    return (PACKAGE / NAME).read_bytes()


def test_the_texts_are_those_of_the_file(whole: bytes, tmp_path: Path):
    assert use(tmp_path, whole) == "[0.0, 2.0] False 0"


def test_no_file(tmp_path: Path):
    assert use(tmp_path, None) == "[0.0, 2.0] True 1"


DAMAGES = {
    "empty": lambda whole: b"",
    "another key": lambda whole: b"0" * 16 + whole[16:],
    "no end of the first line": lambda whole: whole[:18],
    "a number of texts that is too large": lambda whole: whole[:17] + b"99999999999\n" + whole[17:],
    "a number of texts that is none": lambda whole: whole[:17] + b"-5\n" + whole[17:],
    "cut among the offsets": lambda whole: whole[:2000] + b"\0",
    "cut without a last zero byte": lambda whole: whole[:-1],
    "an offset behind the end": lambda whole: whole.replace(
        whole.split(b"\n", 2)[1] + b"\n", b"999999999\n", 1
    ),
    "an offset that is no number": lambda whole: whole.replace(
        whole.split(b"\n", 2)[1] + b"\n", b"-00000001\n", 1
    ),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_files_are_not_used(kind: str, whole: bytes, tmp_path: Path):
    assert use(tmp_path, DAMAGES[kind](whole)) == "[0.0, 2.0] True 1"
