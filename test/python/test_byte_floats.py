"""Floating types of one byte convert, print, compare and travel in files as in PyTorch."""

from __future__ import annotations

import copy
import io

import flambeau
import numpy as np
import pytest
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()
NAMES = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
EVERY = (*NAMES, "float4_e2m1fn_x2")
OTHERS = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 "
    "uint16 uint32 uint64 complex32"
).split()


def all_of(torch, name):
    """Every byte as an element."""
    return torch.arange(256, dtype=torch.uint8).view(getattr(torch, name))


def pair(torch, name):
    return torch.tensor([1.3, 2.0]).to(getattr(torch, name))


def boundaries():
    """All floats of 16 bits, and their neighbours with every pattern below that decides a rounding."""
    high = np.arange(2**16, dtype=np.uint32) << 16
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return (high[:, None] | low).ravel().view(np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_every_boundary_rounds_as_in_pytorch(name):
    torch, values = pytorch(), boundaries()
    found = flambeau.from_numpy(values).to(getattr(flambeau, name)).view(flambeau.uint8).numpy()
    expected = torch.from_numpy(values).to(getattr(torch, name)).view(torch.uint8).numpy()
    wrong = np.flatnonzero(found != expected)
    assert not len(wrong), [(values[i], found[i], expected[i]) for i in wrong[:5]]


@scenario
def every_byte_widens(torch):
    return [all_of(torch, name).float() for name in NAMES]


@scenario
def conversions_between_all_types(torch):
    out = []
    for name in NAMES:
        values = torch.tensor([0.0, 1.0, 1.3, 2.0, 3.7, 100.0])
        small = values.to(getattr(torch, name))
        for other in OTHERS:
            out.append(small.to(getattr(torch, other)).tolist())
            out.append(values.to(getattr(torch, other)).to(getattr(torch, name)).view(torch.uint8))
        out += [small.to(getattr(torch, other)).view(torch.uint8) for other in NAMES]
    return out


@scenario
def long_strided_and_complex_sources(torch):
    x = torch.arange(-1000, 1001) * 0.3
    out = []
    for name in NAMES:
        dtype = getattr(torch, name)
        small = x.double().to(dtype)
        numbers = torch.ones(2001).to(dtype)  # NaN as an integer is undefined
        out += [small.float(), numbers[::3].int(), small[::7].half()]
        out += [x[::2].to(torch.cfloat).to(dtype).view(torch.uint8)]
        grid = x[:2000].reshape(40, 50).t().to(dtype)
        out += [grid.contiguous().float(), list(grid.stride())]
    return out


@scenario
def numbers_in_and_out(torch):
    out = []
    for name in NAMES:
        dtype = getattr(torch, name)
        x = torch.tensor([1.0, 2.3, 1000.0], dtype=dtype)
        y = torch.zeros(2, dtype=dtype)
        y[1] = 1.5
        out += [x, x[1].item(), y, torch.full((2,), 1.7, dtype=dtype), torch.ones(2, dtype=dtype)]
        out += [
            torch.tensor([1, 1000], dtype=dtype),
            torch.empty(2, dtype=dtype).fill_(-3),
            torch.eye(2, dtype=dtype),
        ]
        out += [
            torch.full((1,), v, dtype=dtype).view(torch.uint8)
            for v in (1e10, 1e39, float("inf"), float("nan"))
        ]
        out += [
            x.new_tensor([1.0]),
            torch.full_like(x, 2),
            x.zero_(),
            torch.tensor(2.0, dtype=dtype).bool().item(),
        ]
    return out


@scenario
def movement(torch):
    out = []
    index, mask = torch.tensor([1, 0]), torch.tensor([True, False])
    for name in NAMES:
        x = pair(torch, name)
        out += [
            torch.cat([x, x]),
            torch.stack([x, x]).t().contiguous(),
            x[index],
            x[mask],
            x.clone(),
            x.roll(1),
        ]
        out += [
            x.repeat(2),
            x.index_select(0, index),
            x.masked_select(mask),
            torch.where(mask, x, x),
            x.diag(),
        ]
        out += [
            x.expand(2, 2),
            x.view(torch.uint8),
            x.view(torch.uint8).view(x.dtype),
            x.copy_(torch.tensor([1.3, 2.7])),
        ]
        out += [copy.deepcopy(x), x.storage().nbytes(), torch._foreach_copy_([x], [torch.ones(2)])[0]]
        out += [
            torch.nn.functional.embedding(torch.tensor([0]), x.reshape(2, 1)),
            torch.as_tensor(x, dtype=torch.float32),
        ]
        if name != "float8_e8m0fnu":  # which PyTorch does not write by index
            x[torch.tensor([0])] = x[1:].clone()
            out.append(x)
    return out


@scenario
def comparison_and_products(torch):
    out = []
    for name in NAMES:
        x = pair(torch, name)
        every = all_of(torch, name)
        out += [x == x, x != x, x == 2, x.isnan(), every.isnan(), every == every, x * x, x.any(), x.all()]
    return out


@scenario
def packed_pairs(torch):
    x = torch.tensor([0x12, 0x3C], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    parts = [
        torch.cat([x, x]),
        torch.stack([x, x]).t().contiguous(),
        x.clone(),
        x.repeat(2),
        torch.zeros(2, dtype=x.dtype),
    ]
    failures = [
        raised("not implemented", call)
        for call in (
            x.float,
            x[0].item,
            lambda: x.fill_(1.0),
            lambda: torch.ones(2, dtype=x.dtype),
            lambda: x + x,
        )
    ]
    return [[p.view(torch.uint8) for p in parts], failures, repr(x).replace("flambeau", "torch")]


@scenario
def facts(torch):
    out = []
    for name in EVERY:
        dtype = getattr(torch, name)
        x = torch.zeros(1, dtype=dtype)
        out.append(
            [
                x.is_floating_point(),
                x.is_signed(),
                x.is_complex(),
                dtype.itemsize,
                dtype.is_signed,
                x.type().partition(".")[2],
            ]
        )
        out.append(
            [
                str(dtype)[-10:],
                str(dtype.to_real())[-10:],
                raised("Unknown Complex ScalarType", dtype.to_complex),
            ]
        )
        out.append(
            [
                torch.can_cast(dtype, torch.float32),
                torch.can_cast(torch.int32, dtype),
                torch.can_cast(dtype, torch.int32),
            ]
        )
        out.append(x.clone().requires_grad_().requires_grad)
        out.append(raised("", torch.set_default_dtype, dtype)[0])
        out.append(raised("unsupported ScalarType", x.numpy))
    return out


@scenario
def limits(torch):
    out = []
    for name in NAMES:
        i = torch.finfo(getattr(torch, name))
        out.append([i.bits, i.dtype, i.eps, i.max, i.min, i.tiny, i.smallest_normal, i.resolution, repr(i)])
    return out


@scenario
def promotion(torch):
    out = []
    for name in NAMES:
        dtype, x = getattr(torch, name), pair(torch, name)
        phrase = "Promotion for Float8 Types is not supported"
        others = [getattr(torch, n) for n in ("float32", "int32", "bool", "complex64", "float16", "uint16")]
        out += [raised(phrase, torch.promote_types, dtype, other) for other in others]
        out += [
            str(torch.promote_types(dtype, dtype))[-8:],
            str(torch.result_type(x, 1.0))[-8:],
            str(torch.result_type(x, 1))[-8:],
        ]
        out += [raised("Unknown Complex ScalarType", torch.result_type, x, 1j)]
        out += [
            raised(phrase, lambda x=x: x * torch.ones(2)),
            raised(phrase, lambda x=x: x + torch.ones(2).to(torch.half)),
        ]
    out.append(raised(phrase, torch.promote_types, torch.float8_e5m2, torch.float8_e4m3fn))
    return out


@scenario
def shown(torch):
    return [repr(pair(torch, name)).replace("flambeau", "torch") for name in NAMES]


@scenario
def gradients_pass_through(torch):
    x = torch.tensor([1.3, 2.0], requires_grad=True)
    x.to(torch.float8_e4m3fn).float().sum().backward()
    leaf = torch.tensor([1.3, 2.0]).to(torch.float8_e5m2).requires_grad_()
    (leaf.float() * 1.3).sum().backward()
    return [x.grad, leaf.grad, str(leaf.grad.dtype)[-11:]]


test_as_in_pytorch = scenario.test()


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("weights_only", [True, False])
def test_files_are_pytorchs(tmp_path, name, weights_only):
    torch = pytorch()
    theirs = torch.arange(6, dtype=torch.uint8).view(getattr(torch, name)).reshape(2, 3).t()
    torch.save({"x": theirs, "dtype": theirs.dtype}, tmp_path / "theirs.pt")
    read = flambeau.load(tmp_path / "theirs.pt", weights_only=weights_only)
    assert read["dtype"] is getattr(flambeau, name)
    assert read["x"].stride() == theirs.stride()
    assert read["x"].view(flambeau.uint8).tolist() == theirs.view(torch.uint8).tolist()
    flambeau.save(read, tmp_path / "ours.pt")
    back = torch.load(tmp_path / "ours.pt")
    assert back["dtype"] is theirs.dtype and back["x"].dtype is theirs.dtype
    assert back["x"].view(torch.uint8).tolist() == theirs.view(torch.uint8).tolist()


@pytest.mark.parametrize("name", EVERY)
def test_dlpack_is_pytorchs(name):
    torch = pytorch()
    theirs = torch.arange(6, dtype=torch.uint8).view(getattr(torch, name))
    ours = flambeau.from_dlpack(theirs)
    assert ours.dtype is getattr(flambeau, name)
    back = torch.from_dlpack(ours)
    assert back.dtype is theirs.dtype
    assert back.view(torch.uint8).tolist() == ours.view(flambeau.uint8).tolist() == list(range(6))


def test_copies_of_a_pickled_tensor_agree():
    x = flambeau.tensor([1.5, -2.0], dtype=flambeau.float8_e4m3fn)
    file = io.BytesIO()
    flambeau.save(x, file)
    file.seek(0)
    assert flambeau.load(file).tolist() == x.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_rounded_once(name):
    x = flambeau.ones(64, dtype=getattr(flambeau, name))
    assert x.sum().item() == 64 and (x + x).tolist() == [2.0] * 64 and x.max().item() == 1


@pytest.mark.parametrize("value", ["int8", "uint16", "float16", "float8_e5m2", "complex64"])
@pytest.mark.parametrize("mask", ["bool", "uint8"])
def test_masks_have_no_say_in_the_dtype_of_where(mask, value):
    x = flambeau.tensor([1, 2]).to(getattr(flambeau, value))
    condition = flambeau.tensor([1, 0]).to(getattr(flambeau, mask))
    assert flambeau.where(condition, x, x).dtype is x.dtype
    each = flambeau.vmap(lambda c, v: flambeau.where(c, v, v))(condition, x)
    assert each.dtype is x.dtype


@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64", "uint16", "float8_e5m2"])
def test_where_refuses_conditions_that_are_numbers(dtype):
    condition = flambeau.tensor([1, 0]).to(getattr(flambeau, dtype))
    with pytest.raises(RuntimeError, match="expected a condition of bool or uint8"):
        flambeau.where(condition, 1.0, 2.0)
