"""Pooling by other means: norms, adaptive maxima, random windows, and the inverse of maxima."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.conv import as_tuple
from flambeau.nn.modules.functional_layer import REQUIRED, FunctionalLayer
from flambeau.nn.modules.module import Module

_LP = """The norm of each window over the last {N} dimensions: (sum of x^p)^(1/p), p = `norm_type`."""


class _LPPool(FunctionalLayer):
    options = {
        "norm_type": REQUIRED, "kernel_size": REQUIRED, "stride": None, "ceil_mode": False,
    }  # fmt: skip


_ADAPTIVE = """Largest elements over the last {N} dimensions of windows that divide them into `output_size`.

    Args:
        output_size: one int or one per dimension; None keeps the input's size.
        return_indices: also return where the maxima stand.
"""


class _AdaptiveMaxPool(FunctionalLayer):
    options = {"output_size": REQUIRED, "return_indices": False}
    shown = ("output_size",)


_UNPOOL = """Put maxima back where MaxPool{N}d with return_indices found them, 0 elsewhere.

    Called with maxima, indices and optionally the output's size.
"""


class _MaxUnpool(Module):
    dims = 0
    function: Any = None

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = as_tuple(kernel_size, self.dims)
        self.stride = as_tuple(kernel_size if stride is None else stride, self.dims)
        self.padding = as_tuple(padding, self.dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Unpool."""
        return getattr(F, type(self).function)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


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
    kept_as_buffers = ("_random_samples",)
    shown = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if (self.output_size is None) == (self.output_ratio is None):
            given = "neither" if self.output_size is None else "both"
            raise ValueError(
                f"{type(self).__name__}: expected one of output_size and output_ratio, got {given}"
            )
        if self.output_ratio is not None:
            ratios = self.output_ratio if isinstance(self.output_ratio, tuple) else (self.output_ratio,)
            if not all(0 < ratio < 1 for ratio in ratios):
                raise ValueError(
                    f"output_ratio: expected more than 0 and less than 1, got {self.output_ratio}"
                )


def _layers(name: str, base: Any, function: str, numbers: Sequence[int], doc: str) -> Iterator[Any]:
    """Make the layer of each number of dimensions; `function` and the number name what it calls."""
    for dims in numbers:
        facts = {"function": f"{function}{dims}d", "dims": dims, "__doc__": doc.format(N=dims)}
        yield type(f"{name}{dims}d", (base,), {**facts, "__module__": __name__})


LPPool1d, LPPool2d, LPPool3d = _layers("LPPool", _LPPool, "lp_pool", (1, 2, 3), _LP)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = _layers(
    "AdaptiveMaxPool", _AdaptiveMaxPool, "adaptive_max_pool", (1, 2, 3), _ADAPTIVE
)
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = _layers("MaxUnpool", _MaxUnpool, "max_unpool", (1, 2, 3), _UNPOOL)
FractionalMaxPool2d, FractionalMaxPool3d = _layers(
    "FractionalMaxPool", _FractionalMaxPool, "fractional_max_pool", (2, 3), _FRACTIONAL
)
