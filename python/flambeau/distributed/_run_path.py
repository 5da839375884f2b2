"""Runs a script by runpy, with its arguments: ``python -m flambeau.distributed._run_path script.py ...``."""

from __future__ import annotations

import runpy
import sys

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
