"""Runs the scripts that are named and prints, as JSON, the numbers that each has printed."""

import contextlib
import io
import json
import runpy
import sys


def numbers(script):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(script, run_name="__main__")
    return [float(line) for line in printed.getvalue().splitlines()]


if __name__ == "__main__":
    print(json.dumps({script: numbers(script) for script in sys.argv[1:]}))
