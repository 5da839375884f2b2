"""Pooling: plain, adaptive, by norms, fractional, and its partial inverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._C import _functions, _nn

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]

Sizes = int | Sequence[int]
Pool = Callable[..., Any]


def spread(value: Sizes, dims: int) -> list[int]:
    """Return one number per dimension."""
    return [value] * dims if isinstance(value, int) else list(value) * (dims if len(value) == 1 else 1)


avg_pool1d = flambeau.avg_pool1d
avg_pool2d = _nn.avg_pool2d
avg_pool3d = _nn.avg_pool3d


def _named(function: Pool, name: str, doc: str) -> Pool:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _max_pool(dims: int) -> tuple[Pool, Pool]:
    plain = getattr(flambeau, f"max_pool{dims}d")
    name = f"max_pool{dims}d_with_indices"
    with_places = getattr(flambeau, name, None) or getattr(_nn, name)

    def with_indices(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        stride = () if stride is None else stride
        return with_places(input, kernel_size, stride, padding, dilation, ceil_mode)

    def pool(
        input: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        stride = () if stride is None else stride
        chosen = with_places if return_indices else plain
        return chosen(input, kernel_size, stride, padding, dilation, ceil_mode)

    doc = f"Largest element of each window over the last {dims} dimensions; see nn.MaxPool{dims}d."
    return _named(pool, f"max_pool{dims}d", doc), _named(with_indices, name, doc)


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def _adaptive_sizes(input: Tensor, output_size: Any, dims: int) -> list[int]:
    """Return the wanted sizes; None among them keeps the input's."""
    if isinstance(output_size, int):
        return [output_size] * dims
    if output_size is None or isinstance(output_size, str):
        raise TypeError(f"adaptive pooling: expected a tuple of ints as output_size, got {output_size!r}")
    wanted = list(output_size)
    if input.dim() <= len(wanted):
        least = len(wanted) + 1
        raise ValueError(f"adaptive pooling: expected {least} or more dimensions, got {input.dim()}")
    if len(wanted) != dims:
        raise RuntimeError(f"adaptive pooling: output_size must be {dims} values, got {wanted}")
    return [n if n is not None else input.size(i - dims) for i, n in enumerate(wanted)]


def _adaptive(dims: int) -> tuple[Pool, Pool, Pool]:
    space = flambeau if dims == 1 else _nn
    mean, largest = getattr(space, f"adaptive_avg_pool{dims}d"), getattr(space, f"adaptive_max_pool{dims}d")

    def average(input: Tensor, output_size: Any) -> Tensor:
        return mean(input, _adaptive_sizes(input, output_size, dims))

    def with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> tuple[Tensor, Tensor]:
        return largest(input, _adaptive_sizes(input, output_size, dims))

    def pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        found = with_indices(input, output_size)
        return found if return_indices else found[0]

    kind = f"of windows that divide the last {dims} dimensions evenly into `output_size` (None: kept)."
    name = f"adaptive_max_pool{dims}d"
    return (
        _named(average, f"adaptive_avg_pool{dims}d", f"Mean {kind}"),
        _named(pool, name, f"Largest element {kind}"),
        _named(with_indices, f"{name}_with_indices", f"Largest element, and its flat index, {kind}"),
    )


adaptive_avg_pool1d, adaptive_max_pool1d, adaptive_max_pool1d_with_indices = _adaptive(1)
adaptive_avg_pool2d, adaptive_max_pool2d, adaptive_max_pool2d_with_indices = _adaptive(2)
adaptive_avg_pool3d, adaptive_max_pool3d, adaptive_max_pool3d_with_indices = _adaptive(3)


def _lp_pool(dims: int) -> Pool:
    mean = (avg_pool1d, avg_pool2d, avg_pool3d)[dims - 1]
    largest = (max_pool1d, max_pool2d, max_pool3d)[dims - 1]

    def pool(
        input: Tensor,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> Tensor:
        if math.isinf(norm_type):  # the limit: the largest magnitude, or for -inf the smallest
            sign = math.copysign(1, norm_type)
            return largest(input.abs() * sign, kernel_size, stride, ceil_mode=ceil_mode) * sign
        steps = () if stride is None else stride
        average = mean(input.pow(norm_type), kernel_size, steps, 0, ceil_mode)
        count = math.prod(spread(kernel_size, dims))
        return (average.sign() * average.abs().relu()).mul(count).pow(1.0 / norm_type)

    doc = (
        f"(sum of x^norm_type)^(1 / norm_type) of each window over the last {dims} dimensions; for inf the "
        "largest magnitude."
    )
    return _named(pool, f"lp_pool{dims}d", doc)


lp_pool1d, lp_pool2d, lp_pool3d = _lp_pool(1), _lp_pool(2), _lp_pool(3)


def _fractional_sizes(input: Tensor, output_size: Any, output_ratio: Any, dims: int) -> list[int]:
    name = f"fractional_max_pool{dims}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name}: expected output_size or output_ratio, got neither")
    if output_size is not None:
        return spread(output_size, dims)
    if output_ratio is not None and not isinstance(output_ratio, Sequence):
        output_ratio = [output_ratio] * dims
    if len(output_ratio) != dims:
        raise ValueError(f"{name}: expected output_ratio of one number or {dims}, got {output_ratio}")
    return [int(input.size(i - dims) * r) for i, r in enumerate(output_ratio)]


def _fractional(dims: int) -> tuple[Pool, Pool]:
    def with_indices(
        input: Tensor,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        sizes = _fractional_sizes(input, output_size, output_ratio, dims)
        batch = 1 if input.dim() == dims + 1 else input.size(0)
        if _random_samples is not None:
            _random_samples = _random_samples[:batch]
        else:
            channels = input.size(-dims - 1)
            _random_samples = flambeau.rand(batch, channels, dims, dtype=input.dtype, device=input.device)
        return _functions._fractional_max_pool(input, spread(kernel_size, dims), sizes, _random_samples)

    def pool(
        input: Tensor,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        found = with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
        return found if return_indices else found[0]

    doc = f"""Largest element of windows at random places over the last {dims} dimensions (Graham 2014).

    Args:
        input: (N, C, ...) or (C, ...).
        kernel_size: of the windows.
        output_size, output_ratio: result's sizes, or their ratio to the input's; one of both.
        return_indices: also return each maximum's flat index.
        _random_samples: (N, C, {dims}) numbers of [0, 1) that place the windows; drawn unless given.
    """
    name = f"fractional_max_pool{dims}d"
    return _named(pool, name, doc), _named(with_indices, f"{name}_with_indices", doc)


fractional_max_pool2d, fractional_max_pool2d_with_indices = _fractional(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _fractional(3)


def _unpooled_sizes(
    input: Tensor, kernel: list[int], stride: list[int], padding: list[int], output_size: Any
) -> list[int]:
    dims = len(kernel)
    default = [(input.size(d - dims) - 1) * stride[d] + kernel[d] - 2 * padding[d] for d in range(dims)]
    if output_size is None:
        return default
    wanted = list(output_size)
    if len(wanted) == dims + 2:
        wanted = wanted[2:]
    if len(wanted) != dims:
        raise ValueError(
            f"max_unpool{dims}d: expected output_size of {dims} or {dims + 2} numbers, got {len(wanted)}"
        )
    for d in range(dims):
        least, most = default[d] - stride[d], default[d] + stride[d]
        if not least < wanted[d] < most:
            raise ValueError(
                f"max_unpool{dims}d: expected output_size between {least} and {most} in dimension {d}, "
                f"got {wanted}"
            )
    return wanted


def _max_unpool(dims: int) -> Pool:
    def unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        kernel = spread(kernel_size, dims)
        steps = kernel if stride is None else spread(stride, dims)
        sizes = _unpooled_sizes(input, kernel, steps, spread(padding, dims), output_size)
        return _functions._max_unpool(input, indices, sizes)

    doc = f"Put maxima of max_pool{dims}d back where `indices` say, zeros elsewhere."
    return _named(unpool, f"max_unpool{dims}d", doc)


max_unpool1d, max_unpool2d, max_unpool3d = _max_unpool(1), _max_unpool(2), _max_unpool(3)
