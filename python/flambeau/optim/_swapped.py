"""An optimizer that acts on other parameters and another state for a while."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau import Tensor
from flambeau.optim.optimizer import Optimizer


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Let an optimizer act on other parameters and another state within a block.

    Args:
        optimizer: one that has stepped.
        swapin_parameters: the parameters in its order; their names do not matter.
        swapin_optim_state: what `state_dict` gives. Its tensors are used as they are, so that a step within
            the block changes them; anything else that the step sets is lost at the end.
    Raises: RuntimeError if the optimizer has no state; ValueError if the numbers of parameters differ.
    """
    if not optimizer.state:
        raise RuntimeError(
            "swap_in_optimizer_params_and_state: expected an optimizer with state, got one without; call "
            "step() first"
        )
    tensors = list(swapin_parameters.values())
    groups = [{**group, "params": list(group["params"])} for group in swapin_optim_state["param_groups"]]
    places = [place for group in groups for place in group["params"]]
    own = [len(group["params"]) for group in optimizer.param_groups]
    if len(places) != len(tensors) or [len(group["params"]) for group in groups] != own:
        raise ValueError(
            f"swap_in_optimizer_params_and_state: expected groups of {own} parameters, got "
            f"{[len(group['params']) for group in groups]} and {len(tensors)} tensors"
        )
    named = dict(zip(places, tensors, strict=True))
    for group in groups:
        group["params"] = [named[place] for place in group["params"]]
    state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
    for place, values in swapin_optim_state["state"].items():
        state[named.get(place, place)] = dict(values)
    before = optimizer.param_groups, optimizer.state
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = before
