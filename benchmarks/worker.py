"""One side of the benchmark: ``worker.py flambeau`` or ``worker.py torch``.

Reads case numbers from standard input, one a line, and answers each with the seconds that one run
of its statement took: the median of five batches, or, after "NUMBER least", the least of many short
ones. An empty line ends it.
"""

import importlib
import sys
import time

from cases import CASES


def seconds(case, namespace, least, budget=0.15):
    """Time per run: the median of five long batches, or the least of short ones."""
    code = compile(case.statement, case.name, "eval")
    if case.unit != "seconds":
        return eval(code, namespace) / case.per
    if case.statement == "backward()":
        times = sorted(eval(code, namespace) for _ in range(15))
        return times[0 if least else 7] / case.per
    for _ in range(3):
        eval(code, namespace)
    timed = f"    for _ in range(n):\n        {case.statement}\n"
    loop = f"def run(n):\n    start = clock()\n{timed}    return clock() - start\n"
    exec(loop, namespace)
    run = namespace["run"]
    once = max(run(1), 1e-8)
    if least:
        count = max(1, int(3e-4 / once))
        times = (run(count) for _ in range(max(5, int(budget / (count * once)))))
        return min(times) / count / case.per
    count = max(1, min(int(budget / 5 / once), 200_000))
    return sorted(run(count) / count for _ in range(5))[2] / case.per


def main():
    torch = importlib.import_module(sys.argv[1])
    print("ready", flush=True)
    prepared = {}
    for line in sys.stdin:
        if not line.strip():
            break
        number, *least = line.split()
        case = CASES[int(number)]
        try:
            if case not in prepared:
                prepared.clear()
                namespace = {"torch": torch, "clock": time.perf_counter}
                exec(case.setup, namespace)
                prepared[case] = namespace
            print(seconds(case, prepared[case], bool(least)), flush=True)
        except Exception as error:
            print(f"error {type(error).__name__}: {error}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
