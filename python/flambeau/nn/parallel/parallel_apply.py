"""Run several networks at once, each in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau._surface.utils import ExceptionWrapper
from flambeau.nn.modules.module import Module

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Any:
    """Return some tensor in a container, or None."""
    if isinstance(obj, flambeau.Tensor):
        return obj
    entries = obj.values() if isinstance(obj, dict) else obj if isinstance(obj, list | tuple) else ()
    return next((found for found in map(get_a_var, entries) if found is not None), None)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call several modules at once, each in its own thread.

    Args:
        modules: the modules.
        inputs: the argument of each, or a tuple of its arguments.
        kwargs_tup: the arguments by keyword of each. None means none.
        devices: the device of each; tensors stay where they are.
    Returns: a list of the results.
    Raises: AssertionError if a list has another length than `modules`; what a module raises is raised here.

    Example:
        >>> layers = [flambeau.nn.ReLU(), flambeau.nn.Tanh()]
        >>> flambeau.nn.parallel.parallel_apply(layers, [flambeau.tensor([-1.0]), flambeau.tensor([0.0])])
        [tensor([0.]), tensor([0.])]
    """
    named = [{} for _ in modules] if kwargs_tup is None else kwargs_tup
    for given in (inputs, named, modules if devices is None else devices):
        if len(given) != len(modules):
            raise AssertionError(
                f"parallel_apply: expected arguments for {len(modules)} modules, got them for {len(given)}"
            )
    results: list[Any] = [None] * len(modules)
    modes = flambeau.is_grad_enabled()

    def call(place: int, module: Module, given: Any, options: dict[str, Any]) -> None:
        try:
            with flambeau.set_grad_enabled(modes):
                results[place] = module(*(given if isinstance(given, list | tuple) else (given,)), **options)
        except Exception:
            results[place] = ExceptionWrapper(where=f"in replica {place}")

    calls = list(enumerate(zip(modules, inputs, named, strict=True)))
    threads = [threading.Thread(target=call, args=(i, *entry)) for i, entry in calls[1:]]
    for thread in threads:
        thread.start()
    for i, entry in calls[:1]:
        call(i, *entry)
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, ExceptionWrapper):
            result.reraise()
    return results
