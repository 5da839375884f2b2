"""Valid calls of the operator database with one argument replaced: PyTorch and flambeau must refuse the same,
with one type of exception, and give the same result of what they take.

Four differences are allowed. What PyTorch has no kernel for (NotImplementedError) may be computed here, or,
on meta tensors, refused by another RuntimeError. Calls that PyTorch takes may be refused if they mix meta
tensors with others, or if elements of out= share memory, so that they have no defined value. An attribute
that a value of another type lacks (AttributeError) stands for TypeError. The calls run in a child process:
PyTorch itself crashes on some, which then say nothing; a crash of flambeau is a verdict.
"""

from __future__ import annotations

import json
import os
import random
import signal
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
import torch

from .checks import SEED, NotApplicable, Verdict, copies, oracle, same_result, samples, seed_all
from .compare import Different, same
from .replacements import Call, destinations, variations
from .twin import Missing, NotDense, to_flambeau, to_torch, twin

SAMPLES = 2
SHARE = float(os.environ.get("FLAMBEAU_WRONG_CALLS", "0.25"))  # of the calls that are tried
SECONDS = 20  # for the calls of one child
Planned = tuple[str, Call, Callable[[Any], Any]]


def wrong(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """One verdict per call: of the check `wrong` if PyTorch refuses it, otherwise of `changed`."""
    drawn = random.Random(zlib.crc32(f"{op.name}.{op.variant_test_name}.{SEED}".encode()))
    plan = [
        (label, call, sample.output_process_fn_grad)
        for sample in samples(op, dtype, False)[:SAMPLES]
        for label, call in _changed(op, ((sample.input, *sample.args), sample.kwargs))
        if drawn.random() < SHARE
    ]
    yield from verdicts(op, plan)


def verdicts(op: Any, plan: list[Planned]) -> Iterator[Verdict]:
    """Make each planned call of `op.op`, and of what flambeau has in its place."""
    done = 0
    while done < len(plan):
        last = ["", ""]
        for at, side, check, cause in _in_child(op, plan, done):
            done, last = at, [side, plan[at][0]]
            if check:
                yield Verdict(check, cause)
        if last[0] == "ours":
            yield Verdict("wrong", f"crashed: {last[1]}")
        done += 1


def _changed(op: Any, call: Call) -> Iterator[tuple[str, Call]]:
    yield from variations(call)
    args, kwargs = call
    if op.supports_out and "out" not in kwargs:
        try:
            result = oracle(op.op, *copies(args), **copies(kwargs))
        except NotApplicable:
            return
        for label, out in destinations(result):
            yield f"out: {label}", (args, kwargs | {"out": out})


def _in_child(op: Any, plan: list[Planned], start: int) -> Iterator[tuple[int, str, str, str]]:
    """(call, where it got to, check, cause) until the child ends: by itself, or by a crash."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(SECONDS)
        with os.fdopen(writer, "w") as pipe:
            for at in range(start, len(plan)):
                for side, check, cause in _judge(op, *plan[at]):
                    print(json.dumps([at, side, check, cause]), file=pipe, flush=True)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        yield from (tuple(json.loads(line)) for line in pipe)
    os.waitpid(child, 0)


def _judge(op: Any, label: str, call: Call, process: Callable[[Any], Any]) -> Iterator[tuple[str, str, str]]:
    yield "theirs", "", ""
    given = _fresh(call)
    expected = _outcome(op.op, *given)
    yield "ours", "", ""
    try:
        mine = _own_memory(to_flambeau(list(call)))
        ours = _outcome(twin(op.op), *mine)
    except (Missing, NotDense):
        yield "done", "", ""
        return
    if isinstance(expected, Exception):
        computed = isinstance(expected, NotImplementedError) and not isinstance(ours, Exception)
        yield "done", "" if computed else "wrong", _refusals(label, ours, expected)
    elif label.endswith("expanded") or (label.endswith("meta") and isinstance(ours, RuntimeError)):
        yield "done", "", ""
    elif isinstance(ours, Exception):
        yield "done", "changed", f"refused: {label}: {_named(ours)}"
    else:
        yield "done", "changed", _difference(label, op, call, process, (given, expected), (mine, ours))


def _fresh(call: Call) -> Call:
    """The call with copies of its tensors; expanded ones stay expanded as out=."""
    args, kwargs = call
    kept = {k: v for k, v in kwargs.items() if k == "out" and isinstance(v, torch.Tensor) and 0 in v.stride()}
    return copies(args), copies(kwargs) | kept


def _own_memory(call: list[Any]) -> list[Any]:
    """The call with tensors for out= that may be resized: those that PyTorch lends may not."""
    args, kwargs = call
    if "out" in kwargs:
        kwargs["out"] = _owned(kwargs["out"])
    return [args, kwargs]


def _owned(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(map(_owned, value))
    if not isinstance(value, flambeau.Tensor) or 0 in value.stride():
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _outcome(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The result, or the exception."""
    seed_all()
    try:
        return function(*args, **kwargs)
    except Missing:
        raise
    except Exception as error:
        return error


def _named(error: Exception) -> str:
    name = type(error).__name__.lstrip("_")  # torch._C._LinAlgError is torch.linalg.LinAlgError
    return f"{name}: {' '.join(str(error).split())[:90]}"


def _same_kind(ours: Exception, theirs: Exception) -> bool:
    if isinstance(theirs, AttributeError) and isinstance(ours, TypeError):
        return True
    if "Meta tensors" in str(theirs) and isinstance(
        ours, RuntimeError
    ):  # NotImplementedError is a RuntimeError
        return True
    return _named(ours).split(":")[0] == _named(theirs).split(":")[0]


def _refusals(label: str, ours: Any, theirs: Exception) -> str:
    """What differs where PyTorch refuses a call."""
    if not isinstance(ours, Exception):
        return f"accepted: {label}: no {_named(theirs)}"
    if not _same_kind(ours, theirs):
        return f"type: {label}: {_named(ours)} in place of {_named(theirs)}"
    return ""


def _difference(label: str, op: Any, call: Call, process: Any, theirs: Any, ours: Any) -> str:
    """What differs where both give a result: that of `out=` in the precision of the call without it."""
    args, kwargs = call
    plain = {k: v for k, v in kwargs.items() if k != "out"}
    ((_, given), expected), ((_, mine), found) = theirs, ours
    try:
        if "out" not in kwargs:
            same_result(op, (args, plain), found, expected, process)
            return ""
        same(to_torch([found, mine["out"]]), [expected, given["out"]], values=False)
        precise = oracle(op.op, *copies(args), **copies(plain))
        same_result(op, (args, plain), _as(found, to_flambeau(precise)), _as(expected, precise), process)
    except Different as error:
        return f"{label}: {error}"
    except NotApplicable:
        pass
    return ""


def _as(value: Any, like: Any) -> Any:
    """The tensors with the dtypes of others."""
    if isinstance(value, tuple | list):
        return tuple(map(_as, value, like))
    return value if value is None else value.to(like.dtype)
