"""Runs one program and prints its numbers as JSON: ``python -m programs.one library/what``."""

import importlib
import json
import sys
import time
import traceback
import warnings

MODULES = ("language", "vision", "science", "training")


def run(name: str) -> dict[str, object]:
    """The program's numbers, or its error."""
    from programs.cases import PROGRAMS

    warnings.simplefilter("ignore")
    for module in MODULES:
        importlib.import_module(f"programs.cases.{module}")
    begin = time.monotonic()
    try:
        numbers = PROGRAMS[name]()
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return {
            "error": f"{type(error).__name__}: {error}"[:2000],
            "trace": [f"{f.filename}:{f.lineno} {f.line}" for f in frames[-6:]],
        }
    return {"numbers": list(map(float, numbers)), "seconds": time.monotonic() - begin}


if __name__ == "__main__":
    print("\n" + json.dumps(run(sys.argv[1])))
