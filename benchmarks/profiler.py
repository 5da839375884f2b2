"""Cost of the profiler per operator, off and on: python benchmarks/profiler.py [torch|flambeau]."""

import argparse
import importlib
import time

CALLS, REPEATS = 20_000, 5
OPTIONS = ({}, {"record_shapes": True}, {"profile_memory": True}, {"with_stack": True})


def seconds_per_call(framework, a, b):
    """The time of one addition of two small tensors."""
    add = framework.add
    start = time.perf_counter()
    for _ in range(CALLS):
        add(a, b)
    return (time.perf_counter() - start) / CALLS


def main():
    """Print nanoseconds per call without a profile, and what each kind of profile adds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("framework", nargs="?", default="flambeau", choices=("flambeau", "torch"))
    framework = importlib.import_module(parser.parse_args().framework)
    framework.set_num_threads(1)
    a, b = framework.ones(4), framework.ones(4)
    off = min(seconds_per_call(framework, a, b) for _ in range(REPEATS))
    print(f"off: {off * 1e9:.0f} ns per call")
    for options in OPTIONS:
        on = []
        for _ in range(REPEATS):
            with framework.profiler.profile(activities=[framework.profiler.ProfilerActivity.CPU], **options):
                seconds_per_call(framework, a, b)
                on.append(seconds_per_call(framework, a, b))
        print(f"{options or 'on'}: {(min(on) - off) * 1e9:.0f} ns more")


if __name__ == "__main__":
    main()
