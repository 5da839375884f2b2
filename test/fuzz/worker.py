"""Calls one operator many times: a line "NAMESPACE NAME EXAMPLES SEED" in, its verdict out."""

from __future__ import annotations

import os
import resource
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flambeau
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from workers import serve

from codegen import signatures
from codegen.load import load

from .transformed import WAYS, call
from .values import calls

MEMORY = 2 << 30  # bytes of address space: what asks for more is refused instead of taking the machine
LARGE = 10_000  # elements: larger results are not read
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


def fuzz(
    function: Callable[..., Any], item: signatures.Callable, examples: int, number: int, trace: int
) -> dict[str, Any]:
    """The first unexpected exception, "" if there was none, how many calls were made and gave a result."""
    method = item.namespace is None
    made = results = 0
    named = [tuple(signatures.python_name(a, method) for a in s.args) for s in item.signatures]

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def run(data: st.DataObject) -> None:
        nonlocal made, results
        chosen = data.draw(st.integers(0, len(item.signatures) - 1))
        args, kwargs = data.draw(calls(item.signatures[chosen].args, named[chosen]))
        if "self" in kwargs:
            return  # a method without its tensor
        way = data.draw(st.one_of(st.just("plain"), st.sampled_from(tuple(WAYS))))
        _note(trace, item, way, args, kwargs)
        made += 1
        try:
            _read(call(way, function, args, kwargs))
            results += 1
        except EXPECTED:
            pass

    try:
        run()
    except Exception as error:
        return {"failure": f"{type(error).__name__}: {error}"[:500], "calls": made, "results": results}
    return {"failure": "", "calls": made, "results": results}


def _read(result: Any) -> None:
    """Touch every element, and the graph behind it."""
    if isinstance(result, tuple | list):
        for part in result:
            _read(part)
    elif isinstance(result, flambeau.Tensor) and result.device.type == "cpu" and result.numel() < LARGE:
        repr(result)
        if result.requires_grad:
            result.abs().sum().backward()


def _note(trace: int, item: signatures.Callable, way: str, args: Any, kwargs: Any) -> None:
    """Leave the call where it is found after a crash."""
    given = ", ".join([*map(_shown, args), *(f"{k}={_shown(v)}" for k, v in kwargs.items())])
    text = f"{way}: {item.name}({given})"
    os.ftruncate(trace, 0)
    os.pwrite(trace, text.encode(), 0)


def _shown(value: Any) -> str:
    if isinstance(value, flambeau.Tensor):
        return f"<{value.dtype} {list(value.shape)} strides {list(value.stride())} on {value.device}>"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return repr(value)


def main() -> None:
    """Answer until stdin ends."""
    warnings.simplefilter("ignore")
    if "ASAN_OPTIONS" not in os.environ:  # its shadow memory alone takes terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found = callables()

    def answer(line: str) -> dict[str, Any]:
        name, examples, number, trace = line.split(maxsplit=3)
        file = os.open(Path(trace), os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            return fuzz(*found[name], int(examples), int(number), file)
        finally:
            os.close(file)

    serve(answer)


if __name__ == "__main__":
    main()
