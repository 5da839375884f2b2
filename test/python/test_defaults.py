"""Flags, devices and types that programs set and read: determinism, default device, backends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import flambeau as fb
import pytest
from oracle import pytorch

torch = pytorch()


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    for m in (fb, torch):
        m.use_deterministic_algorithms(False)
        m.utils.deterministic.fill_uninitialized_memory = True
        m.set_default_device(None)
        m.set_default_dtype(m.float32)


@pytest.mark.parametrize("mode", [0, 1, 2, "default", "warn", "error"])
def test_deterministic_modes(mode: Any) -> None:
    def flags(m: Any) -> tuple[Any, ...]:
        m.set_deterministic_debug_mode(mode)
        return (
            m.get_deterministic_debug_mode(),
            m.are_deterministic_algorithms_enabled(),
            m.is_deterministic_algorithms_warn_only_enabled(),
        )

    assert flags(fb) == flags(torch)


def test_wrong_modes_are_refused() -> None:
    for wrong in (3, "x"):
        with pytest.raises(RuntimeError, match="invalid value of debug_mode"):
            fb.set_deterministic_debug_mode(wrong)
    with pytest.raises(TypeError, match="must be bool"):
        fb.use_deterministic_algorithms(1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "complex64", "int8", "uint8",
                                   "int64", "bool"])  # fmt: skip
def test_uninitialized_memory_is_filled(dtype: str) -> None:
    fb.use_deterministic_algorithms(True)
    kind = getattr(fb, dtype)
    like = fb.zeros(3, dtype=kind)
    made = [
        fb.empty(3, dtype=kind),
        fb.empty_like(like),
        like.new_empty(3),
        fb.empty_strided((3,), (2,), dtype=kind),
    ]
    made.append(fb.zeros(1, dtype=kind).resize_(4)[1:])
    for t in made:
        if kind.is_floating_point or kind.is_complex:
            assert t.real.isnan().all()
        else:
            assert t.tolist() == [True if dtype == "bool" else fb.iinfo(kind).max] * 3
    assert fb.zeros(2).tolist() == [0.0, 0.0]
    fb.utils.deterministic.fill_uninitialized_memory = False
    fb.empty(3).fill_(1.0)
    assert not fb.utils.deterministic.fill_uninitialized_memory


@pytest.mark.parametrize(
    "call",
    ["ones(2)", "zeros(2)", "full((2,), 1.0)", "empty(2)", "arange(3)", "linspace(0, 1, 3)", "eye(2)",
     "rand(2)",
     "randn(2)", "randint(3, (2,))", "tensor([1.0])", "as_tensor([1])", "nn.Linear(2, 2).weight",
     "fft.fftfreq(3)", "ones(2, device='cpu')", "ones_like(m.ones(2, device='cpu'))", "asarray([1])",
     "ones(2, device='cpu').new_ones(2)", "scalar_tensor(1.0)"],
)  # fmt: skip
def test_default_device(call: str) -> None:
    def places(m: Any) -> list[str]:
        out = []
        with m.device("meta"):
            out.append(str(eval(f"m.{call}", {"m": m}).device))
            with m.device("cpu"):
                out.append(str(m.ones(1).device))
            out.append(str(m.get_default_device()))
        m.set_default_device("meta")
        out.append(str(eval(f"m.{call}", {"m": m}).device))
        m.set_default_device(None)
        return [*out, str(m.get_default_device()), str(m.ones(1).device)]

    assert places(fb) == places(torch)


def test_default_types() -> None:
    fb.set_default_dtype(fb.float64)
    assert fb.tensor(1.0).dtype == fb.float64 and fb.tensor(1j).dtype == fb.complex128
    fb.set_default_tensor_type("flambeau.FloatTensor")
    assert fb.get_default_dtype() == fb.float32
    fb.set_default_tensor_type(fb.DoubleTensor)
    assert fb.get_default_dtype() == fb.float64
    assert fb.LongTensor([1, 2]).dtype == fb.int64 and fb.FloatTensor(2, 3).shape == (2, 3)
    assert isinstance(fb.ones(2, dtype=fb.float32), fb.FloatTensor)
    with pytest.raises(TypeError, match="floating"):
        fb.set_default_dtype(fb.int64)


@pytest.mark.parametrize(
    "a", ["bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "complex32", "complex64"]
)
def test_types_of_results(a: str) -> None:
    def named(value: Any) -> str:
        return str(value).rpartition(".")[2]

    for b in (
        "bool",
        "uint8",
        "int8",
        "int64",
        "float16",
        "bfloat16",
        "float64",
        "complex32",
        "complex64",
        "complex128",
    ):
        x, y = ((getattr(m, a), getattr(m, b)) for m in (fb, torch))
        assert named(fb.promote_types(*x)) == named(torch.promote_types(*y))
        assert fb.can_cast(*x) == torch.can_cast(*y)
        for make in (lambda m, t: m.ones(2, dtype=t), lambda m, t: m.tensor(1, dtype=t)):
            for other in (lambda m, t: m.ones(1, dtype=t), lambda m, t: m.tensor(1, dtype=t)):
                ours = fb.result_type(make(fb, x[0]), other(fb, x[1]))
                theirs = torch.result_type(make(torch, y[0]), other(torch, y[1]))
                assert named(ours) == named(theirs)
    for number in (True, 1, 1.0, 1j):
        ours, theirs = (m.result_type(m.ones(2, dtype=getattr(m, a)), number) for m in (fb, torch))
        assert named(ours) == named(theirs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int8", "uint8",
                                   "int16", "int32", "int64", "bool"])  # fmt: skip
def test_limits(dtype: str) -> None:
    fields = ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype")

    def limits(m: Any, kind: str) -> Any:
        try:
            info = getattr(m, kind)(getattr(m, dtype))
        except TypeError:
            return "TypeError"
        return repr(info), [getattr(info, f) for f in fields if hasattr(info, f)]

    for kind in ("finfo", "iinfo"):
        assert limits(fb, kind) == limits(torch, kind)


QUESTIONS = [
    "cuda.is_available()", "cuda.device_count()", "cuda.is_initialized()", "cuda.memory_allocated()",
    "backends.mps.is_available()", "backends.mps.is_built()", "backends.cudnn.benchmark",
    "backends.cudnn.deterministic", "backends.cudnn.enabled", "backends.cuda.matmul.allow_tf32",
    "backends.cudnn.allow_tf32", "backends.openmp.is_available()", "backends.cuda.is_built()",
    "backends.mkldnn.is_available()", "version.cuda", "version.hip",
    "mps.is_available()", "xpu.is_available()", "accelerator.is_available()",
    "get_float32_matmul_precision()",
    "backends.cuda.flash_sdp_enabled()", "cuda.is_bf16_supported()", "cuda.empty_cache()",
    "cuda.manual_seed(1)",
]  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_about_devices_have_pytorchs_answers(question: str) -> None:
    assert eval(f"m.{question}", {"m": fb}) == eval(f"m.{question}", {"m": torch})


def test_what_needs_a_device_says_so() -> None:
    with pytest.raises(AssertionError, match="not compiled with CUDA enabled"):
        fb.cuda.current_device()
    with contextlib.suppress(AssertionError):
        fb.cuda.synchronize()
    with fb.backends.cudnn.flags(benchmark=True):
        assert fb.backends.cudnn.benchmark
    assert not fb.backends.cudnn.benchmark


def test_tiny_numbers_become_zero_on_request() -> None:
    tiny = fb.tensor([1e-310], dtype=fb.float64)
    assert fb.set_flush_denormal(True)
    try:
        assert (tiny * 1.0).item() == 0.0
    finally:
        fb.set_flush_denormal(False)
    assert (tiny * 1.0).item() != 0.0
