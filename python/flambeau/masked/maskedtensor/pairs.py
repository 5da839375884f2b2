"""Operators on pairs of data and mask: the answers of `MaskedTensor.__torch_dispatch__`.

A pointwise operator computes on the data of all elements and keeps the mask. A view, or another
operator that only moves elements, is applied to data and mask alike. What is neither and not named
here is not answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.utils._python_dispatch import return_and_correct_aliasing
from flambeau.utils._pytree import tree_leaves, tree_map

Arguments = tuple[Any, ...]
Keywords = dict[str, Any]

# Operators that move or repeat elements, besides views.
_MOVES = frozenset(
    "cat _cat stack _stack clone contiguous index _index index_select gather flip roll _roll_back "
    "repeat".split()
)
# Their derivatives, which put elements back among zeros.
_PLACES = frozenset(
    "_select_backward _slice_backward _index_backward _unbind_backward _split_backward _unfold_backward "
    "_diagonal_backward _index_select_backward _gather_backward".split()
)
# Operators that make values of the data's shape, or other values of the same elements.
_KEEPS_MASK = frozenset(
    "_to_copy ones_like zeros_like full_like empty_like rand_like randn_like fill_ zero_".split()
)
# Operators whose results are plain: they read one element, or only the dtype and device.
_PLAIN = frozenset(
    "_local_scalar_dense new_zeros new_ones new_full new_empty new_empty_strided _index_positions".split()
)


def is_masked(value: Any) -> bool:
    """Whether a value is a masked tensor."""
    from flambeau.masked.maskedtensor.core import MaskedTensor

    return isinstance(value, MaskedTensor)


def data_of(value: Any) -> Any:
    """Return the data of a masked tensor; all else as it is."""
    return value._masked_data if is_masked(value) else value


def mask_of(value: Any) -> Any:
    """Return the mask of a masked tensor, True everywhere for a plain one; all else as it is."""
    if is_masked(value):
        return value._masked_mask
    return _C._functions.ones_like(value, dtype=_C.bool) if isinstance(value, Tensor) else value


def paired(data: Any, mask: Any) -> Any:
    """Return a masked tensor over both, which it does not copy."""
    from flambeau.masked.maskedtensor.core import MaskedTensor

    return MaskedTensor._of_parts(data, mask)


def same_masks(name: str, masks: list[Tensor]) -> Tensor:
    """Return the mask that all operands have; ValueError where they differ."""
    first = masks[0]
    for mask in masks[1:]:
        if mask is first:
            continue
        dense = [m.to_dense() if m.is_sparse else m for m in (first, mask)]
        if dense[0].shape != dense[1].shape or not dense[0].equal(dense[1]):
            raise ValueError(f"{name}: expected operands with one mask, got two. Input masks must match")
    return first


def _masked_among(args: Arguments, kwargs: Keywords) -> list[Any]:
    return [leaf for leaf in tree_leaves((args, kwargs)) if is_masked(leaf)]


# --- classes of operators -------------------------------------------------------------------------


def _pointwise(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    operands = _masked_among(args, kwargs)
    name = func.overloadpacket.__name__
    if len({operand._masked_data.layout for operand in operands}) > 1:
        raise ValueError(
            f"{name}: expected operands of one layout, got strided and sparse; they must have the same layout"
        )
    mask = same_masks(name, [operand._masked_mask for operand in operands])
    if operands[0]._masked_data.is_sparse:
        return _of_entries(func, args, kwargs, operands[0])
    result = func(*tree_map(data_of, args), **tree_map(data_of, kwargs))
    if mask.shape != result.shape:
        mask = mask.expand(result.shape)
    return paired(result, mask)


def _of_entries(func: Any, args: Arguments, kwargs: Keywords, like: Any) -> Any:
    """Compute on the stored entries of sparse operands, which all have one mask."""

    def entries(value: Any) -> Any:
        if is_masked(value):
            return value._masked_data.coalesce().values()
        if isinstance(value, Tensor) and value.dim():
            raise RuntimeError(
                f"{func.overloadpacket.__name__}: expected masked tensors or numbers as operands of a sparse "
                "one, got a plain tensor"
            )
        return value

    values = func(*tree_map(entries, args), **tree_map(entries, kwargs))
    return paired(with_values(like._masked_data, values), like._masked_mask)


def with_values(like: Tensor, values: Tensor) -> Tensor:
    """Return a sparse tensor with the indices of another and these values."""
    return sparse(like.coalesce().indices(), values, like.shape)


def sparse(indices: Tensor, values: Tensor, shape: Any) -> Tensor:
    """Return a coalesced tensor of layout sparse_coo."""
    from flambeau import sparse_coo_tensor

    return sparse_coo_tensor(indices, values, shape, is_coalesced=True)


def _where(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    """A chosen element is masked where it was, or where the condition is."""
    result = func(*map(data_of, args))
    condition, chosen = args[0], [mask_of(value) if isinstance(value, Tensor) else True for value in args[1:]]
    mask = _C._functions.where(data_of(condition), *chosen)
    if is_masked(condition):
        mask = mask & condition._masked_mask
    return paired(result, mask.expand(result.shape))


def _written(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    """In-place pointwise operators: the data is written to, in the memory that views share."""
    target, name = args[0], func.overloadpacket.__name__
    if not is_masked(target):
        raise TypeError(f"{name}: expected a masked tensor to write masked operands to, got a Tensor")
    same_masks(name, [operand._masked_mask for operand in _masked_among(args, kwargs)])
    if target._masked_data.is_sparse:
        raise TypeError(f"{name}: expected a strided masked tensor to write to, got a sparse one")
    func(*tree_map(data_of, args), **tree_map(data_of, kwargs))
    return target


def _masks_in(args: Arguments) -> Arguments:
    """The arguments for the mask: those of the first, which is moved, and indices behind it as they are."""
    return (tree_map(mask_of, args[0]), *tree_map(lambda v: mask_of(v) if is_masked(v) else v, args[1:]))


def _moved(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    """Apply an operator to data and mask alike; NotImplemented where it reads memory as another dtype."""
    data = func(*tree_map(data_of, args), **tree_map(data_of, kwargs))
    operands = _masked_among(args, kwargs)
    if any(leaf.dtype != operands[0].dtype for leaf in tree_leaves(data)):
        return NotImplemented
    masks = iter(tree_leaves(func(*_masks_in(args), **kwargs)))
    return tree_map(lambda part: paired(part, next(masks)), data)


def _view(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    result = _moved(func, args, kwargs)
    return result if result is NotImplemented else return_and_correct_aliasing(func, args, kwargs, result)


def _placed(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    """Put elements among zeros, which are masked; bools have no sums, so that the mask is of numbers."""
    data = func(*tree_map(data_of, args), **kwargs)
    numbers = tree_map(lambda m: m.to(data.dtype) if isinstance(m, Tensor) else m, _masks_in(args)[:1])
    return paired(data, func(*numbers, *args[1:], **kwargs).ne(0))


def _kept(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    """New values of the same elements: the mask stays."""
    if len(_masked_among(args, kwargs)) != 1:
        return NotImplemented
    result = func(*tree_map(data_of, args), **kwargs)
    if result is args[0]._masked_data:
        return args[0]
    return paired(result, args[0]._masked_mask.to(result.device))


def _copied(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    """Write one tensor's elements into another: their masks agree."""
    return _written(func, args, kwargs)


def _plain(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    return func(*tree_map(data_of, args), **kwargs)


def _reduced(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    """Sums that autograd takes of a broadcast operand's gradient."""
    from flambeau.masked.maskedtensor.reductions import reduced

    dims = args[1] if len(args) > 1 else None
    keepdim = args[2] if len(args) > 2 else kwargs.get("keepdim", False)
    return reduced(args[0], func.overloadpacket.__name__, dims, keepdim, {"dtype": kwargs.get("dtype")})


_BY_NAME: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_MOVES, _moved),
    **dict.fromkeys(_PLACES, _placed),
    **dict.fromkeys(_KEEPS_MASK, _kept),
    **dict.fromkeys(_PLAIN, _plain),
    "where": _where,
    "copy_": _copied,
    "sum": _reduced,
}


def answer(func: Any, args: Arguments, kwargs: Keywords) -> Any:
    """Return the result of an operator with a masked argument; NotImplemented if it is not supported."""
    from flambeau import Tag

    named = _BY_NAME.get(func.overloadpacket.__name__)
    if named is not None:
        return named(func, args, kwargs)
    if func.is_view:
        return _view(func, args, kwargs)
    tags = func.tags
    if Tag.pointwise not in tags or Tag.out in tags:
        return NotImplemented
    return (_written if Tag.inplace in tags else _pointwise)(func, args, kwargs)
