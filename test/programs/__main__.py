"""Runs programs over public libraries with flambeau, and with PyTorch where the oracle is installed.

``python -m programs [PATTERN ...]``: the programs of one library share a process, which imports it once; one
that gives no answer runs again alone. Written to docs/programs.md by ``--write``; results are kept in
build/programs/results.json, so that a part can be run again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fnmatch
import importlib
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from flambeau._surface.torchvision_operators import QUANTIZED, SCHEMAS

from programs.report import page

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build/programs"
# Seconds for a process to start, and for each of its programs.
START, EACH = 300, 60
# Relative difference of two runs of one program that still counts as equal.
TOLERANCE = 1e-3


def names(patterns: list[str]) -> list[str]:
    """The programs whose names match one of the patterns, found without importing a library."""
    import flambeau
    import flambeau.compat

    flambeau.compat.install()
    from programs.cases import PROGRAMS
    from programs.one import MODULES

    for module in MODULES:
        importlib.import_module(f"programs.cases.{module}")
    return [name for name in PROGRAMS if any(fnmatch.fnmatch(name, f"*{p}*") for p in patterns or ["*"])]


def answers(command: list[str], chosen: list[str], paths: list[str], scratch: str) -> dict[str, Any]:
    """What a process printed about each program; programs that it did not reach are left out."""
    environment = {
        **os.environ,
        "VISION_SCHEMAS": "" if "flambeau.compat" in command else SCHEMAS + QUANTIZED,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": scratch,
        "TOKENIZERS_PARALLELISM": "false",
    }
    limit = START + EACH * len(chosen)
    why = f"no answer within {limit} s"
    try:
        done = subprocess.run(
            [*command, *chosen], capture_output=True, text=True, timeout=limit, cwd=scratch, env=environment
        )
        text, why = done.stdout, f"exit status {done.returncode}: {done.stderr.strip()[-1500:]}"
    except subprocess.TimeoutExpired as error:
        text = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line.startswith('{"program": '):
            result = json.loads(line)
            found[result.pop("program")] = result
    if len(chosen) == 1 and not found:
        found[chosen[0]] = {"error": why}
    return found


def of_all(command: list[str], chosen: list[str], paths: list[str], scratch: str) -> dict[str, Any]:
    """Results of programs in one process; each that it did not reach has one of its own."""
    found = answers(command, chosen, paths, scratch)
    for name in chosen:
        if name not in found:
            found |= answers(command, [name], paths, scratch)
    return found


def furthest(ours: list[float], theirs: list[float]) -> float:
    """The largest difference, relative to the largest number of the two runs."""
    if len(ours) != len(theirs):
        return math.inf
    scale = max((abs(x) for x in theirs if math.isfinite(x)), default=1.0) or 1.0
    pairs = [
        (a, b) for a, b in zip(ours, theirs, strict=True) if not (math.isnan(a) and math.isnan(b)) and a != b
    ]
    found = max((abs(a - b) / scale for a, b in pairs), default=0.0)
    return math.inf if math.isnan(found) else found


def tried(chosen: list[str], compare: bool) -> dict[str, Any]:
    """Results of the programs of one library with flambeau, compared with those of PyTorch."""
    libraries = next((HOME / "venv/lib").glob("python3*/site-packages"))
    with tempfile.TemporaryDirectory() as scratch:
        own = [str(ROOT / "python"), str(ROOT / "test")]
        python = str(HOME / "venv/bin/python")
        results = of_all([python, "-m", "flambeau.compat", "-m", "programs.one"], chosen, own, scratch)
        if compare:
            oracle = [sys.executable, "-m", "programs.one"]
            for name, theirs in of_all(oracle, chosen, [own[1], str(libraries)], scratch).items():
                result = results[name]
                result["oracle"] = {k: v for k, v in theirs.items() if k != "trace"}
                if "numbers" in result and "numbers" in theirs:
                    result["difference"] = furthest(result["numbers"], theirs["numbers"])
    return results


def by_library(chosen: list[str]) -> list[list[str]]:
    """Programs of one library together, in the order of the list."""
    groups: dict[str, list[str]] = {}
    for name in chosen:
        groups.setdefault(name.partition("/")[0], []).append(name)
    return list(groups.values())


def outcome(result: dict[str, Any]) -> str:
    """One word for a program: equal, runs (nothing to compare with), differs, fails."""
    if "error" in result:
        return "fails"
    if "difference" not in result:
        return "runs"
    return "equal" if result["difference"] <= TOLERANCE else "differs"


def main() -> int:
    """Run what the command line names; the exit status says whether all of it runs."""
    parser = argparse.ArgumentParser(prog="programs", description=__doc__)
    parser.add_argument("patterns", nargs="*", help="parts of names, such as timm/ or bert")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", action="store_true", help="write docs/programs.md")
    parser.add_argument("--alone", action="store_true", help="do not compare with PyTorch")
    options = parser.parse_args()
    kept = HOME / "results.json"
    results: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    chosen = names(options.patterns)
    compare = not options.alone and _has_oracle()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for run in concurrent.futures.as_completed(
            pool.submit(tried, members, compare) for members in by_library(chosen)
        ):
            for name, result in run.result().items():
                results[name] = result
                print(f"{outcome(result):8} {name} {result.get('error', '')[:150]!s}".rstrip(), flush=True)
            kept.write_text(json.dumps(results, indent=1))
    words = [outcome(results[name]) for name in chosen]
    good = sum(word in ("equal", "runs") for word in words)
    print(f"{good} of {len(chosen)} programs run and agree")
    if options.write:
        table = {name: (outcome(results[name]), results[name]) for name in names([]) if name in results}
        (ROOT / "docs/programs.md").write_text(page(table))
    return 0 if good == len(chosen) else 1


def _has_oracle() -> bool:
    done = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
