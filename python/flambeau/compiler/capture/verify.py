"""``FLAMBEAU_VERIFY=1``: each call of a compiled graph also runs the captured graph and compares results."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.compiler.aot.state import kept_state


def is_asked_for() -> bool:
    """Whether the environment variable is set, and not to 0."""
    return os.environ.get("FLAMBEAU_VERIFY", "") not in ("", "0")


def verified(graph: Any, compiled: Callable[..., Any], where: str) -> Callable[..., Any]:
    """Return a function that runs both and compares results and inputs.

    The captured graph runs first, on copies of the inputs and with the same random numbers. Calls whose
    inputs share memory are not compared, because the copies would not share memory.

    Args:
        graph: the captured `fx.GraphModule`.
        compiled: what the backend returned.
        where: the position of the graph in the program.
    Returns: a function that raises RuntimeError for the first difference.
    """

    def run(*inputs: Any) -> Any:
        if _shares_memory(inputs):
            return compiled(*inputs)
        copies = [_copy(value) for value in inputs]
        state = flambeau.get_rng_state()
        with kept_state():
            expected = graph.forward(*copies)
        after = flambeau.get_rng_state()
        flambeau.set_rng_state(state)
        found = compiled(*inputs)
        if not flambeau.equal(flambeau.get_rng_state(), after):
            raise RuntimeError(
                f"compile: expected the graph of {where} to draw as many random numbers, got another number"
            )
        pairs = [("result", pair) for pair in zip(found, expected, strict=True)]
        pairs += [("input", pair) for pair in zip(inputs, copies, strict=True)]
        for i, (what, (one, other)) in enumerate(pairs):
            _compare(
                one, other, f"{what} {i if what == 'result' else i - len(expected)} of the graph of {where}"
            )
        return found

    return run


def _shares_memory(inputs: tuple[Any, ...]) -> bool:
    tensors = [value for value in inputs if isinstance(value, flambeau.Tensor)]
    if any(tensor.layout is not flambeau.strided for tensor in tensors):
        return True
    storages = {id(storage): storage for storage in (tensor.untyped_storage() for tensor in tensors)}
    return len(storages) < len(tensors)


def _copy(value: Any) -> Any:
    if not isinstance(value, flambeau.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def _compare(one: Any, other: Any, what: str) -> None:
    if not isinstance(one, flambeau.Tensor):
        return
    if (one.dtype, one.size(), one.requires_grad) != (other.dtype, other.size(), other.requires_grad):
        raise RuntimeError(f"compile: expected {what} like {_shown(other)}, got {_shown(one)}")
    one, other = one.detach(), other.detach()
    is_exact = not (one.is_floating_point() or one.is_complex())
    if is_exact and not flambeau.equal(one, other):
        raise RuntimeError(f"compile: expected {what} to equal the captured graph's, got other elements")
    if not is_exact and not flambeau.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True):
        far = (one - other).abs().nan_to_num().max().item()
        raise RuntimeError(
            f"compile: expected {what} to equal the captured graph's, got a difference of {far:g}"
        )


def _shown(tensor: Any) -> str:
    return f"{tensor.dtype} {list(tensor.size())} requires_grad={tensor.requires_grad}"
