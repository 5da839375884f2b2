"""Calls one operator many times: a line "NAMESPACE.NAME SEED FIRST COUNT TRACE" in, its verdict out."""

from __future__ import annotations

import os
import resource
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flambeau
from workers import serve

from codegen.deriving import signatures
from codegen.load import load

from .transformed import WAYS, call
from .values import Call, Plan

MEMORY = 2 << 30  # bytes of address space: what asks for more is refused instead of taking the machine
LARGE = 10_000  # elements: larger results are not read
TRANSFORMED = tuple(WAYS)
# What a call may raise, besides giving a result.
EXPECTED = (
    TypeError, ValueError, IndexError, RuntimeError, OverflowError, ZeroDivisionError, MemoryError,
    AttributeError, AssertionError, BufferError,
)  # fmt: skip


def callables() -> dict[str, tuple[Callable[..., Any], signatures.Callable]]:
    """Every function and method by "NAMESPACE.NAME", with its signatures."""
    model, mistakes = load()
    if model is None:
        raise SystemExit(f"the YAML files have {len(mistakes)} mistakes: python -m codegen check")
    found = {}
    for item in signatures.functions(model):
        space = getattr(flambeau._C, "_" + (item.namespace or "functions"))
        found[f"{item.namespace or 'flambeau'}.{item.name}"] = getattr(space, item.name), item
    for item in signatures.methods(model):
        found[f"Tensor.{item.name}"] = getattr(flambeau.Tensor, item.name), item
    return found


@dataclass(frozen=True)
class Target:
    """What is called, under which name, and how its arguments are drawn."""

    name: str
    function: Callable[..., Any]
    plans: tuple[Plan, ...]

    @classmethod
    def of(cls, name: str, function: Callable[..., Any], item: signatures.Callable) -> Target:
        """The target, with a plan per signature."""
        return cls(name, function, tuple(Plan.of(s, item.namespace is None) for s in item.signatures))

    def draw(self, seed: int, number: int) -> tuple[Call, str, list[Any], dict[str, Any]]:
        """The call of this number: its source, the way it is taken, and its arguments."""
        call = Call(f"{seed} {self.name} {number}")
        way = "plain" if call.is_plain else call.one_of(TRANSFORMED)
        return call, way, *call.one_of(self.plans).draw(call)

    def make(self, drawn: tuple[Call, str, list[Any], dict[str, Any]]) -> Any:
        """What the call gives, after it was read."""
        source, way, args, kwargs = drawn
        flambeau.default_generator.manual_seed(source.below(1000))
        result = call(way, self.function, args, kwargs)
        _read(source, result)
        return result

    def shown(self, seed: int, number: int) -> str:
        """The call of this number as text."""
        _, way, args, kwargs = self.draw(seed, number)
        given = ", ".join([*map(_shown, args), *(f"{k}={_shown(v)}" for k, v in kwargs.items())])
        return f"{way}: {self.name}({given})"


class Targets(dict[str, Target]):
    """Every target by "NAMESPACE.NAME", made when it is first asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.found = callables()

    def __missing__(self, name: str) -> Target:
        self[name] = Target.of(name, *self.found[name])
        return self[name]


def fuzz(target: Target, seed: int, numbers: range, trace: int) -> dict[str, Any]:
    """The first unexpected exception, "" if there was none, how many calls were made and gave a result."""
    results = 0
    for made, number in enumerate(numbers, 1):
        os.pwrite(trace, b"%-20d" % number, 0)  # found there after a crash
        drawn = target.draw(seed, number)
        try:
            target.make(drawn)
            results += 1
        except EXPECTED:
            pass
        except Exception as error:
            return {"failure": f"{type(error).__name__}: {error}"[:500], "calls": made, "results": results}
    return {"failure": "", "calls": len(numbers), "results": results}


def _read(source: Call, result: Any) -> None:
    """Touch every element, and the graph behind it; show some of them."""
    if isinstance(result, tuple | list):
        for part in result:
            _read(source, part)
    elif isinstance(result, flambeau.Tensor) and result.device.type == "cpu" and result.numel() < LARGE:
        if source.one_in(20):
            repr(result)
        else:
            result.detach().to_dense().tolist()
        if result.requires_grad:
            result.abs().sum().backward()


def _shown(value: Any) -> str:
    if isinstance(value, flambeau.Tensor) and value.is_sparse:
        parts = f"indices {value._indices().tolist()} values {value._values().tolist()}"
        marks = " coalesced" * value.is_coalesced() + " requires_grad" * value.requires_grad
        return f"<sparse {value.dtype} {list(value.shape)} {parts}{marks}>"
    if isinstance(value, flambeau.Tensor):
        place = f"{list(value.shape)} strides {list(value.stride())} offset {value.storage_offset()}"
        marks = " conj" * value.is_conj() + " neg" * value.is_neg() + " requires_grad" * value.requires_grad
        return f"<{value.dtype} {place} on {value.device}{marks}>"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return repr(value)


def main() -> None:
    """Answer until stdin ends."""
    warnings.simplefilter("ignore")
    if "ASAN_OPTIONS" not in os.environ:  # its shadow memory alone takes terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    targets = Targets()

    def answer(line: str) -> dict[str, Any]:
        name, number, first, count, trace = line.split(maxsplit=4)
        file = os.open(Path(trace), os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            return fuzz(targets[name], int(number), range(int(first), int(first) + int(count)), file)
        finally:
            os.close(file)

    serve(answer)


if __name__ == "__main__":
    main()
