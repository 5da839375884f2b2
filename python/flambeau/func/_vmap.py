"""vmap: turns a function of single examples into a function of batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau._overrides.lanes import for_each_lane
from flambeau.func._layers import Layer, batch_first
from flambeau.utils._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_leaves

InDims = int | tuple[Any, ...]
OutDims = Any
_RANDOMNESS = ("error", "different", "same")


def _name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", repr(func))


def _flat_in_dims(
    func: Callable[..., Any], in_dims: Any, args: tuple[Any, ...], spec: TreeSpec
) -> list[int | None]:
    """Return the mapped dimension, or None, of each leaf of the arguments."""
    if isinstance(in_dims, int) and args:
        return [in_dims] * spec.num_leaves
    call = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{call}: expected `in_dims` to be an int or nested like the inputs, got {type(in_dims)}"
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): expected at least one input to map over, got no inputs"
        )
    flat = _broadcast_to_and_flatten(in_dims, spec)
    if flat is None:
        raise ValueError(
            f"{call}: expected `in_dims` nested like the inputs, {spec}, got {tree_flatten(in_dims)[1]}"
        )
    return flat


def _in_dim(func: Callable[..., Any], in_dims: Any, arg: Any, dim: Any) -> int | None:
    """Check one mapped dimension, and return it as a non-negative number."""
    if dim is None:
        return None
    if isinstance(dim, int) and isinstance(arg, Tensor) and 0 <= dim < arg.dim():
        return int(dim)
    call = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(dim, int):
        raise ValueError(f"{call}: expected ints and None in `in_dims`, got {dim}")
    if not isinstance(arg, Tensor):
        raise ValueError(
            f"{call}: expected a Tensor for in_dim={dim}, got an input of type {type(arg)}; use None "
            "to pass it on"
        )
    rank = arg.dim()
    if not -rank <= dim < rank:
        raise ValueError(
            f"{call}: expected in_dim from -{rank} to {rank - 1} for an input of {rank} dimensions, "
            f"got in_dim={dim}"
        )
    return dim + rank if dim < 0 else int(dim)


def _batch_size(flat_args: list[Any], dims: list[int | None]) -> int:
    sizes = [arg.shape[dim] for arg, dim in zip(flat_args, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: expected a Tensor to map over, got none")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(f"vmap: expected mapped dimensions of equal size, got {sizes}")
    return int(sizes[0])


def _flat_out_dims(func: Callable[..., Any], out_dims: Any, outputs: Any, spec: TreeSpec) -> list[Any]:
    """Return the position of the batch dimension, or None, for each leaf of the outputs."""
    if isinstance(out_dims, int):
        return [out_dims] * spec.num_leaves
    if not all(dim is None or isinstance(dim, int) for dim in tree_leaves(out_dims)):
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims}): expected ints or None, nested like the "
            f"outputs, got {out_dims}"
        )
    alone = isinstance(outputs, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1
    flat = list(out_dims) if alone else _broadcast_to_and_flatten(out_dims, spec)
    if flat is None:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): expected `out_dims` nested "
            f"like the outputs, {spec}, got {tree_flatten(out_dims)[1]}"
        )
    return flat


def _output(func: Callable[..., Any], output: Any, out_dim: int | None, layer: Layer, size: int) -> Any:
    """Unwrap one output of the layer, and move its batch dimension to `out_dim`."""
    if not isinstance(output, Tensor):
        if out_dim is None:
            return output
        raise ValueError(
            f"vmap({_name(func)}, ...): expected Tensors as outputs, got type {type(output)}; use "
            "None in out_dims to pass it on"
        )
    if out_dim is not None:
        return batch_first(output, layer, size, out_dim)
    value, dim = layer.take_off(output)
    if dim is not None:
        raise ValueError(
            f"vmap({_name(func)}, ...): expected an int as out_dim of a batched output, got None"
        )
    return value


def _run(
    func: Callable[..., Any],
    flat_args: list[Any],
    dims: list[int | None],
    spec: TreeSpec,
    out_dims: Any,
    randomness: str,
    kwargs: dict[str, Any],
) -> tuple[list[Any], list[Any], TreeSpec]:
    """Call the function on batched tensors; return flat outputs, their batch dimensions and their tree."""
    size = _batch_size(flat_args, dims)
    with Layer("vmap", size, randomness) as layer:
        batched = [
            arg if dim is None else _C._make_batched(arg, dim, layer.level)
            for arg, dim in zip(flat_args, dims, strict=True)
        ]
        outputs = func(*spec.unflatten(batched), **kwargs)
        flat, out_spec = tree_flatten(outputs)
        places = _flat_out_dims(func, out_dims, outputs, out_spec)
        found = [_output(func, out, place, layer, size) for out, place in zip(flat, places, strict=True)]
    return found, places, out_spec


def _chunks(flat_args: list[Any], dims: list[int | None], chunk_size: int) -> Iterator[list[Any]]:
    """Yield slices of the mapped arguments with `chunk_size` examples each; the last may be shorter."""
    size = _batch_size(flat_args, dims)
    for start in range(0, size, chunk_size):
        length = min(chunk_size, size - start)
        yield [
            arg if dim is None else arg.narrow(dim, start, length)
            for arg, dim in zip(flat_args, dims, strict=True)
        ]


def _joined(parts: list[list[Any]], places: list[Any]) -> list[Any]:
    """Concatenate the outputs of chunks; take an output without a batch from the first chunk."""
    return [
        column[0] if place is None or len(column) == 1 else flambeau.cat(column, place)
        for column, place in zip(zip(*parts, strict=True), places, strict=True)
    ]


def _in_chunks(
    func: Callable[..., Any], flat_args: list[Any], dims: list[int | None], chunk_size: int, *rest: Any
) -> tuple[list[Any], list[Any], TreeSpec]:
    # All chunks must draw the same random numbers, as all examples do.
    state = flambeau.get_rng_state() if "same" in rest else None
    parts: list[list[Any]] = []
    places: list[Any] = []
    spec: Any = None
    for chunk in _chunks(flat_args, dims, chunk_size):
        if state is not None:
            flambeau.set_rng_state(state)
        part, places, spec = _run(func, chunk, dims, *rest)
        parts.append(part)
    return _joined(parts, places), places, spec


def vmap(
    func: Callable[..., Any],
    in_dims: InDims = 0,
    out_dims: OutDims = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return a function that applies another one to all entries of a dimension of its arguments at once.

    Args:
        func: the function, from tensors without the mapped dimension, in any containers, to such tensors.
        in_dims: the mapped dimension of each positional argument: one int, or a tree that is a prefix of the
            arguments; None for an argument that all entries share. Keyword arguments are shared too.
        out_dims: the position of the mapped dimension in each output; None for an output without it.
        randomness: the behaviour of random operators: "error" raises an error, "different" draws numbers for
            each entry, "same" draws the same numbers for all entries.
        chunk_size: the number of entries that are computed at once. None: all.
    Returns: the function, which takes the arguments of `func` with the mapped dimension.
    Shape: size B at `in_dims` of the mapped arguments, and at `out_dims` of the outputs.
    Raises: ValueError for a `chunk_size` below 1, and (from the new function) for dimensions that do not fit,
        sizes that differ, or outputs that are not tensors; RuntimeError for another `randomness`, and from
        operators that read values.

    Example:
        >>> a, b = flambeau.ones(5, 3), flambeau.arange(15.0).reshape(5, 3)
        >>> flambeau.vmap(flambeau.dot)(a, b)
        tensor([ 3., 12., 21., 30., 39.])
        >>> flambeau.vmap(flambeau.dot, in_dims=(None, 0))(a[0], b).shape
        flambeau.Size([5])
    """
    if randomness not in _RANDOMNESS:
        raise RuntimeError(
            f"vmap: expected randomness to be 'different', 'error' or 'same', got {randomness}"
        )
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: expected chunk_size > 0 or None, got {chunk_size}")

    @functools.partial(for_each_lane, like=func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat_args, spec = tree_flatten(args)
        flat_dims = _flat_in_dims(func, in_dims, args, spec)
        dims = [_in_dim(func, in_dims, arg, dim) for arg, dim in zip(flat_args, flat_dims, strict=True)]
        rest = (spec, out_dims, randomness, kwargs)
        if chunk_size is not None and _batch_size(flat_args, dims) > chunk_size:
            outputs, _, out_spec = _in_chunks(func, flat_args, dims, chunk_size, *rest)
        else:
            outputs, _, out_spec = _run(func, flat_args, dims, *rest)
        return out_spec.unflatten(outputs)

    return mapped
