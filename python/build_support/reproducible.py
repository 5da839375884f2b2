"""Build the wheel twice, in two directories with different names, and compare what comes out.

Equal sha256 of the extension and of the wheel is the proof that nothing of the place or the time of
a build gets into it. SOURCE_DATE_EPOCH is the last commit's time, as reproducible builds agreed upon.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(command: list[str], cwd: Path, env: dict[str, str]) -> None:
    """Run a command; on failure show its output and end."""
    result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)} failed in {cwd}:\n{result.stdout}\n{result.stderr}")


def build(place: Path, env: dict[str, str]) -> Path:
    """Export the tracked files to `place` and build a wheel there."""
    place.mkdir(parents=True)
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, files.stdout.split("\0")):
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", "dist"]
    run([sys.executable, "-m", "pip", "wheel", ".", *options], place, env)
    return next((place / "dist").glob("*.whl"))


def digests(wheel: Path) -> dict[str, str]:
    """sha256 of the wheel and of every file in it; says how large the wheel is."""
    print(f"{wheel.stat().st_size / 1e6:.1f} MB  {wheel.name}")
    table = {wheel.name: hashlib.sha256(wheel.read_bytes()).hexdigest()}
    with zipfile.ZipFile(wheel) as archive:
        for name in sorted(archive.namelist()):
            table[name] = hashlib.sha256(archive.read(name)).hexdigest()
    return table


def main() -> int:
    """Build twice and report."""
    commit_time = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    binaries = str(Path(sys.executable).parent)
    env = {
        **os.environ,
        "SOURCE_DATE_EPOCH": commit_time,
        "PATH": f"{binaries}:{os.environ['PATH']}",
        # A compiler cache would hide a difference by handing the second build the first one's objects.
        "CCACHE_DISABLE": "1",
    }
    env.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as scratch:
        first, second = (digests(build(Path(scratch) / name, env)) for name in ("one", "another/and/deeper"))
    different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    for name, digest in first.items():
        if name.endswith((".whl", ".so")) and "/lib/" not in name:
            print(f"{digest}  {name}")
    if different:
        print("not reproducible: " + ", ".join(different), file=sys.stderr)
        return 1
    print(f"reproducible: {len(first) - 1} files and the wheel are equal in both builds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
