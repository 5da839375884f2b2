"""Complex numbers on OpenCL: kernels of the device, beside the CPU's results."""

import flambeau as fb
import pytest

pytest.importorskip("flambeau_opencl", reason="not built, or without a device", exc_type=ImportError)

PROGRAMS = {
    "add": lambda a, b: a + b,
    "sub a number": lambda a, b: a - (2 + 1j),
    "add a real tensor": lambda a, b: a + fb.view_as_real(a)[..., 0].contiguous(),
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "addcmul": lambda a, b: fb.addcmul(a, a, b, value=1j),
    "in place": lambda a, b: a.clone().mul_(b),
    "of strided views": lambda a, b: a.view(2, 2).t() * b.view(2, 2)[:, 1:],
    "of conjugates": lambda a, b: a.conj() * b,
    **{
        name: lambda a, b, name=name: getattr(a, name)()
        for name in (
            "neg reciprocal square sgn exp log sqrt rsqrt sin cos tan sinh cosh tanh sigmoid isnan isinf "
            "isfinite conj_physical sum mean prod"
        ).split()
    },
    "sum along a dimension": lambda a, b: a.view(2, 2).sum(1),
    "eq": lambda a, b: a == a * 1,
    "ne": lambda a, b: a != b,
    "to complex128": lambda a, b: a.to(fb.complex128),
    "to bool": lambda a, b: a.to(fb.bool),
    "from float": lambda a, b: fb.ones(4, device=a.device).to(fb.complex64),
}


@pytest.fixture(autouse=True)
def on_the_device():
    """Refuse operators without a kernel of the device."""
    before = fb.utils.set_privateuse1_fallback("error")
    yield
    fb.utils.set_privateuse1_fallback(before)


@pytest.mark.parametrize("dtype", [fb.complex64, fb.complex128])
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_for_complex_numbers(name, dtype):
    a = fb.tensor([1 + 2j, -3 + 0.5j, 0.25 - 1j, 1e-3j], dtype=dtype)
    b = fb.tensor([2 - 1j, 1j, -1 + 0j, 3 + 3j], dtype=dtype)
    expected = PROGRAMS[name](a, b)
    found = PROGRAMS[name](a.to("opencl"), b.to("opencl"))
    assert found.device.type == "opencl"
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype is fb.complex64 else {"rtol": 1e-10, "atol": 1e-10}
    fb.testing.assert_close(found.cpu(), expected, **close)


def test_operators_without_kernels_take_complex_numbers_to_the_cpu():
    a = fb.tensor([1 + 2j, -3 + 0.5j])
    with pytest.raises(NotImplementedError):
        a.to("opencl").cumsum(0)
    fb.utils.set_privateuse1_fallback("silent")
    for name in ("abs", "angle", "asin"):
        fb.testing.assert_close(getattr(a.to("opencl"), name)().cpu(), getattr(a, name)())
    fb.testing.assert_close(a.to("opencl").cumsum(0).cpu(), a.cumsum(0))
