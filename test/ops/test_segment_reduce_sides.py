"""segment_reduce: values and gradients at ties, NaN and zero, with and without `initial`, as in PyTorch."""

from __future__ import annotations

import flambeau
import pytest
from oracle import pytorch
from sides import plain

NAN, INF = float("nan"), float("inf")
DATA = [
    [1.0, 3.0, 3.0, 2.0],
    [NAN, 1.0, 2.0, NAN],
    [1.0, NAN, 3.0, NAN],
    [0.0, 0.0, 2.0, 5.0],
    [INF, INF, -INF, 1.0],
    [3.0, 3.0, 3.0, 3.0],
    [2.0, 0.0, 3.0, 0.0],
    [0.0, NAN, 3.0, 2.0],
]
LENGTHS = [[4], [2, 2], [0, 4], [1, 3, 0]]


def reduced(torch, values, kind, lengths, initial):
    data = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    options = {} if initial is None else {"initial": initial}
    result = torch.segment_reduce(data, kind, lengths=torch.tensor(lengths), **options)
    weights = torch.arange(1.0, len(lengths) + 1, dtype=torch.float64)
    (grad,) = torch.autograd.grad((result * weights).sum(), data)
    return [result, grad + 0.0]


@pytest.mark.parametrize("initial", [None, 3.0, NAN, 0.0, INF, -INF])
@pytest.mark.parametrize("kind", ["max", "min", "sum", "mean", "prod"])
def test_values_and_gradients(kind: str, initial: float | None):
    torch = pytorch()
    for values in DATA:
        for lengths in LENGTHS:
            ours, theirs = (plain(reduced(f, values, kind, lengths, initial)) for f in (flambeau, torch))
            assert ours == theirs, (values, lengths)


@pytest.mark.parametrize("kind", ["max", "min", "sum", "mean", "prod"])
def test_rows_and_inner_dimensions(kind: str):
    torch = pytorch()

    def result(fw):
        data = (fw.arange(24.0, dtype=fw.float64) % 5).reshape(2, 4, 3).requires_grad_()
        lengths = fw.tensor([[1, 3], [2, 2]])
        y = fw.segment_reduce(data, kind, lengths=lengths, axis=1)
        return [y, fw.autograd.grad((y * y).sum(), data)[0]]

    assert plain(result(flambeau)) == plain(result(torch))


@pytest.mark.parametrize("kind", ["max", "min", "sum", "mean", "prod"])
def test_derivatives_against_finite_differences(kind: str):
    """Without ties all orders and modes agree with differences of values."""
    data = flambeau.tensor([1.0, 4.0, 2.0, 7.0, 3.0], dtype=flambeau.float64, requires_grad=True)

    def f(x):
        return flambeau.segment_reduce(x, kind, lengths=flambeau.tensor([2, 3]), initial=0.5)

    assert flambeau.autograd.gradcheck(f, (data,), check_forward_ad=True)
    assert flambeau.autograd.gradgradcheck(f, (data,))
