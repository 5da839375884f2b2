"""Cost of the profiler per operator, off and on: python benchmarks/profiler.py [torch|flambeau]."""

import argparse
import importlib
import time

CALLS, ROUNDS, REPEATS = 4_000, 12, 3
OPTIONS = ({}, {"record_shapes": True}, {"profile_memory": True}, {"with_stack": True})


def ns_per_call(add, a, b):
    """The CPU time of one addition of two small tensors."""
    start = time.process_time_ns()
    for _ in range(CALLS):
        add(a, b)
    return (time.process_time_ns() - start) / CALLS


def main():
    """Print the least CPU time per call without a profile, and what each kind of profile adds.

    The kinds take turns, so that other programs on the machine disturb all of them alike.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", nargs="?", default="flambeau", choices=("flambeau", "torch"))
    framework = importlib.import_module(parser.parse_args().framework)
    profiler = framework.profiler
    framework.set_num_threads(1)
    a, b = framework.ones(4), framework.ones(4)
    least = [float("inf")] * (1 + len(OPTIONS))

    def measure(place):
        runs = (ns_per_call(framework.add, a, b) for _ in range(REPEATS))
        least[place] = min(least[place], *runs)

    for _ in range(ROUNDS):
        measure(0)
        for place, options in enumerate(OPTIONS, start=1):
            with profiler.profile(activities=[profiler.ProfilerActivity.CPU], **options):
                measure(place)
    print(f"off: {least[0]:.0f} ns per call")
    for options, on in zip(OPTIONS, least[1:], strict=True):
        print(f"{options or 'on'}: {on - least[0]:.0f} ns more")


if __name__ == "__main__":
    main()
