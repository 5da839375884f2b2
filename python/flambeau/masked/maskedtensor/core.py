"""`MaskedTensor`: a tensor with a mask that selects its valid elements."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd import Function
from flambeau.masked.maskedtensor.pairs import (
    answer,
    data_of,
    is_masked,
    mask_of,
    paired,
    sparse,
    with_values,
)
from flambeau.masked.maskedtensor.printing import text_of
from flambeau.masked.maskedtensor.reductions import overriding

_DTYPES = (_C.bool, _C.int8, _C.int16, _C.int32, _C.int64, _C.float16, _C.float32, _C.float64)
_LAYOUTS = (_C.strided, _C.sparse_coo)


def is_masked_tensor(obj: Any, /) -> bool:
    """Return whether an object is a masked tensor.

    Args:
        obj: the object.

    Returns: True or False.

    Example:
        >>> x = flambeau.masked.masked_tensor(flambeau.ones(2), flambeau.tensor([True, False]))
        >>> flambeau.masked.is_masked_tensor(x), flambeau.masked.is_masked_tensor(flambeau.ones(2))
        (True, False)
    """
    return is_masked(obj)


def _check(data: Any, mask: Any) -> None:
    """Refuse what cannot be data and mask."""
    for name, given in (("data", data), ("mask", mask)):
        if not isinstance(given, Tensor) or is_masked(given):
            raise TypeError(
                f"masked_tensor: expected a Tensor, got {type(given).__name__}: {name} must be a Tensor"
            )
    if data.layout != mask.layout:
        raise TypeError(
            f"masked_tensor: expected data and mask of the same layout, got {data.layout} and {mask.layout}"
        )
    if data.layout not in _LAYOUTS:
        raise TypeError(
            f"masked_tensor: expected one of {list(_LAYOUTS)}, got a data layout of {data.layout}"
        )
    if data.dtype not in _DTYPES:
        raise TypeError(
            f"masked_tensor: expected one of {list(_DTYPES)}, got {data.dtype}; "
            f"{data.dtype} is not supported in MaskedTensor"
        )
    if mask.dtype != _C.bool:
        raise TypeError(f"masked_tensor: expected a mask of dtype bool, got {mask.dtype}")
    if data.dim() != mask.dim():
        raise ValueError(
            f"masked_tensor: expected equal ranks, got {data.dim()} and {mask.dim()}; "
            "data.dim() must equal mask.dim()"
        )
    if data.size() != mask.size():
        raise ValueError(
            f"masked_tensor: expected equal sizes, got {list(data.shape)} and {list(mask.shape)}; "
            "data.size() must equal mask.size()"
        )


def _prepared(data: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Sparse data and mask with the same entries: those where the mask is True."""
    if not data.is_sparse:
        return data, mask
    data, mask = data.coalesce(), mask.coalesce()
    kept = mask.values()
    if kept.dim() != 1:
        raise ValueError(
            f"masked_tensor: expected sparse data without dense dimensions, got {kept.dim() - 1} of them"
        )
    if not kept.all():
        places = mask.indices()[:, kept]
        mask = sparse(places, kept[kept], mask.shape)
    if data.indices().shape == mask.indices().shape and data.indices().equal(mask.indices()):
        return data, mask
    return data.sparse_mask(mask).coalesce(), mask


class _Constructed(Function):
    """Data and mask as one tensor through which gradients reach the data."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> Any:
        return MaskedTensor(data.detach().clone(), mask.clone() if isinstance(mask, Tensor) else mask)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad, None


class _Data(Function):
    """The data, whose gradient gets the mask."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Tensor:
        ctx.mask = x._masked_mask
        return x._masked_data.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad if is_masked(grad) else paired(grad, ctx.mask)


class _Where(Function):
    """A choice between operands with masks of their own, which their gradients have as well."""

    @staticmethod
    def forward(ctx: Any, condition: Tensor, x: Any, y: Any) -> Any:
        ctx.save_for_backward(condition)
        ctx.masks = tuple(mask_of(value) if is_masked(value) else None for value in (x, y))
        ctx.shapes = tuple(value.shape if isinstance(value, Tensor) else None for value in (x, y))
        return _C._functions.where(condition, x, y)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (condition,) = ctx.saved_tensors
        chosen, grad = data_of(condition), data_of(grad)
        grads: list[Any] = []
        for part, mask, shape in zip((chosen, ~chosen), ctx.masks, ctx.shapes, strict=True):
            found = None if shape is None else (grad * part).sum_to_size(shape)
            grads.append(found if mask is None or found is None else paired(found, mask))
        return None, *grads


class _Layout(Function):
    """A change of layout; gradients return to the one before."""

    @staticmethod
    def forward(ctx: Any, x: Any, to: str) -> Any:
        ctx.back = "to_sparse" if x._masked_data.is_sparse else "to_dense"
        return _in_layout(x, to)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return _in_layout(grad, ctx.back), None


def _in_layout(x: Any, to: str) -> Any:
    data, mask = x._masked_data, x._masked_mask
    if to == "to_dense":
        return paired(data.to_dense(), mask.to_dense()) if data.is_sparse else paired(data.clone(), mask)
    if data.is_sparse:
        return paired(with_values(data, data.values().clone()), mask)
    places = mask.to_sparse().coalesce()
    values = data[tuple(places.indices())]
    return paired(with_values(places, values), places)


class MaskedTensor(Tensor):
    r"""A tensor with a mask that is True at its valid elements.

    Pointwise operators compute on the elements and keep the mask; operands must have the same one. Views
    and indexing apply to data and mask. Reductions leave masked elements out, and a result of masked
    elements alone is masked. Operators that are none of these raise TypeError. Gradients are masked
    tensors.

    Args:
        data: strided or sparse_coo, of a dtype of bool, signed integers or floating point numbers
            (bfloat16 excepted). It is not copied, unlike by `masked_tensor`.
        mask: bool, of the data's shape and layout; True where an element counts.
        requires_grad: whether to record operators.

    Raises:
        TypeError: data or mask is not a tensor, or has a dtype or layout that is not supported.
        ValueError: the shapes differ.

    Example:
        >>> data, mask = flambeau.tensor([1.0, 2.0, 3.0]), flambeau.tensor([True, False, True])
        >>> x = flambeau.masked.MaskedTensor(data, mask)
        >>> x * 2
        MaskedTensor(
          [  2.0000,       --,   6.0000]
        )
        >>> x.sum().item()
        4.0
    """

    _masked_data: Tensor
    _masked_mask: Tensor

    @staticmethod
    def __new__(cls: Any, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        _check(data, mask)
        if data.requires_grad:
            warnings.warn(
                "masked_tensor: data requires gradients, which will not reach it; "
                "as_masked_tensor passes gradients on, data.detach() avoids the warning",
                UserWarning,
                stacklevel=3,
            )
        data, mask = _prepared(data.detach(), mask.detach())
        return cls._of_parts(data, mask, requires_grad)

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        """Leave the object as `__new__` made it."""

    @classmethod
    def _of_parts(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
        """Make a masked tensor of data and mask that belong together."""
        strides = None if data.is_sparse else data.stride()
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            data.shape,
            strides=strides,
            dtype=data.dtype,
            device=data.device,
            requires_grad=requires_grad,
        )
        made._masked_data, made._masked_mask = data, mask
        return made

    @classmethod
    def _from_values(cls, data: Tensor, mask: Tensor) -> MaskedTensor:
        """Make a masked tensor through which gradients reach the data."""
        return _Constructed.apply(data, mask)

    def get_data(self) -> Tensor:
        """Return the data, masked elements included; it shares memory, and gradients pass through it."""
        with _C.DisableTorchFunctionSubclass():
            return _Data.apply(self)

    def get_mask(self) -> Tensor:
        """Return the mask."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """Return the data with a value in place of the masked elements.

        Args:
            value: a number.
        """
        mask = self._masked_mask
        if self._masked_data.is_sparse:
            return self.to_dense().to_tensor(value)
        return self.get_data().masked_fill(~mask, value)

    def _to_layout(self, to: str) -> Any:
        with _C.DisableTorchFunctionSubclass():
            return _Layout.apply(self, to)

    def to_dense(self, *_: Any, **__: Any) -> Any:
        """Return a copy of strided layout."""
        return self._to_layout("to_dense")

    def to_sparse(self, *_: Any, **__: Any) -> Any:
        """Return a copy of layout sparse_coo, whose entries are the unmasked elements."""
        return self._to_layout("to_sparse")

    to_sparse_coo = to_sparse

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is not strided."""
        return self._masked_data.is_sparse

    @property
    def layout(self) -> Any:
        """The layout of data and mask."""
        return self._masked_data.layout

    def is_sparse_coo(self) -> bool:
        """Return whether the layout is sparse_coo."""
        return self._masked_data.layout == _C.sparse_coo

    def is_sparse_csr(self) -> bool:
        """Return False: compressed layouts do not exist here."""
        return False

    def __repr__(self, *_: Any, **__: Any) -> str:
        data, mask = self._masked_data, self._masked_mask
        with _C.DisableTorchFunctionSubclass():
            return text_of(data.to_dense(), mask.to_dense()) if data.is_sparse else text_of(data, mask)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError("MaskedTensor.__deepcopy__: expected a leaf, got a result of operators")
        made = type(self)._of_parts(self._masked_data.clone(), self._masked_mask.clone(), self.requires_grad)
        memo[id(self)] = made
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self.is_leaf:
            raise RuntimeError("MaskedTensor.__reduce_ex__: expected a leaf, got a result of operators")
        return _restored, (type(self), self._masked_data, self._masked_mask, self.requires_grad)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        with _C.DisableTorchFunctionSubclass():
            input = args[0] if args else kwargs.get("input")
            if (instead := overriding(func, input)) is not None:
                return instead(*args, **kwargs)
            if _is_choice(func, args):
                return _Where.apply(*args)
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return answer(func, args, kwargs or {})


def _is_choice(func: Any, args: tuple[Any, ...]) -> bool:
    """Whether it is ``where(condition, x, y)`` between masked tensors."""
    return getattr(func, "__name__", "") == "where" and len(args) == 3 and isinstance(args[0], Tensor)


def _restored(cls: Any, data: Tensor, mask: Tensor, requires_grad: bool) -> Any:
    return cls._of_parts(data, mask, requires_grad)
