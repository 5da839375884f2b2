"""Layers that drop elements or whole channels in training, and pass everything on in evaluation."""

from __future__ import annotations

from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.nn.modules.functional_layer import FunctionalLayer

_CHANNELS = """Dropout of whole channels{what}: in training they become 0 with probability `p`.

    The other channels are then scaled by 1 / (1 - p). In evaluation the input passes unchanged.

    Args:
        p: the probability that a channel becomes 0, in [0, 1].
    Shape: ``(batch, channels{spatial})``{unbatched} to the same.
    Raises: ValueError if `p` is outside [0, 1].
    See also: Dropout

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.Dropout{dims}d(0.5)(flambeau.ones(1, 3, {ones}2)).flatten()
        tensor([0., 0., 0., 0., 2., 2.])
    """


class _Dropout(FunctionalLayer):
    options = {"p": 0.5, "inplace": False}
    draws = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not 0 <= self.p <= 1:
            raise ValueError(f"dropout: expected p from 0 to 1, got {self.p}")

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Dropout: in training elements become 0 with probability `p`, and the others are scaled by 1 / (1 - p).

    In evaluation the input passes unchanged.

    Args:
        p: the probability that an element becomes 0, in [0, 1].
    Shape: ``(*)`` to the same.
    Raises: ValueError if `p` is outside [0, 1].
    See also: Dropout2d, AlphaDropout

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.Dropout(0.5)(flambeau.ones(5))
        tensor([0., 0., 2., 0., 0.])
    """

    function = "dropout"


class Dropout1d(_Dropout):
    __doc__ = _CHANNELS.format(
        what=" of sequences", spatial=", length", unbatched=" or ``(channels, length)``", dims=1, ones=""
    )
    function = "dropout1d"


class Dropout2d(_Dropout):
    __doc__ = _CHANNELS.format(what=" of images", spatial=", height, width", unbatched="", dims=2, ones="1, ")
    function = "dropout2d"


class Dropout3d(_Dropout):
    __doc__ = _CHANNELS.format(
        what=" of volumes",
        spatial=", depth, height, width",
        unbatched=" or ``(channels, depth, height, width)``",
        dims=3,
        ones="1, 1, ",
    )
    function = "dropout3d"


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1, for networks of `SELU`.

    In training, elements take the value that `SELU` has at -inf with probability `p`, and all are then scaled
    and shifted.

    Args:
        p: the probability that an element is replaced, in [0, 1].
    Shape: ``(*)`` to the same.
    Raises: ValueError if `p` is outside [0, 1].
    See also: SELU, FeatureAlphaDropout

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.AlphaDropout(0.5)(flambeau.ones(5))
        tensor([-0.7792, -0.7792,  1.6656, -0.7792, -0.7792])
    """

    function = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """Alpha dropout of whole channels.

    Args:
        p: the probability that a channel is replaced, in [0, 1].
    Shape: ``(batch, channels, *)`` to the same.
    Raises: ValueError if `p` is outside [0, 1].
    See also: AlphaDropout

    Example:
        >>> _ = flambeau.manual_seed(0)
        >>> flambeau.nn.FeatureAlphaDropout(0.5)(flambeau.ones(1, 3, 2))
        tensor([[[-0.7792, -0.7792],
                 [-0.7792, -0.7792],
                 [ 1.6656,  1.6656]]])
    """

    function = "feature_alpha_dropout"


__getattr__, __dir__ = attributes(__name__)
