"""Build the distributions that users install: ``python python/build_support/wheel.py --output dist``.

The source distribution is made from the checkout and the wheel from the unpacked source distribution, so
that a file which the build needs and the source distribution lacks stops the build. auditwheel puts the
libraries of the system that the extension needs (libgomp) into the wheel and tags it with the oldest
glibc that has all symbols in use.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--strip", "--zip-compression-level=9")  # oneDNN comes with 10 MB of symbols


def run(command: list[str], cwd: Path, env: dict[str, str]) -> str:
    """Run a command and return its output; on failure show it and end."""
    result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed in {cwd}:\n{result.stdout}\n{result.stderr}")
    return result.stdout


def environment() -> dict[str, str]:
    """Return the environment of the build: the tools of this interpreter, the time of the last commit."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    commit_time = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True
    )
    if commit_time.returncode == 0:
        env.setdefault("SOURCE_DATE_EPOCH", commit_time.stdout.strip())
    env.pop("PYTHONPATH", None)
    return env


def build_sdist(output: Path, env: dict[str, str]) -> Path:
    """Make the source distribution of the checkout."""
    hook = "import sys; from scikit_build_core.build import build_sdist; print(build_sdist(sys.argv[1]))"
    name = run([sys.executable, "-c", hook, str(output)], ROOT, env).splitlines()[-1]
    return output / name


def build_wheel(sdist: Path, scratch: Path, env: dict[str, str]) -> Path:
    """Make a wheel of a source distribution alone, with the packages of this environment."""
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    source = scratch / sdist.name.removesuffix(".tar.gz")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", "raw"]
    run([sys.executable, "-m", "pip", "wheel", ".", *options], source, env)
    return next((source / "raw").glob("*.whl"))


def repair(wheel: Path, output: Path, env: dict[str, str]) -> Path:
    """Bundle libraries of the system and tag the wheel."""
    command = [sys.executable, "-m", "auditwheel", "repair", *SMALL, "--wheel-dir", str(output)]
    before = set(output.glob("*.whl"))
    run([*command, str(wheel)], output, env)
    return next(iter(set(output.glob("*.whl")) - before))


def main() -> int:
    """Build both and print their names and sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="emptied first (default: dist)")
    output = parser.parse_args().output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    env = environment()
    sdist = build_sdist(output, env)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = repair(build_wheel(sdist, Path(scratch), env), output, env)
    for file in (sdist, wheel):
        print(f"{file.stat().st_size / 1e6:6.1f} MB  {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
