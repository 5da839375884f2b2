"""Pooling: plain, adaptive, by norms, fractional, and its partial inverse."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._C import _functions, _nn
from flambeau._loading.documentation import described_by

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


def _named(function: Pool, name: str, doc: str, *operators: Pool) -> Pool:
    function.__name__ = function.__qualname__ = name
    function.__code__ = function.__code__.replace(co_name=name)  # messages of errors name it
    function.__doc__ = doc
    return described_by(*operators)(function)


def _tensor(dims: int) -> str:
    """Return an example of a tensor of one channel: 0 to 5 along the last dimension, 1 along the others."""
    return f"flambeau.arange(6.0).reshape({', '.join('1' * (dims + 1))}, 6)"


def _window(dims: int, length: int) -> str:
    """Return an example of a window over the last dimension."""
    return str(length) if dims == 1 else f"({'1, ' * (dims - 1)}{length})"


_ARGS = """
Args:
    input: the tensor, with or without batch.
    kernel_size: the sizes of the window; one number stands for all.
    stride: the steps of the window; one number stands for all. None means `kernel_size`."""
_MAX = (
    _ARGS
    + """
    padding: the number of elements, each -inf, that are added at both ends; at most half the kernel.
    dilation: the distance between the elements of a window.
    ceil_mode: whether the size of the result is rounded up, so that the last window may leave the input.
    return_indices: {0}
{1}Shape: (N, C, *) or (C, *) to (N, C, *out) or (C, *out),
    out = floor((size + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1.
"""
)
_FLAT = "each maximum's flat index into the last {0} dimensions"


def _max_texts(dims: int) -> tuple[str, str]:
    flat, name = _FLAT.format(dims), f"max_pool{dims}d"
    more = f"""See also: nn.MaxPool{dims}d, adaptive_{name}

Example:
    >>> x = {_tensor(dims)}
    >>> flambeau.nn.functional."""
    values = f"{more}{name}(x, {_window(dims, 2)}).flatten()\n    tensor([1., 3., 5.])"
    places = f"{more}{name}_with_indices(x, {_window(dims, 2)})[1].flatten()\n    tensor([1, 3, 5])"
    taken = f"Take the largest element of each window over the last {dims} dimensions"
    choice, none = f"whether to return {flat} too.", "it has no effect."
    of_both = f"{taken}, and its index.\n" + _MAX.format(none, f"Returns: the maxima, and {flat}.\n")
    return f"{taken}.\n" + _MAX.format(choice, "") + values, of_both + places


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

    of_pool, of_both = _max_texts(dims)
    return _named(pool, f"max_pool{dims}d", of_pool, plain), _named(with_indices, name, of_both, with_places)


max_pool1d, max_pool1d_with_indices = _max_pool(1)
max_pool2d, max_pool2d_with_indices = _max_pool(2)
max_pool3d, max_pool3d_with_indices = _max_pool(3)


def _adaptive_sizes(input: Tensor, output_size: Any, dims: int) -> list[int]:
    """Return the wanted sizes; None among them keeps the input's."""
    if isinstance(output_size, int):
        return [output_size] * dims
    if output_size is None or isinstance(output_size, str):
        raise TypeError(f"adaptive_pool{dims}d: expected a tuple of ints as output_size, got {output_size!r}")
    wanted = list(output_size)
    if input.dim() <= len(wanted):
        least = len(wanted) + 1
        raise ValueError(f"adaptive_pool{dims}d: expected {least} or more dimensions, got {input.dim()}")
    if len(wanted) != dims:
        raise RuntimeError(
            f"adaptive_pool{dims}d: output_size must be {dims} values: expected {dims}, got {wanted}"
        )
    return [n if n is not None else input.size(i - dims) for i, n in enumerate(wanted)]


_ADAPTIVE = """
Window i of n begins at floor(i size / n) and ends before ceil((i + 1) size / n), so windows may overlap.

Args:
    input: the tensor, with or without batch.
    output_size: the number of windows in each dimension; one number stands for all, None keeps a size.{}
{}Shape: (N, C, *) or (C, *) to (N, C, *output_size) or (C, *output_size).

Example:
    >>> x = {}
    >>> flambeau.nn.functional.{}"""


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

    name, flat = f"adaptive_max_pool{dims}d", _FLAT.format(dims)
    doc = "{} of windows that divide the last {} dimensions evenly.\n" + _ADAPTIVE
    choice = f"\n    return_indices: whether to return {flat} too."
    no_choice = "\n    return_indices: it has no effect."
    both = f"Returns: the maxima, and {flat}.\n"
    means = f"adaptive_avg_pool{dims}d(x, {_window(dims, 2)}).flatten()\n    tensor([1., 4.])"
    largest_two = f"{name}(x, {_window(dims, 2)}).flatten()\n    tensor([2., 5.])"
    places = f"{name}_with_indices(x, {_window(dims, 2)})[1].flatten()\n    tensor([2, 5])"
    x = _tensor(dims)
    return (
        _named(
            average,
            f"adaptive_avg_pool{dims}d",
            doc.format("Average the elements", dims, "", "", x, means),
            mean,
        ),
        _named(pool, name, doc.format("Take the largest element", dims, choice, "", x, largest_two), largest),
        _named(
            with_indices,
            f"{name}_with_indices",
            doc.format("Find the largest element, and its index,", dims, no_choice, both, x, places),
            largest,
        ),
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

    doc = f"""Compute a norm of each window over the last {dims} dimensions.

Formula: result = (sum over the window of input^norm_type)^(1 / norm_type)
{_ARGS}
    norm_type: the order of the norm, not 0: 1 gives sums; inf the largest magnitude, -inf the smallest.
    ceil_mode: whether the size of the result is rounded up, so that the last window may leave the input.
Shape: (N, C, *) or (C, *) to (N, C, *out) or (C, *out), out = floor((size - kernel_size) / stride) + 1.
Gradient: 0 where a window's sum is 0 or negative.
See also: nn.LPPool{dims}d

Example:
    >>> x = {_tensor(dims)}
    >>> flambeau.nn.functional.lp_pool{dims}d(x, 1, {_window(dims, 2)}).flatten()
    tensor([1., 5., 9.])"""
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


def _fractional_texts(dims: int) -> tuple[str, str]:
    flat = _FLAT.format(dims)
    doc = f"""Take the largest element of windows at random places over the last {dims} dimensions.

Args:
    input: the tensor, (N, C, *) or (C, *).
    kernel_size: the sizes of the window; one number stands for all.
    output_size: the sizes of the result. None follows `output_ratio`.
    output_ratio: the ratio of the result's sizes to the input's, in (0, 1). None follows `output_size`.
    return_indices: {{}}
    _random_samples: (N, C, {dims}) numbers in [0, 1) that place the windows. None draws them.
{{}}Shape: (N, C, *) or (C, *) to (N, C, *output_size) or (C, *output_size).
Raises: ValueError if both sizes are missing, or an `output_ratio` has another length.
Source: Graham 2014, "Fractional Max-Pooling".
See also: nn.FractionalMaxPool{dims}d

Example:
    >>> x = flambeau.arange(6.0).expand(1, 1, {"2, " * (dims - 1)}6)
    >>> places = flambeau.zeros(1, 1, {dims})
    >>> sizes = {_window(dims, 3)}
    >>> flambeau.nn.functional.{{}}"""
    both = f"Returns: the maxima, and {flat}.\n"
    taken = f"fractional_max_pool{dims}d(x, {_window(dims, 2)}, sizes, _random_samples=places).flatten()"
    found = taken.replace("d(", "d_with_indices(").replace(").fl", ")[1].fl")
    first = 6 * (2 ** (dims - 1) - 1)
    places = f"\n    tensor([{first + 1:2d}, {first + 3:2d}, {first + 5:2d}])"
    choice = f"whether to return {flat} too."
    of_pool = doc.format(choice, "", taken + "\n    tensor([1., 3., 5.])")
    of_both = doc.format("it has no effect.", both, found + places)
    return of_pool, of_both


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

    of_pool, of_both = _fractional_texts(dims)
    name = f"fractional_max_pool{dims}d"
    return _named(pool, name, of_pool), _named(with_indices, f"{name}_with_indices", of_both)


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

    doc = f"""Put the maxima of windows back where they stood, and 0 elsewhere.

Args:
    input: the maxima, (N, C, *) or (C, *).
    indices: the flat index of each, as `max_pool{dims}d` returns them with `return_indices`.
    kernel_size: the sizes of the window of that call.
    stride: its steps. None means `kernel_size`.
    padding: its padding.
    output_size: the sizes of its input, which several may share. None means
        (size - 1) stride - 2 padding + kernel_size.
Shape: (N, C, *) or (C, *) to (N, C, *output_size) or (C, *output_size).
Raises: ValueError for an `output_size` that the other arguments exclude.
See also: nn.MaxUnpool{dims}d

Example:
    >>> x = {_tensor(dims)}
    >>> y, places = flambeau.nn.functional.max_pool{dims}d(x, {_window(dims, 2)}, return_indices=True)
    >>> flambeau.nn.functional.max_unpool{dims}d(y, places, {_window(dims, 2)}).flatten()
    tensor([0., 1., 0., 3., 0., 5.])"""
    return _named(unpool, f"max_unpool{dims}d", doc)


max_unpool1d, max_unpool2d, max_unpool3d = _max_unpool(1), _max_unpool(2), _max_unpool(3)
