"""Pooling by other means: norms, adaptive maxima, random windows, and the inverse of maxima."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flambeau import Tensor
from flambeau.nn import functional as F
from flambeau.nn.modules.conv import as_tuple
from flambeau.nn.modules.functional_layer import REQUIRED, FunctionalLayer
from flambeau.nn.modules.module import Module

_LP = """Norm of each window over the last {dims} dimensions.

    Formula: result = (sum over the window of input^norm_type)^(1 / norm_type)
    Args:
        norm_type: the order of the norm, not 0: 1 gives sums; inf the largest magnitude, -inf the smallest.
        kernel_size: the sizes of the window; one number stands for all.
        stride: the steps of the window; one number stands for all. None means `kernel_size`.
        ceil_mode: whether the size of the result is rounded up, so that the last window may leave the input.
    Shape: ``(batch, channels, *)`` or ``(channels, *)`` to the same with
        floor((size - kernel_size) / stride) + 1 for each size.
    See also: AvgPool{dims}d, MaxPool{dims}d

    Example:
        >>> x = flambeau.arange(6.0).reshape({ones}, 6)
        >>> flambeau.nn.LPPool{dims}d(1, {two})(x).flatten()
        tensor([1., 5., 9.])
"""


class _LPPool(FunctionalLayer):
    options = {
        "norm_type": REQUIRED, "kernel_size": REQUIRED, "stride": None, "ceil_mode": False,
    }  # fmt: skip


_ADAPTIVE = """Maximum of windows that divide the last {dims} dimensions evenly.

    Window i of n begins at floor(i size / n) and ends before ceil((i + 1) size / n), so windows may overlap.

    Args:
        output_size: the number of windows in each dimension; one number stands for all, None keeps a size.
        return_indices: whether to return the maxima's flat indices into the last dimensions too.
    Shape: ``(batch, channels, *)`` or ``(channels, *)`` to the same with `output_size` in place of the sizes.
    See also: MaxPool{dims}d, AdaptiveAvgPool{dims}d

    Example:
        >>> x = flambeau.arange(6.0).reshape({ones}, 6)
        >>> flambeau.nn.AdaptiveMaxPool{dims}d({two})(x).flatten()
        tensor([2., 5.])
"""


class _AdaptiveMaxPool(FunctionalLayer):
    options = {"output_size": REQUIRED, "return_indices": False}
    shown = ("output_size",)


_UNPOOL = """Partial inverse of `MaxPool{dims}d`: the maxima return to their places, the others are 0.

    A call takes the maxima, their indices, and the sizes of the result where several are possible.

    Args:
        kernel_size: the sizes of the window; one number stands for all.
        stride: the steps of the window; one number stands for all. None means `kernel_size`.
        padding: the padding of the pooling.
    Shape: ``(batch, channels, *)`` or ``(channels, *)`` twice to the same with
        (size - 1) stride - 2 padding + kernel_size for each size.
    See also: MaxPool{dims}d

    Example:
        >>> x = flambeau.arange(6.0).reshape({ones}, 6)
        >>> y, indices = flambeau.nn.MaxPool{dims}d({two}, return_indices=True)(x)
        >>> flambeau.nn.MaxUnpool{dims}d({two})(y, indices).flatten()
        tensor([0., 1., 0., 3., 0., 5.])
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


_FRACTIONAL = """Maximum of windows at random places over the last {dims} dimensions.

    Args:
        kernel_size: the sizes of the window; one number stands for all.
        output_size: the sizes of the result. None follows `output_ratio`.
        output_ratio: the ratio of the result's sizes to the input's, in (0, 1). None follows `output_size`.
        return_indices: whether to return the maxima's flat indices into the last dimensions too.
        _random_samples: (batch, channels, {dims}) numbers in [0, 1) that place the windows. None draws them.
    Shape: ``(batch, channels, *)`` or ``(channels, *)`` to the same with the chosen sizes.
    Raises: ValueError with none or both of `output_size` and `output_ratio`, or for a ratio outside (0, 1).
    Source: Graham 2014, "Fractional Max-Pooling".
    See also: MaxPool{dims}d

    Example:
        >>> layer = flambeau.nn.FractionalMaxPool{dims}d(2, output_size=3)
        >>> layer(flambeau.zeros(1, 1, {sixes})).shape
        flambeau.Size([1, 1, {threes}])
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
                    f"{type(self).__name__}: expected output_ratio above 0 and below 1, got {ratios}"
                )


def _text(doc: str, dims: int) -> str:
    lists = {name: ", ".join(sign * dims) for name, sign in (("sixes", "6"), ("threes", "3"))}
    two = "2" if dims == 1 else f"({'1, ' * (dims - 1)}2)"
    return doc.format(dims=dims, ones=", ".join("1" * (dims + 1)), two=two, **lists)


def _layers(name: str, base: Any, function: str, numbers: Sequence[int], doc: str) -> Iterator[Any]:
    """Make the layer of each number of dimensions; `function` and the number name what it calls."""
    for dims in numbers:
        facts = {"function": f"{function}{dims}d", "dims": dims, "__doc__": _text(doc, dims)}
        yield type(f"{name}{dims}d", (base,), {**facts, "__module__": __name__})


LPPool1d, LPPool2d, LPPool3d = _layers("LPPool", _LPPool, "lp_pool", (1, 2, 3), _LP)
AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d = _layers(
    "AdaptiveMaxPool", _AdaptiveMaxPool, "adaptive_max_pool", (1, 2, 3), _ADAPTIVE
)
MaxUnpool1d, MaxUnpool2d, MaxUnpool3d = _layers("MaxUnpool", _MaxUnpool, "max_unpool", (1, 2, 3), _UNPOOL)
FractionalMaxPool2d, FractionalMaxPool3d = _layers(
    "FractionalMaxPool", _FractionalMaxPool, "fractional_max_pool", (2, 3), _FRACTIONAL
)
