"""Pooling by other means: norms, adaptive maxima, random windows, and the inverse of maxima."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.functional_layer import REQUIRED, FunctionalLayer
from flambeau.nn.modules.module import Module

_LP = """The norm of each window over the last {N} dimensions: (sum of x^p)^(1/p), p = `norm_type`."""


class _LPPool(FunctionalLayer):
    options = {
        "norm_type": REQUIRED, "kernel_size": REQUIRED, "stride": None, "ceil_mode": False,
    }  # fmt: skip


class LPPool1d(_LPPool):
    __doc__ = _LP.format(N=1)
    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    __doc__ = _LP.format(N=2)
    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    __doc__ = _LP.format(N=3)
    function = staticmethod(F.lp_pool3d)


_ADAPTIVE = """Largest elements over the last {N} dimensions of windows that divide them into `output_size`.

    Args:
        output_size: one int or one per dimension; None keeps the input's size.
        return_indices: also return where the maxima stand.
"""


class _AdaptiveMaxPool(FunctionalLayer):
    options = {"output_size": REQUIRED, "return_indices": False}


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    __doc__ = _ADAPTIVE.format(N=1)
    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    __doc__ = _ADAPTIVE.format(N=2)
    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    __doc__ = _ADAPTIVE.format(N=3)
    function = staticmethod(F.adaptive_max_pool3d)


_UNPOOL = """Put maxima back where MaxPool{N}d with return_indices found them, 0 elsewhere.

    Called with maxima, indices and optionally the output's size.
"""


class _MaxUnpool(Module):
    function: Any = None

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Unpool."""
        return type(self).function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    __doc__ = _UNPOOL.format(N=1)
    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    __doc__ = _UNPOOL.format(N=2)
    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    __doc__ = _UNPOOL.format(N=3)
    function = staticmethod(F.max_unpool3d)


_FRACTIONAL = """Largest elements of windows that start at random places over the last {N} dimensions.

    Args:
        kernel_size: of the windows.
        output_size: or
        output_ratio: of output to input, between 0 and 1.
        return_indices: also return where the maxima stand.
    Source: Graham 2014, "Fractional max-pooling".
"""


class _FractionalMaxPool(FunctionalLayer):
    options = {
        "kernel_size": REQUIRED, "output_size": None, "output_ratio": None, "return_indices": False,
        "_random_samples": None,
    }  # fmt: skip


class FractionalMaxPool2d(_FractionalMaxPool):
    __doc__ = _FRACTIONAL.format(N=2)
    function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    __doc__ = _FRACTIONAL.format(N=3)
    function = staticmethod(F.fractional_max_pool3d)
