"""A few random calls of every operator; `make fuzz` makes more of them."""

from fuzz.__main__ import fuzz


def test_operators_answer_cleanly():
    failures = fuzz([], examples=12, seed=0, jobs=2)
    assert not failures, "\n".join(f"{name}: {problem}" for name, problem in failures.items())
