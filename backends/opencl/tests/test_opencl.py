"""The package flambeau_opencl: memory, streams, kernels against the CPU's, training, autocast, files."""

import copy
import gc
import io
import threading
import warnings

import flambeau as torch
import pytest

pytest.importorskip("flambeau_opencl", reason="not built, or without a device", exc_type=ImportError)

DEVICE = "opencl"
REAL = [torch.float32, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


@pytest.fixture
def no_fallback():
    """Refuse operators without a kernel of the device."""
    before = torch.utils.set_privateuse1_fallback("error")
    yield
    torch.utils.set_privateuse1_fallback(before)


def same(found, expected, **bounds):
    assert found.device.type == DEVICE and found.dtype == expected.dtype
    torch.testing.assert_close(found.cpu(), expected, **bounds)


def test_the_device_has_a_module():
    assert torch.opencl.is_available() and torch.opencl.device_count() >= 1
    assert torch.get_device_module("opencl") is torch.opencl
    assert torch.opencl.get_device_properties()["name"] == torch.opencl.get_device_name()
    with torch.opencl.device(0):
        assert torch.opencl.current_device() == 0
    with pytest.raises(RuntimeError, match="expected the index"):
        torch.opencl.set_device(99)
    with pytest.raises(ValueError, match="expected a device of type"):
        torch.opencl.synchronize("cpu")
    assert torch.ones(2).opencl().is_opencl


@pytest.mark.parametrize("dtype", REAL)
def test_arithmetic_in_every_dtype(no_fallback, dtype):
    x = torch.tensor([[1, 2, 3], [4, 5, 100]], dtype=dtype)
    d = x.to(DEVICE)
    same(d + d, x + x)
    same(d * d.t().contiguous().t(), x * x)
    same(d - 1, x - 1)
    same(d / 2, x / 2)
    same(torch.where(d > 2, d, 0), torch.where(x > 2, x, 0))
    same((d > 2) & (d < 5), (x > 2) & (x < 5))
    same(torch.clamp(d, 2, 4), torch.clamp(x, 2, 4))
    same(d.sum(1), x.sum(1))
    same(d.amax(0), x.amax(0))
    same(d.bool(), x.bool())


HALVES = [torch.float16, torch.bfloat16]
MOVED = [*REAL, *HALVES, torch.bool]


@pytest.mark.parametrize("dtype", HALVES)
def test_half_types_round_once(no_fallback, dtype):
    """Values are computed in float32 and rounded to the nearest, as on the CPU."""
    x = torch.tensor([[1.0, 2.5, -3.0], [float("nan"), float("inf"), 60000.0]], dtype=dtype)
    d = x.to(DEVICE)
    same(d * 3 + d, x * 3 + x, equal_nan=True)
    same((d > 2) | d.isnan(), (x > 2) | x.isnan())
    same(d[0].sum(), x[0].sum())
    same(d.amax(1), x.amax(1), equal_nan=True)
    same(d[:1] @ d[:1].t(), x[:1] @ x[:1].t())
    same(d[0].to(torch.int32), x[0].to(torch.int32))
    near = torch.tensor([1.0, 3.0, 255.0, 257.0, 2049.0, 2051.0, 65519.0, 1e-8, -0.0, float("nan")])
    same(near.to(DEVICE).to(dtype), near.to(dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", MOVED)
def test_reads_at_indices(no_fallback, dtype):
    x = (torch.randn(4, 5, 6) * 9).to(dtype)
    d, i = x.to(DEVICE), torch.tensor([3, 0, 0, 2])
    j, g = i.to(DEVICE), torch.randint(0, 4, (3, 5, 2))
    same(d.index_select(0, j), x.index_select(0, i))
    same(d.transpose(0, 2)[:, 1:].index_select(2, j.int()), x.transpose(0, 2)[:, 1:].index_select(2, i))
    same(d.gather(0, g.to(DEVICE)), x.gather(0, g))
    same(d[1:].permute(2, 0, 1).take(j - 4), x[1:].permute(2, 0, 1).take(i - 4))
    same(d[j, j], x[i, i])
    same(d[j - 4, :, j[:, None]], x[i - 4, :, i[:, None]])
    same(d[:, j[:0]], x[:, i[:0]])


@pytest.mark.parametrize("dtype", MOVED)
def test_writes_at_indices_that_repeat(no_fallback, dtype):
    """Sums of half types are rounded once, those of the CPU in some operators at each addition."""
    x = (torch.randn(4, 5, 6) * 3).to(dtype)
    i, g, values = torch.tensor([3, 0, 0, 2]), torch.randint(0, 4, (3, 5, 2)), torch.ones(4, 6).to(dtype)
    calls = [
        lambda s, move: s.scatter(0, move(g), s.flip(0)),
        lambda s, move: s.scatter(0, move(g), 1),
        lambda s, move: s.scatter_add(0, move(g), s.flip(0)),
        lambda s, move: s.scatter_reduce(0, move(g), s.flip(0), "amax"),
        lambda s, move: s.index_copy(0, move(i), s.flip(0)),
        lambda s, move: s.index_fill(1, move(i - 5), 1),
        lambda s, move: s.index_put((move(i), move(i)), move(values)),
        lambda s, move: s.index_put((move(i), move(i)), move(values), accumulate=True),
    ]
    if dtype != torch.bool:
        calls.append(lambda s, move: s.index_add(0, move(i), s.flip(0), alpha=2))
    for call in calls:
        bound = {torch.bfloat16: 5e-2, torch.float16: 5e-3}.get(dtype, 1e-6)
        same(call(x.to(DEVICE), lambda t: t.to(DEVICE)), call(x, lambda t: t), rtol=bound, atol=bound)


def test_indices_out_of_range_raise_the_errors_of_the_cpu():
    torch.utils.set_privateuse1_fallback("silent")
    x, far = torch.zeros(3, 4), torch.tensor([1, 7])
    calls = [
        lambda s, k: s.index_select(0, k),
        lambda s, k: s.gather(0, k[None]),
        lambda s, k: s[k],
        lambda s, k: s.take(k + 99),
        lambda s, k: s.scatter_(0, k[None], 1),
        lambda s, k: s.index_add_(0, k, s[:2] + 1),
        lambda s, k: s.index_fill_(0, k, 1),
    ]
    for call in calls:
        d = x.to(DEVICE)
        with pytest.raises((IndexError, RuntimeError)) as expected:
            call(x.clone(), far)
        with pytest.raises(type(expected.value)):
            call(d, far.to(DEVICE))
        same(d[:1], x[:1])


@pytest.mark.parametrize("dtype", MOVED)
def test_order(no_fallback, dtype):
    x = (torch.randn(4, 37, 6) * 3).to(dtype)
    d = x.to(DEVICE)
    for found, expected in [
        *zip(d.sort(1), x.sort(1), strict=True),
        *zip(d.transpose(0, 2).sort(1, True), x.transpose(0, 2).sort(1, True), strict=True),
        *zip(d.max(1), x.max(1), strict=True),
        *zip(d.min(-1, keepdim=True), x.min(-1, keepdim=True), strict=True),
    ]:
        same(found, expected)
    if dtype != torch.bool:
        same(d.topk(3, 1).values, x.topk(3, 1).values)
        same(d.argmax(), x.argmax())
        same(d[:, ::2].argmin(1), x[:, ::2].argmin(1))


def test_order_of_nan_and_equal_elements(no_fallback):
    nan = float("nan")
    x = torch.tensor([[1.0, nan, 3.0, nan, -1.0], [2.0, 2.0, -0.0, 0.0, float("inf")]])
    for descending in (False, True):
        for found, expected in zip(x.to(DEVICE).sort(1, descending), x.sort(1, descending), strict=True):
            same(found, expected, equal_nan=True)
    same(x.to(DEVICE).argmin(1), x.argmin(1))
    same(x.to(DEVICE).max(1).indices, x.max(1).indices)
    many = torch.randint(0, 5, (2, 777))
    same(many.to(DEVICE).sort(1, True).indices, many.sort(1, True).indices)
    same(torch.zeros(2, 0, device=DEVICE).sort().values, torch.zeros(2, 0))
    same(torch.tensor(2.0, device=DEVICE).sort().indices, torch.tensor(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (3, 70), (1100, 3), (2, 3, 4)])
def test_softmax_its_gradients_and_scans(no_fallback, shape, dtype):
    x = torch.randn(shape, dtype=dtype)
    results = []
    for t in (x, x.to(DEVICE)):
        leaf = t.clone().requires_grad_()
        (leaf.softmax(-1).square() + leaf.log_softmax(0).exp() * leaf).sum().backward()
        results.append([leaf.softmax(0), leaf.log_softmax(-1), leaf.grad, t.cumsum(-1), t.cumprod(0)])
    for expected, found in zip(*results, strict=True):
        same(found.detach(), expected.detach(), rtol=1e-4, atol=1e-5)


def test_softmax_of_infinities(no_fallback):
    inf = float("inf")
    x = torch.tensor([[-inf, -inf], [-inf, 0.0], [inf, 1.0], [float("nan"), 1.0], [1000.0, 999.0]])
    same(x.to(DEVICE).softmax(1), x.softmax(1), equal_nan=True)
    same(x.to(DEVICE).log_softmax(1), x.log_softmax(1), equal_nan=True)


@pytest.mark.parametrize("dtype", [*MOVED, torch.complex64])
def test_operators_that_only_move_elements(no_fallback, dtype):
    x = (torch.randn(3, 4, 2) * 3).to(dtype)
    d = x.to(DEVICE)
    same(torch.cat([d, d[:, 1:]], 1), torch.cat([x, x[:, 1:]], 1))
    same(torch.stack([d[0], d[2]], -1), torch.stack([x[0], x[2]], -1))
    same(d[1:].flip((0, 2)), x[1:].flip((0, 2)))
    same(d.roll((1, -7), (0, 1)), x.roll((1, -7), (0, 1)))
    same(d.transpose(0, 1).roll(3), x.transpose(0, 1).roll(3))
    same(torch.constant_pad_nd(d, (1, -1, 0, 2)), torch.constant_pad_nd(x, (1, -1, 0, 2)))


def test_special_values(no_fallback):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-30, 88.0, -104.0])
    d = x.to(DEVICE)
    for name in "exp log sqrt sin tanh sigmoid erf log1p expm1 floor round isnan isinf sign abs relu".split():
        same(getattr(torch, name)(d), getattr(torch, name)(x), equal_nan=True)
    pairs = [(a, b) for a in x.tolist() for b in x.tolist()]
    left, right = (torch.tensor(side) for side in zip(*pairs, strict=True))
    for name in "maximum minimum fmax fmin remainder fmod atan2 logaddexp copysign".split():
        call = getattr(torch, name)
        same(call(left.to(DEVICE), right.to(DEVICE)), call(left, right), equal_nan=True)


def test_strides_offsets_and_broadcasts(no_fallback):
    x = torch.randn(4, 5, 6)
    d = x.to(DEVICE)
    same(d[1:, ::2, 3] + d[0, ::2, 1], x[1:, ::2, 3] + x[0, ::2, 1])
    same(d.permute(2, 0, 1) * d[0, 0].reshape(6, 1, 1), x.permute(2, 0, 1) * x[0, 0].reshape(6, 1, 1))
    same(d.permute(2, 0, 1).sum((0, 2)), x.permute(2, 0, 1).sum((0, 2)))
    same(d.expand(3, 4, 5, 6).mean(1, keepdim=True), x.expand(3, 4, 5, 6).mean(1, keepdim=True))
    d[:, 1].mul_(2)
    x[:, 1].mul_(2)
    d[0].t().copy_(d[1].t())
    x[0].t().copy_(x[1].t())
    same(d, x)
    out = torch.zeros(4, 10, device=DEVICE)
    torch.add(d[:, :, 0], 1, out=out[:, ::2])
    same(out[:, ::2], x[:, :, 0] + 1)
    assert out[:, 1::2].sum().item() == 0
    many = torch.randn(2, 1, 2, 1, 2, 1, 2, 1, 2, 1)
    same(many.to(DEVICE) + 1, many + 1)


def test_empty_and_scalar_tensors(no_fallback):
    for shape in ((0,), (0, 3), (2, 0)):
        x = torch.zeros(shape)
        same(x.to(DEVICE) + 1, x + 1)
        same(x.to(DEVICE).sum(), x.sum())
        same(x.to(DEVICE).sum(0), x.sum(0))
    same(torch.tensor(3.0, device=DEVICE) * 2, torch.tensor(6.0))
    same(torch.zeros(3, 0, device=DEVICE) @ torch.zeros(0, 2, device=DEVICE), torch.zeros(3, 2))
    with pytest.raises(IndexError):
        torch.zeros(2, 0, device=DEVICE).amax(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 17, 5), (16, 16, 16), (33, 70, 64), (1, 200, 1)])
def test_products(no_fallback, shape, dtype):
    m, k, n = shape
    a, b = torch.randn(m, k, dtype=dtype), torch.randn(k, n, dtype=dtype)
    same(a.to(DEVICE) @ b.to(DEVICE), a @ b, rtol=1e-4, atol=1e-4)
    same(a.t().contiguous().to(DEVICE).t() @ b.to(DEVICE), a @ b, rtol=1e-4, atol=1e-4)
    c = torch.randn(n, dtype=dtype)
    same(torch.addmm(c.to(DEVICE), a.to(DEVICE), b.to(DEVICE)), torch.addmm(c, a, b), rtol=1e-4, atol=1e-4)
    batch = torch.randn(3, m, k, dtype=dtype)
    same(torch.matmul(batch.to(DEVICE), b.to(DEVICE)), torch.matmul(batch, b), rtol=1e-4, atol=1e-4)
    wide = b.expand(3, k, n)
    same(torch.bmm(batch.to(DEVICE), wide.to(DEVICE)), torch.bmm(batch, wide), rtol=1e-4, atol=1e-4)


CONVOLUTIONS = [
    {},
    {"padding": 1},
    {"stride": 2, "padding": (2, 1)},
    {"dilation": (2, 1), "stride": (1, 3)},
    {"groups": 2},
    {"groups": 4, "padding": 3, "stride": (3, 2), "dilation": 2},
]


@pytest.mark.parametrize("options", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_convolutions_and_their_gradients(no_fallback, options, dtype):
    groups = options.get("groups", 1)
    tensors = [torch.randn(2, 4, 9, 8, dtype=dtype), torch.randn(8, 4 // groups, 3, 2, dtype=dtype)]
    tensors.append(torch.randn(8, dtype=dtype))
    results = []
    for device in ("cpu", DEVICE):
        leaves = [t.clone().to(device).requires_grad_() for t in tensors]
        out = torch.nn.functional.conv2d(*leaves, **options)
        weights = torch.arange(out.numel(), dtype=dtype).reshape(out.shape).sin().to(device)
        results.append([out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)])
    for expected, found in zip(*results, strict=True):
        same(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True)])
def test_gradients_of_convolutions_that_are_not_wanted(no_fallback, wanted):
    results = []
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3)
    for device in ("cpu", DEVICE):
        leaves = [t.to(device, copy=True).requires_grad_(on) for t, on in zip((x, w), wanted, strict=True)]
        torch.conv2d(*leaves).square().sum().backward()
        results.append([leaf.grad for leaf in leaves])
    for expected, found in zip(*results, strict=True):
        assert (expected is None) == (found is None)
        if found is not None:
            same(found, expected, rtol=1e-4, atol=1e-3)


def test_convolutions_of_views_and_without_bias(no_fallback):
    x, w = torch.randn(3, 8, 7, 5), torch.randn(5, 3, 2, 2)
    left, right = x.to(DEVICE)[1:].permute(0, 3, 2, 1)[:, 1:4], w.to(DEVICE)[:, :, :1]
    expected = torch.conv2d(x[1:].permute(0, 3, 2, 1)[:, 1:4], w[:, :, :1])
    same(torch.conv2d(left, right), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError):
        torch.conv2d(left, w.to(DEVICE)[:, :2])


def test_errors_are_those_of_the_cpu(no_fallback):
    x = torch.ones(2, 3)
    calls = [
        lambda t: t + torch.ones(4).to(t.device),
        lambda t: t @ t,
        lambda t: t.sum(2),
        lambda t: t.float() & t.float(),
    ]
    calls += [
        lambda t: t.int().add_(1.5),
        lambda t: torch.div(t.int(), 0, rounding_mode="floor"),
        lambda t: t.mean(5),
    ]
    torch.utils.set_privateuse1_fallback("silent")
    for call in calls:
        with pytest.raises(Exception) as expected:
            call(x)
        with pytest.raises(type(expected.value)):
            call(x.to(DEVICE))


def test_operators_without_kernels_warn_once_and_give_the_values():
    x = torch.randn(3, 4)
    torch.utils.set_privateuse1_fallback("warn")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            same(torch.erfinv(x.to(DEVICE) / 9), torch.erfinv(x / 9))
    assert len(seen) == 1 and "erfinv: no kernel for this call on device opencl" in str(seen[0].message)
    torch.utils.set_privateuse1_fallback("error")
    with pytest.raises(NotImplementedError, match="digamma"):
        torch.digamma(x.to(DEVICE))
    torch.utils.set_privateuse1_fallback("silent")
    same(x.to(DEVICE).half() + 1, x.half() + 1)


def test_memory_is_cached_and_counted():
    gc.collect()
    torch.opencl.synchronize()
    torch.opencl.empty_cache()
    before = torch.opencl.memory_allocated()
    x = torch.zeros(1 << 16, device=DEVICE)
    assert torch.opencl.memory_allocated() == before + (1 << 18)
    hits = torch.opencl.memory_stats()["cache_hits"]
    del x
    assert torch.opencl.memory_allocated() == before < torch.opencl.memory_reserved()
    torch.opencl.reset_peak_memory_stats()
    y = torch.ones(1 << 16, device=DEVICE)
    assert torch.opencl.memory_stats()["cache_hits"] == hits + 1
    assert torch.opencl.max_memory_allocated() >= before + (1 << 18)
    assert y.sum().item() == 1 << 16
    del y
    torch.opencl.empty_cache()
    stats = torch.opencl.memory_stats()
    assert stats["reserved_bytes.all.current"] == stats["allocated_bytes.all.current"] == before
    with pytest.raises((RuntimeError, MemoryError)):
        torch.empty(1 << 45, device=DEVICE)
    assert torch.opencl.memory_allocated() == before


def test_the_device_is_the_accelerator():
    accelerator = torch.accelerator
    assert accelerator.is_available() and accelerator.current_accelerator() == torch.device(DEVICE)
    assert accelerator.device_count() == torch.opencl.device_count()
    assert torch.device(0) == torch.device("opencl:0") and torch.get_device_module() is torch.opencl
    before = accelerator.memory_allocated()
    x = torch.ones(1 << 10, device=0)
    assert accelerator.memory_allocated("opencl:0") == before + (1 << 12) <= accelerator.memory_reserved()
    assert accelerator.memory_stats(0)["allocated_bytes.all.current"] == before + (1 << 12)
    accelerator.synchronize()
    del x
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == before
    accelerator.empty_cache()
    side, usual = torch.opencl.Stream(), accelerator.current_stream()
    accelerator.set_stream(side)
    assert accelerator.current_stream() == side
    accelerator.set_stream(usual)
    assert torch.float32 in accelerator.get_device_capability()["supported_dtypes"]
    with pytest.raises(RuntimeError, match=r"expected the module flambeau\.opencl to define mem_get_info"):
        accelerator.get_memory_info()
    with pytest.raises(ValueError, match="expected a device of the current accelerator opencl, got cpu"):
        accelerator.synchronize("cpu")


def test_streams_and_events():
    side = torch.opencl.Stream()
    assert side != torch.opencl.current_stream() == torch.opencl.default_stream()
    start, end = torch.opencl.Event(enable_timing=True), torch.opencl.Event(enable_timing=True)
    x = torch.ones(256, 256, device=DEVICE)
    side.wait_stream(torch.opencl.current_stream())
    with torch.opencl.stream(side):
        assert torch.opencl.current_stream() == side
        start.record()
        y = x @ x
        end.record()
    torch.opencl.current_stream().wait_stream(side)
    assert (y + 1).sum().item() == 256 * 256 * 257
    end.synchronize()
    assert end.query() and start.elapsed_time(end) > 0
    assert torch.opencl.current_stream() == torch.opencl.default_stream()
    with pytest.raises(RuntimeError, match="enable_timing"):
        torch.opencl.Event().elapsed_time(end)


def test_threads_share_the_device():
    failures = []

    def work(k):
        try:
            for n in range(1, 20):
                x = torch.full((n, 33), float(k), device=DEVICE)
                assert (x * 2 + x).sum().item() == 99 * n * k
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 7)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures


def test_random_numbers():
    torch.utils.set_privateuse1_fallback("silent")
    torch.opencl.manual_seed(3)
    state, first = torch.opencl.get_rng_state(), torch.rand(4, device=DEVICE)
    torch.opencl.set_rng_state(state)
    assert torch.equal(torch.rand(4, device=DEVICE), first) and torch.opencl.initial_seed() == 3
    generator = torch.Generator(DEVICE).manual_seed(3)
    assert torch.equal(torch.rand(4, device=DEVICE, generator=generator), first)


def test_training_is_that_of_the_cpu():
    torch.utils.set_privateuse1_fallback("silent")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    twin = copy.deepcopy(model).to(DEVICE)
    x, y = torch.randn(32, 8), torch.randint(3, (32,))
    losses = []
    for net, device in ((model, "cpu"), (twin, DEVICE)):
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        for _ in range(10):
            loss = torch.nn.functional.cross_entropy(net(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-3) and losses[1] < 0.7
    file = io.BytesIO()
    torch.save(twin.state_dict(), file)
    file.seek(0)
    assert all(v.device.type == DEVICE for v in torch.load(file).values())
    file.seek(0)
    model.load_state_dict(torch.load(file, map_location="cpu"))
    same(twin(x.to(DEVICE)), model(x), rtol=1e-4, atol=1e-4)


def test_autocast():
    torch.utils.set_privateuse1_fallback("silent")
    a = torch.randn(4, 4, device=DEVICE)
    assert torch.amp.is_autocast_available(DEVICE)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert torch.is_autocast_enabled(DEVICE)
        assert (a @ a).dtype == torch.bfloat16 and (a @ a).exp().dtype == torch.float32
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        with torch.autocast(DEVICE, enabled=False):
            assert (a @ a).dtype == torch.float32
    assert (a @ a).dtype == torch.float32 and not torch.is_autocast_enabled(DEVICE)
    with torch.autocast("cpu"):
        assert (a @ a).dtype == torch.float32
    with pytest.warns(UserWarning, match="autocast on opencl"), torch.autocast(DEVICE, dtype=torch.float64):
        pass
