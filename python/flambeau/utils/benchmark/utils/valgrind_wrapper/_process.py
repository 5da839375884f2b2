"""A process under Callgrind: runs a statement, and reads the counts of its functions."""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path

from flambeau.utils.benchmark.utils.common import TaskSpec

# The function of _C that calls the statement: Callgrind collects only while it runs.
_MARK = "flambeau_counted_call"
_LINE = re.compile(r"^\s*([0-9,]+)\s+\([ 0-9.]+%\)\s+(.*)$")
_TOOLS = ("valgrind", "callgrind_annotate")


@dataclass(frozen=True)
class Task:
    """What the process runs."""

    is_cpp: bool
    spec: TaskSpec
    copied: list[tuple[str, str | None, bytes]]  # name, setup, pickled value
    number: int

    def without_statement(self) -> Task:
        """Return the same with an empty statement."""
        return replace(self, spec=replace(self.spec, stmt="pass", setup="pass"))


def main(path: str) -> None:
    """Run a pickled task; the process under Callgrind calls this."""
    import flambeau

    task: Task = pickle.loads(Path(path).read_bytes())
    spec = task.spec
    flambeau.set_num_threads(spec.num_threads)
    names: dict[str, object] = {"torch": flambeau, "flambeau": flambeau}
    for name, setup, value in task.copied:
        exec(setup or "", names)
        names[name] = pickle.loads(value)
    if task.is_cpp:
        from flambeau.utils.benchmark.utils._cpp_statement import module

        timed = module(spec.stmt, spec.setup, spec.global_setup).timed
        timed(2, False)
        timed(task.number, True)
        return
    # A generator, so that the setup runs before the loop and its variables are local, as in timeit.
    setup, stmt = _indented(spec.setup), _indented(spec.stmt, 2)
    source = f"def runs(_number):\n{setup}\n yield\n for _ in _number:\n{stmt}\n"
    exec(compile(source, "<statement>", "exec"), names)
    for number in (2, task.number):
        started = names["runs"](itertools.repeat(None, number))  # type: ignore[operator]
        next(started)
        run_loop = functools.partial(next, started, None)
        run_loop() if number == 2 else flambeau._C._profiler_counted_call(run_loop)


def _indented(code: str, depth: int = 1) -> str:
    return textwrap.indent(code or "pass", " " * depth)


def run(task: Task, keeps_file: bool) -> tuple[dict[str, int], dict[str, int], str | None]:
    """Return the counts with inner functions, those without, and the file if it is kept."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise RuntimeError(
            f"collect_callgrind: expected the programs {', '.join(_TOOLS)} of Valgrind in PATH, got no "
            f"{' and no '.join(missing)}"
        )
    if task.is_cpp:  # compiled outside Callgrind, where that is fast
        from flambeau.utils.benchmark.utils._cpp_statement import module

        module(task.spec.stmt, task.spec.setup, task.spec.global_setup)
    with tempfile.TemporaryDirectory(prefix="callgrind_") as folder:
        given, out = Path(folder) / "task.pickle", Path(folder) / "callgrind.out"
        given.write_bytes(pickle.dumps(task))
        _execute(given, out, task.spec.num_threads)
        if not out.is_file():
            raise RuntimeError("collect_callgrind: expected a file of counts from Callgrind, got none")
        inclusive, exclusive = (_annotated(out, way) for way in ("yes", "no"))
        kept = out.read_text() if keeps_file else None
    return inclusive, exclusive, kept


def _execute(given: Path, out: Path, threads: int) -> None:
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={out}",
        f"--toggle-collect={_MARK}",
        "--collect-atstart=no",
        "--dump-line=no",
        sys.executable,
        "-c",
        "import sys; from flambeau.utils.benchmark.utils.valgrind_wrapper import _process; "
        "_process.main(sys.argv[1])",
        str(given),
    ]
    # One order of hashes and no thread that spins: two runs have equal counts.
    settings = {"PYTHONHASHSEED": "0", "OMP_WAIT_POLICY": "PASSIVE", "OMP_NUM_THREADS": str(threads)}
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        command,
        env={**os.environ, **settings, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (
            "\n".join(line for line in done.stderr.strip().splitlines() if not line.startswith("=="))
            or done.stderr[-2000:]
        )
        raise RuntimeError(
            f"collect_callgrind: expected the process to end without an error, got code {done.returncode}:\n"
            f"{last[-2000:]}"
        )


def _annotated(out: Path, inclusive: str) -> dict[str, int]:
    done = subprocess.run(
        ["callgrind_annotate", f"--inclusive={inclusive}", "--threshold=100", str(out)],
        capture_output=True,
        text=True,
        check=True,
    )
    counts: dict[str, int] = {}
    for line in done.stdout.splitlines():
        found = _LINE.match(line)
        if found and found[2] != "PROGRAM TOTALS":
            counts[found[2]] = counts.get(found[2], 0) + int(found[1].replace(",", ""))
    return counts


def standard_name(name: str) -> str:
    """Return the name of a function without library and folder of its file."""
    name = re.sub(r"\s+\[.*\]$", "", name)
    place, colon, function = name.partition(":")
    for mark in ("/aten/", "/c10/", "/python/csrc/", "/torchgen_out/", "/api/", "/Objects/", "/Python/"):
        if mark in place:
            return place[place.rindex(mark) + 1 :] + colon + function
    return place.rpartition("/")[2] + colon + function if "/" in place else name
