"""Collectives as functions, on ranks: values and gradients, against PyTorch's own run of the same program."""

import pytest
from distributed.ranks import run
from oracle import pytorch

VALUES = """
dist.init_process_group("gloo")
from {framework}.distributed import _functional_collectives as f
world = dist.group.WORLD
x = fw.arange(12.0).reshape(4, 3) * (rank + 1)
found = {{}}
for op in ("sum", "avg", "max", "min", "product"):
    found[op] = (f.all_reduce(x + 1, op, world) if not (op == "avg" and {is_gloo}) else (x + 1).clone())
found["gather"] = f.all_gather_tensor(x, 0, world)
found["gather columns"] = f.all_gather_tensor(x, 1, world)
found["gather transposed"] = f.all_gather_tensor(x.t(), 0, [*range(size)])
found["scatter"] = f.reduce_scatter_tensor(x, "sum", 0, world)
found["exchange"] = f.all_to_all_single(x, None, None, world)
sent = [i + 1 for i in range(size)]
rows = fw.arange(2.0 * sum(sent)).reshape(-1, 2) + 100 * rank
found["exchange uneven"] = f.all_to_all_single(rows, [rank + 1] * size, sent, world)
found["broadcast"] = f.broadcast(x, 1, world)
found["permuted"] = f.permute_tensor(x.flatten(), [*range(1, size), 0], world)
for i, y in enumerate(f.all_reduce_coalesced([x, x.sum()], "sum", world)):
    found[f"reduced {{i}}"] = y
for i, y in enumerate(f.all_gather_into_tensor_coalesced([x, x[:0]], world)):
    found[f"gathered {{i}}"] = y
for i, y in enumerate(f.reduce_scatter_tensor_coalesced([x, x * 2], "sum", [0, 0], world)):
    found[f"scattered {{i}}"] = y
found["integers"] = f.all_reduce(fw.arange(3) + rank, "sum", world)
found["a view"] = f.all_reduce(x, "sum", world).view(-1)[1:3]
put({{name: [list(y.shape), (y + 0).tolist(), type(y).__name__] for name, y in found.items()}})
"""

GRADIENTS = """
dist.init_process_group("gloo")
from {framework}.distributed import _functional_collectives as f
world = dist.group.WORLD
weight = fw.arange(1.0, 25).reshape(8, 3) * (rank + 2)

def grad(call, *arguments):
    x = (fw.arange(12.0).reshape(4, 3) + rank).requires_grad_()
    y = f.wait_tensor(call(x, *arguments, world))
    (y * y * weight[: y.size(0), : 1]).sum().backward()
    return x.grad.tolist()

put({{
    "gather": grad(f.all_gather_tensor_autograd, 0),
    "scatter": grad(f.reduce_scatter_tensor_autograd, "sum", 0),
    "exchange": grad(f.all_to_all_single_autograd, None, None),
    "reduce": grad(f.all_reduce, "sum"),
}})
"""


def program(text: str, framework: str) -> str:
    return text.format(framework=framework, is_gloo=framework == "torch")


@pytest.mark.parametrize("size", [2, 4])
def test_values_are_pytorchs(size: int):
    pytorch()
    ours = run(size, program(VALUES, "flambeau"))
    theirs = run(size, program(VALUES, "torch"), "torch")
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        for name in mine:
            if name != "avg":
                assert mine[name] == other[name], name


def test_the_average_is_that_of_all_ranks():
    for values in run(2, program(VALUES, "flambeau")):
        assert values["avg"][1] == [[1.0 + 1.5 * (3 * i + j) for j in range(3)] for i in range(4)]


def test_gradients_are_pytorchs():
    pytorch()
    ours = run(2, program(GRADIENTS, "flambeau"))
    theirs = run(2, program(GRADIENTS, "torch"), "torch")
    assert ours == theirs
    assert all(values["reduce"] != values["gather"] for values in ours)


FORMS = """
dist.init_process_group("gloo")
from flambeau.distributed import _functional_collectives as f
from flambeau.utils._python_dispatch import TorchDispatchMode
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
x = fw.full((2,), float(rank))
groups = [mesh["tp"], (mesh, "tp"), (mesh, 1), mesh.get_group("tp"), mesh.get_group("tp").group_name,
          [[0, 1], [2, 3]]]
sums = [f.all_reduce(x, "sum", g).tolist() for g in groups]

class Names(TorchDispatchMode):
    seen = []
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.name())
        return func(*args, **(kwargs or {{}}))

with Names():
    f.all_reduce(x, "sum", mesh["tp"]) + 1
for _ in range(300):
    f.all_reduce(x, "sum", mesh["tp"])  # dropped without a wait
with fw._subclasses.FakeTensorMode():
    fake = f.all_gather_tensor(fw.empty(3, 2), 0, mesh["tp"])
deep = f.all_reduce(x.clone().requires_grad_(), "max", mesh["tp"])
y = x.clone().double().requires_grad_()
f.permute_tensor(y * (rank + 1), [1, 0], mesh["tp"]).sum().backward()
z = x.clone().requires_grad_()
(f.broadcast(z, 1, mesh["tp"]) * (rank + 1)).sum().backward()
lazy = f.all_reduce(x, "sum", mesh["tp"])
put([sums, Names.seen, [*fake.shape, type(fake).__name__], 
     f.wait_tensor(f.all_reduce(x, "sum", dist.group.WORLD.group_name)).tolist(),
     y.grad.tolist(), z.grad.tolist(), lazy.numpy().tolist(), repr(lazy),
     [raised(deep.sum().backward), raised(f.all_reduce, x, "mean", mesh["tp"]),
      raised(f.all_reduce, x, "sum", mesh), raised(f.all_reduce, x, "sum", "missing"),
      raised(f.all_reduce, x, "sum", 3), raised(f.all_reduce, x, "sum", [0, 3]),
      raised(f.all_gather_tensor, x, 1, mesh["tp"]),
      raised(f.reduce_scatter_tensor, x[:1], "sum", 0, mesh["tp"]),
      raised(f.permute_tensor, x, [1, 1], mesh["tp"]), raised(f.broadcast, x, 2, mesh["tp"]),
      raised(f.all_to_all_single, x, [1], None, mesh["tp"]),
      raised(f.all_to_all_single, x, [1, 1], [2, 1], mesh["tp"])]])
"""


def test_groups_modes_fake_tensors_gradients_and_errors():
    found = run(4, FORMS.replace("{{", "{").replace("}}", "}"))
    for rank, (sums, names, fake, total, permuted, copied, lazy, text, errors) in enumerate(found):
        pair = [1.0, 1.0] if rank < 2 else [5.0, 5.0]
        assert (
            sums == [pair] * 6
            and lazy == pair
            and text == f"AsyncCollectiveTensor(tensor({pair}))".replace(".0", ".")
        )
        assert names[:2] == ["_c10d_functional::all_reduce", "_c10d_functional::wait_tensor"]
        assert fake == [6, 2, "FakeTensor"] and total == [6.0, 6.0]
        assert permuted == [rank + 1.0] * 2
        assert copied == [float(sum({0: (1, 2), 1: (3, 4)}[rank // 2])) if rank % 2 else 0.0] * 2
        kinds = "RuntimeError ValueError ValueError ValueError ValueError ValueError IndexError".split()
        assert [kind for kind, _ in errors] == [*kinds, *["ValueError"] * 4, "RuntimeError"]
        assert "expected sum or avg as reduction with a gradient, got 'max'" in errors[0][1]
