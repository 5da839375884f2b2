"""`flex_attention` as a node of a graph: tensors and numbers in the place of objects, graphs of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau._C import Tensor
from flambeau.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention

Function = Callable[..., Any]


def flex_attention_of_graph(
    score_mod: Function | None,
    mask_mod: Function | None,
    tensors: Sequence[Tensor],
    lists: Sequence[Tensor],
    operands: Sequence[Tensor],
    lengths: int,
    kv_lengths: int,
    block: int,
    kv_block: int,
    scale: float | None,
    enable_gqa: bool,
    lse: bool,
    max_scores: bool,
) -> list[Tensor]:
    """Compute attention; the arguments are those of `flex_attention`, without objects.

    Args:
        score_mod: takes a score, its position, and `operands`; returns a list of one tensor. None keeps the
            scores.
        mask_mod: takes a position and `operands`; returns a list of one tensor. None if there is no mask.
        tensors: query, key and value.
        lists: the lists of blocks of the mask: none, those of partial blocks, or those of full blocks too.
        operands: the tensors that the functions read from outside.
        lengths, kv_lengths: the numbers of query and key positions of the mask.
        block, kv_block: the numbers of query and key positions of a block.
        scale: the factor of the products. None means 1 / sqrt(E).
        enable_gqa: whether a head of keys may serve several heads of queries.
        lse: whether to return the logarithm of each row's sum of exponentials.
        max_scores: whether to return each row's largest score.
    Returns: the result, then what was asked for.
    """
    mask = None
    if mask_mod is not None:
        counts, indices, *full = lists
        filtered = _closed(mask_mod, operands)
        full_counts, full_indices = full or (None, None)
        shape, size = (lengths, kv_lengths), (block, kv_block)
        mask = BlockMask(shape, counts, indices, full_counts, full_indices, size, filtered)
    score = None if score_mod is None else _closed(score_mod, operands)
    wanted = AuxRequest(lse, max_scores)
    query, key, value = tensors
    result, aux = flex_attention(query, key, value, score, mask, scale, enable_gqa, return_aux=wanted)
    return [t for t in (result, *aux) if t is not None]


def _closed(function: Function, operands: Sequence[Tensor]) -> Function:
    def call(*position: Tensor) -> Tensor:
        return function(*position, *operands)[0]

    return call
