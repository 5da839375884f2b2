"""Warnings about common misuses, by class, and small attributes of tensors, as in PyTorch."""

from __future__ import annotations

import copy
import gc
import warnings

import flambeau
import pytest
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()


def leaf(torch):
    return torch.ones(2, requires_grad=True)


def sgd(torch):
    return torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)


MISUSES = {
    "grad of a non-leaf": lambda t: (t.ones(2, requires_grad=True) * 2).grad,
    "grad of a retained non-leaf": lambda t: [x := leaf(t) * 2, x.retain_grad(), x.grad],
    "T of a vector": lambda t: t.ones(2).T,
    "T of a matrix": lambda t: t.ones(2, 3).T,
    "T of a batch": lambda t: t.ones(2, 3, 4).T,
    "T of a number": lambda t: t.tensor(1.0).T,
    "mT of a number": lambda t: t.tensor(1.0).mT,
    "H of a number": lambda t: t.tensor(1.0).H,
    "mH of a number": lambda t: t.tensor(1.0).mH,
    "mT of a batch": lambda t: t.ones(2, 3, 4).mT,
    "floor division": lambda t: [t.ones(2) // 2, 2 // t.ones(2), t.floor_divide(t.ones(2), 2)],
    "scheduler before optimizer": lambda t: t.optim.lr_scheduler.StepLR(sgd(t), 1).step(),
    "meshgrid without indexing": lambda t: t.meshgrid(t.ones(2), t.ones(2)),
    "meshgrid with indexing": lambda t: t.meshgrid(t.ones(2), t.ones(2), indexing="xy"),
    "volatile": lambda t: t.autograd.Variable(t.ones(1), volatile=True),
    "not volatile": lambda t: t.autograd.Variable(t.ones(1), volatile=False),
    "clip_grad_norm": lambda t: t.nn.utils.clip_grad_norm([t.ones(1, requires_grad=True)], 1.0),
    "set_default_tensor_type": lambda t: t.set_default_tensor_type(t.FloatTensor),
    "chain_matmul": lambda t: t.chain_matmul(t.eye(2), t.eye(2)),
    "lu": lambda t: t.lu(t.eye(2)),
    "lu method": lambda t: t.eye(2).lu(),
    "resize": lambda t: t.ones(2, 3).resize(3, 2),
    "resize_as": lambda t: t.ones(2, 3).resize_as(t.ones(3, 2)),
    "softmax without dim": lambda t: t.nn.functional.softmax(t.ones(2, 2)),
    "broadcast loss": lambda t: t.nn.functional.mse_loss(t.ones(2, 1), t.ones(2)),
    "size_average": lambda t: t.nn.functional.mse_loss(t.ones(2), t.ones(2), size_average=True),
    "kl_div mean": lambda t: t.nn.functional.kl_div(t.zeros(2, 2), t.ones(2, 2)),
    "dropout2d of a matrix": lambda t: t.nn.functional.dropout2d(t.ones(3, 3)),
    "upsample": lambda t: t.nn.functional.upsample(t.ones(1, 1, 2, 2), scale_factor=2),
    "lstm dropout": lambda t: t.nn.LSTM(2, 2, dropout=0.5),
    "empty init": lambda t: t.nn.init.kaiming_uniform_(t.empty(0, 2)),
    "weight_norm": lambda t: t.nn.utils.weight_norm(t.nn.Linear(1, 1)),
    "tensor of a tensor": lambda t: t.tensor(t.ones(2)),
    "new_tensor of a tensor": lambda t: t.ones(1).new_tensor(t.ones(2)),
    "tensor of a list": lambda t: t.tensor([1, 2]),
}


def categories(torch, call):
    # PyTorch says some of them once in a process; here only whether they are said.
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(torch)
    finally:
        torch.set_warn_always(before)
    return sorted({w.category.__name__ for w in caught})


@pytest.mark.parametrize("name", MISUSES)
def test_category(name: str):
    torch = pytorch()
    assert categories(flambeau, MISUSES[name]) == categories(torch, MISUSES[name])


@scenario
def transposes(torch):
    z, x = torch.tensor(1 + 2j), torch.arange(6.0)
    out = [z.T, z.mT, z.H, z.mH, x.view(2, 3).H, x.view(1, 2, 3).mT, x.T]
    return [out, [raised("", getattr, x, name) for name in ("mT", "mH", "H")]]


@scenario
def copies_of_numbers(torch):
    given = (3, 2.5, True, float("nan"), float("inf"), -1)
    floats = [torch.ones(2).copy_(value) for value in given]
    others = [torch.ones(2, dtype=torch.int32).copy_(2.5), torch.ones(2, dtype=torch.complex64).copy_(1j)]
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y[1:].copy_(5)
    y.sum().backward()
    view = torch.zeros(2, 2)
    view.t()[0].copy_(7)
    refused = [raised("", torch.ones(2).copy_, value) for value in ([1, 2], None, "a")]
    return [floats, others, y, x.grad, view, refused, raised("", torch.ones(1).expand(2).copy_, 3)]


@scenario
def shallow_copies(torch):
    w = leaf(torch)
    out = []
    for x in (w, w * 2, (w * 2)[1:], torch.ones(2), torch.nn.Parameter(torch.ones(2))):
        x.note = "kept"
        y = copy.copy(x)
        shares = y.data_ptr() == x.data_ptr()
        out.append([y.requires_grad, y.is_leaf, y.grad_fn is None, y.note, shares, type(y).__name__])
    return out


@scenario
def gradients_of_another_dtype(torch):
    def leaf_of(dtype=None):
        x = leaf(torch)
        if dtype != "unset":
            x.grad_dtype = dtype
        return x

    out = []
    for dtype in ("unset", torch.float64, torch.float16, None):
        x = leaf_of(dtype)
        (x * 2 + x).sum().backward()
        (x * 3).sum().backward()
        out.append([str(x.grad_dtype).rpartition(".")[2], str(x.grad.dtype).rpartition(".")[2], x.grad])
    late = torch.ones(2, requires_grad=True)
    y = late * 2
    late.grad_dtype = torch.float64
    y.sum().backward()
    wide, free = leaf_of(torch.float64), leaf_of()
    free.grad = torch.ones(2, dtype=torch.float16)
    wide.grad = torch.ones(2, dtype=torch.float64)
    return [
        out,
        str(late.grad.dtype).rpartition(".")[2],
        raised("with dtype", setattr, leaf_of(torch.float64), "grad", torch.ones(2)),
        raised("already a gradient", setattr, wide, "grad_dtype", torch.float16),
        raised("must be a torch.dtype or None", setattr, leaf_of(), "grad_dtype", 3),
        raised("can only be set on leaf tensors", setattr, leaf_of() * 2, "grad_dtype", torch.float64),
        raised("can only be accessed on leaf tensors", getattr, leaf_of() * 2, "grad_dtype"),
    ]


@scenario
def weak_references_to_storages(torch):
    from importlib import import_module

    weak = import_module(f"{torch.__name__}.multiprocessing.reductions").StorageWeakRef
    a = torch.ones(3)
    b = torch.ones(3)
    first, second = weak(a.untyped_storage()), weak(a[1:].untyped_storage())
    other = weak(b.untyped_storage())
    facts = [first == second, first == other, hash(first) == hash(second), len({first, second, other})]
    facts += [weak.from_weakref(first.cdata) == first, isinstance(first.cdata, int), first.expired()]
    view = a[1:]
    del a
    gc.collect()
    facts.append(first.expired())
    del view
    gc.collect()
    return [*facts, first.expired(), second.expired(), other.expired()]


test_as_in_pytorch = scenario.test()
