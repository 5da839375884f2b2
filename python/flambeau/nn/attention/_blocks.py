"""Attention over the blocks that a mask keeps: rows of blocks, each with the columns it needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau
from flambeau._C import Tensor
from flambeau.func import vmap

Mod = Callable[..., Tensor]

# A row of blocks costs about as much as this many scores; with fewer to save, all scores are computed.
_SCORES_PER_ROW = 40_000


def over_all(mod: Mod, with_score: bool) -> Mod:
    """Map a function of single positions over batch, head, query and key positions."""
    lead = (0,) if with_score else ()
    for in_dims in (
        (None, None, None, 0),
        (None, None, 0, None),
        (None, 0, None, None),
        (0, None, None, None),
    ):
        mod = vmap(mod, in_dims=(*lead, *in_dims), out_dims=0)
    return mod


class Row(NamedTuple):
    """Neighbouring blocks of queries that need the same blocks of keys.

    Args:
        first, last: the query positions, the last excluded.
        full: blocks of keys whose pairs are all allowed.
        partial: blocks of keys that the function of the mask filters.
    """

    first: int
    last: int
    full: tuple[int, ...]
    partial: tuple[int, ...]


class Scores(NamedTuple):
    """What attention computes for some query positions: weighted values, log-sum-exp, largest scores."""

    result: Tensor
    lse: Tensor | None
    largest: Tensor | None


class Functions(NamedTuple):
    """How scores are computed.

    Args:
        score_mod: the function of scores, or None.
        mask_mod: the function of the mask, or None.
        scale: the factor of the products.
        with_extras: whether log-sum-exp and largest scores are needed.
    """

    score_mod: Mod | None
    mask_mod: Mod | None
    scale: float
    with_extras: bool


def rows_of(
    counts: Any, indices: Any, full_counts: Any, full_indices: Any, block: int, lengths: tuple[int, int, int]
) -> list[Row]:
    """Return the rows of one batch and head of a mask, from its lists as Python lists.

    Args:
        counts, indices, full_counts, full_indices: the lists, a number and a list for each block of queries.
        block: the number of query positions of a block.
        lengths: the number of query positions, and of blocks of queries and keys that exist.
    """
    q_len, q_blocks, kv_blocks = lengths
    rows: list[Row] = []
    for i in range(q_blocks):
        full = set(full_indices[i][: full_counts[i]]) if full_counts is not None else set()
        partial = {j for j in indices[i][: counts[i]] if j < kv_blocks} - full
        columns = tuple(sorted(j for j in full if j < kv_blocks)), tuple(sorted(partial))
        last = min((i + 1) * block, q_len)
        if rows and rows[-1][2:] == columns:
            rows[-1] = rows[-1]._replace(last=last)
        else:
            rows.append(Row(i * block, last, *columns))
    return rows


def pays(parts: list[list[Row]], pairs: int, q_len: int, kv_len: int, block: int, uses: int) -> bool:
    """Whether rows of blocks are quicker than all scores at once.

    Args:
        parts: the rows of each part of the batches and heads.
        pairs: the number of batches times heads.
        q_len, kv_len: the numbers of positions.
        block: the number of key positions of a block.
        uses: how many batches times heads each part stands for.
    """
    rows = [row for part in parts for row in part]
    kept = uses * sum((r.last - r.first) * block * (len(r.full) + len(r.partial)) for r in rows)
    return pairs * q_len * kv_len - kept > len(rows) * _SCORES_PER_ROW


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rows: list[Row],
    size: int,
    functions: Functions,
    firsts: tuple[int, int],
) -> Scores:
    """Compute the rows of a part of the batches and heads.

    Args:
        query, key, value: the part, in the dtype of the computation.
        rows: from `rows_of`.
        size: the number of key positions of a block.
        functions: how scores are computed.
        firsts: the numbers of the part's first batch and head.
    """
    device = query.device
    keys, values = key.split(size, 2), value.split(size, 2)
    places = flambeau.arange(key.size(2), device=device).split(size)
    batch, head = (flambeau.arange(n, n + query.size(i), device=device) for i, n in enumerate(firsts))
    found = []
    for row, part in zip(rows, query.split([r.last - r.first for r in rows], 2), strict=True):
        columns = (*row.full, *row.partial)
        if not columns:
            found.append(_nothing(part, value, functions.with_extras))
            continue
        scores = part @ _joined(keys, columns, 2).mT * functions.scale
        place = (batch, head, flambeau.arange(row.first, row.last, device=device))
        if functions.score_mod is not None:
            mod = over_all(functions.score_mod, True)
            scores = mod(scores, *place, _joined(places, columns, 0)).to(part.dtype)
        if row.partial and functions.mask_mod is not None:
            allowed = over_all(functions.mask_mod, False)(*place, _joined(places, row.partial, 0))
            width = scores.size(-1) - allowed.size(-1)
            allowed = flambeau.nn.functional.pad(allowed, (width, 0), value=True)
            scores = scores.masked_fill(~allowed, -math.inf)
        found.append(weighted(scores, _joined(values, columns, 2), functions, is_masked=bool(row.partial)))
    return Scores(*(along(parts, 2) for parts in zip(*found, strict=True)))


def weighted(scores: Tensor, value: Tensor, functions: Functions, is_masked: bool) -> Scores:
    """Return the values weighted by the softmax of scores; a fully masked row gives 0.

    Args:
        scores, value: of the same keys.
        functions: how the scores were computed.
        is_masked: whether a mask was applied.
    """
    if is_masked or functions.score_mod is not None:
        empty = scores.isneginf().all(-1, keepdim=True)
        weights = scores.masked_fill(empty, 0).softmax(-1).masked_fill(empty, 0)
    else:
        weights = scores.softmax(-1)
    if not functions.with_extras:
        return Scores(weights @ value, None, None)
    return Scores(weights @ value, scores.logsumexp(-1), scores.amax(-1))


def along(tensors: Any, dim: int) -> Any:
    """Join tensors, or return None for what was not computed."""
    return tensors[0] if len(tensors) == 1 or tensors[0] is None else flambeau.cat(tensors, dim)


def _joined(blocks: Any, columns: tuple[int, ...], dim: int) -> Any:
    return along([blocks[j] for j in columns], dim)


def _nothing(part: Tensor, value: Tensor, with_extras: bool) -> Scores:
    lowest = part.new_full(part.shape[:-1], -math.inf) if with_extras else None
    return Scores(part.new_zeros((*part.shape[:-1], value.size(-1))), lowest, lowest)
