"""docs/simulate.md: its commands print what it shows, and so does the script of its tables."""

import importlib.util
import re
from pathlib import Path

import pytest
from flambeau.distributed.simulate._command import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "simulate.md").read_text()
COMMANDS = re.findall(
    r"^```console\n\$ python -m flambeau\.distributed\.simulate (.*)\n([^`]*)^```$", PAGE, re.M
)


def scaling():
    place = ROOT / "benchmarks" / "simulated_scaling.py"
    spec = importlib.util.spec_from_file_location("simulated_scaling", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("words, shown", COMMANDS)
def test_commands_print_what_is_shown(words, shown, capsys):
    assert main(words.split()) == 0
    assert capsys.readouterr().out == shown


def test_there_are_commands():
    assert len(COMMANDS) >= 3


def test_the_program_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    exec(program, {"print": lambda result: str(result)})
    assert (tmp_path / "step.svg").stat().st_size > 1000


@pytest.mark.parametrize("name, strong, ranks", [("7b", False, 64), ("7b", True, 256), ("70b", False, 256)])
def test_rows_of_the_tables(name, strong, ranks):
    rows = scaling().table(name, strong, (ranks,))[2:]
    assert len(rows) >= 3
    assert [row for row in rows if row not in PAGE] == []


def test_the_largest_micro_batches():
    found = [
        scaling().largest_micro_batch("7b", 64, schedule="fsdp", recompute=again) for again in (False, True)
    ]
    assert f"at most {found[0]} sequences, or {found[1]} with" in " ".join(PAGE.split())
