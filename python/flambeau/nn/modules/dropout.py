"""Layers that drop elements or whole channels in training, and pass everything on in evaluation."""

from __future__ import annotations

from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.nn.modules.functional_layer import FunctionalLayer

_CHANNELS = """In training set whole channels to 0 with probability `p`, and scale the others by 1 / (1 - p).

    Shape: ``(batch, channels{spatial})`` to the same{unbatched}.
    Source: Tompson et al. 2015, "Efficient object localization using convolutional networks".
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
    """In training set elements to 0 with probability `p` and scale the others by 1 / (1 - p).

    Source: Srivastava et al. 2014, "Dropout".
    """

    function = "dropout"


class Dropout1d(_Dropout):
    __doc__ = _CHANNELS.format(spatial=", length", unbatched=", batch may be missing")
    function = "dropout1d"


class Dropout2d(_Dropout):
    __doc__ = _CHANNELS.format(spatial=", height, width", unbatched="")
    function = "dropout2d"


class Dropout3d(_Dropout):
    __doc__ = _CHANNELS.format(spatial=", depth, height, width", unbatched=", batch may be missing")
    function = "dropout3d"


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1, for SELU networks.

    Source: Klambauer et al. 2017, "Self-normalizing neural networks".
    """

    function = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels."""

    function = "feature_alpha_dropout"


__getattr__, __dir__ = attributes(__name__)
