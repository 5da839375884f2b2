"""Masked tensors; `flambeau.masked` shows the names of this package."""

from flambeau.masked.maskedtensor.core import MaskedTensor, is_masked_tensor
from flambeau.masked.maskedtensor.creation import as_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]
