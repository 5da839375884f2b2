"""Time small calls of every operator in nine dtypes against PyTorch, and list them by ratio.

The calls are the samples of `native_functions.yaml` with larger sizes: up to 4096 elements, 64 a side for
matrices. Both sides get the same values, each in its own process with one thread; they take turns, and a row
has the median of all rounds and the ratio (ours / theirs: below 1 is faster). Calls that one side refuses or
that take longer than 50 ms are left out. Absolute times depend on the machine; quote ratios.
"""

import argparse
import fnmatch
import json
import os
import pickle
import statistics
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from flambeau.utils.operator_tests import _samples

HERE = Path(__file__).parent
RECORDS = HERE.parent / "torchgen_out" / "tests"
DTYPES = "float64 float32 bfloat16 float16 complex64 int64 int32 uint8 bool".split()
SIDES = ("flambeau", "torch")
# Elements along each dimension, by the largest number of dimensions among a call's tensors.
SIDE_BY_RANK = {0: 1, 1: 4096, 2: 64, 3: 16, 4: 8}


class Worker:
    """A process that times calls for one side."""

    def __init__(self, side: str) -> None:
        self.side = side
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "survey_worker.py"), side],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def seconds(self, call: bytes) -> float | None:
        """The time of one run, or None where the side refuses the call."""
        try:
            self.process.stdin.write(struct.pack("<q", len(call)) + call)
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            print(f"survey: the process of {self.side} died", file=sys.stderr)
            self.__init__(self.side)
            return None
        return json.loads(answer)


def tensors_of(value):
    """The tensors to be made in an argument."""
    if isinstance(value, _samples.Shape):
        return [value]
    return [t for v in value for t in tensors_of(v)] if isinstance(value, list | tuple) else []


def enlarged(value, side):
    """The argument with tensors of `side` elements along each dimension that had more than one."""
    if isinstance(value, _samples.Shape):
        return replace(value, sizes=tuple(side if size > 1 else size for size in value.sizes))
    if isinstance(value, list | tuple):
        return type(value)(enlarged(v, side) for v in value)
    return value


def large_call(op, sample):
    """The sample with larger tensors, or None where it has none or an empty one."""
    call = _samples.bind(op, sample)
    shapes = tensors_of(list(call.arguments.values()))
    sizes = [shape.sizes for shape in shapes]
    rank = max(map(len, sizes), default=0)
    if rank not in SIDE_BY_RANK or rank == 0 or any(0 in s for s in sizes):
        return None
    arguments = {name: enlarged(value, SIDE_BY_RANK[rank]) for name, value in call.arguments.items()}
    return _samples.Call(op, arguments)


def place(op):
    """The module below the package and the name in it under which programs call the operator."""
    module = {"nn": "nn.functional"}.get(op.namespace, op.namespace)
    return module, op.call.removeprefix(f"{op.namespace}_") if op.namespace else op.call


def plain_dtype(value):
    """Dtypes among the arguments by name: each side has its own objects."""
    return ("dtype", str(value).split(".")[-1]) if type(value).__name__ == "dtype" else value


def calls_of(op, dtype, count):
    """Pickled calls of one operator in one dtype."""
    found = 0
    for sample in op.samples:
        if found == count:
            return
        try:
            call = large_call(op, sample)
            arguments = call and call.materialise(dtype)
        except (AttributeError, TypeError, ValueError, IndexError):
            continue
        if not arguments:
            continue
        positional, keywords = _samples.split_arguments(op, arguments)
        found += 1
        plain = [plain_dtype(v) for v in positional], {k: plain_dtype(v) for k, v in keywords.items()}
        yield sample, pickle.dumps((*place(op), dtype, *plain))


def survey(arguments):
    """The rows, timed."""
    workers = [Worker(side) for side in SIDES]
    for path in sorted(RECORDS.glob("*.json")):
        for record in json.loads(path.read_text()):
            op = _samples.Op(record)
            name = ".".join(filter(None, place(op)))
            if "out" in name.split("_") or not any(fnmatch.fnmatch(name, p) for p in arguments.ops):
                continue
            for dtype in arguments.dtypes:
                for sample, call in calls_of(op, dtype, arguments.samples):
                    times = [[worker.seconds(call) for worker in workers] for _ in range(arguments.rounds)]
                    if all(t is not None for pair in times for t in pair):
                        ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
                        yield {
                            "name": name,
                            "dtype": dtype,
                            "sample": sample,
                            "flambeau": ours,
                            "torch": theirs,
                            "ratio": ours / theirs,
                        }


def main():
    """Time, print and store the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*", default=["*"], help="patterns of public names: special.* mm")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES)
    parser.add_argument("--samples", type=int, default=2, help="samples of each operator")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--above", type=float, default=1.0, help="print rows with a ratio above this")
    parser.add_argument("--output", type=Path, default=Path("build/survey"))
    arguments = parser.parse_args()
    arguments.ops = arguments.ops or ["*"]
    rows = sorted(survey(arguments), key=lambda row: -row["ratio"])
    for row in rows:
        if row["ratio"] > arguments.above:
            print(
                f"{row['ratio']:8.2f}  {row['name']:<34}{row['dtype']:<11}"
                f"{row['flambeau'] * 1e6:10.1f} µs {row['torch'] * 1e6:10.1f} µs  {row['sample']}"
            )
    if rows:
        slower = sum(row["ratio"] > 1 for row in rows)
        mean = float(np.exp(np.mean([np.log(row["ratio"]) for row in rows])))
        print(f"{len(rows)} calls, {slower} above 1.0, geometric mean {mean:.3f}")
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "results.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
