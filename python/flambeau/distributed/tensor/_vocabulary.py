"""`embedding` and `cross_entropy` of tables and scores whose entries are divided among processes.

Each process looks up the indices that its part has, and sums over the processes join the results, so that
nothing is gathered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.autograd.function import once_differentiable
from flambeau.distributed import _functional_collectives as functional
from flambeau.distributed.tensor._placements import Partial, Placement, Replicate, Shard, _StridedShard
from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta, part
from flambeau.nn.functional import cross_entropy, embedding

Placements = tuple[Placement, ...]


def _own(spec: DTensorSpec, dim: int) -> tuple[int, int]:
    """Return where this process's part begins along a dimension, and its length."""
    begin, length = 0, spec.shape[dim]
    for mesh_dim, placement in enumerate(spec.placements):
        if placement == Shard(dim):
            length, offset = part(spec.mesh, mesh_dim, length)
            begin += offset
    return begin, length


def _has_parts(tensor: Any, dim: int) -> bool:
    """Whether a dimension is divided, in the order of the processes."""
    is_strided = any(isinstance(p, _StridedShard) for p in tensor.placements)
    return Shard(dim) in tensor.placements and not is_strided


def _joined(local: Tensor, op: str, spec: DTensorSpec, dim: int) -> Tensor:
    """Reduce over the processes among which a dimension is divided."""
    for mesh_dim, placement in enumerate(spec.placements):
        if placement == Shard(dim):
            local = functional.wait_tensor(functional.all_reduce(local, op, (spec.mesh, mesh_dim)))
    return local


def _made(kind: Any, local: Tensor, mesh: Any, placements: Placements, shape: tuple[int, ...]) -> Any:
    strides = tuple(flambeau.empty(shape, device="meta").stride())
    return kind(local, DTensorSpec(mesh, placements, TensorMeta(shape, strides, local.dtype)))


def _without_sums(tensor: Any) -> Any:
    """Add up what processes have as terms of a sum."""
    return tensor.redistribute(
        placements=[Replicate() if isinstance(p, Partial) else p for p in tensor.placements]
    )


def _check_range(name: str, indices: Tensor, count: int, ignored: int | None = None) -> None:
    """Raise IndexError for an index that no process has."""
    wrong = (indices < 0) | (indices >= count)
    if ignored is not None:
        wrong &= indices != ignored
    if wrong.any():
        found = indices[wrong][0].item()
        if ignored is not None:
            raise IndexError(
                f"cross_entropy: expected targets from 0 to {count - 1}, got {found}: Target {found} is out "
                "of bounds"
            )
        raise IndexError(f"{name}(): expected indices from 0 to {count - 1}, got index out of range: {found}")


# --- lookups -----------------------------------------------------------------------------------------------


class _Lookup(flambeau.autograd.Function):
    """Rows of a table whose placements are Shard or Replicate, at indices that lie as the table needs."""

    @staticmethod
    def forward(ctx: Any, table: Any, indices: Any, padding: int | None) -> Any:
        spec, at = table._spec, indices._local_tensor
        begin, length = _own(spec, 0)
        _check_range("embedding", at, spec.shape[0])
        here = (at >= begin) & (at < begin + length)
        places = flambeau.where(here, at - begin, 0)
        if length:
            rows = table._local_tensor[places].masked_fill(~here.unsqueeze(-1), 0)
        else:
            rows = table._local_tensor.new_zeros((*at.shape, table._local_tensor.shape[1]))
        kept = here if padding is None else here & (at != padding)
        ctx.save_for_backward(places, kept)
        ctx.spec, ctx.indices, ctx.length = spec, indices._spec, length
        shape = (*indices.shape, spec.shape[1])
        ctx.placements = tuple(
            _of_result(a, b, len(shape) - 1)
            for a, b in zip(spec.placements, indices._spec.placements, strict=True)
        )
        return _made(type(table), rows, spec.mesh, ctx.placements, shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        wanted = tuple(Replicate() if isinstance(p, Partial) else p for p in ctx.placements)
        rows = grad.redistribute(placements=wanted)._local_tensor
        places, kept = ctx.saved_tensors
        rows = rows.masked_fill(~kept.unsqueeze(-1), 0).reshape(kept.numel(), rows.shape[-1])
        made = rows.new_zeros((ctx.length, rows.shape[-1]))
        if ctx.length:
            made.index_add_(0, places.reshape(-1), rows)
        placements = tuple(
            Partial() if isinstance(b, Shard) and isinstance(a, Replicate) else a
            for a, b in zip(ctx.spec.placements, ctx.indices.placements, strict=True)
        )
        return type(grad)(made, ctx.spec.placed(placements)), None, None


def _of_result(table: Placement, indices: Placement, last: int) -> Placement:
    if table == Shard(0):
        return Partial()
    return Shard(last) if table == Shard(1) else indices


def divided_embedding(
    kind: Any,
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Look up rows of a table whose rows are divided; NotImplemented for other tables and options."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        return NotImplemented
    if not isinstance(weight, kind) or weight.dim() != 2:
        return NotImplemented
    if (
        not isinstance(input, kind)
        or Shard(0) not in weight.placements
        or input._spec.mesh != weight._spec.mesh
    ):
        return NotImplemented
    if padding_idx is not None and not -weight.size(0) <= padding_idx < weight.size(0):
        return NotImplemented
    padding = None if padding_idx is None else padding_idx % weight.size(0)
    table = _without_sums(weight)
    wanted = [
        b if isinstance(a, Replicate) and not isinstance(b, Partial) else Replicate()
        for a, b in zip(table.placements, input.placements, strict=True)
    ]
    return _Lookup.apply(table, input.redistribute(placements=wanted), padding)


# --- cross entropy -----------------------------------------------------------------------------------------


class _LogProbabilities(flambeau.autograd.Function):
    """Logarithms of the probabilities of targets, and their weighted sums over all classes, per row."""

    @staticmethod
    def forward(ctx: Any, scores: Any, at: Tensor, weights: Tensor | None, dim: int) -> Any:
        spec = scores._spec
        begin, length = _own(spec, dim)
        wide = scores.dtype if scores.dtype == flambeau.float64 else flambeau.float32
        x = scores._local_tensor.to(wide).movedim(dim, -1)
        largest = x.amax(-1) if length else x.new_full(x.shape[:-1], -float("inf"))
        largest = _joined(largest, "max", spec, dim)
        powers = (x - largest.unsqueeze(-1)).exp()
        total = _joined(powers.sum(-1), "sum", spec, dim)
        here = (at >= begin) & (at < begin + length)
        places = flambeau.where(here, at - begin, 0).unsqueeze(-1)
        own = x.gather(-1, places).squeeze(-1) if length else flambeau.zeros_like(largest)
        picked = _joined(own.masked_fill(~here, 0), "sum", spec, dim)
        whole = largest + total.log()
        shares = x.new_ones(length) if weights is None else weights[begin : begin + length].to(wide)
        every = _joined((x - whole.unsqueeze(-1)).mul(shares).sum(-1), "sum", spec, dim)
        ctx.save_for_backward(powers.div_(total.unsqueeze(-1)), places, here, shares)
        ctx.set_materialize_grads(False)
        ctx.spec, ctx.dim, ctx.dtype = spec, dim, scores.dtype
        ctx.all_shares = float(spec.shape[dim]) if weights is None else weights.sum().item()
        ctx.placements = _of_rows(spec.placements, dim)
        shape = (*spec.shape[:dim], *spec.shape[dim + 1 :])
        made = (_made(type(scores), v, spec.mesh, ctx.placements, shape) for v in (picked - whole, every))
        return tuple(made)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_picked: Any, of_every: Any) -> Any:
        probabilities, places, here, shares = ctx.saved_tensors
        grad, kind = flambeau.zeros_like(probabilities), None
        if of_picked is not None:
            own, kind = of_picked.redistribute(placements=ctx.placements)._local_tensor, type(of_picked)
            grad -= probabilities * own.unsqueeze(-1)
            if probabilities.shape[-1]:
                grad.scatter_add_(-1, places, own.masked_fill(~here, 0).unsqueeze(-1))
        if of_every is not None:
            own, kind = of_every.redistribute(placements=ctx.placements)._local_tensor, type(of_every)
            grad += (shares - probabilities * ctx.all_shares) * own.unsqueeze(-1)
        if kind is None:
            return None, None, None, None
        return kind(grad.to(ctx.dtype).movedim(-1, ctx.dim).contiguous(), ctx.spec), None, None, None


def _of_rows(placements: Placements, dim: int) -> Placements:
    """Return the placements of what has one number per row of scores with classes along a dimension."""

    def one(placement: Placement) -> Placement:
        if not isinstance(placement, Shard) or placement.dim == dim:
            return Replicate()
        return placement if placement.dim < dim else Shard(placement.dim - 1)

    return tuple(one(p) for p in placements)


def _aligned(kind: Any, target: Any, spec: DTensorSpec, dim: int) -> Tensor:
    """Return this process's targets: those of its rows of scores."""
    placements = _of_rows(spec.placements, dim)
    if not isinstance(target, kind):  # the same in all processes
        meta = TensorMeta(tuple(target.shape), tuple(target.stride()), target.dtype)
        target = kind(target, DTensorSpec(spec.mesh, (Replicate(),) * spec.mesh.ndim, meta))
    local: Tensor = target.redistribute(placements=placements)._local_tensor
    return local.long()


def divided_cross_entropy(
    kind: Any,
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Compare scores whose classes are divided with targets; NotImplemented for other scores and options."""
    if size_average is not None or reduce is not None or reduction not in ("none", "mean", "sum"):
        return NotImplemented
    if not 0 <= label_smoothing <= 1 or not _is_divided(kind, input, target, weight):
        return NotImplemented
    dim = min(input.dim() - 1, 1)
    if isinstance(weight, kind):
        weight = weight.full_tensor()
    scores = _without_sums(input)
    at = _aligned(kind, target, scores._spec, dim)
    _check_range("cross_entropy", at, input.shape[dim], ignore_index)
    picked, every = _LogProbabilities.apply(scores, at, weight, dim)
    rows, kept = picked._spec, at != ignore_index
    shares = kept.to(picked.dtype)
    if weight is not None:
        shares = shares * weight.to(picked.dtype)[flambeau.where(kept, at, 0)]
    whole = _made(kind, shares, rows.mesh, rows.placements, rows.shape)
    is_kept = _made(kind, kept, rows.mesh, rows.placements, rows.shape)
    loss = flambeau.where(is_kept, -picked * whole, 0.0)
    if label_smoothing:
        smooth = flambeau.where(is_kept, -every, 0.0)
        loss = loss * (1 - label_smoothing) + smooth * (label_smoothing / input.shape[dim])
    if reduction != "none":
        loss = loss.sum() if reduction == "sum" else loss.sum() / whole.sum()
    return loss.to(input.dtype)


def _is_divided(kind: Any, input: Any, target: Any, weight: Any) -> bool:
    """Whether scores have divided classes, and targets and weights that fit them."""
    if not isinstance(input, kind) or not isinstance(target, Tensor) or not input.dim():
        return False
    dim, shape = min(input.dim() - 1, 1), list(input.shape)
    fits = list(target.shape) == shape[:dim] + shape[dim + 1 :] and not target.is_floating_point()
    fits = fits and (weight is None or list(weight.shape) == [shape[dim]])
    return fits and _has_parts(input, dim) and input.is_floating_point()


HANDLERS: dict[Any, Callable[..., Any]] = {embedding: divided_embedding, cross_entropy: divided_cross_entropy}
