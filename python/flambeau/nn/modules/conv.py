"""Convolution layers."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.documentation import inherited
from flambeau._loading.lazy import attributes
from flambeau.nn import functional as F
from flambeau.nn.modules.linear import fill_uniformly
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter

Size = int | tuple[int, ...]


def as_tuple(value: Size, count: int) -> tuple[int, ...]:
    """Repeat an int `count` times; a tuple stays, of whatever length, for the operator to judge."""
    return (value,) * count if isinstance(value, int) else tuple(value)


def _check_groups(who: str, in_channels: int, out_channels: int, groups: int) -> None:
    if groups <= 0:
        raise ValueError(f"{who}: expected groups > 0, got {groups}")
    if in_channels % groups:
        raise ValueError(f"{who}: expected in_channels in multiples of groups={groups}, got {in_channels}")
    if out_channels % groups:
        raise ValueError(f"{who}: expected out_channels in multiples of groups={groups}, got {out_channels}")


def _check_padding(who: str, padding: Size | str, padding_mode: str) -> None:
    if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
        raise ValueError(
            f"{who}: padding_mode must be one of zeros, reflect, replicate, circular: expected one of "
            f"them, but got padding_mode={padding_mode!r}"
        )
    if isinstance(padding, str) and padding not in ("same", "valid"):
        raise ValueError(f"{who}: expected padding 'valid' or 'same', got {padding!r}")


class _ConvNd(Module):
    dims: int = 0
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Size | str,
        output_padding: Size,
        dilation: Size,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        _check_groups(type(self).__name__, in_channels, out_channels, groups)
        _check_padding(type(self).__name__, padding, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = as_tuple(kernel_size, self.dims)
        self.stride = as_tuple(stride, self.dims)
        self.padding = padding if isinstance(padding, str) else as_tuple(padding, self.dims)
        self.dilation = as_tuple(dilation, self.dims)
        self.output_padding = as_tuple(output_padding, self.dims)
        self.groups = groups
        self.padding_mode = padding_mode
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError(
                f"{type(self).__name__}: expected strides of 1 for padding='same', got {self.stride}"
            )
        outer, inner = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (outer, inner // groups, *self.kernel_size)
        self.weight = Parameter(flambeau.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(flambeau.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        fill_uniformly(self.weight, self.bias)

    def _margins(self) -> list[int]:
        """Padding on both sides per dimension, last dimension first, as F.pad takes it."""
        if not isinstance(self.padding, str):
            return [size for size in reversed(self.padding) for _ in range(2)]
        margins: list[int] = []
        for d in reversed(range(self.dims)):
            if self.padding == "same":
                total = self.dilation[d] * (self.kernel_size[d] - 1)
                margins += [total // 2, total - total // 2]
            else:
                margins += [0, 0]
        return margins

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        for name, default in (("padding", 0), ("dilation", 1), ("output_padding", 0), ("groups", 1)):
            value = getattr(self, name)
            if isinstance(value, str) or any(v != default for v in as_tuple(value, 1)):
                text += f", {name}={value}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


_CONV_DOC = """Convolution (cross-correlation) over {what}.

    Formula: result[o] = bias[o] + sum over channels c of weight[o, c] * input[c], * the cross-correlation
    Args:
        in_channels: the number of channels of the input, divisible by `groups`.
        out_channels: the number of channels of the result, divisible by `groups`.
        kernel_size: the sizes of the window; one number stands for all.
        stride: the steps of the window; one number stands for all.
        padding: the number of elements added at both ends; "same" keeps the sizes (for stride 1), "valid"
            adds none.
        dilation: the distance between the elements of the window; one number stands for all.
        groups: the number of groups; channels of one group are connected with channels of that group alone.
        bias: whether to learn a bias for each output channel.
        padding_mode: what is added: "zeros", "reflect", "replicate" or "circular".
    Shape: ``(batch, in_channels, *)`` or ``(in_channels, *)`` to ``(batch, out_channels, *)`` or
        ``(out_channels, *)`` with floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1 for
        each size.
    Raises: ValueError for arguments that do not fit, RuntimeError for an input that does not.
    See also: ConvTranspose{dims}d, LazyConv{dims}d, nn.functional.conv{dims}d

    Example:
        >>> layer = flambeau.nn.Conv{dims}d(2, 4, kernel_size=3, padding=1)
        >>> layer(flambeau.zeros(1, 2, {fives})).shape
        flambeau.Size([1, 4, {fives}])
"""


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Convolve."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._margins(), mode=self.padding_mode)
            padding = (0,) * self.dims
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self.dims - 1]
        return convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    __doc__ = inherited(_CONV_DOC.format(what="length", dims=1, fives="5"), ())
    dims = 1


class Conv2d(_Conv):
    __doc__ = inherited(_CONV_DOC.format(what="height and width", dims=2, fives="5, 5"), ())
    dims = 2


class Conv3d(_Conv):
    __doc__ = inherited(_CONV_DOC.format(what="depth, height and width", dims=3, fives="5, 5, 5"), ())
    dims = 3


_TRANSPOSED_DOC = """Transposed convolution over {what}: the gradient of `Conv{dims}d` for its input.

    Its result has the sizes of that convolution's input: for strides above 1 it enlarges its own input.

    Formula: result[o] = bias[o] + sum over channels c of the full convolution of input[c] with weight[c, o]
    Args:
        in_channels: the number of channels of the input, divisible by `groups`.
        out_channels: the number of channels of the result, divisible by `groups`.
        kernel_size: the sizes of the window; one number stands for all.
        stride: the steps of the window in the result; one number stands for all.
        padding: the number of elements cut off at both ends of the result; one number stands for all.
        output_padding: the number of elements added at one end of the result, to choose among the sizes that
            a stride above 1 permits; less than `stride` or `dilation`.
        groups: the number of groups; channels of one group are connected with channels of that group alone.
        bias: whether to learn a bias for each output channel.
        dilation: the distance between the elements of the window; one number stands for all.
        padding_mode: "zeros"; others are refused.
    Shape: ``(batch, in_channels, *)`` or ``(in_channels, *)`` to ``(batch, out_channels, *)`` or
        ``(out_channels, *)`` with
        (size - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1 for each size.
    Raises: ValueError for arguments that do not fit, RuntimeError for an input that does not.
    Source: Zeiler et al. 2010, "Deconvolutional Networks".
    See also: Conv{dims}d, LazyConvTranspose{dims}d, nn.functional.conv_transpose{dims}d

    Example:
        >>> layer = flambeau.nn.ConvTranspose{dims}d(2, 4, kernel_size=2, stride=2)
        >>> layer(flambeau.zeros(1, 2, {fives})).shape
        flambeau.Size([1, 4, {tens}])
"""


class _ConvTranspose(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: expected 'zeros' as padding_mode, got {padding_mode!r}")
        if isinstance(padding, str):
            raise ValueError(f"{type(self).__name__}: expected padding in numbers, got {padding!r}")
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _reach(self, size: int, d: int) -> int:
        """The size that an input of `size` gives along dimension d, without output padding."""
        window = self.dilation[d] * (self.kernel_size[d] - 1) + 1
        return (size - 1) * self.stride[d] - 2 * self.padding[d] + window  # type: ignore[operator]

    def _output_padding(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        if output_size is None:
            return self.output_padding
        wanted = tuple(output_size)[-self.dims :]
        least = [self._reach(size, d) for d, size in enumerate(input.shape[-self.dims :])]
        most = [size + stride - 1 for size, stride in zip(least, self.stride, strict=True)]
        if not all(a <= w <= b for a, w, b in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"{type(self).__name__}: expected output_size from {least} to {most}, got {list(wanted)}"
            )
        return tuple(w - a for w, a in zip(wanted, least, strict=True))

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Convolve; `output_size` chooses among the sizes that a stride leaves open."""
        extra = self._output_padding(input, output_size)
        convolve: Any = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.dims - 1]
        return convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )


class ConvTranspose1d(_ConvTranspose):
    __doc__ = inherited(_TRANSPOSED_DOC.format(what="length", dims=1, fives="5", tens="10"), ())
    dims = 1


class ConvTranspose2d(_ConvTranspose):
    __doc__ = inherited(
        _TRANSPOSED_DOC.format(what="height and width", dims=2, fives="5, 5", tens="10, 10"), ()
    )
    dims = 2


class ConvTranspose3d(_ConvTranspose):
    __doc__ = inherited(
        _TRANSPOSED_DOC.format(what="depth, height and width", dims=3, fives="5, 5, 5", tens="10, 10, 10"), ()
    )
    dims = 3


__getattr__, __dir__ = attributes(__name__)
