"""A few random calls of every operator; `make fuzz` makes more of them, `make fuzz-asan` under sanitizers."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import flambeau
import pytest

from fuzz.__main__ import LoggedWorker, _told, again, fuzz
from fuzz.files import damage
from fuzz.tensors import DTYPES
from fuzz.transformed import WAYS, call
from fuzz.values import Call
from fuzz.walk import Pair, difference, unnoticed, walk
from fuzz.worker import Targets
from fuzz.worker import fuzz as run_calls


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
    assert worker.ask(f"flambeau.no_such_operator 0 0 1 {tmp_path / 'trace'}").startswith(
        "crash: exit status 1"
    )
    worker.close()


def test_a_call_is_made_again_from_its_number(capfd: pytest.CaptureFixture):
    targets = Targets()
    shown = [targets["flambeau.addmm"].shown(3, number) for number in range(60)]
    assert shown == [targets["flambeau.addmm"].shown(3, number) for number in range(60)]
    assert len(set(shown)) == 60
    assert shown[:5] != [targets["flambeau.addmm"].shown(4, number) for number in range(5)]
    assert again("flambeau.addmm", 3, 7) == 0
    assert capfd.readouterr().out.startswith(shown[7])


def test_a_failure_names_its_call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    target = Targets()["flambeau.sin"]

    def wrong(*_: object) -> None:
        raise LookupError("no such thing")

    trace = os.open(tmp_path / "trace", os.O_CREAT | os.O_WRONLY)
    found = run_calls(replace(target, function=wrong), 0, range(5, 50), trace)
    os.close(trace)
    assert found["failure"] == "LookupError: no such thing"
    number = 4 + found["calls"]
    told = _told(target, 0, tmp_path / "trace", found["failure"])
    assert told.startswith(target.shown(0, number)) and f"flambeau.sin --seed 0 --call {number}" in told


def damaged(x: flambeau.Tensor) -> bool:
    """Whether an index of a sparse tensor is out of range."""
    sizes = flambeau.tensor(x.shape[: x.sparse_dim()], dtype=flambeau.int64).unsqueeze(1)
    return bool(((x._indices() < 0) | (x._indices() >= sizes)).any())


def sparse_kinds(x: flambeau.Tensor) -> dict[str, bool]:
    """What to count of a sparse tensor."""
    is_damaged = damaged(x)
    repeats = x._nnz() > 1 and not is_damaged and x.coalesce()._nnz() < x._nnz()
    return {"sparse": True, "sparse and damaged": is_damaged, "sparse with duplicates": repeats}


def test_arguments_are_of_every_kind():
    seen: Counter[str] = Counter()
    for number in range(2000):
        call = Call(f"kinds {number}")
        call.agree(may_be_huge=True)
        first, second = call.tensor(call.dtype), call.tensor(call.dtype)
        for x in (first, second):
            if x.is_sparse:
                seen.update(sparse_kinds(x))
                continue
            dense = x.numel() == 0 or x._is_view() and x.is_contiguous()
            seen.update(
                {
                    str(x.dtype): 1,
                    "meta": x.is_meta, "empty": x.numel() == 0, "0-dim": x.dim() == 0,
                    "huge": max(x.shape, default=0) >= 2**31, "strided": not dense,
                    "overlaps": not x.is_meta and x.numel() * x.element_size() > x.untyped_storage().nbytes(),
                    "offset": x.storage_offset() > 0, "conj": x.is_conj(), "neg": x.is_neg(),
                    "leaf": x.requires_grad and x.is_leaf, "history": x.requires_grad and not x.is_leaf,
                    "NaN": x.is_floating_point() and not x.is_meta and bool(x.isnan().any()),
                    "long": x.numel() > 1000,
                }
            )  # fmt: skip
            if x.dtype == flambeau.bool and not x.is_meta and not x.is_conj():
                seen["bool bytes"] += bool((x.contiguous().view(flambeau.uint8) > 1).any())
        both_real = (
            not first.is_sparse
            and not second.is_sparse
            and not first.is_meta
            and not second.is_meta
            and first.numel()
            and second.numel()
        )
        if both_real:
            seen["shared"] += first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()
    assert all(seen[f"flambeau.{dtype}"] for dtype in DTYPES)
    kinds = {kind: count for kind, count in seen.items() if not kind.startswith("flambeau.")}
    assert kinds.pop("sparse and damaged") >= 8, seen
    assert len(kinds) == 17 and min(kinds.values()) >= 20, kinds


@pytest.mark.parametrize("way", WAYS)
def test_calls_are_transformed(way: str):
    x = flambeau.tensor([[0.0, 1.0], [2.0, 3.0]])
    result = call(way, flambeau.sin, [x], {})
    while isinstance(result, tuple):  # a value, then its derivatives
        result, *derivatives = result
        assert derivatives
    assert flambeau.allclose(result, x.sin())


def test_walks_over_shared_memory_end_well():
    findings, statements = walk(seed=0, statements=3000, jobs=1, compare=False, end=float("inf"))
    assert not findings.counts, findings.programs
    assert statements == 3000


def test_differences_of_walks():
    x = {"shape": [1], "version": 0, "values": ["1"]}
    assert difference(["ok", {"x0": x}], ["ok", {"x0": x}]) == ""
    assert difference(["ok", {}], ["TypeError", {}]) == "outcome: flambeau ok, PyTorch TypeError"
    found = difference(["ok", {"x0": x}], ["ok", {"x0": {**x, "values": ["2"]}}])
    assert found == "values of x0: flambeau ['1'], PyTorch ['2']"
    written = {**x, "values": ["2"]}
    before, after = ({"x0": x}, {"x0": x}), ({"x0": written}, {"x0": {**written, "version": 1}})
    assert unnoticed("x0.add_(1)", before, after) == "version of x0: a write is not counted"
    assert unnoticed("x0.add_(1)", after, after) == ""


def test_programs_are_shrunk(tmp_path: Path):
    class Fixed(Pair):
        def finding(self, program):
            wrong = [i for i, text in enumerate(program) if text == "x0.add_(1)" and "a" in program[:i]]
            return (wrong[0], "values of x0") if wrong else None

    pair = Fixed(tmp_path, 0, compare=False)
    program = ["x", "a", "y", "z", "x0.add_(1)", "w"]
    assert pair.shrunk(program, "add_: values") == ["a", "x0.add_(1)"]


def test_a_walk_that_crashes_is_reported(tmp_path: Path):
    pair = Pair(tmp_path, 0, compare=False)
    found = pair.finding(["x0 = 1", "import os; os.abort()"])
    assert found is not None and found[0] == 1 and found[1].startswith("crash: exit status -6")
    assert pair.finding(["x0 = t.ones(2)"]) is None
    pair.close()


def test_damaged_files_are_answered_cleanly():
    assert damage(seed=0, count=2000) == []
