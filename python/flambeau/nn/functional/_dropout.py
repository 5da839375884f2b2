"""Dropout: of elements, of channels, and for selu networks."""

from __future__ import annotations

import warnings

import flambeau
from flambeau import Tensor

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout: expected p from 0 to 1, got {p}")


def _into(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input.copy_(result) if inplace and result is not input else result


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training set elements to 0 with probability `p` and scale the others by 1 / (1 - p)."""
    _check(p)
    return (flambeau.dropout_ if inplace else flambeau.dropout)(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps the mean and variance of standardised inputs (Klambauer et al. 2017)."""
    _check(p)
    return _into(input, flambeau.alpha_dropout(input, p, training), inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Alpha dropout of whole channels."""
    _check(p)
    return _into(input, flambeau.feature_alpha_dropout(input, p, training), inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: expected shape (C, L) or (N, C, L), got {input.dim()} dimensions")
    if input.dim() == 2:
        result = flambeau.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)
    else:
        result = flambeau.feature_dropout(input, p, training)
    return _into(input, result, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, H, W)."""
    _check(p)
    if input.dim() not in (3, 4):
        warnings.warn(
            f"dropout2d: expected 3 or 4 dimensions, got {input.dim()}, which is deprecated",
            stacklevel=2,
        )
    if input.dim() == 3:
        warnings.warn(
            "dropout2d: a 3D input is taken as (N, C, L), and its channels are dropped whole",
            stacklevel=2,
        )
    return _into(input, flambeau.feature_dropout(input, p, training), inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    _check(p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: expected 4 or 5 dimensions, got {input.dim()}, which is deprecated",
            stacklevel=2,
        )
    if input.dim() == 4:
        result = flambeau.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)
    else:
        result = flambeau.feature_dropout(input, p, training)
    return _into(input, result, inplace)
