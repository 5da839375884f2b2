"""Operators that are recorded as a whole and end in a view of their own: in-place writes to the result."""

import flambeau
import pytest
from oracle import pytorch
from sides import Scenarios, differences, plain

scenario = Scenarios()


def embedded(torch, write):
    torch.manual_seed(0)
    weight = torch.arange(20.0, dtype=torch.float64).reshape(5, 4).requires_grad_()
    x = torch.nn.functional.embedding(torch.tensor([[1, 2], [4, 1]]), weight)
    write(x)
    (x * x).sum().backward()
    return plain([x, weight.grad])


WRITES = {
    "add": lambda x: x.add_(1),
    "multiply": lambda x: x.mul_(3),
    "a part": lambda x: x[:, 0].mul_(2),
    "a view": lambda x: x.view(-1).mul_(2),
    "zero": lambda x: x.zero_(),
    "assign": lambda x: x.__setitem__((0, 0), 7.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_an_embedding_that_is_written_to(name):
    found, expected = (embedded(m, WRITES[name]) for m in (flambeau, pytorch()))
    assert found == expected, differences(found, expected)


@scenario
def the_result_is_no_view(torch):
    weight = torch.ones(3, 2, requires_grad=True)
    x = torch.nn.functional.embedding(torch.tensor([[0, 1]]), weight)
    return [x._is_view(), x.is_leaf, x.requires_grad]


@scenario
def views_of_tensors_that_require_gradients_stay_views(torch):
    x = torch.ones(2, 2, requires_grad=True) * 1
    y = x.view(4)
    y.mul_(3)
    x.sum().backward()
    return [y._is_view(), y._base is x, type(x.grad_fn).__name__]


@scenario
def a_view_made_without_recording(torch):
    x = torch.ones(4)
    with torch.no_grad():
        y = x.view(2, 2)
    y.requires_grad_()
    z = y.view(4)
    return [z._is_view(), z._base is x]


@scenario
def saved_outputs_have_their_history(torch):
    seen = []

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            x, y = ctx.saved_tensors
            seen.extend([x.requires_grad, y.requires_grad, y.is_leaf, type(y.grad_fn).__name__])
            return grad * y

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    Exp.apply(x).sum().backward()
    Exp.apply(x * 2).sum().backward()
    return [seen, x.grad]


@scenario
def a_search_for_a_root_inside_of_backward(torch):
    """The derivative of a root by the implicit function theorem, from the saved output."""

    class Root(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            y = a.abs() ** (1 / 3)
            ctx.save_for_backward(y, a)
            return y

        @staticmethod
        def backward(ctx, grad):
            y, a = ctx.saved_tensors
            assert y.requires_grad
            with torch.enable_grad():
                (slope,) = torch.autograd.grad((y**3 - a).sum(), y)
            return grad / slope

    a = torch.tensor([1.5, 2.0], dtype=torch.float64, requires_grad=True)
    Root.apply(a).sum().backward()
    return a.grad


test_as_in_pytorch = scenario.test()
