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


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without the garbage collector, and keep them out of its later passes.

    A million objects of pytest and of imported modules live as long as the run. Each pass over them takes
    more than half a second, and tests of cycles, hooks and counts of references make many.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
