"""The examples of `doc:` run in one process, and say the same of PyTorch where it has the operator."""

import contextlib
import doctest
import io
import re
import warnings

import flambeau
import pytest

from codegen.reading.files import read_files

torch = pytest.importorskip("torch")
DOCUMENTED = [op for op in read_files().operators if op.doc.example]


def examples() -> dict[str, str]:
    """Each example once, under the first operator that shows it."""
    found: dict[str, str] = {}
    for op in DOCUMENTED:
        found.setdefault(op.doc.example, op.name)
    return {name: text for text, name in found.items()}


def failures(names: dict[str, object], texts: dict[str, str]) -> dict[str, str]:
    """Run examples with `names` in scope; the reports of those that print something else."""
    runner = doctest.DocTestRunner(verbose=False)
    found = {}
    for name, text in texts.items():
        test = doctest.DocTestParser().get_doctest(text, dict(names), name, None, 0)
        report = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(report):
            warnings.simplefilter("ignore")
            if runner.run(test, out=report.write).failed:
                found[name] = report.getvalue()
    return found


def test_every_example_prints_what_it_shows():
    assert len(examples()) > 500
    assert failures({"flambeau": flambeau}, examples()) == {}


def in_pytorch(text: str) -> str | None:
    """The example as a program of PyTorch; None where PyTorch has no such name."""
    for path in re.findall(r"\bflambeau((?:\.[a-zA-Z_]\w*)+)", text):
        place: object = torch
        for name in path[1:].split("."):
            if isinstance(place, torch.Tensor):
                break
            if not hasattr(place, name):
                return None
            place = getattr(place, name)
    return text.replace("flambeau", "torch")


def test_pytorch_prints_the_same():
    texts = {name: in_pytorch(text) for name, text in examples().items()}
    shared = {name: text for name, text in texts.items() if text is not None}
    assert len(shared) > 500
    assert failures({"torch": torch}, shared) == {}
