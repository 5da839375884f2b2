"""Lookups and cross entropy with divided entries: results of one process, and nothing is gathered."""

import pytest
from distributed.ranks import run

PREAMBLE = """
import itertools, warnings
import flambeau.nn.functional as F
from flambeau.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from flambeau.distributed.tensor.parallel import loss_parallel
from flambeau.utils._python_dispatch import TorchDispatchMode
dist.init_process_group("gloo")
warnings.simplefilter("error")
mesh = dist.init_device_mesh("cpu", SHAPE)
fw.manual_seed(5)

def whole(x):
    return x.detach().full_tensor() if isinstance(x, DTensor) else x.detach()

def distance(a, b):
    a, b = whole(a).double(), whole(b).double()
    return ((a - b).abs().amax() / (1 + a.abs().amax())).item() if a.numel() else 0.0

class Sent(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "_c10d_functional" and not func.name().endswith("wait_tensor"):
            self.calls.append([func.name(), args[0].numel()])
        return func(*args, **(kwargs or {}))

def compared(call, *pairs):
    plain, divided = (call(*(pair[i] for pair in pairs)) for i in (0, 1))
    for y in (plain, divided):
        (y * (y.detach() + 1)).sum().backward()
    if list(plain.shape) != list(divided.shape) or plain.dtype != divided.dtype:
        return [9.0, f"{plain.shape} {divided.shape}", ""]
    worst = max([distance(plain, divided), *(distance(a.grad, b.grad) for a, b in pairs if a.requires_grad)])
    return [worst, str(pairs[0][1].grad.placements), str(pairs[0][1].placements)]

def pair(x, placements, grad=True):
    x = x.detach()
    divided = distribute_tensor(x.clone(), mesh, placements)
    return x.clone().requires_grad_(grad), divided.requires_grad_(grad)
"""

LOSSES = (
    PREAMBLE
    + """
found = {}
classes = [Replicate()] * (len(SHAPE) - 1)
shapes = {"vector": (7,), "rows": (4, 7), "pictures": (2, 7, 3, 2), "one class": (4, 1), "no rows": (0, 7)}
for (name, shape), dtype in itertools.product(shapes.items(), (fw.float32, fw.float64, fw.bfloat16)):
    dim = min(len(shape) - 1, 1)
    x = (fw.randn(shape) * 30).to(dtype)
    count = shape[dim]
    t = fw.randint(0, count, shape[:dim] + shape[dim + 1 :])
    if t.dim() and t.numel():
        t.view(-1)[0] = -100
    weight = (fw.rand(count) + 0.5).to(dtype)
    kinds = [[*classes, Shard(dim)]]
    if classes and dim:
        kinds += [[Shard(0), Shard(dim)], [Shard(dim), Shard(dim)]]
    target = t, distribute_tensor(t, mesh)
    for placed, reduction, w, smoothing in itertools.product(
            kinds, ("none", "mean", "sum"), (None, weight), (0.0, 0.3)):
        if reduction == "mean" and not t.numel():
            continue
        options = dict(weight=w, reduction=reduction, label_smoothing=smoothing)
        with loss_parallel():
            found[f"{name} {dtype} {placed} {options}"] = compared(
                lambda x, t: F.cross_entropy(x, t, **options), pair(x, placed), target)
x, t = fw.randn(6, 9), fw.randint(0, 9, (6,))
logits = pair(x, [*classes, Shard(1)])
with Sent() as sent:
    F.cross_entropy(logits[1], t).backward()
logits[1].grad = None
first = compared(F.cross_entropy, logits, (t, t))  # plain targets are the same in all processes
layer = compared(fw.nn.CrossEntropyLoss(ignore_index=int(t[0])), pair(x, [*classes, Shard(1)]), (t, t))
infinite = pair(fw.full((2, 9), -float("inf")), [*classes, Shard(1)])
nan = whole(F.cross_entropy(infinite[1], t[:2])).isnan().item()
errors = [raised(F.cross_entropy, logits[1], wrong) for wrong in
          (fw.full((6,), 9), fw.full((6,), -1), t[:5], t.float())]
put([found, first, sent.calls, layer, nan, errors])
"""
)

LOOKUPS = (
    PREAMBLE
    + """
found = {}
rest = [Replicate()] * (len(SHAPE) - 1)
indices = {"list": fw.tensor([0, 6, 3, 3, 1]), "rows": fw.tensor([[1, 2, 0], [6, 6, 5]]), "one": fw.tensor(4),
           "none": fw.zeros(0, dtype=fw.int64), "short": fw.tensor([2, 0], dtype=fw.int32)}
tables = [[*rest, Shard(0)]] + ([[Shard(0), Shard(0)], [Shard(1), Shard(0)]] if rest else [])
for (name, at), placed, padding in itertools.product(indices.items(), tables, (None, 3, -1)):
    kinds = [[Replicate()] * len(SHAPE)]
    if rest and at.dim():
        kinds += [[Shard(0), Replicate()], [Shard(0), Shard(0)]]
    for where in kinds:
        found[f"{name} {placed} {padding} {where}"] = compared(
            lambda w, at: F.embedding(at, w, padding),
            pair(fw.randn(7, 4), placed), (at, distribute_tensor(at, mesh, where)))
table = pair(fw.randn(7, 4), [*rest, Shard(0)])
at = distribute_tensor(fw.tensor([0, 6]), mesh)
with Sent() as sent:
    F.embedding(at, table[1])
errors = [raised(F.embedding, distribute_tensor(fw.tensor([wrong]), mesh), table[1]) for wrong in (7, -1)]
errors.append(raised(F.embedding, fw.tensor([1, 2]), table[1]))
twice = raised(lambda: fw.autograd.grad(
    fw.autograd.grad((F.embedding(at, table[1]) ** 2).sum(), table[1], create_graph=True)[0].sum(), table[1]))
put([found, sent.calls, errors, twice])
"""
)


def check(found: dict) -> None:
    assert len(found) > 10
    for name, (worst, *_) in found.items():
        bound = 2**-7 if "bfloat16" in name else 1e-12 if "float64" in name else 2e-6
        assert worst < bound, (name, worst)


@pytest.mark.parametrize("shape", [(2,), (3,), (2, 2)])
def test_losses_equal_those_of_one_process(shape: tuple[int, ...]):
    size = 4 if len(shape) == 2 else shape[0]
    code = LOSSES.replace("SHAPE", repr(shape))
    for found, first, sent, layer, nan, errors in run(size, code, seconds=120):
        check(found)
        moved = [name for name, (_, *places) in found.items() if places[0] != places[1]]
        assert all(name.startswith("one class") for name in moved), moved  # operators do not divide size 1
        assert first[0] < 1e-5 and layer[0] < 1e-5 and nan
        assert {name for name, _ in sent} == {"_c10d_functional::all_reduce"}
        assert max(numel for _, numel in sent) == 6, "only numbers per row are sent"
        assert [kind for kind, _ in errors[:2]] == ["IndexError"] * 2 and "out of bounds" in errors[0][1]
        assert None not in errors


@pytest.mark.parametrize("shape", [(2,), (3,), (2, 2)])
def test_lookups_equal_those_of_one_process(shape: tuple[int, ...]):
    size = 4 if len(shape) == 2 else shape[0]
    for found, sent, errors, twice in run(size, LOOKUPS.replace("SHAPE", repr(shape)), seconds=120):
        check(found)
        assert sent == [], "the result is a sum of parts, which the next operator adds up"
        assert [kind for kind, _ in errors] == ["IndexError", "IndexError", "RuntimeError"]
        assert "mixed torch.Tensor and DTensor" in errors[2][1]
        assert twice[0] == "RuntimeError"
