"""Compile every generated CUDA source with nvcc; run the device code's own logic on the host.

No GPU is needed. ccache, where `make env` has installed it, compiles only what has changed in any checkout.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("-std=c++20", "-arch=sm_90", "-O2", "--expt-relaxed-constexpr", "-I.")


def complaint(*command: str) -> str | None:
    """Run a command; return what it prints if it fails."""
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if not result.returncode:
        return None
    return result.stderr + result.stdout or f"exit status {result.returncode}"


def compiler(nvcc: str) -> list[str]:
    """Return the words that start nvcc, through ccache if this environment has it."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which("ccache", path=beside), shutil.which(nvcc)
    return [word for word in found if word] if found[1] else [nvcc]


def compile_one(nvcc: list[str], source: Path, out: Path) -> str | None:
    """Compile `source`; return the compiler's complaint, if any."""
    # Paths within the checkout, so that the results serve other checkouts.
    target = str((out / f"{source.stem}.o").relative_to(ROOT))
    return complaint(*nvcc, *FLAGS, "-c", str(source.relative_to(ROOT)), "-o", target)


def run_on_host(nvcc: list[str], source: Path, out: Path) -> str | None:
    """Build and run a program that calls device code on the host; return its complaint, if any."""
    program = str(out / source.stem)
    return (
        compile_one(nvcc, source, out)
        or complaint(nvcc[-1], *FLAGS, f"{program}.o", "-o", program)
        or complaint(program)
    )


def main() -> int:
    """Compile all; print the failures and a closing count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    out = ROOT / "build" / "cuda"
    out.mkdir(parents=True, exist_ok=True)
    sources = sorted((ROOT / "torchgen_out" / "cuda").glob("*.cu"))
    if not sources:
        print("cuda-check: no generated CUDA sources; run make codegen", file=sys.stderr)
        return 1
    programs = sorted((ROOT / "test" / "cuda").glob("*.cu"))
    nvcc = compiler(arguments.nvcc)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        # The largest source takes longest.
        by_size = sorted(sources, key=lambda source: -source.stat().st_size)
        runs = [(source, pool.submit(run_on_host, nvcc, source, out)) for source in programs]
        compiled = [(source, pool.submit(compile_one, nvcc, source, out)) for source in by_size]
    failures = [(source, found.result()) for source, found in compiled if found.result()]
    broken = [(source, found.result()) for source, found in runs if found.result()]
    for source, text in (*failures, *broken):
        print(f"--- {source.relative_to(ROOT)}\n{text}", file=sys.stderr)
    print(f"cuda-check: {len(sources) - len(failures)} of {len(sources)} sources compile for sm_90")
    print(f"cuda-check: {len(programs) - len(broken)} of {len(programs)} programs pass on the host")
    return 1 if failures or broken else 0


if __name__ == "__main__":
    sys.exit(main())
