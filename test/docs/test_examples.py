"""The examples of `doc:` run in one process, and say the same of PyTorch where it has the operator."""

import flambeau
import pytest
from run_examples import failures, in_pytorch

from codegen.reading.files import read_files

torch = pytest.importorskip("torch")

DOCUMENTED = [op for op in read_files().operators if op.doc.example]


def examples() -> dict[str, str]:
    """Each example once, under the first operator that shows it."""
    found: dict[str, str] = {}
    for op in DOCUMENTED:
        found.setdefault(op.doc.example, op.name)
    return {name: text for text, name in found.items()}


def test_every_example_prints_what_it_shows():
    assert len(examples()) > 500
    assert failures({"flambeau": flambeau}, examples()) == {}


def test_pytorch_prints_the_same():
    texts = {name: in_pytorch(text) for name, text in examples().items()}
    shared = {name: text for name, text in texts.items() if text is not None}
    assert len(shared) > 500
    assert failures({"torch": torch}, shared) == {}
