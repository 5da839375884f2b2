"""`flex_attention` as one node: its functions of scores and of the mask are recorded once, as graphs.

Capture records each function on one score and one position, and the node maps the function's graph over all
positions. Therefore a function may have no effects, like a branch of `cond`. Tensors that it reads from
outside become operands, with gradients. Any other function ends the graph, and the program's own attention
runs.
"""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.compiler.capture import known
from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.loops import Recorded, bound, finish, record_function, record_with
from flambeau.compiler.capture.origins import Attribute
from flambeau.nn.attention._of_graph import flex_attention_of_graph
from flambeau.nn.attention.flex_attention import AuxOutput, AuxRequest, BlockMask

_LISTS = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices")
_NUMBERS = ("seq_lengths", "BLOCK_SIZE")


def record_attention(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Record a call of `flex_attention` as one node with graphs of its functions.

    Args:
        machine: the interpreter; the result is pushed.
        args, kwargs: the arguments.
    """
    record_with(machine, _record, bound(known.FLEX_ATTENTION, args, kwargs))


def _record(
    machine: Any,
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any,
    block_mask: Any,
    scale: Any,
    enable_gqa: Any,
    return_lse: Any,
    kernel_options: Any,
    return_aux: Any,
) -> Any:
    tensors = [query, key, value]
    for tensor in tensors:
        _require(machine, tensor, "operands")
    if not isinstance(return_aux, AuxRequest | None):
        raise Break("flex_attention with wrong arguments")
    wanted = return_aux or AuxRequest(lse=bool(return_lse))
    mask, lists, numbers = _of_mask(machine, block_mask)
    exact = flambeau.float64 if query.dtype == flambeau.float64 else flambeau.float32
    place = [flambeau.zeros((), dtype=flambeau.int64) for _ in range(4)]
    score = flambeau.zeros((), dtype=exact, requires_grad=query.requires_grad or key.requires_grad)
    parts = [
        None if score_mod is None else _function(machine, score_mod, [score, *place], "score_mod"),
        None if mask is None else _function(machine, mask, place, "mask_mod"),
    ]
    options = (scale, bool(enable_gqa), wanted.lse, wanted.max_scores)
    made = finish(machine, flex_attention_of_graph, parts, [tensors, lists], *numbers, *options)
    if return_aux is None:
        return (made[0], made[1]) if return_lse else made[0]
    rest = iter(made[1:])
    machine.tracker.keep(made)
    aux = AuxOutput(next(rest) if wanted.lse else None, next(rest) if wanted.max_scores else None)
    return made[0], machine.tracker.keep(aux)


def _require(machine: Any, tensor: Any, what: str) -> None:
    if not isinstance(tensor, flambeau.Tensor) or machine.recorder.node_of(tensor) is None:
        raise Break(f"flex_attention with {what} that the graph does not know")


def _function(machine: Any, function: Any, example: list[Any], name: str) -> tuple[Recorded, list[Any]]:
    """Record a function that computes one position."""
    what = f"flex_attention with a {name}"
    part = record_function(machine, function, tuple, example, [False] * len(example), what)
    part.check([part.result])
    if part.result.dim() != 0:
        raise Break(f"{what} that does not return a single number")
    return part, [part.result]


def _of_mask(machine: Any, mask: Any) -> tuple[Any, list[Any], tuple[int, int, int, int]]:
    """Return the function of a mask, its lists of blocks, and its numbers."""
    if mask is None:
        return None, [], (0, 0, 0, 0)
    if type(mask) is not BlockMask:
        raise Break(f"flex_attention with a mask of the class {type(mask).__name__}")
    tracker = machine.tracker
    origin = tracker.origin_of(mask)
    for name in ("mask_mod", *_LISTS, *_NUMBERS):
        if origin is not None and not tracker.is_written(mask, name):
            tracker.adopt(getattr(mask, name), Attribute(origin, name))
            tracker.expand(getattr(mask, name))
    lists = [t for t in (getattr(mask, name) for name in _LISTS) if t is not None]
    for tensor in lists:
        _require(machine, tensor, "a mask")
    return mask.mask_mod, lists, (*mask.seq_lengths, *mask.BLOCK_SIZE)
