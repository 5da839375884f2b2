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


_MAX_DOC = """Maximum of each window over the last {dims} dimensions.

    Args:
        kernel_size: the sizes of the window; one number stands for all.
        stride: the steps of the window; one number stands for all. None means `kernel_size`.
        padding: the number of elements, each -inf, added at both ends; at most half the kernel.
        dilation: the distance between the elements of a window.
        return_indices: whether to return the maxima's flat indices into the last dimensions too.
        ceil_mode: whether the size of the result is rounded up, so that the last window may leave the input.
    Shape: ``(batch, channels, *)`` or ``(channels, *)`` to the same with
        floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1 for each size.
    See also: AvgPool{dims}d, AdaptiveMaxPool{dims}d, MaxUnpool{dims}d

    Example:
        >>> x = flambeau.arange(6.0).reshape({ones}, 6)
        >>> flambeau.nn.MaxPool{dims}d({window})(x).flatten()
        tensor([1., 3., 5.])
"""


class MaxPool1d(_MaxPool):
    __doc__ = _MAX_DOC.format(dims=1, ones="1, 1", window="2")
    dims = 1


class MaxPool2d(_MaxPool):
    __doc__ = _MAX_DOC.format(dims=2, ones="1, 1, 1", window="(1, 2)")
    dims = 2


class MaxPool3d(_MaxPool):
    __doc__ = _MAX_DOC.format(dims=3, ones="1, 1, 1, 1", window="(1, 1, 2)")
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


_DIVISOR = (
    "\n        divisor_override: the divisor in place of the number of elements. None means that number."
)
_AVG_DOC = """Mean of each window over the last {dims} dimensions.

    Args:
        kernel_size: the sizes of the window; one number stands for all.
        stride: the steps of the window; one number stands for all. None means `kernel_size`.
        padding: the number of zeros added at both ends; at most half the kernel.
        ceil_mode: whether the size of the result is rounded up, so that the last window may leave the input.
        count_include_pad: whether padding counts in the divisor.{divisor}
    Shape: ``(batch, channels, *)`` or ``(channels, *)`` to the same with
        floor((size + 2 padding - kernel_size) / stride) + 1 for each size.
    See also: MaxPool{dims}d, AdaptiveAvgPool{dims}d, LPPool{dims}d

    Example:
        >>> x = flambeau.arange(6.0).reshape({ones}, 6)
        >>> flambeau.nn.AvgPool{dims}d({window})(x).flatten()
        tensor([0.5000, 2.5000, 4.5000])
"""


class AvgPool1d(_AvgPool):
    __doc__ = _AVG_DOC.format(dims=1, ones="1, 1", window="2", divisor="")
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
    __doc__ = _AVG_DOC.format(dims=2, ones="1, 1, 1", window="(1, 2)", divisor=_DIVISOR)
    dims = 2


class AvgPool3d(_AvgPool):
    __doc__ = _AVG_DOC.format(dims=3, ones="1, 1, 1, 1", window="(1, 1, 2)", divisor=_DIVISOR)
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


_ADAPTIVE_DOC = """Mean of windows that divide the last {dims} dimensions evenly.

    Window i of n begins at floor(i size / n) and ends before ceil((i + 1) size / n), so windows may overlap.

    Args:
        output_size: the number of windows in each dimension; one number stands for all, None keeps a size.
    Shape: ``(batch, channels, *)`` or ``(channels, *)`` to the same with `output_size` in place of the sizes.
    See also: AvgPool{dims}d, AdaptiveMaxPool{dims}d

    Example:
        >>> x = flambeau.arange(6.0).reshape({ones}, 6)
        >>> flambeau.nn.AdaptiveAvgPool{dims}d({window})(x).flatten()
        tensor([1., 4.])
"""


class AdaptiveAvgPool1d(_AdaptivePool):
    __doc__ = _ADAPTIVE_DOC.format(dims=1, ones="1, 1", window="2")
    dims, kind = 1, "avg"


class AdaptiveAvgPool2d(_AdaptivePool):
    __doc__ = _ADAPTIVE_DOC.format(dims=2, ones="1, 1, 1", window="(1, 2)")
    dims, kind = 2, "avg"


class AdaptiveAvgPool3d(_AdaptivePool):
    __doc__ = _ADAPTIVE_DOC.format(dims=3, ones="1, 1, 1, 1", window="(1, 1, 2)")
    dims, kind = 3, "avg"


__getattr__, __dir__ = attributes(__name__)
