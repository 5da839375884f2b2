"""Dropout: of elements, of channels, and for selu networks."""

from __future__ import annotations

import warnings

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import described_by

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d", "feature_alpha_dropout"]


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout: expected p from 0 to 1, got {p}")


def _into(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    return input.copy_(result) if inplace and result is not input else result


@described_by(flambeau.dropout)
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set elements to 0 with probability `p` in training, and scale the others by 1 / (1 - p).

    Args:
        p: the probability that an element becomes 0, in [0, 1]. Default: 0.5.
        training: whether to drop; False returns the input unchanged.
    Raises: ValueError if `p` is outside [0, 1].
    See also: nn.Dropout, alpha_dropout
    """
    _check(p)
    return (flambeau.dropout_ if inplace else flambeau.dropout)(input, p, training)


@described_by(flambeau.alpha_dropout)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Drop elements so that inputs of mean 0 and variance 1 keep both, for networks of `selu`.

    Args:
        p: the probability that an element takes the value that `selu` has at -inf, in [0, 1]. Default: 0.5.
        training: whether to drop; False, the default here, returns the input unchanged.
    Raises: ValueError if `p` is outside [0, 1].
    See also: nn.AlphaDropout, selu
    """
    _check(p)
    return _into(input, flambeau.alpha_dropout(input, p, training), inplace)


@described_by(flambeau.feature_alpha_dropout)
def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Apply `alpha_dropout` to whole channels (dimension 1).

    Formula: as for `alpha_dropout`, with one element of the mask for each channel of each sample
    Args:
        p: the probability that a channel takes the value that `selu` has at -inf, in [0, 1]. Default: 0.5.
        training: whether to drop; False, the default here, returns the input unchanged.
    Raises: ValueError if `p` is outside [0, 1].
    See also: nn.FeatureAlphaDropout
    """
    _check(p)
    return _into(input, flambeau.feature_alpha_dropout(input, p, training), inplace)


@described_by(flambeau.feature_dropout)
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels to 0 with probability `p` in training, and scale the others by 1 / (1 - p).

    Args:
        p: the probability that a channel becomes 0, in [0, 1]. Default: 0.5.
        training: whether to drop; False returns the input unchanged.
    Shape: (N, C, L) or (C, L) to the same.
    Raises: ValueError if `p` is outside [0, 1], RuntimeError for another number of dimensions.
    See also: nn.Dropout1d

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.functional.dropout1d(flambeau.ones(1, 3, 2))
        tensor([[[0., 0.],
                 [0., 0.],
                 [2., 2.]]])
    """
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: expected shape (C, L) or (N, C, L), got {input.dim()} dimensions")
    if input.dim() == 2:
        result = flambeau.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)
    else:
        result = flambeau.feature_dropout(input, p, training)
    return _into(input, result, inplace)


@described_by(flambeau.feature_dropout)
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels of images to 0 with probability `p` in training, and scale the others by 1 / (1 -
    p).

    Args:
        p: the probability that a channel becomes 0, in [0, 1]. Default: 0.5.
        training: whether to drop; False returns the input unchanged.
    Shape: (N, C, H, W) to the same. An input of 3 dimensions counts as (N, C, L), with a warning.
    Raises: ValueError if `p` is outside [0, 1].
    See also: nn.Dropout2d

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.functional.dropout2d(flambeau.ones(1, 3, 1, 2))
        tensor([[[[0., 0.]],
        <BLANKLINE>
                 [[0., 0.]],
        <BLANKLINE>
                 [[2., 2.]]]])
    """
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


@described_by(flambeau.feature_dropout)
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Set whole channels of volumes to 0 with probability `p` in training, and scale the others by 1 / (1 -
    p).

    Args:
        p: the probability that a channel becomes 0, in [0, 1]. Default: 0.5.
        training: whether to drop; False returns the input unchanged.
    Shape: (N, C, D, H, W) or (C, D, H, W) to the same.
    Raises: ValueError if `p` is outside [0, 1].
    See also: nn.Dropout3d

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.functional.dropout3d(flambeau.ones(3, 1, 1, 2))
        tensor([[[[0., 0.]]],
        <BLANKLINE>
        <BLANKLINE>
                [[[0., 0.]]],
        <BLANKLINE>
        <BLANKLINE>
                [[[2., 2.]]]])
    """
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
