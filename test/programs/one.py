"""Runs programs and prints a line of JSON for each: ``python -m programs.one library/what ...``."""

import importlib
import json
import os
import sys
import time
import traceback
import warnings

MODULES = (
    "language", "vision", "science", "training", "optimizers", "attention", "mathematics", "learning",
)  # fmt: skip


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


def declare_vision_operators() -> None:
    """Declare torchvision's operators to PyTorch where its compiled library does not load.

    The library in the wheel needs CUDA's. Without the declarations torchvision cannot be imported, nor timm
    and parts of transformers; programs that call one of the operators are not compared then.
    """
    schemas = os.environ.get("VISION_SCHEMAS")
    if not schemas:
        return
    import torch

    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for schema in filter(None, schemas.splitlines()):
            library.define(schema)
        run.library = library  # type: ignore[attr-defined]  # the declarations live as long as it does


if __name__ == "__main__":
    declare_vision_operators()
    for name in sys.argv[1:]:
        print("\n" + json.dumps({"program": name} | run(name)), flush=True)
