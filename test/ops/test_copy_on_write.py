"""Lazy clones and their sources under every operator: no write reaches the other tensor."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import flambeau as fb
import pytest
from op_cases import calls, flat, is_tensor, names, operators, run, split_arguments, tensors

DIRECTIONS = ["clone", "source"]


def bytes_of(tensor: Any) -> list[int]:
    """All bytes of the memory behind a tensor, read without taking memory of its own."""
    return fb._C._storage_bytes(tensor).tolist()


class Lazy:
    """Makes tensors that share memory with another one, which must keep its bytes."""

    def __init__(self, direction: str) -> None:
        self.direction = direction
        self.others: list[tuple[Any, list[int]]] = []

    def __call__(self, value: Any) -> Any:
        """A tensor of equal values: the lazy clone of a source, or the source of a lazy clone."""
        if isinstance(value, list):
            return [self(v) for v in value]
        if not is_tensor(value):
            return value
        source = value.clone()  # in memory that is ours
        clone = source._lazy_clone()
        assert fb._C._is_cow_tensor(source) and fb._C._is_cow_tensor(clone)
        given, other = (clone, source) if self.direction == "clone" else (source, clone)
        self.others.append((other, bytes_of(other)))
        return given

    def check(self, what: str) -> None:
        """The tensors that were not given to the call have the bytes that they had."""
        assert self.others, f"{what}: no tensor was shared"
        for other, before in self.others:
            assert bytes_of(other) == before, f"{what} wrote to the memory of another tensor"


def writes(op: Any) -> bool:
    """Whether a form writes to a tensor that it is given."""
    return bool(op.inplace or op.out or op.declared_inplace or "!" in op.schema)


def has_samples(op: Any) -> bool:
    return bool(op.record["samples"]) and op.tensor_names


def called(what: str, call: Callable[[], Any]) -> Any:
    """What the call returns. Not every sample fits an in-place form: it may be refused."""
    try:
        return call()
    except RuntimeError:
        return None


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", names(lambda op: has_samples(op) and not op.declared_inplace))
def test_reads_share_memory(name: str, direction: str):
    """The functional form gives the result that it gives for tensors with memory of their own."""
    op = operators()[name]
    for call in calls(op):
        arguments = tensors(call.materialise(op.main_dtype()), op.main_dtype())
        lazy = Lazy(direction)
        shared = {key: lazy(value) for key, value in arguments.items()}
        if not lazy.others:
            continue
        result = run(op, shared)
        lazy.check(name)
        if not op.is_fixed or "!" in op.schema:
            continue
        for a, b in zip(flat(result), flat(run(op, arguments)), strict=True):
            assert (fb.equal(a, b) or (a != a).any()) if is_tensor(a) else a == b or a != a


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", names(lambda op: has_samples(op) and (op.inplace or op.declared_inplace)))
def test_in_place_writes_stay(name: str, direction: str):
    op = operators()[name]
    done = 0
    for call in calls(op):
        arguments = tensors(call.materialise(op.main_dtype()), op.main_dtype())
        lazy = Lazy(direction)
        shared = {key: lazy(value) for key, value in arguments.items()}
        if not lazy.others:
            continue
        positional, keywords = split_arguments(op, shared)
        if op.declared_inplace:
            called(name, lambda p=positional, k=keywords: op.function()(*p, **k))
        else:
            keywords.pop("input", None)
            own = shared["self"]
            rest = [v for v in positional if v is not own]
            called(name, lambda o=own, r=rest, k=keywords: getattr(o, op.inplace)(*r, **k))
        lazy.check(f"{name} in place")
        done += 1
    assert done


def _filled(like: Any) -> Any:
    return fb.zeros(like.shape, dtype=like.dtype) if is_tensor(like) else like


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", names(lambda op: has_samples(op) and op.out))
def test_out_writes_stay(name: str, direction: str):
    """A lazy clone as out=, of the right size and of another one."""
    op = operators()[name]
    for call in calls(op):
        arguments = tensors(call.materialise(op.main_dtype()), op.main_dtype())
        results = flat(run(op, arguments))
        for shapes in ("right", "empty", "of an argument"):
            lazy = Lazy(direction)
            shared = {key: lazy(value) for key, value in arguments.items()}
            outs = [lazy(_filled(r) if shapes == "right" else fb.zeros(0, dtype=r.dtype)) for r in results]
            if shapes == "of an argument":  # what a lazy clone shares with an input is not an overlap
                outs[0] = flat(list(shared.values()))[0]
                outs[0] = outs[0]._lazy_clone() if is_tensor(outs[0]) else lazy(fb.zeros(0))
            positional, keywords = split_arguments(op, shared)
            out = outs[0] if len(outs) == 1 else tuple(outs)
            called(name, lambda p=positional, k=keywords, o=out: op.function()(*p, **k, out=o))
            if lazy.others:
                lazy.check(f"{name} with out=")


# Operators without samples, by hand: what is written, and the other tensors that they read.
def _fused(name: str, states: int, **options: object) -> Callable[..., Any]:
    def call(p: Any, grad: Any, *rest: Any) -> Any:
        lists = [[t] for t in rest[:states]]
        steps = [] if name == "_fused_sgd_" else [[fb.ones(())]]
        return getattr(fb._C._functions, name)([p], [grad], *lists, *steps, **options)

    return call


_ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-8, "amsgrad": True}
_SGD = {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.0, "nesterov": False}
BY_HAND: dict[str, Callable[..., Any]] = {
    "_fused_adagrad_": _fused(
        "_fused_adagrad_", 1, lr=0.1, lr_decay=0.1, weight_decay=0.1, eps=1e-8, maximize=False
    ),
    "_fused_adam_": _fused("_fused_adam_", 3, **_ADAM, maximize=False),
    "_fused_adamw_": _fused("_fused_adamw_", 3, **_ADAM, maximize=False),
    "_fused_sgd_": _fused("_fused_sgd_", 1, **_SGD, maximize=False, is_first_step=False),
    "_index_put_": lambda t, u, *_: t.__setitem__(fb.tensor([1, 0]), u[:2]),
    "_set_from_": lambda t, u, *_: t.set_(u).add_(1),
    "_set_sizes_": lambda t, *_: t.resize_(2, 2).add_(1),
    "_settle_": lambda t, *_: fb._C._functions._settle_(t, 0),
    "arange": lambda t, *_: fb.arange(4, out=t),
    "empty": lambda t, *_: fb.empty(4, out=t),
    "eye": lambda t, *_: fb.eye(2, out=t),
    "fft_fftfreq": lambda t, *_: fb.fft.fftfreq(4, out=t),
    "fft_rfftfreq": lambda t, *_: fb.fft.rfftfreq(6, out=t),
    "full": lambda t, *_: fb.full((4,), 3.0, out=t),
    "ones": lambda t, *_: fb.ones(4, out=t),
    "rand": lambda t, *_: fb.rand(4, out=t),
    "randint": lambda t, *_: fb.randint(5, (4,), out=t),
    "randn": lambda t, *_: fb.randn(4, out=t),
    "randperm": lambda t, *_: fb.randperm(4, out=t),
    "range": lambda t, *_: fb.range(0, 3, out=t),
    "zeros": lambda t, *_: fb.zeros(4, out=t),
}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", BY_HAND)
def test_writes_of_operators_without_samples(name: str, direction: str):
    lazy = Lazy(direction)
    dtype = fb.int64 if name in ("randint", "randperm") else fb.float32
    given = [lazy(fb.arange(1, 5).to(dtype)) for _ in range(5)]
    BY_HAND[name](*given)
    lazy.check(name)


_WRITTEN = re.compile(r"\(\w+!\)")


def test_every_form_that_writes_is_called():
    """Each base name with a written argument has samples, or a call by hand."""
    sampled = {
        op.schema.partition("(")[0].partition(".")[0] for op in operators().values() if has_samples(op)
    }
    missing = set()
    for schema in fb._C._operator_schemas():
        base = schema.partition("(")[0].partition(".")[0]
        known = {base, base.removesuffix("_")}
        listed = any(f"_foreach_{s}" in known for s in sampled)
        if _WRITTEN.search(schema) and not known & (sampled | BY_HAND.keys()) and not listed:
            missing.add(base)
    assert sorted(missing) == []
