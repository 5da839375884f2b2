"""Calls of every operator with a destination that shares memory, by the patterns of aliasing.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import aliasing
import numpy as np
from op_cases import Call, Op, calls, flat, split_arguments

Pair = tuple[list[Any], list[Any]]  # what was written, and what the same call gives without shared memory
Run = Callable[[Any], Pair]


class NotApplicable(Exception):
    """The pattern does not fit this call, or the framework has no such function."""


@dataclass(frozen=True)
class Trial:
    """One statement: which sample, which pattern, and how to run it with a framework."""

    label: str
    run: Run

    def outcome(self, fw: Any) -> str:
        """`right`, `wrong`, `not applicable`, or the type of the exception and its message."""
        try:
            written, wanted = self.run(fw)
        except NotApplicable:
            return "not applicable"
        except Exception as error:
            if isinstance(error, TypeError | AttributeError | RecursionError) and fw.__name__ == "torch":
                return "not applicable"  # this function of PyTorch has no such form
            return f"{type(error).__name__}: {error}"
        return "right" if all(map(_agree, written, wanted)) else "wrong"


def _agree(written: Any, wanted: Any) -> bool:
    a, b = aliasing.values_of(written), aliasing.values_of(wanted)
    wide = np.complex128 if np.iscomplexobj(a) else np.float64
    return a.shape == b.shape and np.allclose(a.astype(wide), b.astype(wide), 1e-4, 1e-4, equal_nan=True)


def function_of(fw: Any, op: Op) -> Callable[..., Any]:
    """The public function (or method) of this operator."""
    if not op.is_function:
        return lambda own, *args, **kwargs: getattr(own, op.call)(*args, **kwargs)
    spaces = {"": [fw], "nn": [fw._C._nn, fw.nn.functional]}.get(op.namespace)
    for space in spaces or [getattr(fw, op.namespace)]:
        if hasattr(space, op.call):
            return getattr(space, op.call)
    raise NotApplicable


def _built(fw: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    def tensor(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return fw.from_numpy(np.array(value))
        if isinstance(value, list):
            return [tensor(v) for v in value]
        name = str(value)
        if type(value).__name__ in ("dtype", "memory_format", "layout") and "." in name:
            return getattr(fw, name.rpartition(".")[2])
        return value

    return {name: tensor(value) for name, value in arguments.items()}


def functional_of(fw: Any, op: Op, built: dict[str, Any]) -> list[Any]:
    """The results of the functional form, each in memory of its own."""
    positional, keywords = split_arguments(op, built)
    return [t.clone() for t in flat(function_of(fw, op)(*positional, **keywords))]


def _outs_of(outs: list[Any]) -> Any:
    return outs[0] if len(outs) == 1 else tuple(outs)


def _out_written(fw: Any, op: Op, built: dict[str, Any], outs: list[Any]) -> Pair:
    """Call the out= form; before that the functional one, on copies."""
    wanted = functional_of(fw, op, _copied(built))
    positional, keywords = split_arguments(op, built)
    function_of(fw, op)(*positional, **keywords, out=_outs_of(outs))
    return outs, [w.to(out.dtype) for w, out in zip(wanted, outs, strict=True)]


def _copied(built: dict[str, Any]) -> dict[str, Any]:
    def copy(value: Any) -> Any:
        if hasattr(value, "clone"):
            return value.clone()
        return [copy(v) for v in value] if isinstance(value, list) else value

    return {name: copy(value) for name, value in built.items()}


def _one_of(written: Any, wanted: Any) -> Pair:
    """Of places that are one element: it has the value of one of them."""
    value, values = written.flatten()[:1], wanted.flatten()
    nearest = (values.double() - value.double()).abs().argmin()
    return [value], [values[nearest].reshape(1)]


def out_trials(op: Op, call: Call, sample: int, dtype: str) -> Iterator[Trial]:
    """All patterns of out= for one sample call."""
    arguments = call.materialise(dtype)

    def with_input(pattern: Any, place: aliasing.Place, which: int) -> Run:
        def run(fw: Any) -> Pair:
            wanted = functional_of(fw, op, _built(fw, arguments))
            built = _built(fw, arguments)
            pair = pattern(fw, place.get(built), wanted[which]) if which < len(wanted) else None
            if pair is None:
                raise NotApplicable
            outs = [aliasing.dirty(fw, w) for w in wanted]
            outs[which] = pair[1]
            return _out_written(fw, op, place.put(built, pair[0]), outs)

        return run

    def alone(pattern: Any) -> Run:
        def run(fw: Any) -> Pair:
            outs = [pattern(fw, w) for w in functional_of(fw, op, _built(fw, arguments))]
            if any(out is None for out in outs):
                raise NotApplicable
            return _out_written(fw, op, _built(fw, arguments), outs)

        return run

    def one_memory(fw: Any) -> Pair:
        outs = aliasing.one_memory(fw, functional_of(fw, op, _built(fw, arguments)))
        if outs is None:
            raise NotApplicable
        return _out_written(fw, op, _built(fw, arguments), outs)

    for place in aliasing.places(arguments):
        for pattern in aliasing.WITH_INPUT:
            for which in range(len(op.out)):
                label = f"{sample}:{place.name}{place.index or ''} {pattern.__name__} out{which}"
                yield Trial(label, with_input(pattern, place, which))
    for pattern in aliasing.ALONE:
        yield Trial(f"{sample}: {pattern.__name__} out", alone(pattern))
    yield Trial(f"{sample}: one_memory out", one_memory)


def _written_in_place(op: Op, built: dict[str, Any]) -> Any:
    positional, keywords = split_arguments(op, built)
    keywords.pop("input", None)
    name = op.call if op.declared_inplace else op.inplace
    getattr(positional[0], name)(*positional[1:], **keywords)
    return built["self"]


def inplace_trials(op: Op, call: Call, sample: int, dtype: str) -> Iterator[Trial]:
    """All patterns of the in-place form for one sample call: against each other input, and alone."""
    arguments = call.materialise(dtype)
    if not isinstance(arguments.get("self"), np.ndarray):
        return
    write = partial(_written_in_place, op)

    def with_input(pattern: Any, place: aliasing.Place) -> Run:
        def run(fw: Any) -> Pair:
            built = _built(fw, arguments)
            pair = pattern(fw, place.get(built), built["self"])
            if pair is None or pair[1].dtype != built["self"].dtype or pair[1].shape != built["self"].shape:
                raise NotApplicable
            built = place.put(built, pair[0]) | {"self": pair[1]}
            wanted = write(_copied(built))
            return [write(built)], [wanted]

        return run

    def alone(pattern: Any) -> Run:
        def run(fw: Any) -> Pair:
            built = _built(fw, arguments)
            own = pattern(fw, built["self"])
            # With `accumulate` one element gets all addends.
            if own is None or (pattern is aliasing.expanded and arguments.get("accumulate")):
                raise NotApplicable
            is_one = pattern is aliasing.expanded
            own[(0,) * own.dim()] = 1 if is_one else own.copy_(built["self"])[(0,) * own.dim()]
            built |= {"self": own}
            wanted, written = write(_copied(built)), write(built)
            return _one_of(written, wanted) if pattern is aliasing.expanded else ([written], [wanted])

        return run

    for place in aliasing.places(arguments):
        if place.name != "self":
            for pattern in aliasing.WITH_INPUT:
                label = f"{sample}:{place.name}{place.index or ''} {pattern.__name__} in place"
                yield Trial(label, with_input(pattern, place))
    for pattern in (aliasing.expanded, aliasing.strided):
        yield Trial(f"{sample}: {pattern.__name__} in place", alone(pattern))


def trials(op: Op) -> Iterator[Trial]:
    """Every trial of an operator."""
    for sample, call in enumerate(calls(op)):
        if op.out:
            yield from out_trials(op, call, sample, op.main_dtype())
        if op.inplace or op.declared_inplace:
            yield from inplace_trials(op, call, sample, op.main_dtype())
