"""Functions of sparse tensors as functions of strided ones, for gradcheck."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._C import Tensor


def strided_inputs(
    func: Callable[..., Any], inputs: Any, masked: bool
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of strided tensors that does what `func` does, and its arguments.

    Args:
        func: function of the inputs; sparse results become strided.
        inputs: one tensor or several values.
        masked: pass a sparse tensor by the values of its entries; otherwise by all of its elements.
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    sparse = {i: x for i, x in enumerate(given) if isinstance(x, Tensor) and x.is_sparse}
    coalesced = {i: x.detach().coalesce() for i, x in sparse.items()}
    leaves = [_leaf(x, coalesced[i], masked) if i in sparse else x for i, x in enumerate(given)]

    def strided(*args: Any) -> Any:
        rebuilt = list(args)
        for i, x in coalesced.items():
            rebuilt[i] = _sparse_again(args[i], x, masked)
        return _dense(func(*rebuilt))

    return (strided if sparse else lambda *args: _dense(func(*args))), tuple(leaves)


def _leaf(given: Tensor, coalesced: Tensor, masked: bool) -> Tensor:
    values = coalesced.values().clone() if masked else coalesced.to_dense()
    return values.requires_grad_(given.requires_grad)


def _sparse_again(values: Tensor, like: Tensor, masked: bool) -> Tensor:
    if not masked:
        return values.to_sparse(like.sparse_dim())
    return flambeau.sparse_coo_tensor(like.indices(), values, like.shape, is_coalesced=True)


def _dense(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return tuple(_dense(item) for item in result)
    return result.to_dense() if isinstance(result, Tensor) else result
