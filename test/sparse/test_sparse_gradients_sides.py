"""Gradients of sparse tensors, as in PyTorch, and those that PyTorch refuses."""

import flambeau
import pytest
from sparse_cases import agreeing, dense, gradient, hybrid, sample, shown, square

VIEWS = {
    "select": lambda t, x: x.select(0, 1),
    "select of columns": lambda t, x: x[:, 2],
    "index": lambda t, x: x[0],
    "one element": lambda t, x: x[0, 2],
    "narrow_copy": lambda t, x: t.narrow_copy(x, 1, 1, 2),
    "index_select": lambda t, x: x.index_select(1, t.tensor([2, 0, 2])),
    "index_select of rows": lambda t, x: x.index_select(0, t.tensor([1])),
    "t": lambda t, x: x.transpose(0, 1),
    "stack": lambda t, x: t.stack([x, x], 0),
    "to_dense": lambda t, x: x.to_dense(),
    "coalesce": lambda t, x: x.coalesce(),
    "values": lambda t, x: x.coalesce().values(),
    "product with a strided": lambda t, x: x * dense(t, 2, 3, *x.shape[2:]),
    "square": lambda t, x: x * x,
    "scaled": lambda t, x: 2 * x - x / 2,
    "strided plus": lambda t, x: dense(t, *x.shape) + x,
    "sum": lambda t, x: x.sum(),
    "sparse.sum": lambda t, x: t.sparse.sum(x),
    "sparse.sum of rows": lambda t, x: t.sparse.sum(x, 0),
    "sparse.sum of columns": lambda t, x: t.sparse.sum(x, 1),
    "softmax": lambda t, x: t.sparse.softmax(x, 1),
    "softmax of columns": lambda t, x: t.sparse.softmax(x, 0),
    "log_softmax": lambda t, x: t.sparse.log_softmax(x, 1),
    "mask with duplicates": lambda t, x: x.sparse_mask(x.detach()),
    "mask": lambda t, x: x.sparse_mask(x.detach().coalesce()),
}
OF_HYBRID = {
    "dense dim": lambda t, x: x.select(2, 1),
    "index_select of a dense dim": lambda t, x: x.index_select(2, t.tensor([1, 1])),
    "sum of values": lambda t, x: t.sparse.sum(x, 2),
    "sum of both": lambda t, x: t.sparse.sum(x, [0, 2]),
    "sum of entries": lambda t, x: t.sparse.sum(x, [0, 1]),
    "softmax of values": lambda t, x: t.sparse.softmax(x, 2),
}
OF_SQUARE = {
    "mm": lambda t, x: t.sparse.mm(x, dense(t, 3, 2)),
    "matmul": lambda t, x: x @ dense(t, 3, 2),
    "mv": lambda t, x: x @ dense(t, 3),
    "from the left": lambda t, x: dense(t, 2, 3) @ x,
    "sparse times sparse": lambda t, x: t.sparse.mm(x, square(t)),
    "its square": lambda t, x: t.sparse.mm(x, x),
    "addmm": lambda t, x: t.sparse.addmm(dense(t, 3, 2), x, dense(t, 3, 2), beta=2, alpha=3),
}
OF_STRIDED = {
    "mm": lambda t, x: t.sparse.mm(square(t), x),
    "added to": lambda t, x: t.sparse.addmm(x, square(t), dense(t, 3, 2), beta=2, alpha=3),
    "to_sparse": lambda t, x: x.to_sparse(),
    "to_sparse of rows": lambda t, x: x.to_sparse(1),
    "mask": lambda t, x: x.sparse_mask(square(t).index_select(1, t.tensor([0, 2])).coalesce()),
    "mask with duplicates": lambda t, x: x.sparse_mask(
        t.sparse_coo_tensor([[0, 0, 2], [1, 1, 0]], [1.0, 2.0, 3.0], (3, 2), dtype=t.float64)
    ),
    "gathered": lambda t, x: t.gather(x, 1, t.tensor([[0], [1], [0]]), sparse_grad=True),
    "gathered rows": lambda t, x: t.gather(x, 0, t.tensor([[2, 0], [2, 1]]), sparse_grad=True),
}
CASES = {}
for kind, make, functions in (
    ("sparse", sample, VIEWS),
    ("hybrid", hybrid, VIEWS | OF_HYBRID),
    ("square", square, OF_SQUARE),
    ("strided", lambda t: dense(t, 3, 2), OF_STRIDED),
):
    for name, function in functions.items():
        CASES[f"{kind}: {name}"] = lambda t, m=make, f=function: gradient(t, m(t), lambda x: f(t, x))


def accumulated(t):
    """Gradients of two backward passes add up."""
    x = sample(t).requires_grad_()
    (x.to_dense().sum() * 2 + t.sparse.sum(x)).backward()
    t.sparse.sum(x, 0).to_dense().exp().sum().backward()
    return x.grad


def of_values(t):
    """Through the constructor, for entries that share a place."""
    values = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
    x = t.sparse_coo_tensor([[0, 0, 2]], values, (3,))
    t.sparse.sum(x * x).backward()
    return values.grad


CASES |= {"accumulated": accumulated, "of values": of_values}
test_gradients = agreeing(CASES)

REFUSED = {  # by PyTorch; the gradient here is that of the same function of a strided tensor
    "unsqueeze": lambda t, x: x.unsqueeze(0),
    "cat": lambda t, x: t.cat([x, x], 1),
    "norm": lambda t, x: x.norm(),
    "largest": lambda t, x: x.norm(float("inf")),
    "sin": lambda t, x: x.sin(),
    "tanh": lambda t, x: x.tanh(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_gradients_that_pytorch_refuses(name):
    t, function = flambeau, REFUSED[name]
    x = sample(t).coalesce()
    found = gradient(t, x, lambda x: function(t, x)).to_dense()
    expected = gradient(t, x.to_dense(), lambda x: function(t, x))
    assert t.allclose(found, expected * (x.to_dense() != 0)), (found, expected)


def test_gradient_of_a_sparse_gather_is_sparse():
    x = dense(flambeau, 3, 2).requires_grad_()
    flambeau.gather(x, 1, flambeau.tensor([[0, 0], [1, 0]]), sparse_grad=True).sum().backward()
    assert x.grad.is_sparse and shown(x.grad.to_dense())[-1] == [[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
