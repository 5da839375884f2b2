"""tensordot as in PyTorch: values, gradients, dtypes in regions of autocast, errors."""

import pytest
from side_by_side import agree, numbers
from sides import Scenarios, raised

scenario = Scenarios()

CASES = [
    ((5,), (5,), 1),
    ((5,), (5,), ([-1], [0])),
    ((2, 5), (5,), 1),
    ((2, 1), (1, 3), 1),
    ((2, 2, 1), (2, 1, 2), ([0, 2], [0, 1])),
    ((2, 3, 4), (4, 3, 5), ([1, 2], [1, 0])),
    ((2, 4), (3, 1), ([1], [1])),
    ((2, 1), (3, 4), ([-1], [-1])),
    ((2, 3), (2, 3), 2),
    ((2, 3), (4,), 0),
    ((), (), 0),
    ((0,), (0,), 1),
    ((2, 0), (0, 3), 1),
    ((1, 5), (5, 1), 1),
    ((0, 2), (2, 0), 1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_gradients(case):
    *shapes, dims = case

    def program(torch, a, b):
        a.requires_grad_(), b.requires_grad_()
        out = torch.tensordot(a, b, dims)
        out.square().sum().backward()
        return out, a.grad, b.grad

    agree(program, numbers(*shapes[0]), numbers(*shapes[1], seed=1))


@scenario
def dtypes_in_regions_of_autocast(torch):
    found = []
    for first, second, dims in CASES:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = torch.tensordot(torch.ones(first), torch.ones(second), dims)
        found.append([str(out.dtype).rpartition(".")[2], list(out.shape)])
    return found


@scenario
def errors(torch):
    a, v, one = torch.ones(2, 3), torch.ones(3), torch.ones(())
    calls = [
        (a, v.double(), 1),
        (v, v.double(), 1),
        (a, torch.ones(3, 2), ([0, 0], [1, 1])),
        (v, v, ([0], [5])),
        (v, v, ([0], [])),
        (a, a, 1),
        (v, v, -1),
        (one, v, ([0], [0])),
    ]
    return [raised("", torch.tensordot, *call) for call in calls]


@scenario
def a_loss_of_chunks_in_a_region(torch):
    x, w, y = torch.ones(8, 3), torch.ones(4, 3), torch.zeros(8, dtype=torch.int64)
    found = []
    for options in ({}, {"chunking_method": None}, {"batch_chunk_size": 3}):
        chosen = torch.nn.LinearCrossEntropyOptions(**options)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for reduction in ("mean", "sum", "none"):
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = torch.nn.functional.linear_cross_entropy
                    out = loss(x.to(dtype), w, y, reduction=reduction, options=chosen)
                found.append(str(out.dtype).rpartition(".")[2])
    return found


@scenario
def dtype_of_gradients(torch):
    x = torch.ones(2, requires_grad=True)
    names = [str(t.grad_dtype).rpartition(".")[2] for t in (x, torch.ones(1).double(), torch.arange(2))]
    x.grad_dtype = torch.float32
    inner = x * 2
    return [
        names,
        raised("leaf tensors", getattr, inner, "grad_dtype"),
        raised("leaf tensors", setattr, inner, "grad_dtype", torch.float32),
        raised("grad_dtype must be", setattr, x, "grad_dtype", "float32"),
    ]


test_as_in_pytorch = scenario.test()
