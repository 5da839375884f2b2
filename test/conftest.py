"""What holds for all tests."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start background jobs so, and programs inherit it: then tests of Ctrl-C wait for nothing.
    signal.signal(signal.SIGINT, signal.default_int_handler)
