"""The memory format of what works on images, and of its gradients, against PyTorch: strides and values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from memory_layouts import Call, Case, calls, compare, named


def convolution(
    channels: int = 6,
    kernel: int = 3,
    weight_last: bool = False,
    depthwise: bool = False,
    transposed: bool = False,
    bias: bool = True,
    **options: Any,
) -> Call:
    def call(m: Any, x: Any, leaf: Any) -> Any:
        dims, inputs = x.dim() - 2, x.shape[1]
        groups = inputs if depthwise else options.get("groups", 1)
        outputs = inputs if depthwise else channels
        sizes = (inputs, outputs // groups) if transposed else (outputs, inputs // groups)
        count = sizes[0] * sizes[1] * kernel**dims
        weight = m.arange(float(count)).reshape(*sizes, *[kernel] * dims) / count - 0.3
        if weight_last:
            weight = weight.contiguous(memory_format={2: m.channels_last, 3: m.channels_last_3d}[dims])
        name = f"conv{'_transpose' if transposed else ''}{dims}d"
        shift = leaf(m.arange(float(outputs))) if bias else None
        return getattr(m.nn.functional, name)(x, leaf(weight), shift, **options | {"groups": groups})

    return call


def convolutions() -> Iterator[Case]:
    yield "conv", convolution(padding=1)
    yield "conv, weight last", convolution(padding=1, weight_last=True)
    yield "conv, stride", convolution(padding=1, stride=2, bias=False)
    yield "conv, dilated", convolution(padding=2, dilation=2)
    yield "conv, groups", convolution(padding=1, groups=2)
    yield "conv, depthwise", convolution(padding=1, depthwise=True)
    yield "conv, depthwise, weight last", convolution(padding=1, depthwise=True, weight_last=True)
    yield "conv, one channel out", convolution(padding=1, channels=1, weight_last=True)
    yield "conv, same", convolution(padding="same")
    yield "conv transposed", convolution(padding=1, transposed=True)
    yield "conv transposed, weight last", convolution(padding=1, stride=2, transposed=True, weight_last=True)


def named_by_dims(name: str, *args: Any, **options: Any) -> Call:
    """A function of torch.nn.functional whose name holds the number of spatial dimensions."""
    return lambda m, x, _: getattr(m.nn.functional, name.format({3: 1, 4: 2, 5: 3}[x.dim()]))(
        x, *args, **options
    )


def fractional(m: Any, x: Any, _: Any) -> Any:
    dims = x.dim() - 2
    samples = m.full((x.shape[0], x.shape[1], dims), 0.3)
    pool = getattr(m.nn.functional, f"fractional_max_pool{dims}d")
    return pool(x, 2, output_size=[2] * dims, _random_samples=samples, return_indices=True)


def unpool(m: Any, x: Any, _: Any) -> Any:
    dims = {3: 1, 4: 2, 5: 3}[x.dim()]
    values, indices = getattr(m.nn.functional, f"max_pool{dims}d")(x, 2, return_indices=True)
    return getattr(m.nn.functional, f"max_unpool{dims}d")(values, indices, 2)


def pools() -> Iterator[Case]:
    yield "max", named_by_dims("max_pool{}d", 2, return_indices=True)
    yield "max, padded", named_by_dims("max_pool{}d", 3, 2, 1)
    yield "max, dilated", named_by_dims("max_pool{}d", 2, 1, 0, 2, ceil_mode=True)
    yield "mean", named_by_dims("avg_pool{}d", 2)
    yield "mean, padded", named_by_dims("avg_pool{}d", 3, 2, 1, count_include_pad=False)
    yield "mean, adaptive", named_by_dims("adaptive_avg_pool{}d", 2)
    yield "max, adaptive", named_by_dims("adaptive_max_pool{}d", 2, return_indices=True)
    yield "norm", named_by_dims("lp_pool{}d", 2, 2)
    yield "fractional", fractional
    yield "unpool", unpool


def batch_norm(training: bool, affine: bool) -> Call:
    def call(m: Any, x: Any, leaf: Any) -> Any:
        ramp = m.arange(float(x.shape[1]))
        weight, bias = (leaf(ramp + 1), leaf(ramp)) if affine else (None, None)
        return m.nn.functional.batch_norm(x, ramp.clone(), ramp + 2, weight, bias, training)

    return call


def norms() -> Iterator[Case]:
    yield "batch, training", batch_norm(True, True)
    yield "batch, training, plain", batch_norm(True, False)
    yield (
        "group",
        lambda m, x, leaf: m.nn.functional.group_norm(
            x, 2, leaf(m.ones(x.shape[1])), leaf(m.ones(x.shape[1]))
        ),
    )
    yield "group, plain", lambda m, x, _: m.nn.functional.group_norm(x, 1)
    yield "instance", lambda m, x, leaf: m.nn.functional.instance_norm(x, weight=leaf(m.ones(x.shape[1])))
    yield "layer", lambda m, x, _: m.nn.functional.layer_norm(x, x.shape[1:])
    yield "local response", lambda m, x, _: m.nn.functional.local_response_norm(x, 2)


def native_norms() -> Iterator[Case]:
    def ramp(m: Any, x: Any) -> Any:
        return m.arange(float(x.shape[1]))

    yield (
        "native_batch_norm",
        lambda m, x, _: m.native_batch_norm(
            x, ramp(m, x), ramp(m, x), ramp(m, x), ramp(m, x) + 1, True, 0.1, 1e-5
        ),
    )
    yield (
        "native_group_norm",
        lambda m, x, _: m.native_group_norm(
            x, ramp(m, x), ramp(m, x), *x.shape[:2], x.numel() // max(1, x.shape[0] * x.shape[1]), 2, 1e-5
        ),
    )


def resized(kind: str, **options: Any) -> Call:
    def call(m: Any, x: Any, _: Any) -> Any:
        names = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("", "bicubic", "")}
        mode = names[kind][x.dim() - 3] if kind in names else kind
        return m.nn.functional.interpolate(x, mode=mode, **options)

    return call


def resizes() -> Iterator[Case]:
    for factor in (2, 0.5):
        yield f"linear {factor}", resized("linear", scale_factor=factor)
        yield f"linear {factor}, antialiased", resized("linear", scale_factor=factor, antialias=True)
        yield f"area {factor}", resized("area", scale_factor=factor)
    yield "linear, aligned", resized("linear", scale_factor=2, align_corners=True)
    yield "linear, both ways", lambda m, x, _: m.nn.functional.interpolate(x, size=(3, 9), mode="bilinear")


def resizes_that_forget() -> Iterator[Case]:
    """PyTorch's gradients of these are row-major, for cubic ones always, for others of volumes."""
    for mode in ("nearest", "nearest-exact", "cubic"):
        yield mode, resized(mode, scale_factor=2)
    yield "cubic, antialiased", resized("cubic", scale_factor=0.5, antialias=True)


def pads() -> Iterator[Case]:
    for mode in ("constant", "reflect", "replicate"):
        yield mode, lambda m, x, _, mode=mode: m.nn.functional.pad(x, [1, 1] * max(1, x.dim() - 2), mode=mode)
    yield "channels", lambda m, x, _: m.nn.functional.pad(x, [0, 0] * (x.dim() - 2) + [1, 1], value=2.0)
    yield "one dimension", lambda m, x, _: m.nn.functional.pad(x, [1, 2])


@named(calls(convolutions()))
def test_convolutions_are_channels_last_where_the_input_or_the_weight_is(name: str, call: Call) -> None:
    compare(call)


@named(calls(pools()))
def test_pooling_keeps_the_format(name: str, call: Call) -> None:
    compare(call)


@named([*calls(norms()), *native_norms()])
def test_normalisation_keeps_the_format(name: str, call: Call) -> None:
    # The gradient of a ramp along a ramp cancels to what eps leaves: against float64 ours is off by
    # 2e-4 of it, PyTorch's by 3e-4.
    compare(call, exactness=1e-3)


@named(calls(resizes()))
def test_resizing_keeps_the_format(name: str, call: Call) -> None:
    compare(call)


@named(calls(resizes_that_forget()))
def test_resizing_keeps_the_format_where_pytorch_may_not(name: str, call: Call) -> None:
    compare(call, keeps=True)


def test_circular_padding_keeps_the_format_though_pytorch_does_not() -> None:
    compare(lambda m, x, _: m.nn.functional.pad(x, [1, 1] * (x.dim() - 2), mode="circular"), keeps=True)


@named(calls(pads()))
def test_padding_keeps_the_format(name: str, call: Call) -> None:
    compare(call)


@pytest.mark.parametrize("kind", ["bfloat16", "float64", "float16"])
@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: m.nn.functional.conv2d(x, m.ones(3, 4, 3, 3, dtype=x.dtype)),
        lambda m, x: m.nn.functional.max_pool2d(x, 2, return_indices=True)[0],
        lambda m, x: m.nn.functional.avg_pool2d(x, 3, 2, 1),
        lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True),
        lambda m, x: m.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
    ],
    ids=["conv", "max", "mean", "batch norm", "resize"],
)
def test_other_dtypes_keep_the_format(kind: str, call: Any) -> None:
    def cast(m: Any, x: Any, _: Any) -> Any:
        y = call(m, x.to(getattr(m, kind)))
        assert y.dtype == getattr(m, kind)
        return y.float()

    compare(cast, exactness={"float64": 1e-6, "float16": 2e-3, "bfloat16": 2e-2}[kind])
