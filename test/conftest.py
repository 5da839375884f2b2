"""Settings for all tests."""

import gc
import os
import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells ignore SIGINT in background jobs, and child processes inherit this: tests of Ctrl-C would hang.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests of kernels ask for them; others need not wait for a compiler.
os.environ.setdefault("FLAMBEAU_TIER", "0")

# PyTorch's first errors would start addr2line to name functions of C++, which takes minutes.
os.environ.setdefault("TORCH_DISABLE_ADDR2LINE", "1")


def keep() -> None:
    """Keep the objects that live now out of later passes of the garbage collector.

    A million objects of pytest and of imported modules live as long as the run. Each pass over them takes
    more than half a second, and tests of cycles, hooks and counts of references make many.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without the garbage collector."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        keep()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """After the last test of a file, keep what it has imported."""
    if nextitem is None or nextitem.path != item.path:
        keep()
