"""Functions that make masked tensors."""

from __future__ import annotations

from typing import Any

from flambeau._C import Tensor
from flambeau.masked.maskedtensor.core import MaskedTensor, is_masked_tensor

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """Return a masked tensor of a copy of data and mask; it is a leaf.

    Args:
        data: a tensor; see `MaskedTensor`.
        mask: a bool tensor of the same shape, True where an element counts.
        requires_grad: whether to record operators.

    Shape: that of data and mask.

    Raises:
        TypeError: data or mask is not a tensor, or has a dtype or layout that is not supported.
        ValueError: the shapes differ.

    Example:
        >>> x = flambeau.masked.masked_tensor(flambeau.tensor([4, 9]), flambeau.tensor([False, True]))
        >>> x
        MaskedTensor(
          [      --, 9]
        )
    """
    return MaskedTensor(_copied(data), _copied(mask), requires_grad=requires_grad)


def _copied(given: Any) -> Any:
    """A copy that requires gradients as before, for the warning; what is not a tensor as it is."""
    if not isinstance(given, Tensor) or is_masked_tensor(given):
        return given
    return given.detach().clone().requires_grad_(given.requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """Return a copy of data and mask as a masked tensor; gradients pass on to the data.

    Args:
        data: a tensor; see `MaskedTensor`.
        mask: a bool tensor of the same shape, True where an element counts.

    Shape: that of data and mask.

    Raises:
        TypeError: data or mask is not a tensor, or has a dtype or layout that is not supported.
        ValueError: the shapes differ.

    Example:
        >>> x = flambeau.tensor([1.0, 2.0], requires_grad=True)
        >>> flambeau.masked.as_masked_tensor(x, flambeau.tensor([True, False])).sum().backward()
        >>> x.grad
        MaskedTensor(
          [  1.0000,       --]
        )
    """
    return MaskedTensor._from_values(data, mask)
