"""The functions of distributed.nn.functional: values and gradients, compared with PyTorch's."""

from distributed.ranks import run

PROGRAM = """
import importlib
f = importlib.import_module(fw.__name__ + ".distributed.nn.functional")
dist.init_process_group("gloo")
R, found = dist.ReduceOp, []

def rounded(t):
    return [list(t.shape), [float(f"{v:.5g}") for v in t.flatten().tolist()]]

def gradients(function):
    x = (fw.arange(4.0) + 10 * rank + 1).requires_grad_()
    result = function(x)
    parts = list(result) if isinstance(result, (list, tuple)) else [result]
    total = fw.zeros(())
    for i, part in enumerate(parts):
        weight = fw.arange(1.0, part.numel() + 1).reshape(part.shape) * (rank + 1 + i)
        total = total + (part * weight).square().sum()
    total.backward()
    found.append([type(result).__name__, [rounded(part) for part in parts], rounded(x.grad)])

def mixed(x):
    y = f.all_reduce(x * (rank + 1))
    z = f.all_gather(y.sin())[(rank + 1) % size]
    return f.broadcast(f.all_to_all_single(fw.empty(4), z * y), 0)

half = dist.new_group([0, 1])
for function in (
    lambda x: f.broadcast(x, 1),
    lambda x: f.broadcast(x.reshape(2, 2).t(), 0),
    lambda x: f.gather(x, 1),
    lambda x: f.scatter([x * 2, x * 3], 1),
    lambda x: f.reduce_scatter(fw.empty(4), [x * 2, x * 3]),
    lambda x: f.all_gather(x),
    lambda x: f.all_gather(x.reshape(2, 2).t()),
    lambda x: f.all_to_all([fw.empty(4), fw.empty(4)], [x * 2, x * 3]),
    lambda x: f.all_to_all_single(fw.empty(4), x),
    lambda x: f.all_to_all_single(fw.empty([2, 6][rank]), x, [[1, 1], [3, 3]][rank], [1, 3]),
    lambda x: f.all_reduce(x),
    lambda x: f.all_reduce(x, group=half),
    lambda x: f.all_reduce(f.all_reduce(x.expand(3, 4))),
    mixed,
):
    gradients(function)
x = fw.ones(2, requires_grad=True) * (rank + 1)
total = f.reduce(x, 1)
total.sum().backward() if rank == 1 else (total * 5).sum().backward()
found.append([total.tolist() if rank == 1 else [1.0, 1.0], x.grad_fn is not None])
y = fw.ones(2, requires_grad=True)
(f.reduce(y, 1) * (rank + 2)).sum().backward()
found.append(y.grad.tolist())
OWN
dist.barrier()
put(found)
"""

# PyTorch applies the reduction to the gradients, which are then those of another function.
OWN = """
for op in (R.PRODUCT, R.MAX):
    for function in (lambda: f.all_reduce(y, op), lambda: f.reduce(y, 0, op),
                     lambda: f.reduce_scatter(fw.empty(2), [y, y], op)):
        result = function()
        found.append([result.tolist(), *raised(result.sum().backward)])
z = fw.ones(2, requires_grad=True) * (rank + 1)
z.retain_grad()
f.all_reduce(z, R.AVG).sum().backward()
found.append(z.grad.tolist())
z.grad = None
(f.reduce_scatter(fw.empty(2), [z, z * 2], R.AVG) * (rank + 1)).sum().backward()
found.append(z.grad.tolist())
"""


def test_values_and_gradients_are_those_of_pytorch():
    mine = run(2, PROGRAM.replace("OWN", ""))
    assert mine == run(2, PROGRAM.replace("OWN", ""), "torch")
    assert len(mine[0]) == 16


def test_reductions_that_have_no_gradient_here_say_so():
    for rank, values in enumerate(run(2, PROGRAM.replace("OWN", OWN))):
        refused, (all_reduced, scattered) = values[16:22], values[22:]
        assert all(
            kind == "RuntimeError" and "expected the reduction SUM or AVG" in text
            for _, kind, text in refused
        )
        assert all(value == [1.0, 1.0] for value, _, _ in refused), rank
        assert all_reduced == [1.0, 1.0]
        assert scattered == [(1 * 1 + 2 * 2) / 2] * 2  # from rank 0, then twice from rank 1
