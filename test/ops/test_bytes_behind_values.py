"""Values do not depend on the bytes behind them: bools of any non-zero byte, conjugate and negative views."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import flambeau as fb
import pytest
from op_cases import Op, calls, flat, is_tensor, names, operators, run, tensors

TRUE_BYTES = [2, 255, 128, 1, 64, 254]


def with_other_bytes(t: fb.Tensor) -> fb.Tensor:
    """The same bools, where true elements are bytes other than 1 in turn."""
    if t.dtype != fb.bool:
        return t
    count = (t.numel() + len(TRUE_BYTES) - 1) // len(TRUE_BYTES)
    truth = fb.tensor(TRUE_BYTES * max(count, 1), dtype=fb.uint8)[: t.numel()].reshape(t.shape)
    return (truth * t.to(fb.uint8)).view(fb.bool)


def as_conjugate_view(t: fb.Tensor) -> fb.Tensor:
    """The same complex numbers over memory that holds their conjugates."""
    return t.conj_physical().conj() if t.is_complex() else t


def as_negative_view(t: fb.Tensor) -> fb.Tensor:
    """The same numbers over memory that holds their negatives."""
    signed = t.is_floating_point() or t.is_complex() or t.dtype in (fb.int8, fb.int16, fb.int32, fb.int64)
    return fb._C._functions._neg_view(-t) if signed else t


def mapped(value: Any, f: Callable[[fb.Tensor], fb.Tensor]) -> Any:
    """The tensors of an argument, replaced."""
    if is_tensor(value):
        return f(value)
    return [mapped(v, f) for v in value] if isinstance(value, list) else value


def numbers(t: fb.Tensor) -> fb.Tensor:
    """Something that compares by value: bool bytes and pending views are resolved by a conversion."""
    return t.to(fb.int64) if t.dtype == fb.bool else t.resolve_conj().resolve_neg()


def assert_same(op: Op, dtype: str, disguise: Callable[[fb.Tensor], fb.Tensor]) -> None:
    """Every sample call gives one result with both kinds of arguments."""
    for i, call in enumerate(calls(op)[:3]):
        plain = tensors(call.materialise(dtype, i), dtype)
        if any(a["type"].endswith("!)") for a in op.arguments) and not op.declared_inplace:
            continue
        other = {k: mapped(v, disguise) for k, v in plain.items()}
        try:
            expected = flat(run(op, plain))
        except (RuntimeError, NotImplementedError, TypeError) as error:
            with pytest.raises(type(error)):
                run(op, other)
            continue
        for a, b in zip(expected, flat(run(op, other)), strict=True):
            if not is_tensor(a):
                assert a == b or a != a, op.name
                continue
            assert a.dtype == b.dtype and a.shape == b.shape
            same = fb.isclose(numbers(b), numbers(a), rtol=1e-5, atol=1e-6, equal_nan=True)
            assert same.all(), f"{op.name} {dtype}: {b} expected {a}"


def reads_bool(op: Op) -> bool:
    """Whether a sample has bools among its tensors."""
    masks = any("tb(" in sample or "fb.bool" in sample for sample in op.record["samples"])
    return bool(op.record["samples"]) and op.is_fixed and (masks or "bool" in op.dtypes())


@pytest.mark.parametrize("name", names(reads_bool))
def test_any_byte_but_zero_is_true(name: str):
    op = operators()[name]
    # A view of memory in another dtype shows the bytes themselves.
    if op.kind == "view" and "dtype" in {a["name"] for a in op.arguments}:
        return
    assert_same(op, "bool" if "bool" in op.dtypes() else op.main_dtype(), with_other_bytes)


def reads_complex(op: Op) -> bool:
    """Whether samples can be made of complex numbers."""
    return bool(op.record["samples"]) and op.is_fixed and "complex" in op.record["dtypes"]


@pytest.mark.parametrize("name", names(reads_complex))
def test_conjugate_views_are_read_by_value(name: str):
    op = operators()[name]
    retypes = op.kind == "view" and "dtype" in {a["name"] for a in op.arguments}
    # Such a result would share memory that holds other numbers.
    if name.startswith("view_as_real") or retypes:
        call = calls(op)[0]
        arguments = tensors(call.materialise("complex64", 0), "complex64")
        with pytest.raises(RuntimeError, match="conjugate view"):
            run(op, {k: mapped(v, as_conjugate_view) for k, v in arguments.items()})
        return
    assert_same(op, "complex64", as_conjugate_view)


@pytest.mark.parametrize("name", names(lambda op: op.record["samples"] and op.tensor_names and op.is_fixed))
def test_negative_views_are_read_by_value(name: str):
    op = operators()[name]
    if op.kind == "view" and "dtype" in {a["name"] for a in op.arguments}:
        return
    assert_same(op, op.main_dtype(), as_negative_view)


def test_masks_of_any_bytes_find_what_they_mark():
    """The calls that crashed when a mask held bytes such as 255."""
    mask = fb.tensor([0, 1, 2, 255, 128, 0, 64], dtype=fb.uint8).view(fb.bool)
    x = fb.arange(7.0)
    assert mask.nonzero().flatten().tolist() == [1, 2, 3, 4, 6]
    assert x[mask].tolist() == x.masked_select(mask).tolist() == [1, 2, 3, 4, 6]
    assert fb.zeros(7).masked_scatter_(mask, x + 1).tolist() == [0, 1, 2, 3, 4, 0, 5]
    assert fb.where(mask, 1, 0).sum() == 5 and mask.sum() == 5 and (~mask).sum() == 2
    assert mask.unique().tolist() == [False, True]
    assert fb.argwhere(mask).shape == (5, 1)
    x[mask] = -1
    assert x.tolist() == [0, -1, -1, -1, -1, 5, -1]


@pytest.mark.parametrize("method", ["add_", "mul_", "copy_", "sub_"])
def test_writing_to_a_conjugate_view_changes_its_base(method: str):
    base = fb.tensor([1 + 2j, 3 - 1j])
    view, value = base.conj(), fb.tensor([2 + 1j, -1j])
    expected = getattr(view.clone(), method)(value)
    version = base._version
    assert getattr(view, method)(value) is view
    assert fb.equal(view.resolve_conj(), expected) and fb.equal(base, expected.conj_physical())
    assert base._version > version


def test_copying_a_tensor_onto_its_own_conjugate():
    x = fb.tensor([1 + 2j, 3 - 1j])
    x.copy_(x.conj())
    assert x.tolist() == [1 - 2j, 3 + 1j]


def test_what_shares_memory_refuses_pending_views():
    view = fb.tensor([1 + 2j]).conj()
    for export, error in [("numpy", RuntimeError), ("__dlpack__", BufferError)]:
        with pytest.raises(error, match="conjugate"):
            getattr(view, export)()
        with pytest.raises(error, match="negative"):
            getattr(view.imag, export)()
    with pytest.raises(RuntimeError, match="conjugate"):
        memoryview(view)
    assert view.resolve_conj().numpy()[0] == 1 - 2j and view.numpy(force=True)[0] == 1 - 2j


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_of_pending_views_have_their_values(copied: Callable[[fb.Tensor], fb.Tensor]):
    x = fb.tensor([1 + 2j, 3 - 1j])
    for view in (x.conj(), x.conj().imag, x.conj().real):
        again = copied(view)
        assert again.tolist() == view.tolist()
        assert (again.is_conj(), again.is_neg()) == (view.is_conj(), view.is_neg())


def test_out_arguments_may_be_conjugate_views_of_another_size():
    out = fb.empty(0, dtype=fb.complex64).conj()
    fb.add(fb.tensor([1 + 2j, 3j]), 1, out=out)
    assert out.is_conj() and out.tolist() == [2 + 2j, 1 + 3j]
