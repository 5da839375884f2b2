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
    """Call each network with its arguments and return the results; an exception of one is raised here.

    Args:
        modules: the networks.
        inputs: arguments of each: a tuple, or a single one.
        kwargs_tup: keyword arguments of each.
        devices: of each; the tensors are where they are.
    """
    named = [{} for _ in modules] if kwargs_tup is None else kwargs_tup
    for given in (inputs, named, modules if devices is None else devices):
        if len(given) != len(modules):
            raise AssertionError(f"parallel_apply: {len(modules)} networks, but arguments for {len(given)}")
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
