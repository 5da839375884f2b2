"""Pooling layers."""

from __future__ import annotations

from typing import Any

from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.nn import functional as F
from flambeau.nn.modules.conv import as_tuple
from flambeau.nn.modules.module import Module

Size = int | tuple[int, ...]


class _MaxPool(Module):
    dims = 0

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        """Pool."""
        pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[self.dims - 1]
        return pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


_MAX_DOC = """Largest element of each window over the last {N} dimensions.

    Args:
        kernel_size, stride, padding, dilation: one int or one per dimension; `stride` is `kernel_size`
            by default; padding counts as -inf and is at most half the kernel.
        return_indices: also return where the maxima stand (flat index into the spatial dimensions).
        ceil_mode: round the output size up: windows may start inside the input and run over its end.
    Shape: ``(batch, channels, *spatial)``, batch may be missing.
"""


class MaxPool1d(_MaxPool):
    __doc__ = _MAX_DOC.format(N=1)
    dims = 1


class MaxPool2d(_MaxPool):
    __doc__ = _MAX_DOC.format(N=2)
    dims = 2


class MaxPool3d(_MaxPool):
    __doc__ = _MAX_DOC.format(N=3)
    dims = 3


class _AvgPool(Module):
    dims = 0

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        pool: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[self.dims - 1]
        options = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        return pool(input, *options) if self.dims == 1 else pool(input, *options, self.divisor_override)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


_AVG_DOC = """Mean of each window over the last {N} dimensions.

    Args:
        kernel_size, stride, padding: one int or one per dimension; `stride` is `kernel_size` by default.
        ceil_mode: round the output size up.
        count_include_pad: whether padding counts in the divisor.
        divisor_override: divide by this instead of the window's size (not for one dimension).
    Shape: ``(batch, channels, *spatial)``, batch may be missing.
"""


class AvgPool1d(_AvgPool):
    __doc__ = _AVG_DOC.format(N=1)
    dims = 1

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        stride = kernel_size if stride is None else stride
        kernel_size, stride, padding = (as_tuple(size, 1) for size in (kernel_size, stride, padding))
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)


class AvgPool2d(_AvgPool):
    __doc__ = _AVG_DOC.format(N=2)
    dims = 2


class AvgPool3d(_AvgPool):
    __doc__ = _AVG_DOC.format(N=3)
    dims = 3


class _AdaptivePool(Module):
    dims = 0
    kind = ""

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def _full_size(self, input: Tensor) -> Any:
        """Replace None by the input's size and an int by one per dimension."""
        wanted = (
            (self.output_size,) * self.dims
            if self.output_size is None or isinstance(self.output_size, int)
            else self.output_size
        )
        spatial = input.shape[-self.dims :]
        return tuple(size if want is None else want for want, size in zip(wanted, spatial, strict=True))

    def forward(self, input: Tensor) -> Tensor:
        """Pool."""
        return getattr(F, f"adaptive_{self.kind}_pool{self.dims}d")(input, self._full_size(input))

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


_ADAPTIVE_DOC = """{what} over the last {N} dimensions of windows that divide the input into `output_size`.

    Args:
        output_size: one int or one per dimension; None keeps the input's size.
    Shape: ``(batch, channels, *spatial)`` to ``(batch, channels, *output_size)``, batch may be missing.
"""


class AdaptiveAvgPool1d(_AdaptivePool):
    __doc__ = _ADAPTIVE_DOC.format(what="Mean", N=1)
    dims, kind = 1, "avg"


class AdaptiveAvgPool2d(_AdaptivePool):
    __doc__ = _ADAPTIVE_DOC.format(what="Mean", N=2)
    dims, kind = 2, "avg"


class AdaptiveAvgPool3d(_AdaptivePool):
    __doc__ = _ADAPTIVE_DOC.format(what="Mean", N=3)
    dims, kind = 3, "avg"


__getattr__, __dir__ = attributes(__name__)
