"""Valid calls of the operator database made wrong in one argument: PyTorch and flambeau must refuse the same.

The calls run in a child process: PyTorch itself crashes on some, which then say nothing; a crash of flambeau
is a verdict.
"""

from __future__ import annotations

import json
import os
import random
import signal
import zlib
from collections.abc import Iterator
from typing import Any

import torch

from .checks import SEED, Verdict, copies, samples
from .twin import Missing, NotDense, to_flambeau, twin

SAMPLES = 2
SHARE = float(os.environ.get("FLAMBEAU_WRONG_CALLS", "0.25"))  # of the calls that are tried
SECONDS = 20  # for the calls of one child
Call = tuple[tuple[Any, ...], dict[str, Any]]


def wrong(op: Any, dtype: torch.dtype) -> Iterator[Verdict]:
    """One verdict per wrong call that PyTorch refuses."""
    drawn = random.Random(zlib.crc32(f"{op.name}.{op.variant_test_name}.{SEED}".encode()))
    plan = [
        (label, changed)
        for sample in samples(op, dtype, False)[:SAMPLES]
        for label, changed in variations(((sample.input, *sample.args), sample.kwargs))
        if drawn.random() < SHARE
    ]
    done = 0
    while done < len(plan):
        last = ["", ""]
        for at, side, cause in _in_child(op, plan, done):
            done, last = at, [side, plan[at][0]]
            if side == "done" and cause is not None:
                yield Verdict("wrong", cause)
        if last[0] == "ours":
            yield Verdict("wrong", f"crashed: {last[1]}")
        done += 1


def _in_child(op: Any, plan: list[tuple[str, Call]], start: int) -> Iterator[tuple[int, str, str | None]]:
    """(call, where it got to, cause) until the child ends: by itself, or by a crash."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(SECONDS)
        with os.fdopen(writer, "w") as pipe:
            for at in range(start, len(plan)):
                for side, cause in _judge(op, *plan[at]):
                    print(json.dumps([at, side, cause]), file=pipe, flush=True)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        yield from (tuple(json.loads(line)) for line in pipe)
    os.waitpid(child, 0)


def _judge(op: Any, label: str, call: Call) -> Iterator[tuple[str, str | None]]:
    args, kwargs = call
    yield "theirs", None
    expected = _raised(op.op, copies(args), copies(kwargs))
    if expected is None:
        yield "done", None
        return
    yield "ours", None
    try:
        ours = _raised(twin(op.op), to_flambeau(args), to_flambeau(kwargs))
    except (Missing, NotDense):
        yield "done", None
        return
    if ours is None:
        yield "done", f"accepted: {label}: no {expected}"
    elif ours.split(":")[0] != expected.split(":")[0]:
        yield "done", f"type: {label}: {ours} in place of {expected}"
    else:
        yield "done", ""


def _raised(function: Any, args: Any, kwargs: Any) -> str | None:
    try:
        function(*args, **kwargs)
    except Missing:
        raise
    except Exception as error:
        name = type(error).__name__.lstrip("_")  # torch._C._LinAlgError is torch.linalg.LinAlgError
        return f"{name}: {' '.join(str(error).split())[:90]}"
    return None


# --- what can be wrong ----------------------------------------------------------------------------------


def variations(call: Call) -> Iterator[tuple[str, Call]]:
    """The call with one argument replaced, or with an argument too many."""
    args, kwargs = call
    for i, value in enumerate(args):
        for label, other in replacements(value):
            yield f"{i} {label}", ((*args[:i], other, *args[i + 1 :]), kwargs)
    for name, value in kwargs.items():
        for label, other in replacements(value):
            yield f"{name} {label}", (args, kwargs | {name: other})
    yield "unknown keyword", (args, kwargs | {"no_such_argument": 1})


def replacements(value: Any) -> Iterator[tuple[str, Any]]:
    """Values that stand for no sensible argument in this place, or for one of another kind."""
    if isinstance(value, torch.Tensor):
        yield from _tensors(value)
    elif isinstance(value, bool):
        yield from (("text", "x"), ("None", None), ("fraction", 0.5), ("list", [1]))
    elif isinstance(value, int):
        for other in (-1000, 1000, -1, 0, True, 1.5, None, "x", [1, 2]):
            yield f"int->{other!r}", other
    elif isinstance(value, float | complex):
        for other in (None, "x", [1.0]):
            yield f"number->{other!r}", other
    elif isinstance(value, str):
        yield from (("another text", "no_such_value"), ("number", 3))
    elif isinstance(value, torch.dtype):
        yield from (("text", "float32"), ("number", 3))
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields") and len(value) < 10:
        yield from _lists(value)


def _tensors(value: torch.Tensor) -> Iterator[tuple[str, Any]]:
    plain = value.detach()
    if plain.layout != torch.strided:
        return
    yield "tensor->None", None
    yield "tensor->text", "x"
    yield "tensor->number", 2
    yield "tensor->meta", plain.to("meta")
    yield "one dimension more", plain.unsqueeze(0)
    if plain.dim():
        if plain.shape[0]:
            yield "one dimension less", plain[0]
        for d in sorted({0, plain.dim() - 1}):
            yield f"longer in dim {d}", torch.cat([plain, plain.narrow(d, 0, min(1, plain.shape[d]))], d)
            yield f"empty in dim {d}", plain.narrow(d, 0, 0)
    for dtype in (torch.float64, torch.int64, torch.bool, torch.complex64, torch.int32, torch.float16):
        if dtype is not plain.dtype:
            yield f"tensor->{dtype}", (plain.real if plain.is_complex() else plain).to(dtype)
    if plain.dtype is torch.int64 and plain.numel():
        yield "index too large", plain + 1000
        yield "index too small", plain - 1000


def _lists(value: Any) -> Iterator[tuple[str, Any]]:
    kind = type(value) if type(value) in (list, tuple) else tuple
    items = list(value)
    yield "list->None", None
    yield "list->text", "x"
    yield "empty list", kind()
    if not items:
        return
    yield "longer list", kind([*items, items[-1]])
    yield "shorter list", kind(items[:-1])
    for label, other in (("text", "x"), ("None", None), ("number", 1.5)):
        yield f"{label} in list", kind([*items[:-1], other])
    if all(isinstance(i, int) and not isinstance(i, bool) for i in items):
        yield "repeated in list", kind([items[0]] * max(2, len(items)))
        yield "negative in list", kind([*items[:-1], -1000])
        yield "large in list", kind([*items[:-1], 1000])
        yield "list->tensor", torch.tensor(items)
    elif all(isinstance(i, torch.Tensor) for i in items):
        for label, other in _tensors(items[-1]):
            yield f"last {label}", kind([*items[:-1], other])
