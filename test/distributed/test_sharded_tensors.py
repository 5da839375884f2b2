"""DTensor: operators and gradients on parts equal those on the whole, for all placements of arguments."""

import pytest
from distributed.ranks import run

PREAMBLE = """
import itertools, warnings
import flambeau.nn.functional as F
from flambeau.distributed.tensor import (DTensor, Partial, Replicate, Shard, distribute_module,
    distribute_tensor, full, ones, randn, zeros)
dist.init_process_group("gloo")
warnings.simplefilter("ignore")
"""

OPERATORS = (
    PREAMBLE
    + """
mesh = dist.init_device_mesh("cpu", SHAPE)
fw.manual_seed(3)
a, b, c = fw.randn(5, 4), fw.randn(4, 6), fw.randn(2, 4, 6)
index = fw.tensor([[1, 0, 3], [2, 2, 4]])
calls = {
    "matmul": (lambda x, y: x @ y, a, b),
    "batched": (lambda x, y: x @ y.transpose(1, 2), c, c + 1),
    "linear": (lambda x, y, z: F.linear(x, y, z), c, fw.randn(3, 6), fw.randn(3)),
    "sum": (lambda x: x.sum(0) * x.mean(1, keepdim=True).sum() + x.amax(), a),
    "deviation": (lambda x: x.std(0) + x.norm(), b),
    "broadcast": (lambda x, y: (x * y).exp() - y.sigmoid(), c, b),
    "softmax": (lambda x: F.softmax(x, -1) + F.log_softmax(x, 0), b),
    "layer norm": (lambda x, y, z: F.layer_norm(x, [6], y, z), c, fw.randn(6), fw.randn(6)),
    "heads": (lambda x: x.reshape(2, 4, 3, 2).transpose(1, 2).contiguous().flatten(1), c),
    "select": (lambda x: x[:, 1] + x[0, 2:3] + x[..., :1, :].squeeze(1), c),
    "join": (lambda x, y: fw.cat([x, y * 2], -1).chunk(2, -1)[1] + fw.stack([x, y]).sum(0), c, c + 1),
    "attention": (lambda x, y, z: F.scaled_dot_product_attention(x, y, z, is_causal=True),
                  fw.randn(2, 4, 3, 2), fw.randn(2, 4, 3, 2), fw.randn(2, 4, 3, 2)),
    "embedding": (lambda x:
        F.embedding(distribute_tensor(index, mesh) if isinstance(x, DTensor) else index, x), a),
    "permute": (lambda x: x.permute(2, 0, 1).unsqueeze(1).expand(6, 3, 2, 4) * 2, c),
    "cumulative": (lambda x: x.cumsum(0), a),
    "image": (lambda x, y: F.conv2d(x, y), fw.randn(2, 2, 5, 5), fw.randn(3, 2, 3, 3)),
    "mixed": (lambda x: x * fw.tensor(2.0) + 1, a),
}
kinds = [Replicate(), Shard(0), Shard(-1)] if len(SHAPE) == 1 else [Replicate(), Shard(0)]
found = []
for name, (call, *whole) in calls.items():
    for chosen in itertools.product(itertools.product(kinds, repeat=len(SHAPE)), repeat=min(len(whole), 2)):
        chosen = [*chosen, *[[Replicate()] * len(SHAPE)] * (len(whole) - len(chosen))]
        plain = [t.clone().requires_grad_() for t in whole]
        parts = [distribute_tensor(t.clone().requires_grad_(), mesh, p) for t, p in zip(whole, chosen)]
        try:
            want, got = call(*plain), call(*parts)
            (want * want).sum().backward()
            (got * got).sum().backward()
            pairs = [(want.detach(), got.detach().full_tensor())]
            pairs += [(p.grad, q.grad.full_tensor()) for p, q in zip(plain, parts)]
            for p, q in pairs:
                if p.shape != q.shape or not fw.allclose(p, q, 1e-4, 1e-5):
                    found.append([name, str(chosen), "differs", p.tolist(), q.tolist()])
                    break
        except Exception as error:
            found.append([name, str(chosen), type(error).__name__, str(error)])
put(found[:5])
"""
)


@pytest.mark.parametrize(("size", "shape"), [(2, (2,)), (3, (3,)), (4, (2, 2))])
def test_operators_on_parts_equal_those_on_the_whole(size: int, shape: tuple[int, ...]):
    found = run(size, OPERATORS.replace("SHAPE", repr(shape)), seconds=120)
    assert found == [[]] * size


MOVES = (
    PREAMBLE
    + """
mesh = dist.init_device_mesh("cpu", (2, 2))
whole = fw.arange(35.0).reshape(5, 7)
kinds = [Replicate(), Shard(0), Shard(1), Partial(), Partial("avg"), Partial("max")]
wrong = []
for before in itertools.product(kinds[:3], repeat=2):
    x = distribute_tensor(whole, mesh, before)
    for after in itertools.product(kinds, repeat=2):
        y = x.redistribute(placements=after)
        z = y.redistribute(placements=before)
        if y.placements != after or not (y.full_tensor().equal(whole) and z.to_local().equal(x.to_local())):
            wrong.append([str(before), str(after)])
sizes = [list(distribute_tensor(fw.arange(5), mesh, [Shard(0), Shard(0)]).to_local())]
local = fw.full((3,), float(rank), requires_grad=True)
total = DTensor.from_local(local, mesh, [Partial(), Partial()])
(total.full_tensor() * (rank + 1)).sum().backward()
parts = DTensor.from_local(fw.ones(2) * rank, mesh, [Shard(0), Replicate()], run_check=True)
leaf = fw.ones(2, requires_grad=True)
back = DTensor.from_local(leaf * 2, mesh, [Replicate(), Replicate()])
(back.to_local(grad_placements=[Partial(), Partial()]) * (rank + 1)).sum().backward()
put([wrong, total.full_tensor().tolist(), local.grad.tolist(), parts.full_tensor().tolist(),
     leaf.grad.tolist(),
     [raised(distribute_tensor, whole, mesh, [Shard(0)]),
      raised(distribute_tensor, whole, mesh, [Shard(2), Shard(0)]),
      raised(distribute_tensor, (whole.requires_grad_() * 2), mesh, None),
      raised(lambda: distribute_tensor(whole.detach(), mesh) + whole), raised(zeros, 2, device_mesh=mesh,
      placements=[Partial(), Replicate()]), 
      raised(DTensor.from_local, fw.ones(2), mesh, [Shard(0), Shard(0)], shape=(2,)),
      raised(x.redistribute, placements=[Partial("mean"), Replicate()])]])
"""
)


def test_placements_change_and_errors():
    for rank, (wrong, total, grad, parts, leaf, errors) in enumerate(run(4, MOVES, seconds=90)):
        assert wrong == [] and total == [6.0] * 3
        assert grad == [rank + 1.0] * 3
        assert parts == [0.0, 0.0, 2.0, 2.0]
        assert leaf == [20.0, 20.0]
        kinds = [
            "ValueError",
            "ValueError",
            "RuntimeError",
            "RuntimeError",
            "ValueError",
            "ValueError",
            "ValueError",
        ]
        assert [error[0] for error in errors] == kinds
        assert "got mixed torch.Tensor and DTensor" in errors[3][1]


TRAINING = (
    PREAMBLE
    + """
import copy, io
mesh = dist.init_device_mesh("cpu", (size,))
fw.manual_seed(1)
model = fw.nn.Sequential(fw.nn.Linear(6, 7), fw.nn.GELU(), fw.nn.LayerNorm(7), fw.nn.Linear(7, 3))
twin = copy.deepcopy(model)

def divide(name, part, mesh):
    for key, parameter in part.named_parameters(recurse=False):
        made = distribute_tensor(parameter.detach(), mesh, [Shard(0)])
        part.register_parameter(key, fw.nn.Parameter(made))

model = distribute_module(model, mesh, divide,
                          lambda m, i, mesh: (DTensor.from_local(i[0], mesh, [Replicate()]),),
                          lambda m, o, mesh: o.full_tensor())
x, y = fw.randn(8, 6), fw.randint(0, 3, (8,))
differences = []
for make in (lambda p: fw.optim.SGD(p, 0.1, momentum=0.9), lambda p: fw.optim.AdamW(p, 0.1),
             lambda p: fw.optim.Adam(p, 0.1, foreach=True), lambda p: fw.optim.RMSprop(p)):
    optimizers = [make(m.parameters()) for m in (model, twin)]
    for _ in range(3):
        for m, optimizer in zip((model, twin), optimizers):
            optimizer.zero_grad()
            F.cross_entropy(m(x), y).backward()
            fw.nn.utils.clip_grad_norm_(m.parameters(), 0.5)
            optimizer.step()
    pairs = zip(model.parameters(), twin.parameters())
    differences.append(max((p.full_tensor() - q).abs().max().item() for p, q in pairs))
shapes = [list(p.to_local().shape) for p in model.parameters()]
put([differences, shapes, type(model[0].weight.grad).__name__])
"""
)


@pytest.mark.parametrize("size", [2, 4])
def test_training_on_parts_equals_training_on_the_whole(size: int):
    for differences, shapes, kind in run(size, TRAINING, seconds=90):
        assert max(differences) < 1e-4 and kind == "DTensor"
        assert shapes[0][1] == 6 and shapes[0][0] <= 4


NUMBERS = (
    PREAMBLE
    + """
mesh = dist.init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("a", "b"))
fw.manual_seed(0)

# A dimension of one element stays divided: one process has it, the others have none.
row = distribute_tensor(fw.randn(1, 3), mesh, [Replicate(), Shard(0)])
for same in (row.detach(), fw.zeros_like(row), row * row, row + 1, row.add_(1)):
    assert same.placements == row.placements, same.placements
    assert same.to_local().shape == row.to_local().shape
column = distribute_tensor(fw.randn(4, 1), mesh, [Shard(0), Replicate()])
summands = DTensor.from_local(fw.ones(2, 2), mesh, [Partial(), Replicate()])
assert ((summands + 1).full_tensor() == size // 2 + 1).all()
assert ((summands * 2 - 1).full_tensor() == size - 1).all()
assert (column + 1).placements == (1 - column).placements == column.placements
assert fw.allclose((row * column).full_tensor(), row.full_tensor() * column.full_tensor())

# Numbers are those of the whole.
x = distribute_tensor(fw.arange(6.0), mesh, [Shard(0), Shard(0)])
assert x.sum().item() == 15 and float(x.amax()) == 5 and bool((x >= 0).all()) and not bool((x > 0).all())
assert fw.equal(x, x) and not fw.equal(x, x + 1) and fw.allclose(x, x + 1e-9)

# The norm of several tensors takes one reduction per kind of placements.
whole = [fw.randn(5, 6), fw.randn(1), fw.randn(3, 4, 2), fw.randn(2, 2), fw.randn(7), fw.zeros(0)]
placed = [[Replicate(), Shard(0)]] * 2 + [[Shard(1), Shard(1)], None, [Shard(0), Replicate()], [Shard(0)] * 2]
parts = [t if p is None else distribute_tensor(t, mesh, p) for t, p in zip(whole, placed)]
whole.append(fw.full((2,), float(size // 2)))
parts.append(DTensor.from_local(fw.ones(1), mesh, [Partial(), Shard(0)]))
for order in (0.5, 1.0, 2.0, 3.0, float("inf")):
    total = fw.nn.utils.get_total_norm(parts, order)
    assert total.placements == (Replicate(), Replicate())
    alone = fw.nn.utils.get_total_norm([t for t in whole if t.numel()], order)
    assert fw.allclose(total.full_tensor(), alone, rtol=1e-5), (order, total, alone)
large = [distribute_tensor(fw.full((4,), 3e4, dtype=fw.float16), mesh, [Shard(0), Replicate()])]
assert fw.nn.utils.get_total_norm(large).item() == 6e4  # the square of a part overflows float16
names = []
for d in range(2):
    group = mesh.get_group(d)
    group.allreduce = (lambda *a, f=group.allreduce: (names.append(1), f(*a))[1])
fw.nn.utils.get_total_norm(parts[:2], 2.0)
assert len(names) == 1, names
put(1)
"""
)


@pytest.mark.parametrize("size", [2, 4])
def test_single_rows_numbers_and_norms(size: int):
    run(size, NUMBERS)
