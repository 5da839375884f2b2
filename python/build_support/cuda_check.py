"""Compile every generated CUDA source with nvcc; run the device code's own logic on the host.

No GPU is needed.

An object whose source and headers did not change since it last compiled is not compiled again.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ("aten/cuda", "aten/core", "c10/core")


def header_hash() -> str:
    """Hash of every header that device code can include."""
    digest = hashlib.sha256()
    for folder in HEADERS:
        for path in sorted((ROOT / folder).rglob("*.*h")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def compile_one(nvcc: str, source: Path, out: Path, headers: str) -> tuple[Path, str | None]:
    """Compile `source` unless its stamp is current; return it with the compiler's complaint, if any."""
    stamp = out / f"{source.stem}.stamp"
    wanted = hashlib.sha256(source.read_bytes() + headers.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return source, None
    command = [nvcc, "-std=c++20", "-arch=sm_90", "-O2", "--expt-relaxed-constexpr", "-I.", "-c"]
    result = subprocess.run(
        [*command, str(source), "-o", str(out / f"{source.stem}.o")], cwd=ROOT, capture_output=True, text=True
    )
    if result.returncode:
        return source, result.stderr or result.stdout
    stamp.write_text(wanted)
    return source, None


def run_on_host(nvcc: str, source: Path, out: Path) -> str | None:
    """Build and run a program that calls device code on the host; return its complaint, if any."""
    program = out / source.stem
    flags = ["-std=c++20", "-arch=sm_90", "-O2", "--expt-relaxed-constexpr", "-I."]
    for command in ([nvcc, *flags, str(source), "-o", str(program)], [str(program)]):
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if result.returncode:
            return result.stderr + result.stdout
    return None


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
    headers = header_hash()
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda s: compile_one(arguments.nvcc, s, out, headers), sources))
    programs = sorted((ROOT / "test" / "cuda").glob("*.cu"))
    runs = [(source, run_on_host(arguments.nvcc, source, out)) for source in programs]
    failures = [(source, text) for source, text in results if text is not None]
    broken = [(source, text) for source, text in runs if text is not None]
    for source, text in (*failures, *broken):
        print(f"--- {source.relative_to(ROOT)}\n{text}", file=sys.stderr)
    print(f"cuda-check: {len(sources) - len(failures)} of {len(sources)} sources compile for sm_90")
    print(f"cuda-check: {len(programs) - len(broken)} of {len(programs)} programs pass on the host")
    return 1 if failures or broken else 0


if __name__ == "__main__":
    sys.exit(main())
