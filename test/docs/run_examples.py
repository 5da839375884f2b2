"""Run examples of documentation in flambeau, and in PyTorch where it has the names."""

import contextlib
import doctest
import importlib
import inspect
import io
import re
import warnings

import pytest


def failures(names: dict[str, object], texts: dict[str, str]) -> dict[str, str]:
    """Run examples with `names` in scope; the reports of those that print something else."""
    runner = doctest.DocTestRunner(verbose=False)
    found = {}
    for name, text in texts.items():
        test = doctest.DocTestParser().get_doctest(text, {"__name__": "examples", **names}, name, None, 0)
        report = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(report):
            warnings.simplefilter("ignore")
            if runner.run(test, out=report.write).failed:
                found[name] = report.getvalue()
    return found


def in_pytorch(text: str) -> str | None:
    """The example as a program of PyTorch; None where PyTorch has no such name."""
    torch = pytest.importorskip("torch")
    for path in re.findall(r"\bflambeau((?:\.[a-zA-Z_]\w*)+)", text):
        place: object = torch
        for name in path[1:].split("."):
            if isinstance(place, torch.Tensor):
                break
            place = _member(place, name)
            if place is None:
                return None
    return text.replace("flambeau", "torch")


def _member(place: object, name: str) -> object | None:
    """A member of a module or class. Modules are imported, so that earlier imports make no difference."""
    if not hasattr(place, name) and inspect.ismodule(place):
        with contextlib.suppress(ImportError):
            return importlib.import_module(f"{place.__name__}.{name}")
    return getattr(place, name, None)
