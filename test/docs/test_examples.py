"""The examples of `doc:` run in one process, and say the same of PyTorch where it has the operator."""

import subprocess
import sys
from pathlib import Path

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


def test_earlier_imports_do_not_choose_the_examples():
    """PyTorch imports `utils.benchmark` on request only."""
    program = (
        "import sys, torch\n"
        "from run_examples import in_pytorch\n"
        "assert 'torch.utils.benchmark' not in sys.modules\n"
        "print(in_pytorch('flambeau.utils.benchmark.Fuzzer'), in_pytorch('flambeau.utils.no_such.name'))\n"
    )
    folder = Path(__file__).parent
    run = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
    assert (run.stdout, run.returncode) == ("torch.utils.benchmark.Fuzzer None\n", 0), run.stderr
