"""Detection: suppression, region pooling and deformable convolution against definitions in NumPy."""

import math

import flambeau as fb
import numpy as np
import pytest
from flambeau.autograd import gradcheck

aten = fb.ops.aten
NAN, INF = math.nan, math.inf
# Corners inside, across the border, outside, reversed and without area.
REGIONS = [
    [0, 1.3, 0.7, 4.2, 5.1],
    [1, -2.5, -1.5, 3.0, 2.2],
    [0, 3.2, 2.1, 9.0, 8.6],
    [1, 20, 20, 25, 25],
    [0, 4, 4, 1, 2],
    [1, 2.4, 3.4, 2.4, 3.4],
]


def images(channels, dtype="float64", seed=0):
    return np.random.default_rng(seed).normal(size=(2, channels, 6, 5)).astype(dtype)


# --- references ----------------------------------------------------------------------------------


def pixel(plane, y, x):
    """Bilinear, with the border repeated for less than one pixel (Mask R-CNN)."""
    h, w = plane.shape
    if not (-1 <= y <= h and -1 <= x <= w):
        return 0.0
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    a, b = y - top, x - left
    upper = plane[top, left] * (1 - b) + plane[top, right] * b
    return upper * (1 - a) + (plane[bottom, left] * (1 - b) + plane[bottom, right] * b) * a


def align(x, rois, scale, size, ratio, shift, least, own):
    bins = size[0] * size[1]
    channels = x.shape[1] // bins if own else x.shape[1]
    out = np.zeros((len(rois), channels, *size))
    for k, c, i, j in np.ndindex(out.shape):
        n, x1, y1, x2, y2 = rois[k]
        x1, y1, x2, y2 = (v * scale - shift for v in (x1, y1, x2, y2))
        height, width = (max(v, least) for v in (y2 - y1, x2 - x1))
        tall, wide = height / size[0], width / size[1]
        rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(tall), math.ceil(wide))
        plane = x[int(n), c * bins + i * size[1] + j if own else c]
        total = sum(
            pixel(plane, y1 + tall * (i + (a + 0.5) / rows), x1 + wide * (j + (b + 0.5) / columns))
            for a in range(rows)
            for b in range(columns)
        )
        count = rows * columns if own else max(rows * columns, 1)
        out[k, c, i, j] = total / count if count else NAN
    return out


def half_away(v):
    return math.floor(abs(v) + 0.5) * (1 if v >= 0 else -1)


def windows(roi, scale, size, i, j, shape, closed):
    found = []
    for low, high, p, n, limit in (
        (roi[2], roi[4], i, size[0], shape[0]),
        (roi[1], roi[3], j, size[1], shape[1]),
    ):
        start = half_away(low * scale)
        length = max(half_away(high * scale) - start + closed, 1)
        last = limit if closed else limit - 1
        begin, end = start + math.floor(p * length / n), start + math.ceil((p + 1) * length / n)
        found.append(slice(min(max(begin, 0), last), min(max(end, 0), last)))
    return tuple(found)


def pool(x, rois, scale, size, own):
    bins = size[0] * size[1]
    channels = x.shape[1] // bins if own else x.shape[1]
    out = np.zeros((len(rois), channels, *size))
    for k, c, i, j in np.ndindex(out.shape):
        plane = x[int(rois[k][0]), c * bins + i * size[1] + j if own else c]
        part = plane[windows(rois[k], scale, size, i, j, plane.shape, 0 if own else 1)]
        if part.size:
            out[k, c, i, j] = part.mean() if own else part.max()
    return out


def suppressed(boxes, scores, threshold):
    def overlap(a, b):
        both = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
        return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)

    kept = []
    for i in np.argsort(-scores, kind="stable"):
        if all(overlap(boxes[i], boxes[j]) <= threshold for j in kept):
            kept.append(int(i))
    return kept


def deform(x, weight, offset, mask, bias, stride, pad, dilation, groups, offset_groups):
    n, channels, h, w = x.shape
    outs, inner, kh, kw = weight.shape
    out = np.zeros((n, outs, *offset.shape[2:]))

    def at(plane, y, x_):
        top, left = math.floor(y), math.floor(x_)
        total = 0.0
        for r, c in ((top, left), (top, left + 1), (top + 1, left), (top + 1, left + 1)):
            if 0 <= r < h and 0 <= c < w:
                total += plane[r, c] * (1 - abs(y - r)) * (1 - abs(x_ - c))
        return total

    for b, o, i, j in np.ndindex(out.shape):
        total = bias[o]
        for c, r, s in np.ndindex(inner, kh, kw):
            channel = o // (outs // groups) * inner + c
            tap = (channel // (channels // offset_groups)) * kh * kw + r * kw + s
            y = i * stride[0] - pad[0] + r * dilation[0] + offset[b, 2 * tap, i, j]
            x_ = j * stride[1] - pad[1] + s * dilation[1] + offset[b, 2 * tap + 1, i, j]
            factor = mask[b, tap, i, j] if mask.size else 1
            total += weight[o, c, r, s] * at(x[b, channel], y, x_) * factor
        out[b, o, i, j] = total
    return out


# --- values --------------------------------------------------------------------------------------

ALIGN = [(1.0, 2, 2, -1), (0.5, 2, 3, 0), (1.0, 1, 2, 3), (2.0, 3, 1, 2)]
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(("scale", "h", "w", "ratio"), ALIGN)
def test_roi_align(scale, h, w, ratio, aligned, dtype):
    x, rois = images(3, dtype), np.array(REGIONS, dtype)
    got = aten._roi_align(fb.tensor(x), fb.tensor(rois), scale, h, w, ratio, aligned)
    shift, least = (0.5, -INF) if aligned else (0, 1)
    want = align(x.astype(float), rois.astype(float), scale, (h, w), ratio, shift, least, False)
    np.testing.assert_allclose(got.double().numpy(), want, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize(("scale", "h", "w", "ratio"), ALIGN)
def test_ps_roi_align(scale, h, w, ratio):
    x, rois = images(2 * h * w), np.array(REGIONS)
    got, channels = aten._ps_roi_align(fb.tensor(x), fb.tensor(rois), scale, h, w, ratio)
    want = align(x, rois, scale, (h, w), ratio, 0.5, -INF, True)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)
    assert channels.dtype == fb.int32
    assert channels[0].flatten().tolist() == list(range(2 * h * w))


@pytest.mark.parametrize(("scale", "h", "w"), [(1.0, 2, 2), (0.5, 2, 3), (2.0, 3, 1)])
def test_roi_pool(scale, h, w):
    x, rois = images(3), np.array(REGIONS)
    got, places = aten._roi_pool(fb.tensor(x), fb.tensor(rois), scale, h, w)
    np.testing.assert_array_equal(got.numpy(), pool(x, rois, scale, (h, w), False))
    at, flat = places.numpy(), x.reshape(2, 3, -1)
    for k, c, i, j in np.ndindex(at.shape):
        place = at[k, c, i, j]
        assert got[k, c, i, j].item() == (flat[int(rois[k][0]), c, place] if place >= 0 else 0)


@pytest.mark.parametrize(("scale", "h", "w"), [(1.0, 2, 2), (0.5, 2, 3), (2.0, 3, 1)])
def test_ps_roi_pool(scale, h, w):
    x, rois = images(2 * h * w), np.array(REGIONS)
    got, _ = aten._ps_roi_pool(fb.tensor(x), fb.tensor(rois), scale, h, w)
    np.testing.assert_allclose(got.numpy(), pool(x, rois, scale, (h, w), True), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("threshold", [0.1, 0.4, 0.8])
@pytest.mark.parametrize("levels", [3, 10**6], ids=["ties", "distinct"])
def test_nms(threshold, levels):
    random = np.random.default_rng(1)
    corner = random.uniform(0, 10, (40, 2))
    boxes = np.concatenate([corner, corner + random.uniform(1, 6, (40, 2))], 1)
    scores = random.integers(0, levels, 40) / levels
    got = aten._nms(fb.tensor(boxes), fb.tensor(scores), threshold)
    assert got.tolist() == suppressed(boxes, scores, threshold)


def test_nms_of_special_values():
    boxes = fb.tensor([[0.0, 0, 1, 1], [0, 0, NAN, 1], [0, 0, 1, 1], [-INF, -INF, INF, INF]])
    assert aten._nms(boxes, fb.tensor([0.5, 0.9, NAN, 0.1]), 0.5).tolist() == [2, 1, 3]
    assert aten._nms(fb.zeros(2, 4), fb.ones(2), 0.5).tolist() == [0, 1]  # 0 / 0 suppresses nothing
    assert aten._nms(fb.zeros(0, 4), fb.zeros(0), 0.5).shape == (0,)


DEFORM = [
    ((1, 1), (0, 0), (1, 1), 1, 1, True),
    ((2, 1), (1, 2), (1, 2), 2, 1, True),
    ((1, 1), (1, 1), (1, 1), 1, 2, False),
]


def deform_arguments(stride, pad, dilation, groups, offset_groups, masked):
    random = np.random.default_rng(2)
    size = [(n + 2 * p - d - 1) // s + 1 for n, p, d, s in zip((6, 5), pad, dilation, stride, strict=True)]
    x, weight = random.normal(size=(2, 4, 6, 5)), random.normal(size=(4, 4 // groups, 2, 2))
    offset = random.uniform(-2, 2, (2, 8 * offset_groups, *size)) + 0.01
    mask = random.uniform(0, 1, (2, 4 * offset_groups, *size)) if masked else np.zeros((2, 0))
    numbers = (*stride, *pad, *dilation, groups, offset_groups, masked)
    return [x, weight, offset, mask, random.normal(size=4)], numbers


@pytest.mark.parametrize("call", DEFORM)
def test_deform_conv2d(call):
    arrays, numbers = deform_arguments(*call)
    got = aten._deform_conv2d(*map(fb.tensor, arrays), *numbers)
    np.testing.assert_allclose(got.numpy(), deform(*arrays, *call[:5]), rtol=1e-11, atol=1e-11)


def test_deform_conv2d_without_offsets_is_a_convolution():
    arrays, numbers = deform_arguments((1, 1), (1, 1), (1, 1), 2, 1, False)
    x, weight, offset, mask, bias = map(fb.tensor, arrays)
    got = aten._deform_conv2d(x, weight, fb.zeros_like(offset), mask, bias, *numbers)
    want = fb.conv2d(x, weight, bias, padding=1, groups=2)
    fb.testing.assert_close(got, want)


# --- gradients -----------------------------------------------------------------------------------

CALLS = {
    "align": (2, lambda x, r: aten._roi_align(x, r, 0.9, 2, 2, -1, True)),
    "align old": (2, lambda x, r: aten._roi_align(x, r, 0.9, 1, 2, 2, False)),
    "ps align": (4, lambda x, r: aten._ps_roi_align(x, r, 0.9, 2, 2, 2)[0]),
    "pool": (2, lambda x, r: aten._roi_pool(x, r, 0.9, 2, 2)[0]),
    "ps pool": (4, lambda x, r: aten._ps_roi_pool(x, r, 0.9, 2, 2)[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_regions(name):
    channels, call = CALLS[name]
    x, rois = fb.tensor(images(channels)).requires_grad_(), fb.tensor(np.array(REGIONS))
    assert gradcheck(lambda x: call(x, rois), (x,))


@pytest.mark.parametrize("call", DEFORM)
def test_gradients_of_deform_conv2d(call):
    arrays, numbers = deform_arguments(*call)
    tensors = [fb.tensor(a).requires_grad_() for a in arrays]
    assert gradcheck(lambda *t: aten._deform_conv2d(*t, *numbers), tensors)
    grad = fb.ones_like(aten._deform_conv2d(*tensors, *numbers))
    whole = aten._deform_conv2d_backward(grad, *(t.detach() for t in tensors), *numbers)
    each = fb.autograd.grad(aten._deform_conv2d(*tensors, *numbers), tensors, grad)
    for a, b in zip(whole, each, strict=True):
        fb.testing.assert_close(a, b)


# --- places that are not places -------------------------------------------------------------------

FAR = [NAN, INF, -INF, 1e30, -1e30, 3e9, -3e9]


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.float16])
@pytest.mark.parametrize("name", CALLS)
def test_far_and_missing_corners_read_nothing_outside(name, dtype):
    channels, call = CALLS[name]
    x = fb.tensor(images(channels), dtype=dtype).requires_grad_()
    rows = [[0.0, a, 1, b, 3] for a in FAR for b in [*FAR, 2]] + [[1.0, 1, a, 3, 2] for a in FAR]
    out = call(x, fb.tensor(rows, dtype=dtype))
    out.backward(fb.ones_like(out))
    assert out.shape[0] == len(rows)


def test_a_huge_region_is_bounded_work():
    out = aten._roi_align(fb.ones(1, 1, 4, 4), fb.tensor([[0.0, -1e9, -1e9, 1e9, 1e9]]), 1.0, 1, 1, -1, True)
    assert 0 <= out.item() < 1e-3


def test_far_offsets_read_nothing_outside():
    arrays, numbers = deform_arguments((1, 1), (0, 0), (1, 1), 1, 1, True)
    x, weight, offset, mask, bias = map(fb.tensor, arrays)
    for far in FAR:
        moved = fb.full_like(offset, far).requires_grad_()
        out = aten._deform_conv2d(x, weight, moved, mask, bias, *numbers)
        fb.testing.assert_close(out, bias.reshape(1, 4, 1, 1).expand_as(out))
        out.sum().backward()
        assert moved.grad.abs().sum().item() == 0


def test_nan_pixels():
    x = fb.ones(1, 1, 4, 4)
    x[0, 0, 1, 1] = NAN
    rois = fb.tensor([[0.0, 0, 0, 3, 3], [0, 3, 3, 3, 3]])
    assert aten._roi_pool(x, rois, 1.0, 1, 1)[0].isnan().flatten().tolist() == [True, False]
    lowest = aten._roi_pool(fb.full((1, 1, 4, 4), -INF), rois, 1.0, 1, 1)[0]
    assert lowest.flatten().tolist() == [-INF, -INF]


@pytest.mark.parametrize("index", [-1.0, 2.0, 1e30, -1e30, NAN, INF])
@pytest.mark.parametrize("name", CALLS)
def test_images_that_do_not_exist(name, index):
    channels, call = CALLS[name]
    with pytest.raises(RuntimeError, match="indices of 2 images"):
        call(fb.ones(2, channels, 6, 5), fb.tensor([[index, 0, 0, 2, 2]]))


@pytest.mark.parametrize("name", CALLS)
def test_empty(name):
    channels, call = CALLS[name]
    x = fb.ones(2, channels, 6, 5, requires_grad=True)
    out = call(x, fb.zeros(0, 5))
    assert out.shape[0] == 0
    out.sum().backward()
    assert x.grad.abs().sum().item() == 0
    assert call(fb.ones(1, channels, 0, 0), fb.tensor([[0.0, 0, 0, 2, 2]])).abs().sum().item() == 0
    assert call(fb.ones(2, channels, 6, 5, device="meta"), fb.ones(3, 5, device="meta")).shape == (
        3,
        *out.shape[1:],
    )


# --- arguments that do not fit -------------------------------------------------------------------

WRONG = {
    "4 columns": (lambda: aten._roi_align(fb.ones(1, 1, 4, 4), fb.ones(1, 4), 1.0, 1, 1, -1, True), "K, 5"),
    "3 dimensions": (lambda: aten._roi_pool(fb.ones(1, 4, 4), fb.ones(1, 5), 1.0, 1, 1), "4 dimensions"),
    "types": (lambda: aten._roi_pool(fb.ones(1, 1, 4, 4), fb.zeros(1, 5).double(), 1.0, 1, 1), "same type"),
    "channels": (lambda: aten._ps_roi_pool(fb.ones(1, 3, 4, 4), fb.zeros(1, 5), 1.0, 2, 1), "multiple of"),
    "no bins": (lambda: aten._ps_roi_align(fb.ones(1, 3, 4, 4), fb.zeros(1, 5), 1.0, 0, 1, 2), "multiple of"),
    "boxes": (lambda: aten._nms(fb.ones(3, 5), fb.ones(3), 0.5), "4 elements"),
    "scores": (lambda: aten._nms(fb.ones(3, 4), fb.ones(2), 0.5), "as many scores as boxes"),
    "score type": (lambda: aten._nms(fb.ones(3, 4), fb.ones(3).double(), 0.5), "same dtype"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name):
    call, match = WRONG[name]
    with pytest.raises(RuntimeError, match=match):
        call()


@pytest.mark.parametrize(
    ("place", "shape", "match"),
    [(2, (2, 7, 5, 4), "offset"), (3, (2, 3, 5, 4), "mask"), (4, (3,), "bias"), (1, (4, 3, 2, 2), "groups")],
)
def test_wrong_shapes_of_deform_conv2d(place, shape, match):
    arrays, numbers = deform_arguments((1, 1), (0, 0), (1, 1), 1, 1, True)
    tensors = list(map(fb.tensor, arrays))
    tensors[place] = fb.ones(shape, dtype=fb.float64)
    with pytest.raises(RuntimeError, match=match):
        aten._deform_conv2d(*tensors, *numbers)


def test_sizes_that_overflow_are_refused():
    f = fb._C._functions
    grad, rois = fb.ones(1, 3, 1, 1), fb.tensor([[0.0, 0.0, 0.0, 1.0, 1.0]])
    far = -(2**63)
    for call in (
        lambda: f._ps_roi_align_backward(grad, rois, rois, 1.0, 3, far, 1, 1, 2**62, 3, 3),
        lambda: f._ps_roi_pool_backward(grad, rois, rois, 1.0, far, 3, 1, 2**62, 3, 3),
        lambda: f._roi_align_backward(grad, rois, 1.0, 1, 1, 1, 3, 2**40, 2**40, 1, True),
        lambda: f._roi_pool(fb.empty(0, 3, 2**40, 2**40), rois[:0], 1.0, 1, 1),
        lambda: f._roi_align(grad, rois, 1.0, 1, 1, 2**30, True),
    ):
        with pytest.raises(RuntimeError):
            call()


@pytest.mark.parametrize(
    "change",
    [
        {"kernel_size": [2]},
        {"stride": [2**62, 1]},
        {"dilation": [1, -(2**63)]},
        {"offset_groups": 0},
        {"offset_groups": -1},
        {"offset_groups": 2**62},
        {"offset": fb.zeros(1, 2, 2, 2, dtype=fb.float16)},
        {"mask": fb.zeros(1, 1, 2, 2, dtype=fb.float16), "use_mask": True},
        {"kernel_size": [2**40, 2**40]},
        {"kernel_size": [-1, -1]},
    ],
    ids=str,
)
def test_columns_of_wrong_arguments_are_refused(change):
    given = {
        "input": fb.ones(1, 3, 2, 2),
        "offset": fb.zeros(1, 2, 2, 2),
        "mask": fb.ones(1, 1, 2, 2),
        "kernel_size": [1, 1],
        "stride": [1, 1],
        "padding": [0, 0],
        "dilation": [1, 1],
        "offset_groups": 1,
        "use_mask": False,
    }
    assert fb._C._functions._deform_columns(**given).shape == (1, 3, 1, 4)
    with pytest.raises((RuntimeError, TypeError)):
        fb._C._functions._deform_columns(**given | change)
