"""Jacobians and Hessians, computed as products with unit vectors under vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau._overrides.lanes import for_each_lane
from flambeau.func._argnums import ArgNums, of_chosen, places
from flambeau.func._grad import vjp_at
from flambeau.func._jvp import jvp_of
from flambeau.func._vmap import vmap
from flambeau.utils._pytree import tree_flatten, tree_leaves


def unit_vectors(like: list[Tensor], start: int, stop: int) -> list[Tensor]:
    """Return rows start to stop of the identity over all elements of the tensors, split by tensor.

    Shape: of each tensor ``(*n)``: ``(stop - start, *n)``.
    """
    rows, first = [], 0
    for t in like:
        numel = t.numel()
        block = flambeau.zeros(stop - start, numel, dtype=t.dtype, device=t.device)
        # Row r of the block has its 1 in column r + start - first, if that column is in the block.
        offset = start - first
        if -(stop - start) < offset < numel:
            block.diagonal(offset).fill_(1)
        rows.append(block.reshape((stop - start, *t.shape)))
        first += numel
    return rows


def _check_real(tensors: list[Tensor], api: str, what: str) -> None:
    for i, t in enumerate(tensors):
        if t.is_complex():
            raise RuntimeError(f"{api}: expected real {what}s, got a complex one at place {i}")


def _ranges(count: int, chunk_size: int | None) -> Iterator[tuple[int, int]]:
    step = count if chunk_size is None else chunk_size
    for start in range(0, count, max(step, 1)):
        yield start, min(start + step, count)


def _in_blocks(
    product: Callable[..., list[Tensor]], like: list[Tensor], chunk_size: int | None, randomness: str
) -> list[Tensor] | None:
    """Apply `product` to all unit vectors; return one tensor per result, with one row per vector, or None."""
    count = sum(t.numel() for t in like)
    mapped = vmap(product, randomness=randomness)
    blocks = []
    for start, stop in _ranges(count, chunk_size):
        vectors = unit_vectors(like, start, stop)
        if chunk_size == 1:
            blocks.append([row.unsqueeze(0) for row in product(*(v.squeeze(0) for v in vectors))])
        else:
            blocks.append(mapped(*vectors))
    if not blocks:
        return None
    return [c[0] if len(c) == 1 else flambeau.cat(c) for c in zip(*blocks, strict=True)]


def jacrev(
    func: Callable[..., Any],
    argnums: ArgNums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of another one by reverse mode.

    `func` runs once. One batched backward pass computes all rows, or one pass per chunk.

    Args:
        func: the function, from trees of real tensors to a tree of real tensors; with `has_aux` to a pair.
        argnums: the index of the positional argument to differentiate, or a tuple of indices.
        has_aux: whether `func` returns a pair; the new function then returns ``(jacobian, aux)``.
        chunk_size: the number of rows that are computed at once; smaller numbers need less memory. None means
            all, 1 does not use `vmap`.
        _preallocate_and_copy: no effect.
    Returns: the function; trees nest by outputs, then by arguments.
    Shape: ``(*m, *n)`` for an output ``(*m)`` and an argument ``(*n)``.
    Raises: ValueError for a `chunk_size` below 1; RuntimeError (from the new function) for complex tensors or
        `argnums` out of range.

    Example:
        >>> flambeau.func.jacrev(lambda x: x**2)(flambeau.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"jacrev: expected chunk_size > 0, got {chunk_size}")

    @functools.partial(for_each_lane, like=func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        output, vjp_fn, *aux = vjp_at(func, args, argnums, has_aux, kwargs)
        _, primals = of_chosen(func, args, argnums, kwargs)
        single = isinstance(places(argnums, len(args)), int)
        inputs, in_spec = tree_flatten(primals[0] if single else primals)
        outputs, out_spec = tree_flatten(output)
        _check_real(inputs, "jacrev", "input")
        _check_real(outputs, "jacrev", "output")

        def product(*weights: Tensor) -> list[Tensor]:
            return tree_leaves(vjp_fn(out_spec.unflatten(weights)))

        rows = _in_blocks(product, outputs, chunk_size, "error")
        found, first = [], 0
        for out in outputs:
            last = first + out.numel()
            blocks = [
                x.new_zeros((*out.shape, *x.shape))
                if rows is None
                else rows[k][first:last].reshape((*out.shape, *x.shape))
                for k, x in enumerate(inputs)
            ]
            found.append(in_spec.unflatten(blocks))
            first = last
        result = out_spec.unflatten(found)
        return (result, *aux) if has_aux else result

    return jacobian


def jacfwd(
    func: Callable[..., Any], argnums: ArgNums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of another one by forward mode.

    One batched forward pass computes all columns, so it is faster than `func.jacrev` for functions with more
    outputs than inputs.

    Args:
        func: the function, from trees of real tensors to a tree of real tensors; with `has_aux` to a pair.
        argnums: the index of the positional argument to differentiate, or a tuple of indices.
        has_aux: whether `func` returns a pair; the new function then returns ``(jacobian, aux)``.
        randomness: the behaviour of random operators: "error", "different" or "same"; see `func.vmap`.
    Returns: the function; trees nest by outputs, then by arguments.
    Shape: ``(*m, *n)`` for an output ``(*m)`` and an argument ``(*n)``.
    Raises: RuntimeError (from the new function) for complex tensors or `argnums` out of range.

    Example:
        >>> flambeau.func.jacfwd(lambda x: x**2)(flambeau.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    @functools.partial(for_each_lane, like=func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        partial, primals = of_chosen(func, args, argnums, kwargs)
        single = isinstance(places(argnums, len(args)), int)
        inputs, in_spec = tree_flatten(primals[0] if single else primals)
        _check_real([x for x in inputs if isinstance(x, Tensor)], "jacfwd", "input")
        count = sum(x.numel() for x in inputs if isinstance(x, Tensor))

        def product(*units: Tensor) -> Any:
            tangent = in_spec.unflatten(units)
            _, *slopes = jvp_of(partial, primals, (tangent,) if single else tangent, has_aux=has_aux)
            return tuple(slopes)

        vectors = unit_vectors(inputs, 0, count)
        slopes, *aux = vmap(product, out_dims=(0, None) if has_aux else (0,), randomness=randomness)(*vectors)
        columns, out_spec = tree_flatten(slopes)
        _check_real(columns, "jacfwd", "output")
        parts = [_split_columns(column.movedim(0, -1), inputs) for column in columns]
        result = out_spec.unflatten([in_spec.unflatten(part) for part in parts])
        return (result, *aux) if has_aux else result

    return jacobian


def _split_columns(columns: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """Split the last dimension, which has one entry per element of all inputs, by input."""
    parts, first = [], 0
    for x in inputs:
        last = first + x.numel()
        parts.append(columns[..., first:last].reshape((*tuple(columns.shape)[:-1], *x.shape)))
        first = last
    return parts


def hessian(func: Callable[..., Any], argnums: ArgNums = 0) -> Callable[..., Any]:
    """Return a function that computes the Hessian of another one, by forward mode of reverse mode.

    Args:
        func: the function, from trees of real tensors to a tree of real tensors.
        argnums: the index of the positional argument to differentiate, or a tuple of indices.
    Returns: the function; trees nest by outputs, then twice by arguments.
    Shape: ``(*m, *n, *n)`` for an output ``(*m)`` and an argument ``(*n)``.
    Raises: RuntimeError (from the new function) for complex tensors or `argnums` out of range.

    Example:
        >>> flambeau.func.hessian(lambda x: (x**3).sum())(flambeau.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
