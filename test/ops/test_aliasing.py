"""Destinations that share memory: every form of every operator gives the right values or an error.

The expected values are those of the same call on copies. New memory is full of a pattern of bytes, so that
what was never computed differs.
"""

from __future__ import annotations

import flambeau as fb
import pytest
from aliasing_runs import trials
from op_cases import Op, names, operators


def writes(op: Op) -> bool:
    return bool(op.record["samples"]) and bool(op.out or op.inplace or op.declared_inplace)


@pytest.mark.parametrize("name", names(writes))
def test_right_or_refused(name: str):
    op = operators()[name]
    wrong = []
    for trial in trials(op):
        fb.manual_seed(0)
        outcome = trial.outcome(fb)
        if outcome == "wrong" and op.is_fixed:
            wrong.append(trial.label)
    assert not wrong


SHARED = "unsupported operation"
REFUSED = {
    "a number of elements that must grow": lambda: fb.mul(fb.ones(5), (y := fb.full((1,), 3.0)), out=y),
    "pow": lambda: fb.pow((x := fb.arange(5.0))[:3], 2.0, out=x[1:4]),
    "copy_": lambda: (x := fb.arange(4.0))[1:].copy_(x[:-1]),
    "assignment": lambda: (x := fb.arange(4.0)).__setitem__(slice(1, None), x[:-1]),
    "gather": lambda: fb.gather(x := fb.arange(3.0), 0, fb.tensor([2, 1, 0]), out=x),
    "take": lambda: fb.take(x := fb.arange(3.0), fb.tensor([2, 1, 0]), out=x),
    "cat": lambda: fb.cat([x := fb.arange(3.0), fb.ones(1)], out=x),
    "masked_select": lambda: fb.masked_select(x := fb.arange(3.0), fb.tensor([True, True, True]), out=x),
    "kthvalue": lambda: fb.kthvalue(x := fb.ones(2, 2), 1, out=(x, fb.empty(2, dtype=fb.int64))),
    "index_select": lambda: fb.index_select(x := fb.arange(3.0), 0, fb.tensor([2, 1, 0]), out=x),
    "a list": lambda: fb._foreach_add_([(x := fb.ones(4))[1:]], [x[:-1]]),
    "diff": lambda: fb.diff(x := fb.arange(6.0), out=x),
    "a part of what diff reads": lambda: fb.diff(x := fb.arange(6.0), out=x[1:]),
    "kron": lambda: fb.kron((x := fb.arange(8.0))[:4], fb.ones(1), out=x[1:5]),
    "kron that grows": lambda: fb.kron(x := fb.arange(4.0), fb.ones(2), out=x),
    "two results": lambda: fb.frexp(fb.ones(2), out=((x := fb.ones(2)), x)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str):
    words = "broadcast shape" if name.startswith("a number") else SHARED
    with pytest.raises(RuntimeError, match=words):
        REFUSED[name]()


FILLS = {
    "bernoulli_": (), "cauchy_": (), "exponential_": (), "geometric_": (0.5,), "log_normal_": (),
    "normal_": (), "random_": (), "uniform_": (), "clamp_": (0, 1), "copy_": (fb.ones(3),), "add_": (1,),
    "masked_scatter_": (fb.ones(3, dtype=fb.bool), fb.ones(3)), "cumsum_": (0,), "fill_": (fb.tensor(1.0),),
}  # fmt: skip


@pytest.mark.parametrize("name", FILLS)
def test_places_that_are_one_element_are_not_filled(name: str):
    with pytest.raises(RuntimeError, match=SHARED):
        getattr(fb.ones(1).expand(3), name)(*FILLS[name])


def test_an_input_that_grows_keeps_its_values_until_it_is_read():
    x = fb.arange(3.0)
    assert fb.repeat_interleave(x, 2).tolist() == [0, 0, 1, 1, 2, 2]
    y = fb.arange(4.0).reshape(2, 2)
    fb.mm(y, fb.ones(2, 3), out=y)
    assert y.tolist() == [[1, 1, 1], [5, 5, 5]]
    z = fb.arange(4.0)
    fb.sum(z, 0, out=z)
    assert z.tolist() == 6
    memory = fb.arange(6.0)
    fb.mul(memory[4:], 2, out=(head := memory[:1]))
    assert head.tolist() == [8, 10]
