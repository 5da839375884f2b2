"""Autocast and GradScaler: regions, kept casts, state of threads, forms that autocast leaves alone."""

import importlib
import pickle
import threading
import warnings

import flambeau as fb
import pytest
from flambeau import amp
from flambeau.nn import functional as F

m = fb.ones(2, 2)


@pytest.mark.parametrize("dtype", [fb.bfloat16, fb.float16])
def test_products_are_lower_and_losses_float32(dtype):
    with fb.autocast("cpu", dtype=dtype):
        assert (m @ m).dtype == F.linear(m, m).dtype == fb.mm(m, m).dtype == dtype
        assert F.mse_loss(m.to(dtype), m.to(dtype)).dtype == fb.float32
        assert (m + m).dtype == fb.float32
    assert (m @ m).dtype == fb.float32


def test_float64_and_integers_stay():
    with fb.autocast("cpu"):
        assert (m.double() @ m.double()).dtype == fb.float64
        assert (m.long() @ m.long()).dtype == fb.int64
        assert fb.cat([m.double(), m]).dtype == fb.float64
        assert fb.cat([m.half(), m.half()]).dtype == fb.float16
        assert fb.cat([m.bfloat16(), m]).dtype == fb.float32


def test_what_is_written_to_keeps_its_dtype():
    with fb.autocast("cpu"):
        out = fb.empty(2, 2)
        assert fb.mm(m, m, out=out) is out
        assert out.dtype == fb.float32 and out.tolist() == [[2, 2], [2, 2]]
        assert m.clone().addmm_(m, m).dtype == fb.float32


def test_regions_nest_and_are_left_when_they_raise():
    with fb.autocast("cpu"):
        with fb.autocast("cpu", enabled=False):
            assert (m @ m).dtype == fb.float32
        with fb.autocast("cpu", dtype=fb.float16):
            assert fb.get_autocast_dtype("cpu") == fb.float16
        assert fb.get_autocast_dtype("cpu") == fb.bfloat16
        with pytest.raises(KeyError), fb.autocast("cpu", enabled=False):
            raise KeyError
        assert fb.is_autocast_enabled("cpu")
    assert not fb.is_autocast_enabled("cpu")


def test_one_region_object_can_be_entered_again():
    region = fb.autocast("cpu")
    with region, region:
        assert (m @ m).dtype == fb.bfloat16
    assert not fb.is_autocast_enabled("cpu")
    assert fb.autocast_increment_nesting() == 1
    assert fb.autocast_decrement_nesting() == 0


def test_as_a_decorator():
    @fb.autocast("cpu")
    def product(x):
        """Its text."""
        return x @ x

    assert product(m).dtype == fb.bfloat16
    assert product.__doc__ == "Its text."


def casts_of(weight, **options):
    """How often a weight is cast in a region with two products."""
    with fb.autocast("cpu", **options):
        first, second = fb.mm(m, weight), fb.mm(m, weight)
    nodes = {n.next_functions[1][0] for n in (first.grad_fn, second.grad_fn)}
    return len(nodes)


def test_a_parameter_is_cast_once_in_a_region():
    weight = fb.ones(2, 2, requires_grad=True)
    assert casts_of(weight) == 1
    assert casts_of(weight, cache_enabled=False) == 2
    assert casts_of(weight * 1) == 2  # no leaf


def test_kept_casts_follow_changes_and_grad_mode():
    weight = fb.ones(2, 2, requires_grad=True)
    with fb.autocast("cpu"):
        with fb.no_grad():
            F.linear(m, weight)
        assert F.linear(m, weight).requires_grad
        with fb.no_grad():
            weight.mul_(3)
        assert F.linear(m, weight).tolist() == [[6, 6], [6, 6]]
        fb.clear_autocast_cache()
        F.linear(m, weight).sum().backward()
    assert weight.grad.dtype == fb.float32
    assert weight.grad.tolist() == [[2, 2], [2, 2]]


def test_kept_casts_do_not_outlive_the_region_or_keep_parameters():
    import gc
    import weakref

    with fb.autocast("cpu"):
        weight = fb.ones(2, 2, requires_grad=True)
        F.linear(m, weight)
        reference = weakref.ref(weight)
        fb.clear_autocast_cache()
        del weight
        gc.collect()
        assert reference() is None


def test_state_belongs_to_the_thread():
    found = {}

    def other():
        found["enabled"] = fb.is_autocast_enabled("cpu")
        found["dtype"] = (m @ m).dtype
        with fb.autocast("cpu", dtype=fb.float16):
            found["within"] = (m @ m).dtype

    with fb.autocast("cpu"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert (m @ m).dtype == fb.bfloat16
    assert found == {"enabled": False, "dtype": fb.float32, "within": fb.float16}


def test_under_transforms():
    weight = fb.ones(2, 2)
    with fb.autocast("cpu"):
        assert fb.vmap(lambda row: m @ row)(m).dtype == fb.bfloat16
        gradient = fb.func.grad(lambda w: F.linear(m, w).float().sum())(weight)
        assert gradient.dtype == fb.float32 and gradient.tolist() == [[2, 2], [2, 2]]
        _, tangent = fb.func.jvp(lambda w: F.linear(m, w), (weight,), (weight,))
        assert tangent.dtype == fb.bfloat16


def test_training_with_a_module():
    fb.manual_seed(0)
    model = fb.nn.Sequential(fb.nn.Linear(4, 8), fb.nn.ReLU(), fb.nn.Linear(8, 1))
    optimizer = fb.optim.SGD(model.parameters(), lr=0.05)
    x, y = fb.randn(32, 4), fb.randn(32, 1)
    scaler = amp.GradScaler("cpu")
    losses = []
    for _ in range(20):
        with fb.autocast("cpu", dtype=fb.bfloat16):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(p.dtype == p.grad.dtype == fb.float32 for p in model.parameters())


def test_what_cannot_be_enabled_warns_and_is_not():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        region = fb.autocast("cuda")
    with region:
        assert (m @ m).dtype == fb.float32
        assert not fb.is_autocast_enabled("cuda")
    with pytest.warns(UserWarning, match="dtype"):
        region = fb.autocast("cpu", dtype=fb.float64)
    with region:
        assert (m @ m).dtype == fb.float32
    with pytest.raises(ValueError, match="device_type"):
        fb.autocast(3)
    for device in ("meta", "nonsense"):
        with pytest.raises(RuntimeError):
            fb.autocast(device)


def test_older_names():
    cpu, cuda = (importlib.import_module(f"flambeau.{name}.amp") for name in ("cpu", "cuda"))
    with pytest.warns(FutureWarning), cpu.autocast():
        assert (m @ m).dtype == fb.bfloat16
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not cuda.GradScaler().is_enabled()
        assert not cuda.autocast()._enabled
        assert cpu.GradScaler().is_enabled()
    with pytest.warns(DeprecationWarning):
        assert fb.get_autocast_cpu_dtype() == fb.bfloat16
    assert cuda.amp_definitely_not_available()


def test_custom_functions():
    seen = []

    class Doubled(fb.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=fb.bfloat16)
        def forward(ctx, a, more):
            seen.append((a.dtype, more["k"].dtype, fb.is_autocast_enabled("cpu")))
            return a * 2

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append((grad.dtype, fb.is_autocast_enabled("cpu")))
            return grad * 2, None

    a = fb.ones(2, requires_grad=True)
    with fb.autocast("cpu"):
        out = Doubled.apply(a, {"k": m})
        out.float().sum().backward()
    assert seen == [(fb.bfloat16, fb.bfloat16, False), (fb.bfloat16, False)]
    assert a.grad.tolist() == [2, 2] and a.grad.dtype == fb.float32


# --- GradScaler ----------------------------------------------------------------------------------


def scaled(**options):
    w = fb.ones(2, requires_grad=True)
    return amp.GradScaler("cpu", init_scale=4.0, **options), w, fb.optim.SGD([w], lr=0.5)


def test_steps_are_skipped_on_overflow_and_the_scale_backs_off():
    scaler, w, optimizer = scaled()
    scaler.scale(w.sum()).backward()
    w.grad[0] = float("nan")
    assert scaler.step(optimizer) is None
    scaler.update()
    assert w.tolist() == [1, 1] and scaler.get_scale() == 2.0


def test_the_scale_grows_after_finite_steps():
    scaler, w, optimizer = scaled(growth_interval=2)
    for expected in (4.0, 8.0):
        optimizer.zero_grad()
        scaler.scale(w.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected
    assert w.tolist() == [0, 0]


def test_wrong_orders_are_errors():
    scaler, w, optimizer = scaled()
    with pytest.raises(AssertionError):
        scaler.step(optimizer)
    scaler.scale([w.sum(), (w.sum(),)])
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.step(optimizer)
    w.grad = fb.ones(2)
    scaler, w, optimizer = scaled()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="closure"):
        scaler.step(optimizer, closure=lambda: 1)


def test_state_of_the_scaler_is_saved():
    scaler, w, optimizer = scaled()
    scaler.scale(w.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    other = amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})
    off = amp.GradScaler("cpu", enabled=False)
    assert off.state_dict() == {} and off.get_scale() == 1.0 and off.scale(w) is w
