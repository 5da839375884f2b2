"""uint16, uint32, uint64 and complex32: as in PyTorch where it has them, by NumPy where it has not."""

from __future__ import annotations

import operator
import re

import flambeau
import numpy as np
import pytest
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()
UNSIGNED = ("uint16", "uint32", "uint64")
LARGE = {"uint16": 2**16 - 1, "uint32": 2**32 - 1, "uint64": 2**64 - 1}


def unsigned(torch):
    """One tensor of each type, with its largest value."""
    return [torch.tensor([1, 2, LARGE[name]], dtype=getattr(torch, name)) for name in UNSIGNED]


def named(result):
    return [str(result.dtype).rpartition(".")[2], list(result.shape), result.tolist()]


@scenario
def values_go_in_and_out(torch):
    rows = [[named(x), x[2].item(), x.element_size(), x.is_signed()] for x in unsigned(torch)]
    big = torch.full((2,), 2**63, dtype=torch.uint64)
    wrapped = [named(torch.tensor([-1], dtype=getattr(torch, n))) for n in ("uint8", "uint16", "uint32")]
    filled = torch.empty(2, dtype=torch.uint16).fill_(-1)
    return [rows, named(big), wrapped, named(filled), named(torch.full((1,), 2.0**63, dtype=torch.uint64))]


@scenario
def what_does_not_fit_raises(torch):
    return [
        raised("overflow", torch.tensor, [70000], dtype=torch.uint16),
        raised("overflow", torch.tensor, [-300], dtype=torch.uint8),
        raised("overflow", torch.tensor, [-70000], dtype=torch.uint16),
        raised("overflow", torch.full, (2,), 2**63),
        raised("overflow", torch.tensor, [2**63]),
        raised("overflow", torch.tensor, 2**63),
        raised("overflow", torch.empty(2, dtype=torch.uint16).fill_, 65536),
    ]


@scenario
def conversions(torch):
    floats = torch.tensor([-3.7, 0.0, 2.5, 300.0])
    out = [named(floats.to(getattr(torch, name))) for name in UNSIGNED[:2]]
    out.append(named(torch.tensor([1e19, 2.5]).to(torch.uint64)))
    for x in unsigned(torch):
        targets = (
            torch.bool,
            torch.uint8,
            torch.int32,
            torch.int64,
            torch.float64,
            torch.complex64,
            torch.chalf,
        )
        out += [named(x[:2].to(target)) for target in targets]
        out += [named(x.double()), named(x.to(torch.int64)), named(x.view(torch.uint8)[:4])]
    return out


@scenario
def promotion(torch):
    names = "uint8 int8 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128".split()
    table = []
    for a in (*UNSIGNED, "complex32", "float16", "bfloat16"):
        for b in (*names, *UNSIGNED):
            x, y = getattr(torch, a), getattr(torch, b)
            failed = raised("promotion", torch.promote_types, x, y)
            table.append(
                [a, b, failed if failed != "nothing" else str(torch.promote_types(x, y)).rpartition(".")[2]]
            )
            table.append(torch.can_cast(x, y))
    x = unsigned(torch)[0]
    numbers = [str(torch.result_type(x, n)).rpartition(".")[2] for n in (True, 1, 1.0, 1j)]
    halves = [str(torch.result_type(torch.ones(2, dtype=d), 1j))[-9:] for d in (torch.half, torch.bfloat16)]
    zero_dim = [named(x * torch.tensor(2)), named(x * torch.tensor(2.0))]
    return [table, numbers, halves, zero_dim]


@scenario
def arithmetic(torch):
    out = []
    for x in unsigned(torch):
        out += [
            named(x * 3),
            named(x * 3.5),
            named(x & x),
            named(x ^ 1),
            named(x / x),
            named(x == LARGE["uint16"]),
        ]
        out += [named(x.sum()), named(x.prod()), named(x.cumsum(0)), named(x.sin()), named(x != x)]
    return [*out, named(torch.tensor([2**64 - 1], dtype=torch.uint64) * 2**63)]


@scenario
def moves_and_order(torch):
    out = []
    for x in unsigned(torch):
        up, places = x.sort()
        down = x.sort(descending=True)
        out += [named(up), places.tolist(), named(down[0]), named(torch.unique(torch.cat([x, x])))]
        out += [
            named(torch.stack([x, x]).t()),
            named(torch.where(x == 1, x, x * 2)),
            torch.equal(x, x.clone()),
        ]
        out += [x.any().item(), x.all().item(), torch.allclose(x, x)]
    return out


@scenario
def half_complex(torch):
    x = torch.tensor([1 + 2j, 3 - 4j], dtype=torch.chalf)
    h = torch.tensor([1.0, 2.0], dtype=torch.half)
    results = [
        x,
        x + x,
        x * 2,
        x * h,
        x.real,
        x.imag,
        x.abs(),
        x.conj().clone(),
        torch.view_as_real(x),
        h * 1j,
    ]
    results += [
        torch.complex(h, h),
        torch.view_as_complex(torch.ones(3, 2, dtype=torch.half)),
        x.chalf(),
        h.chalf(),
    ]
    results += [x.to(torch.complex64), x == x, torch.zeros(2, dtype=torch.chalf), x.reshape(2, 1).t()]
    facts = [
        x.dtype.to_real(),
        torch.half.to_complex(),
        torch.bfloat16.to_complex(),
        torch.finfo(x.dtype).eps,
    ]
    return [
        [named(r) for r in results],
        [str(f).rpartition(".")[2] for f in facts],
        x[0].item(),
        x.type()[-17:],
    ]


@scenario
def gradients_pass_through(torch):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x.to(torch.chalf) * (1 + 2j)).real.float().sum().backward()
    return x.grad.tolist()


@scenario
def shown(torch):
    return [
        re.sub(r"torch\.|flambeau\.", "", repr(x))
        for x in (*unsigned(torch), torch.tensor([1 + 2j], dtype=torch.chalf))
    ]


@scenario
def limits_and_names(torch):
    kinds = [getattr(torch, n) for n in UNSIGNED]
    return [[torch.iinfo(k).max, torch.iinfo(k).bits, torch.zeros(1, dtype=k).type()[-12:]] for k in kinds]


@scenario
def memory_of_numpy(torch):
    arrays = [np.array([1, 2**15], dtype=name) for name in UNSIGNED]
    return [[named(torch.from_numpy(a)), str(torch.from_numpy(a).numpy().dtype)] for a in arrays]


@scenario
def hashes(torch):
    x = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, float("inf")]])
    whole = torch.tensor([[1, 2, -3], [4, 5, 6]], dtype=torch.int8)
    results = [torch.hash_tensor(x), torch.hash_tensor(x, 1), torch.hash_tensor(x, (0, 1), keepdim=True)]
    results += [torch.hash_tensor(x.to(d), dim=0) for d in (torch.half, torch.bfloat16, torch.double)]
    results += [torch.hash_tensor(whole, 0), torch.hash_tensor(torch.tensor([True, False]))]
    return [named(r) for r in results] + [
        raised("mode", torch.hash_tensor, x, mode=1),
        raised("hash", torch.hash_tensor, torch.ones(2, dtype=torch.complex64))[0],
        raised("dim", torch.hash_tensor, torch.ones(0)),
        raised("dim", torch.hash_tensor, torch.ones(0, 3), dim=0),
    ]


test_as_in_pytorch = scenario.test()


# --- beyond PyTorch: the operators of integers, against NumPy -----------------------------------------

BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floor_divide": operator.floordiv,
    "remainder": operator.mod, "maximum": np.maximum, "minimum": np.minimum, "gcd": np.gcd,
    "bitwise_or": operator.or_, "lt": operator.lt, "ge": operator.ge, "bitwise_right_shift": operator.rshift,
    "fmax": np.fmax, "clamp_min": np.maximum,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_binary_operators(name, dtype):
    rng = np.random.default_rng(1)
    a = rng.integers(0, LARGE[dtype], 300, dtype=dtype, endpoint=True)
    b = rng.integers(1, 15 if "shift" in name else LARGE[dtype], 300, dtype=dtype, endpoint=True)
    a[:2] = (LARGE[dtype], 0)
    found = getattr(flambeau, name)(flambeau.from_numpy(a), flambeau.from_numpy(b)).numpy()
    expected = BINARY[name](a, b)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_extrema_and_selection(dtype):
    a = np.random.default_rng(2).integers(0, LARGE[dtype], (7, 40), dtype=dtype, endpoint=True)
    x = flambeau.from_numpy(a)
    np.testing.assert_array_equal(x.amax(1).numpy(), a.max(1))
    np.testing.assert_array_equal(x.min().numpy(), a.min())
    np.testing.assert_array_equal(x.argmax(1).numpy(), a.argmax(1))
    np.testing.assert_array_equal(x.argmin(0).numpy(), a.argmin(0))
    np.testing.assert_array_equal(x.topk(3, 1).values.numpy(), np.sort(a, 1)[:, ::-1][:, :3])
    np.testing.assert_array_equal(x.flip(1).sort(1).values.numpy(), np.sort(a, 1))
    np.testing.assert_array_equal(x.sort(0, descending=True).values.numpy(), np.sort(a, 0)[::-1])
    np.testing.assert_array_equal(flambeau.unique(x.repeat(2, 1)).numpy(), np.unique(a))
    np.testing.assert_array_equal(x.kthvalue(9, 1).values.numpy(), np.sort(a, 1)[:, 8])
    np.testing.assert_array_equal(x.repeat(1, 3).mode(1).values.numpy(), a.min(1))
    np.testing.assert_array_equal(x.median(1).values.numpy(), np.sort(a, 1)[:, 19])
    np.testing.assert_array_equal(x.cummax(1).values.numpy(), np.maximum.accumulate(a, 1))
    np.testing.assert_array_equal(x.nonzero().numpy(), np.argwhere(a))
    np.testing.assert_array_equal(x[x > 7].numpy(), a[a > 7])
    places = flambeau.searchsorted(x[0].sort().values, x[1]).numpy()
    np.testing.assert_array_equal(places, np.searchsorted(np.sort(a[0]), a[1]))


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_counting_up(dtype):
    kind = getattr(flambeau, dtype)
    assert flambeau.arange(5, dtype=kind).tolist() == [0, 1, 2, 3, 4]
    assert flambeau.linspace(0, 8, 5, dtype=kind).tolist() == [0, 2, 4, 6, 8]
    assert sorted(flambeau.randperm(9, dtype=kind).tolist()) == list(range(9))
    drawn = flambeau.randint(3, 7, (200,), dtype=kind)
    assert set(drawn.tolist()) == {3, 4, 5, 6}


def test_files_are_pytorchs(tmp_path):
    torch = pytorch()
    for name in (*UNSIGNED, "complex32"):
        theirs = torch.arange(6).to(getattr(torch, name)).reshape(2, 3).t()
        torch.save({"x": theirs}, tmp_path / "theirs.pt")
        read = flambeau.load(tmp_path / "theirs.pt")["x"]
        assert named(read) == named(theirs) and read.stride() == theirs.stride()
        flambeau.save({"x": read}, tmp_path / "ours.pt")
        assert named(torch.load(tmp_path / "ours.pt")["x"]) == named(theirs)
        assert named(flambeau.load(tmp_path / "ours.pt")["x"]) == named(theirs)


def test_sums_of_half_complex_are_rounded_once():
    x = flambeau.full((3000,), 1 + 1j, dtype=flambeau.complex32)
    assert x.sum().item() == 3000 + 3000j
    assert x.mean().item() == 1 + 1j


@pytest.mark.parametrize("call", ["fft.fft", "fft.ifft", "fft.irfft", "linalg.det", "linalg.eigvals", "sort"])
def test_kernels_without_half_complex_refuse_it(call):
    function = flambeau
    for part in call.split("."):
        function = getattr(function, part)
    with pytest.raises((RuntimeError, NotImplementedError)):
        function(flambeau.ones(4, 4, dtype=flambeau.complex32))
