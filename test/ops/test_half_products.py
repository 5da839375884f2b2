"""Products and convolutions of half types: one rounding of an exact sum, whatever the processor has.

Where oneDNN has no primitive for float16 or bfloat16 they are computed in float32 blocks. The command
`make test-isa` runs all of these tests with our loops and oneDNN's capped at each instruction set.
"""

from itertools import product

import flambeau as fb
import numpy as np
import pytest

F = fb.nn.functional
DTYPES = {"float16": fb.float16, "bfloat16": fb.bfloat16}
HALF_ULP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
RNG = np.random.default_rng(0)

pytestmark = pytest.mark.products


def made(*sizes, dtype):
    """A tensor of the dtype and its values in double precision."""
    tensor = fb.from_numpy(RNG.uniform(-1, 1, sizes).astype(np.float32)).to(DTYPES[dtype])
    return tensor, tensor.double().numpy()


def assert_rounded(got, want, magnitude, terms, dtype):
    """Compare with exact sums: `magnitude` is the sum of the terms' absolute values."""
    assert got.dtype == DTYPES[dtype]
    bound = HALF_ULP[dtype] * np.abs(want) + terms * 2.0**-23 * magnitude + 2.0**-24
    error = np.abs(got.detach().double().numpy() - want)
    assert (error <= bound).all(), (error / bound).max()


# The last one has more than one block along every dimension.
SIZES = [(1, 1, 1), (3, 5, 7), (16, 16, 16), (1, 300, 1100), (200, 3, 1), (129, 257, 65), (1030, 520, 1026)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_mm(sizes, dtype):
    m, k, n = sizes
    a, x = made(m, k, dtype=dtype)
    b, y = made(k, n, dtype=dtype)
    assert_rounded(a @ b, x @ y, np.abs(x) @ np.abs(y), k, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "layouts", list(product(["rows", "columns", "steps", "expanded"], repeat=2)), ids="-".join
)
def test_layouts(layouts, dtype):
    def arranged(t, layout):
        if layout == "columns":
            return t.t().contiguous().t()
        if layout == "steps":
            return fb.stack([t, t], 2)[:, :, 0]
        return t[:1].expand(t.shape) if layout == "expanded" else t

    a, b = (arranged(made(70, 70, dtype=dtype)[0], layout) for layout in layouts)
    x, y = a.double().numpy(), b.double().numpy()
    assert_rounded(a @ b, x @ y, np.abs(x) @ np.abs(y), 70, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(2, 3, 4), (65, 40, 33), (1030, 600, 20)], ids=str)
def test_accumulation_rounds_once(sizes, dtype):
    m, k, n = sizes
    a, x = made(m, k, dtype=dtype)
    b, y = made(k, n, dtype=dtype)
    c, z = made(m, n, dtype=dtype)
    magnitude = np.abs(x) @ np.abs(y) + np.abs(z)
    assert_rounded(fb.addmm(c, a, b), z + x @ y, magnitude, k + 1, dtype)
    assert_rounded(F.linear(a, b.t(), c[0]), z[0] + x @ y, magnitude + np.abs(z[0]), k + 1, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "sizes", [(5, 2, 3, 4), (300, 16, 16, 16), (3, 70, 80, 90), (2, 40, 1200, 8)], ids=str
)
def test_bmm(sizes, dtype):
    count, m, k, n = sizes
    a, x = made(count, m, k, dtype=dtype)
    b, y = made(count, k, n, dtype=dtype)
    assert_rounded(fb.bmm(a, b), x @ y, np.abs(x) @ np.abs(y), k, dtype)
    shared = b[:1].expand(count, k, n)
    assert_rounded(a @ shared, x @ y[:1], np.abs(x) @ np.abs(y[:1]), k, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors(dtype):
    a, x = made(90, 1100, dtype=dtype)
    v, y = made(1100, dtype=dtype)
    assert_rounded(a @ v, x @ y, np.abs(x) @ np.abs(y), 1100, dtype)
    assert_rounded(fb.dot(v, v), y @ y, y @ y, 1100, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinity_nan_and_empty_sums(dtype):
    a = fb.ones(3, 3, dtype=DTYPES[dtype])
    a[0, 0], a[1, 1] = float("inf"), float("nan")
    got = (a @ fb.ones(3, 2, dtype=a.dtype)).float().numpy()
    np.testing.assert_array_equal(got, [[np.inf] * 2, [np.nan] * 2, [3, 3]])
    empty = fb.ones(2, 0, dtype=a.dtype) @ fb.ones(0, 3, dtype=a.dtype)
    np.testing.assert_array_equal(empty.float().numpy(), np.zeros((2, 3)))
    largest = fb.full((1, 4), fb.finfo(a.dtype).max, dtype=a.dtype)
    assert (largest @ fb.ones(4, 1, dtype=a.dtype)).item() == float("inf")


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_linear(dtype):
    x, a = made(40, 70, dtype=dtype)
    w, b = made(30, 70, dtype=dtype)
    g, c = made(40, 30, dtype=dtype)
    x.requires_grad_(), w.requires_grad_()
    F.linear(x, w).backward(g)
    assert_rounded(x.grad, c @ b, np.abs(c) @ np.abs(b), 30, dtype)
    assert_rounded(w.grad, c.T @ a, np.abs(c.T) @ np.abs(a), 40, dtype)


def _places(x, kernel, out, stride, padding, dilation):
    """For each place of a kernel, the padded input's elements that it meets, as slices."""
    pads = [(0, 0), (0, 0), *((padding, padding + stride * dilation) for _ in kernel)]
    padded = np.pad(x, pads)
    for place in np.ndindex(*kernel):
        cut = tuple(
            slice(k * dilation, k * dilation + stride * (o - 1) + 1, stride)
            for k, o in zip(place, out, strict=True)
        )
        yield place, padded, (slice(None), slice(None), *cut)


def conv_by_definition(x, w, g, stride, padding, dilation):
    """The convolution, and its gradients for `g`, place by place of the kernel."""
    out, grad_w = 0, np.zeros_like(w)
    dims = "xyz"[: x.ndim - 2]
    grad_x = None
    for place, padded, cut in _places(x, w.shape[2:], g.shape[2:], stride, padding, dilation):
        grad_x = np.zeros_like(padded) if grad_x is None else grad_x
        at = (slice(None), slice(None), *place)
        out = out + np.einsum(f"nc{dims},oc->no{dims}", padded[cut], w[at])
        grad_w[at] = np.einsum(f"nc{dims},no{dims}->oc", padded[cut], g)
        grad_x[cut] += np.einsum(f"no{dims},oc->nc{dims}", g, w[at])
    inside = tuple(slice(padding, padding + n) for n in x.shape[2:])
    return out, grad_x[(slice(None), slice(None), *inside)], grad_w


# batch, channels in and out, image, kernel, stride, padding, dilation
CONVOLUTIONS = [
    (2, 3, 5, (9,), (3,), 1, 1, 1),
    (3, 16, 32, (12, 11), (3, 3), 1, 1, 1),
    (2, 3, 8, (15, 16), (5, 4), 2, 2, 1),
    (2, 4, 6, (13, 12), (3, 2), 1, 0, 2),
    (4, 32, 16, (9, 9), (1, 1), 1, 0, 1),
    (2, 3, 4, (6, 7, 5), (2, 3, 2), 1, 1, 1),
    (3, 2, 2, (700, 700), (2, 2), 1, 1, 1),  # more than one group of samples
]
FORMATS = {1: [None], 2: [None, fb.channels_last], 3: [None, fb.channels_last_3d]}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("case", "layout"), [(c, f) for c in CONVOLUTIONS for f in FORMATS[len(c[3])]], ids=str
)
def test_convolution(case, layout, dtype):
    batch, inside, outside, image, kernel, stride, padding, dilation = case
    out = [
        (n + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(image, kernel, strict=True)
    ]
    tensors = [made(batch, inside, *image, dtype=dtype), made(outside, inside, *kernel, dtype=dtype)]
    g, c = made(batch, outside, *out, dtype=dtype)
    x, w = (t.contiguous(memory_format=layout) if layout else t for t, _ in tensors)
    a, b = (values for _, values in tensors)
    x.requires_grad_(), w.requires_grad_()
    conv = (F.conv1d, F.conv2d, F.conv3d)[len(image) - 1]
    y = conv(x, w, None, stride, padding, dilation)
    y.backward(g)
    exact = conv_by_definition(a, b, c, stride, padding, dilation)
    sums = conv_by_definition(np.abs(a), np.abs(b), np.abs(c), stride, padding, dilation)
    places = int(np.prod(kernel))
    terms = (inside * places, outside * places, batch * int(np.prod(out)))
    for got, want, magnitude, count in zip((y, x.grad, w.grad), exact, sums, terms, strict=True):
        assert_rounded(got, want, magnitude, count, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_grouped_transposed_and_biased_convolutions(dtype):
    x, a = made(2, 6, 9, 8, dtype=dtype)
    w, b = made(4, 3, 3, 3, dtype=dtype)
    bias, s = made(4, dtype=dtype)
    got = F.conv2d(x, w, bias, 1, 1, 1, 2)
    zero = np.zeros((2, 2, 9, 8))
    halves = [
        [
            conv_by_definition(f(a[:, i : i + 3]), f(b[o : o + 2]), zero, 1, 1, 1)[0]
            for i, o in ((0, 0), (3, 2))
        ]
        for f in (np.asarray, np.abs)
    ]
    want, magnitude = (
        np.concatenate(h, 1) + v[:, None, None] for h, v in zip(halves, (s, abs(s)), strict=True)
    )
    assert_rounded(got, want, magnitude, 28, dtype)

    v, c = made(6, 4, 3, 3, dtype=dtype)
    back = F.conv_transpose2d(x, v, None, 2, 1)
    shape = np.zeros((2, 4, *back.shape[2:]))
    want = conv_by_definition(shape, c, a, 2, 1, 1)[1]
    magnitude = conv_by_definition(shape, np.abs(c), np.abs(a), 2, 1, 1)[1]
    assert_rounded(back, want, magnitude, 54, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_networks_run_and_train(kind, dtype):
    fb.manual_seed(0)
    layer = getattr(fb.nn, kind)(5, 7, 2, bidirectional=True).to(DTYPES[dtype])
    wide = getattr(fb.nn, kind)(5, 7, 2, bidirectional=True)
    wide.load_state_dict({name: p.float() for name, p in layer.state_dict().items()})
    x, _ = made(4, 3, 5, dtype=dtype)
    got, want = layer(x)[0], wide(x.float())[0]
    np.testing.assert_allclose(got.detach().float().numpy(), want.detach().numpy(), atol=3e-2)
    got.float().sum().backward(), want.sum().backward()
    for p, q in zip(layer.parameters(), wide.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.float().numpy(), q.grad.numpy(), rtol=0.05, atol=0.05)
