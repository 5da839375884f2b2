"""Random programs of pointwise operators, run by single calls and as fused groups.

Every operator whose CPU function is one pointwise loop takes part. A program is made while its calls run
eagerly, so that it holds only calls that are legal; the same calls are then recorded.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import flambeau
import numpy as np

DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 "
    "float16 bfloat16 float32 float64 complex64 complex128"
).split()
TEXTS = {"rounding_mode": ("trunc", "floor"), "approximate": ("none", "tanh")}
MULTIPLE = 64  # elements: loops over multiples of it are of whole vectors
SCALARS = (0, 1, 2, -3, 0.5, -1.25, 1e-3, True)


@dataclass(frozen=True)
class Argument:
    kind: str  # Tensor, Scalar, float or str
    name: str
    keyword: bool


@dataclass(frozen=True)
class Operator:
    name: str
    call: Callable[..., Any]
    arguments: tuple[Argument, ...]


@dataclass
class Step:
    """A call; integers among `places` stand for inputs (from 0) and results (after them)."""

    operator: Operator
    args: list[Any] = field(default_factory=list)
    places: list[int | None] = field(default_factory=list)

    def run(self, values: Sequence[Any]) -> Any:
        given = [a if p is None else values[p] for a, p in zip(self.args, self.places, strict=True)]
        named = {a.name: g for a, g in zip(self.operator.arguments, given, strict=True) if a.keyword}
        return self.operator.call(*given[: len(given) - len(named)], **named)


@cache
def operators() -> tuple[Operator, ...]:
    """Return all operators that one pointwise loop computes."""
    found = []
    for schema in flambeau._C._operator_schemas():
        name, rest = schema.split("(", 1)
        name = name.split("::")[-1]
        if not (flambeau._C._operator_facts(name) or (False,))[0]:
            continue
        packet, _, overload = name.partition(".")
        call = getattr(getattr(flambeau.ops.aten, packet), overload or "default")
        found.append(Operator(name, call, arguments_of(rest.rsplit(") ->", 1)[0])))
    return tuple(found)


def arguments_of(text: str) -> tuple[Argument, ...]:
    found, keyword = [], False
    for part in text.split(", "):
        if part == "*":
            keyword = True
            continue
        kind, name = re.fullmatch(r"(\w+)\??(?:\([^)]*\))? (\w+)(?:=.*)?", part).groups()
        found.append(Argument(kind, name, keyword))
    return tuple(found)


# --- tensors ---------------------------------------------------------------------------------------------


def values(rng: np.random.Generator, sizes: Sequence[int], dtype: str) -> Any:
    """A row-major tensor with zeros, NaN, infinities and limits among its elements."""
    n = int(np.prod(sizes, dtype=np.int64))
    if dtype == "bool":  # bytes other than 0 and 1 count as True
        return flambeau.tensor(rng.integers(0, 4, n, dtype=np.uint8)).reshape(sizes).view(flambeau.bool)
    target = getattr(flambeau, dtype)
    if not (target.is_floating_point or target.is_complex):
        low = 0 if dtype.startswith("u") else -20
        whole = rng.integers(low, 20, n, dtype=np.int64)
        return flambeau.tensor(whole).reshape(sizes).to(target)
    reals = rng.standard_normal(n) * 3
    for special in (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 3e4, 1e-40):
        reals[rng.random(n) < 0.02] = special
    real = flambeau.tensor(reals).reshape(sizes)
    if not target.is_complex:
        return real.to(target)
    return flambeau.complex(real, flambeau.tensor(rng.standard_normal(n)).reshape(sizes)).to(target)


def shapes_under(rng: np.random.Generator, sizes: Sequence[int]) -> list[int]:
    """Sizes that broadcast to `sizes`."""
    own = [1 if rng.random() < 0.3 else size for size in sizes]
    return own[int(rng.integers(0, len(own) + 1)) :] if rng.random() < 0.5 else own


def laid_out(rng: np.random.Generator, sizes: Sequence[int], dtype: str) -> Any:
    """A tensor of these sizes in one of many layouts."""
    kind = int(rng.integers(0, 8))
    if kind == 0 and len(sizes) == 4:
        return values(rng, sizes, dtype).to(memory_format=flambeau.channels_last)
    if kind == 1 and sizes:
        order = rng.permutation(len(sizes)).tolist()
        t = values(rng, [sizes[d] for d in order], dtype)
        return t.permute(np.argsort(order).tolist())
    if kind == 2 and sizes:
        return values(rng, [*sizes[:-1], 2 * sizes[-1] + 1], dtype)[..., 1::2]
    if kind == 3:
        return values(rng, shapes_under(rng, sizes), dtype).expand(sizes)
    if kind == 4 and sizes and sizes[-1] > 0:  # rows overlap
        n = int(np.prod(sizes[:-1], dtype=np.int64)) + sizes[-1]
        strides = [1] * len(sizes)
        return values(rng, [n + sum(sizes)], dtype).as_strided(sizes, strides)
    return values(rng, sizes, dtype)


def random_inputs(
    rng: np.random.Generator, sizes: Sequence[int], dtypes: Sequence[str], count: int
) -> list[Any]:
    made = []
    for _ in range(count):
        own = sizes if rng.random() < 0.6 else shapes_under(rng, sizes)
        made.append(laid_out(rng, own, str(rng.choice(dtypes))))
    return made


# --- elements and their places ---------------------------------------------------------------------------


def with_negative_nan(t: Any) -> Any:
    """The same elements, with the other sign in NaN; complex ones as they are."""
    return t if t.is_complex() else flambeau.where(t.isnan(), flambeau.copysign(t, -1), t)


@cache
def is_even(operator: Operator) -> bool:
    """Whether an element's result is the same wherever it lies, in all dtypes.

    The C library's functions for whole vectors round otherwise than those for one number, with which
    loops end. Single calls divide elements among loops otherwise than groups do, so such operators agree
    bit for bit only where all loops are of whole vectors. An operator that shows the sign of NaN is not
    even either: a sum of two NaN has the sign of one of them, and which one is not defined.
    """
    inexact = [dtype for dtype in DTYPES if "float" in dtype or "complex" in dtype]
    return all(_is_even(operator, dtype, seed) for dtype in inexact for seed in range(3))


def _is_even(operator: Operator, dtype: str, seed: int) -> bool:
    rng = np.random.default_rng(seed)
    step = random_step(rng, operator, [None] * len(operator.arguments))
    step.places = [i if a.kind == "Tensor" else None for i, a in enumerate(operator.arguments)]
    given = [values(rng, [MULTIPLE * 8], dtype) for _ in operator.arguments]
    try:
        whole = step.run(given)
        if bits(whole) != bits(step.run([with_negative_nan(g) for g in given])):
            return False
        parts = [step.run([g[i : i + 3] for g in given]) for i in range(0, len(given[0]), 3)]
    except (RuntimeError, ZeroDivisionError, NotImplementedError, TypeError, ValueError):
        return True  # no program can hold it
    return bits(whole)[-1] == bits(flambeau.cat(parts))[-1]


# --- programs --------------------------------------------------------------------------------------------


@dataclass
class Program:
    inputs: list[Any]
    steps: list[Step]
    outputs: list[int]  # among inputs and results

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The results of single calls."""
        known = list(inputs)
        for step in self.steps:
            known.append(step.run(known))
        return [known[o] for o in self.outputs]

    def record(self) -> Any:
        """The fused group."""
        known = list(self.inputs)
        recorder = flambeau._C._FusedRecorder(known)
        with recorder:
            for i, step in enumerate(self.steps):
                known.append(step.run(known))
                assert recorder.steps == i + 1, step.operator.name
        return recorder.group([known[o] for o in self.outputs])


def random_step(rng: np.random.Generator, operator: Operator, known: Sequence[Any]) -> Step:
    step = Step(operator)
    for argument in operator.arguments:
        place = None
        given: Any = None
        if argument.kind == "Tensor":
            # The newest values are the likeliest, so that chains are long.
            back = min(int(rng.geometric(0.3)), len(known))
            place = len(known) - back if rng.random() < 0.7 else int(rng.integers(0, len(known)))
        elif argument.kind == "str":
            given = str(rng.choice(TEXTS[argument.name]))
        elif argument.kind == "float":
            given = float(rng.choice((0.5, 2.0, -1.5)))
        else:
            given = SCALARS[int(rng.integers(0, len(SCALARS)))]
        step.args.append(given)
        step.places.append(place)
    return step


def random_program(
    rng: np.random.Generator,
    inputs: list[Any],
    length: int,
    first: Operator | None = None,
    allowed: Callable[[Operator], bool] = lambda operator: True,
) -> Program:
    """A program of at most `length` legal calls; it begins with `first` if one of its tries is legal."""
    known = list(inputs)
    steps: list[Step] = []
    all_operators = operators()
    for attempt in range(6 * length):
        if len(steps) == length:
            break
        wanted = first if first and not steps and attempt < 20 else None
        operator = wanted or all_operators[int(rng.integers(0, len(all_operators)))]
        if not allowed(operator):
            continue
        step = random_step(rng, operator, known)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known.append(step.run(known))
        except (RuntimeError, ZeroDivisionError, NotImplementedError, TypeError, ValueError):
            continue
        steps.append(step)
    results = list(range(len(inputs), len(known)))
    outputs = [r for r in results if rng.random() < 0.3] + results[-1:]
    return Program(list(inputs), steps, outputs)


def bits(t: Any) -> tuple[Any, ...]:
    """Everything about a tensor that an operator decides, its elements byte by byte; all NaN are alike."""
    if t.is_complex():
        parts = flambeau.view_as_real(t.resolve_conj())
        return (t.stride(), *bits(parts))
    if t.is_floating_point():
        held = flambeau.where(t.isnan(), flambeau.full_like(t, float("nan")), t)
    else:
        held = t
    raw = held.contiguous().reshape(-1).view(flambeau.uint8).numpy().tobytes()
    return t.dtype, tuple(t.size()), t.stride(), raw


def difference(program: Program, fused: Sequence[Any], eager: Sequence[Any]) -> str:
    """Which outputs differ; empty if none does."""
    told = []
    for o, a, b in zip(program.outputs, fused, eager, strict=True):
        if bits(a) == bits(b):
            continue
        step = program.steps[o - len(program.inputs)]
        told.append(f"{step.operator.name}: {a.dtype} {tuple(a.size())} {a.stride()} / {b.stride()}")
    return "; ".join(told)
