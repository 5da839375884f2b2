"""Settings for all tests."""

import os
import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells ignore SIGINT in background jobs, and child processes inherit this: tests of Ctrl-C would hang.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests of kernels ask for them; others need not wait for a compiler.
os.environ.setdefault("FLAMBEAU_TIER", "0")

# PyTorch's first errors would start addr2line to name functions of C++, which takes minutes.
os.environ.setdefault("TORCH_DISABLE_ADDR2LINE", "1")
