"""Invertible maps of tensors: of elements, of events, and compositions.

>>> from flambeau.distributions import transforms
>>> t = transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(0.0, 2.0)])
>>> t.inv(t(flambeau.zeros(2)))
tensor([0., 0.])
"""

from __future__ import annotations

import flambeau  # noqa: F401  (the example's)
from flambeau.distributions._elementwise_transforms import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    _clipped_sigmoid,
)
from flambeau.distributions._event_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)
from flambeau.distributions._transform import (
    ComposeTransform,
    IndependentTransform,
    Transform,
    _InverseTransform,
    identity_transform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "_InverseTransform",
    "_clipped_sigmoid",
    "identity_transform",
]
