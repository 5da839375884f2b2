"""Divides arguments into micro-batches, and joins results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["TensorChunkSpec", "merge_chunks", "split_args_kwargs_into_chunks"]


class TensorChunkSpec:
    """How a tensor is divided into micro-batches: the dimension of the batch.

    Args:
        split_dim: the dimension.

    Example:
        >>> from flambeau.distributed.pipelining.microbatch import TensorChunkSpec
        >>> TensorChunkSpec.from_tuple((0, 1))
        (TensorChunkSpec(0), TensorChunkSpec(1))
    """

    def __init__(self, split_dim: int) -> None:
        self.split_dim = split_dim

    def __repr__(self) -> str:
        return f"TensorChunkSpec({self.split_dim})"

    __str__ = __repr__

    @staticmethod
    def from_tuple(chunk_dims: tuple[int, ...]) -> Any:
        """Return the specifications of several arguments."""
        return tree_map(TensorChunkSpec, chunk_dims)

    @staticmethod
    def from_dict(chunk_dims: dict[str, int]) -> Any:
        """Return the specifications of keyword arguments."""
        return tree_map(TensorChunkSpec, chunk_dims)


class _Replicate:
    """Marks an argument that every micro-batch gets whole."""


class _CustomReducer:
    """How results of the micro-batches are joined: by a function of the result so far and the next one.

    Args:
        init_value: the result before the first micro-batch.
        reduce_fn: the function.
    """

    def __init__(self, init_value: Any, reduce_fn: Callable[[Any, Any], Any]) -> None:
        self.init_value, self.reduce_fn = init_value, reduce_fn


class _LossReducer(_CustomReducer):
    """Marks a result that is a loss."""


def sum_reducer(first: Any, second: Any) -> Any:
    """Add two results."""
    return first + second


def _is_spec(value: Any) -> bool:
    return isinstance(value, TensorChunkSpec | _CustomReducer) or value is _Replicate


def _leaves_of_spec(name: str, given: Any, part: Any) -> list[Any]:
    """Return one specification per value."""
    values, _ = tree_flatten(part)
    if given is None:
        return [TensorChunkSpec(0) if isinstance(value, Tensor) else None for value in values]
    if isinstance(given, dict) and isinstance(part, dict):
        if given.keys() != part.keys():
            raise ValueError(f"{name}: expected specifications of {list(part)}, got {list(given)}")
        given = {key: given[key] for key in part}  # in the order of the values
    found, _ = tree_flatten(given, is_leaf=lambda leaf: _is_spec(leaf) or leaf is None)
    if _is_spec(given):
        found = found * len(values)
    if len(found) != len(values):
        raise ValueError(f"{name}: expected {len(values)} specifications, one per value, got {given!r}")
    for one in found:
        if not (_is_spec(one) or one is None):
            raise TypeError(f"{name}: Expected TensorChunkSpec, got {type(one).__name__}")
    return found


def _pieces(name: str, value: Any, spec: Any, chunks: int) -> Sequence[Any]:
    if not isinstance(value, Tensor) or spec is _Replicate or spec is None:
        return [value] * chunks
    if not isinstance(spec, TensorChunkSpec):
        raise TypeError(f"{name}: Expected TensorChunkSpec, got {type(spec).__name__}")
    if not -value.dim() <= spec.split_dim < value.dim():
        raise IndexError(
            f"{name}: expected a tensor with the dimension {spec.split_dim} of a batch, got shape "
            f"{tuple(value.shape)}: Dimension out of range"
        )
    size = value.size(spec.split_dim)
    if size == 0:
        raise ValueError(f"{name}: expected a batch with elements, got shape {tuple(value.shape)}")
    return value.tensor_split(min(chunks, size), spec.split_dim)


def split_args_kwargs_into_chunks(
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    chunks: int,
    args_chunk_spec: tuple[TensorChunkSpec, ...] | None = None,
    kwargs_chunk_spec: dict[str, TensorChunkSpec] | None = None,
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """Divide arguments into micro-batches.

    Tensors are divided along a dimension, into parts whose sizes differ by at most one; other values go to
    every micro-batch. A batch with fewer elements than `chunks` gives one micro-batch per element.

    Args:
        args: the positional arguments.
        kwargs: the keyword arguments.
        chunks: the number of micro-batches.
        args_chunk_spec: the dimension of each positional argument. Default: 0.
        kwargs_chunk_spec: the dimension of each keyword argument. Default: 0.
    Returns: the positional and the keyword arguments of each micro-batch.
    Raises: TypeError for other specifications; ValueError if their number is wrong or arguments give
        different numbers of micro-batches; IndexError if a tensor lacks the dimension.

    Example:
        >>> from flambeau.distributed.pipelining import microbatch
        >>> args, kwargs = microbatch.split_args_kwargs_into_chunks((flambeau.arange(3),), {"scale": 2}, 2)
        >>> args, kwargs
        ([(tensor([0, 1]),), (tensor([2]),)], [{'scale': 2}, {'scale': 2}])
    """
    name = "split_args_kwargs_into_chunks"
    if not isinstance(chunks, int) or chunks < 1:
        raise ValueError(f"{name}: expected a positive number of chunks, got {chunks!r}")
    whole = (args, kwargs or {})
    leaves, structure = tree_flatten(whole)
    specs: list[Any] = []
    for part, given in zip(whole, (args_chunk_spec, kwargs_chunk_spec), strict=True):
        specs += _leaves_of_spec(name, given or None, part)
    divided = [_pieces(name, value, spec, chunks) for value, spec in zip(leaves, specs, strict=True)]
    tensors = [
        len(d) for d, v, s in zip(divided, leaves, specs, strict=True) if len(d) != chunks or _is_cut(v, s)
    ]
    count = min([chunks, *tensors])
    if any(number != count for number in tensors):
        raise ValueError(
            f"{name}: expected the same number of micro-batches of all tensors, got {sorted(set(tensors))}"
        )
    parts = [tree_unflatten([pieces[i] for pieces in divided], structure) for i in range(count)]
    return [part[0] for part in parts], [part[1] for part in parts]


def _is_cut(value: Any, spec: Any) -> bool:
    return isinstance(value, Tensor) and isinstance(spec, TensorChunkSpec)


def merge_chunks(chunks: list[Any], chunk_spec: Any) -> Any:
    """Join the results of the micro-batches.

    Args:
        chunks: the results, all with one structure.
        chunk_spec: for each value, the dimension along which tensors are joined, or None for values that are
            equal in all micro-batches. Default: tensors along dimension 0.
    Returns: the whole result.
    Raises: ValueError without chunks, for other structures, or values that differ; RuntimeError for tensors
        that do not fit together.

    Example:
        >>> from flambeau.distributed.pipelining.microbatch import TensorChunkSpec, merge_chunks
        >>> merge_chunks([flambeau.ones(2, 1), flambeau.zeros(2, 1)], TensorChunkSpec(1))
        tensor([[1., 0.],
                [1., 0.]])
    """
    if not chunks:
        raise ValueError("merge_chunks: expected results of micro-batches, got none")
    first, structure = tree_flatten(chunks[0])
    columns = [first]
    for chunk in chunks[1:]:
        values, other = tree_flatten(chunk)
        if other != structure:
            raise ValueError(f"merge_chunks: expected results of the structure {structure}, got {other}")
        columns.append(values)
    if isinstance(chunk_spec, tuple | list) and len(chunk_spec) == 1 and isinstance(chunks[0], Tensor):
        return (merge_chunks(chunks, chunk_spec[0]),)
    specs = _leaves_of_spec("merge_chunks", chunk_spec, chunks[0])
    rows = zip(*columns, strict=True)
    return tree_unflatten(
        [_joined(list(row), spec) for row, spec in zip(rows, specs, strict=True)], structure
    )


def _joined(values: list[Any], spec: Any) -> Any:
    if isinstance(spec, TensorChunkSpec) and all(isinstance(value, Tensor) for value in values):
        if any(value.dim() == 0 for value in values):
            raise RuntimeError("merge_chunks: zero-dimensional tensor cannot be concatenated, got one")
        return flambeau.cat(values, dim=spec.split_dim)
    if isinstance(spec, _CustomReducer):
        result = spec.init_value
        for value in values:
            result = spec.reduce_fn(result, value)
        return result
    for value in values[1:]:
        same = value is values[0] or (type(value) is type(values[0]) and bool(value == values[0]))
        if not same:
            raise ValueError(
                f"merge_chunks: expected equal values in all micro-batches, got {values[0]!r} and {value!r}"
            )
    return values[0]
