"""Attention whose scores and mask are functions of batch, head and the two positions.

result = softmax(score_mod(q k^T * scale) + mask) v. Blocks of scores that the mask excludes are not computed
where that is quicker. A fully masked row gives zeros, and -inf as its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau
from flambeau._C import Tensor
from flambeau._loading.lazy import attributes
from flambeau.nn.attention._blocks import (
    Functions,
    Mod,
    Scores,
    along,
    attend,
    over_all,
    pays,
    rows_of,
    weighted,
)

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """Request of further results of `flex_attention`.

    Args:
        lse: whether to return the logarithm of each row's sum of exponentials.
        max_scores: whether to return each row's largest score.

    Example:
        >>> flambeau.nn.attention.flex_attention.AuxRequest(lse=True)
        AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Further results of `flex_attention`; None for those that were not requested.

    Args:
        lse: the logarithm of each row's sum of exponentials, (B, Hq, L).
        max_scores: the largest score of each row, (B, Hq, L).

    Example:
        >>> flambeau.nn.attention.flex_attention.AuxOutput()
        AuxOutput(lse=None, max_scores=None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Allow every pair of positions.

    Args:
        batch: the number of the batch.
        head: the number of the head.
        token_q: the position of the query.
        token_kv: the position of the key.
    Returns: True, as a tensor.

    Example:
        >>> zero = flambeau.tensor(0)
        >>> flambeau.nn.attention.flex_attention.noop_mask(zero, zero, zero, zero)
        tensor(True)
    """
    return batch.new_ones(size=(), dtype=flambeau.bool, device=batch.device)


def and_masks(*mask_mods: Mod) -> Mod:
    """Make the function that allows the pairs that all given functions allow.

    Args:
        *mask_mods: functions ``(batch, head, q, kv)`` to bool.
    Returns: such a function.
    Raises: RuntimeError for a value that is not a function.

    Example:
        >>> flex = flambeau.nn.attention.flex_attention
        >>> both = flex.and_masks(lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: q - kv < 2)
        >>> flex.create_mask(both, 1, 1, 3, 3).int()[0, 0]
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 1, 1]], dtype=flambeau.int32)
    """
    return _joined(mask_mods, True, lambda a, b: a & b)


def or_masks(*mask_mods: Mod) -> Mod:
    """Make the function that allows the pairs that any given function allows.

    Args:
        *mask_mods: functions ``(batch, head, q, kv)`` to bool.
    Returns: such a function.
    Raises: RuntimeError for a value that is not a function.

    Example:
        >>> flex = flambeau.nn.attention.flex_attention
        >>> either = flex.or_masks(lambda b, h, q, kv: q == kv, lambda b, h, q, kv: kv == 0)
        >>> flex.create_mask(either, 1, 1, 3, 3).int()[0, 0]
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 0, 1]], dtype=flambeau.int32)
    """
    return _joined(mask_mods, False, lambda a, b: a | b)


def _joined(mask_mods: tuple[Mod, ...], start: bool, join: Callable[[Tensor, Tensor], Tensor]) -> Mod:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"and_masks, or_masks: expected functions as mask_mods, got {mask_mods}")

    def mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_full((), start, dtype=flambeau.bool)
        for mod in mask_mods:
            result = join(result, mod(b, h, q_idx, kv_idx))
        return result

    return mask


def _positions(shape: Any, device: Any) -> list[Tensor]:
    return [flambeau.arange(n, device=device) for n in shape]


def create_mask(
    mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """Compute what a function of positions allows, for all positions.

    Args:
        mod_fn: a function ``(batch, head, q, kv)`` to bool, or ``(score, batch, head, q, kv)`` to score; -inf
            then counts as not allowed.
        B: the number of batches. None means 1.
        H: the number of heads. None means 1.
        Q_LEN: the number of query positions.
        KV_LEN: the number of key positions.
        device: the device of the result. None means the default device.
    Returns: a bool tensor (B, H, Q_LEN, KV_LEN).

    Example:
        >>> flex = flambeau.nn.attention.flex_attention
        >>> flex.create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 2)
        tensor([[[[ True, False],
                  [ True,  True]]]])
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    if _takes_score(mod_fn):
        scores = flambeau.zeros(shape, device=device)
        changed = over_all(mod_fn, True)(scores, *_positions(shape, device))
        return flambeau.where(changed.isneginf(), False, True)
    return over_all(mod_fn, False)(*_positions(shape, device)).expand(shape)


def _takes_score(mod: Mod) -> bool:
    import inspect

    parameters = inspect.signature(mod).parameters.values()
    return sum(p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD for p in parameters) == 5


class BlockMask:
    """Mask of pairs of positions by blocks: full blocks, and partial ones that a function filters.

    Args:
        seq_lengths: the numbers of query and key positions.
        kv_num_blocks: how many partial blocks of keys each block of queries has, (B, H, query blocks).
        kv_indices: which they are, the first of each row, (B, H, query blocks, key blocks).
        full_kv_num_blocks: how many full blocks of keys each block of queries has. None means no full blocks.
        full_kv_indices: which they are.
        BLOCK_SIZE: the numbers of query and key positions of a block.
        mask_mod: a function ``(batch, head, q, kv)`` to bool that filters partial blocks. None allows all
            pairs.
    Raises: RuntimeError if `kv_indices` has fewer than 2 dimensions, AssertionError if one list of full
        blocks is missing.
    See also: create_block_mask

    Example:
        >>> flex = flambeau.nn.attention.flex_attention
        >>> flex.create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 256, 256).to_dense()
        tensor([[[[1, 0],
                  [1, 1]]]], dtype=flambeau.int32)
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: Mod | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError(
                f"BlockMask: expected kv_indices of 2 or more dimensions, got shape {tuple(kv_indices.shape)}"
            )
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "BlockMask: expected both full_kv_num_blocks and full_kv_indices or neither, got one of them"
            )
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod or noop_mask

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """Return the mask of lists of blocks; `compute_q_blocks` is for kernels."""
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        lengths = seq_lengths or (kv_indices.size(-2) * size[0], kv_indices.size(-1) * size[1])
        full = full_kv_num_blocks, full_kv_indices
        return cls(lengths, kv_num_blocks, kv_indices, *full, size, mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, query and key positions."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of pairs."""
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """Return, per block, 1 where it takes part."""
        dense = _listed(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            dense = dense | _listed(self.full_kv_num_blocks, self.full_kv_indices)
        return dense.to(flambeau.int32)

    def sparsity(self) -> float:
        """Return the percentage of pairs outside of the computed blocks; a partial block counts in full."""
        covered = int(self.to_dense().sum()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - covered / self.numel())

    def __getitem__(self, index: Any) -> BlockMask:
        index = index if isinstance(index, tuple) else (index,)
        kept = tuple(slice(i, i + 1) if isinstance(i, int) else i for i in index)
        lists = (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices)
        parts: list[Any] = [None if t is None else t[kept] for t in lists]
        lengths = (min(self.seq_lengths[0], parts[1].size(-2) * self.BLOCK_SIZE[0]), self.seq_lengths[1])
        return BlockMask(lengths, parts[0], parts[1], parts[2], parts[3], self.BLOCK_SIZE, self.mask_mod)

    def to(self, device: Any) -> BlockMask:
        """Return the mask on a device."""
        lists = (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices)
        parts: list[Any] = [None if t is None else t.to(device) for t in lists]
        a, b, c, d = parts
        return BlockMask(self.seq_lengths, a, b, c, d, self.BLOCK_SIZE, self.mask_mod)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"

    def _allowed(self, batches: int, heads: int, q_len: int, kv_len: int) -> Tensor:
        """Return, per pair, whether it is allowed."""
        device = self.kv_indices.device
        partial = self._spread(self.kv_num_blocks, self.kv_indices)[..., :q_len, :kv_len]
        shape = (batches, heads, q_len, kv_len)
        mask = over_all(self.mask_mod, False)(*_positions(shape, device)).expand(shape) & partial
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            mask = mask | self._spread(self.full_kv_num_blocks, self.full_kv_indices)[..., :q_len, :kv_len]
        return mask

    def _spread(self, counts: Tensor, indices: Tensor) -> Tensor:
        blocks = _listed(counts, indices)
        return blocks.repeat_interleave(self.BLOCK_SIZE[0], -2).repeat_interleave(self.BLOCK_SIZE[1], -1)


def _listed(counts: Tensor, indices: Tensor) -> Tensor:
    """Return, per block, whether it is among the first `counts` of its row's list."""
    columns = indices.size(-1)
    taken = flambeau.arange(columns, device=indices.device) < counts.unsqueeze(-1)
    dense = flambeau.zeros((*indices.shape[:-1], columns + 1), dtype=flambeau.bool, device=indices.device)
    place = flambeau.where(taken, indices, columns).to(flambeau.int64)  # the last column takes the rest
    return dense.scatter(-1, place, flambeau.ones_like(place, dtype=flambeau.bool))[..., :columns]


def _lists(dense: Tensor) -> tuple[Tensor, Tensor]:
    order = dense.to(flambeau.int32).argsort(dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(flambeau.int32), order.to(flambeau.int32)


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:
    """Find the blocks in which a function of positions allows pairs.

    Args:
        mask_mod: a function ``(batch, head, q, kv)`` to bool.
        B: the number of batches. None means that the mask is the same for all.
        H: the number of heads. None means that the mask is the same for all.
        Q_LEN: the number of query positions.
        KV_LEN: the number of key positions.
        device: the device of the mask. None means the default device.
        BLOCK_SIZE: the numbers of query and key positions of a block; one number stands for both.
        _compile: accepted for compatibility; has no effect.
    Returns: a `BlockMask`.

    Example:
        >>> flex = flambeau.nn.attention.flex_attention
        >>> flex.create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 256, 256).sparsity()
        25.0
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    mask = flambeau.nn.functional.pad(mask, (0, -KV_LEN % size[1], 0, -Q_LEN % size[0]))
    rows, columns = mask.size(-2) // size[0], mask.size(-1) // size[1]
    blocks = mask.reshape(*mask.shape[:2], rows, size[0], columns, size[1]).sum((3, 5))
    full = blocks == size[0] * size[1]
    partial = (blocks > 0) & ~full
    return BlockMask((Q_LEN, KV_LEN), *_lists(partial), *_lists(full), size, mask_mod)


def _check(query: Tensor, key: Tensor, value: Tensor, block_mask: Any, enable_gqa: bool) -> None:
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError(
            "flex_attention: expected 4D query, key and value, got dimensions "
            f"{query.dim()}, {key.dim()} and {value.dim()}"
        )
    if query.size(-1) != key.size(-1) or key.size(-2) != value.size(-2):
        raise ValueError(
            "flex_attention: expected one embedding size of query and key, and one length of key and value, "
            f"got query {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)}"
        )
    if not enable_gqa and query.size(1) != key.size(1):
        raise ValueError(
            "flex_attention: expected the same number of heads in query and key, got "
            f"{query.size(1)} and {key.size(1)}; enable_gqa=True lets query have more"
        )
    if query.size(1) % key.size(1):
        raise ValueError(
            f"flex_attention: expected a multiple of {key.size(1)}, the heads of key, as heads of query, got "
            f"{query.size(1)}"
        )
    if block_mask is not None and block_mask.shape[-2] < query.size(2):
        raise ValueError(
            f"flex_attention: block_mask was created for {block_mask.shape}: expected its query "
            f"positions, got {query.size(2)}"
        )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Compute attention whose scores and mask are functions of batch, head and positions.

    Blocks of pairs that `block_mask` excludes are not computed, where there are enough of them to gain time.
    A row whose pairs are all masked gives 0.

    Formula: result = softmax(score_mod(scale * query @ key^T) + mask) @ value
    Args:
        query: the queries, (B, Hq, L, E).
        key: the keys, (B, Hkv, S, E).
        value: the values, (B, Hkv, S, Ev).
        score_mod: a function ``(score, batch, head, q, kv)`` to score. None keeps the scores.
        block_mask: the mask, from `create_block_mask`. None allows all pairs.
        scale: the factor of the products. None means 1 / sqrt(E).
        enable_gqa: whether each head of keys may serve several heads of queries.
        return_lse: whether to return the logarithm of each row's sum of exponentials, too.
        kernel_options: accepted for compatibility; has no effect.
        return_aux: which further results to return in an `AuxOutput`.
    Returns: the result, or a pair of it and what was requested.
    Shape: (B, Hq, L, E), (B, Hkv, S, E) and (B, Hkv, S, Ev) give (B, Hq, L, Ev).
    Raises: NotImplementedError for another number of dimensions, ValueError for shapes or a mask that do not
        fit.
    Source: Dong et al. 2024, "Flex Attention: A Programming Model for Generating Optimized Attention
        Kernels".
    See also: nn.functional.scaled_dot_product_attention

    Example:
        >>> flex = flambeau.nn.attention.flex_attention
        >>> x = flambeau.eye(2).reshape(1, 1, 2, 2)
        >>> mask = flex.create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 2)
        >>> flex.flex_attention(x, x, x, block_mask=mask)[0, 0]
        tensor([[1.0000, 0.0000],
                [0.3302, 0.6698]])
    """
    _check(query, key, value, block_mask, enable_gqa)
    heads, width = query.size(1), query.size(-1)
    if heads != key.size(1):
        key, value = (t.repeat_interleave(heads // key.size(1), 1) for t in (key, value))
    exact = flambeau.float64 if query.dtype == flambeau.float64 else flambeau.float32
    parts = query.to(exact), key.to(exact), value.to(exact)
    functions = Functions(
        score_mod,
        None if block_mask is None else block_mask.mask_mod,
        1 / math.sqrt(width) if scale is None else scale,
        with_extras=return_lse or return_aux is not None,
    )
    found = None if block_mask is None else _by_blocks(parts, functions, block_mask)
    if found is None:
        found = _at_once(parts, functions, block_mask)
    result = found.result.to(query.dtype)
    if return_aux is not None:
        aux = AuxOutput(
            found.lse if return_aux.lse else None, found.largest if return_aux.max_scores else None
        )
        return result, aux
    return (result, found.lse) if return_lse else result


def _at_once(
    parts: tuple[Tensor, Tensor, Tensor], functions: Functions, block_mask: BlockMask | None
) -> Scores:
    """Compute all scores."""
    query, key, value = parts
    scores = query @ key.mT * functions.scale
    shape = (*query.shape[:3], key.size(2))
    if functions.score_mod is not None:
        scores = over_all(functions.score_mod, True)(scores, *_positions(shape, query.device)).to(query.dtype)
    if block_mask is not None:
        scores = scores.masked_fill(~block_mask._allowed(*shape), -math.inf)
    return weighted(scores, value, functions, is_masked=block_mask is not None)


def _by_blocks(parts: tuple[Tensor, Tensor, Tensor], functions: Functions, mask: BlockMask) -> Scores | None:
    """Compute the blocks that a mask keeps; None if all scores at once are quicker."""
    batches, heads, q_len, _ = parts[0].shape
    kv_len = parts[1].size(2)
    lists = (mask.kv_num_blocks, mask.kv_indices, mask.full_kv_num_blocks, mask.full_kv_indices)
    shape = mask.kv_indices.shape
    if len(shape) != 4 or mask.kv_indices.is_meta or q_len * kv_len == 0:
        return None
    if shape[0] not in (1, batches) or shape[1] not in (1, heads):
        return None
    rows, columns = -(-q_len // mask.BLOCK_SIZE[0]), -(-kv_len // mask.BLOCK_SIZE[1])
    read: list[Any] = [None if t is None else t.flatten(0, 1).tolist() for t in lists]
    sizes = (q_len, rows, columns)
    made = [
        rows_of(
            read[0][n], read[1][n], read[2] and read[2][n], read[3] and read[3][n], mask.BLOCK_SIZE[0], sizes
        )
        for n in range(shape[0] * shape[1])
    ]
    pairs = batches * heads
    if not pays(made, pairs, q_len, kv_len, mask.BLOCK_SIZE[1], pairs // len(made)):
        return None
    steps = (batches // shape[0], heads // shape[1])
    found = []
    for b in range(shape[0]):
        across = []
        for h in range(shape[1]):
            first = (b * steps[0], h * steps[1])
            q, k, v = (t.narrow(0, first[0], steps[0]).narrow(1, first[1], steps[1]) for t in parts)
            chosen = made[b * shape[1] + h]
            across.append(attend(q, k, v, chosen, mask.BLOCK_SIZE[1], functions, first))
        found.append([along(tensors, 1) for tensors in zip(*across, strict=True)])
    return Scores(*(along(tensors, 0) for tensors in zip(*found, strict=True)))


__getattr__, __dir__ = attributes(__name__)
