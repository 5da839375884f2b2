"""A few random calls of every operator; `make fuzz` makes more of them, `make fuzz-asan` under sanitizers."""

from pathlib import Path

import flambeau
import pytest

from fuzz.__main__ import LoggedWorker, fuzz
from fuzz.transformed import WAYS, call


def test_operators_answer_cleanly():
    failures = fuzz([], examples=12, seed=0, jobs=2)
    assert not failures, "\n".join(f"{name}: {problem}" for name, problem in failures.items())


def test_what_time_does_not_suffice_for_is_a_failure():
    assert fuzz(["flambeau.sin"], examples=1, seed=0, jobs=1, seconds=-1) == {
        "flambeau.sin": "no call\n    not called: the time was over"
    }


def test_a_crash_is_shown_with_what_the_process_said(tmp_path: Path):
    worker = LoggedWorker(tmp_path / "log", end=float("inf"))
    (tmp_path / "log").write_text(
        "of another call\n==1==ERROR: AddressSanitizer: heap-use-after-free\n  #0 f\n"
    )
    assert worker._report(16).splitlines()[1:] == [
        "    | ==1==ERROR: AddressSanitizer: heap-use-after-free",
        "    |   #0 f",
    ]
    # A question that it cannot read ends the process, which leaves a message and a status.
    assert worker.ask(f"flambeau.no_such_operator 1 0 {tmp_path / 'trace'}").startswith(
        "crash: exit status 1"
    )
    worker.close()


@pytest.mark.parametrize("way", WAYS)
def test_calls_are_transformed(way: str):
    x = flambeau.tensor([[0.0, 1.0], [2.0, 3.0]])
    result = call(way, flambeau.sin, [x], {})
    while isinstance(result, tuple):  # a value, then its derivatives
        result, *derivatives = result
        assert derivatives
    assert flambeau.allclose(result, x.sin())
