"""Every operator on parts gives what it gives for the whole, for its generated samples."""

import pytest
from distributed.ranks import ROOT, run

# Each process of a job runs all samples with random placements and compares its results with those of the
# whole. After each call it tells the others whether it failed: an error of one process is found as such.
CODE = """
sys.path[:0] = [ROOT, ROOT + "/test/ops"]
import random
from op_cases import calls, flat, is_tensor, operators, run, tensors
from flambeau.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from flambeau.distributed.tensor._spec import local_shape
from flambeau.utils._pytree import tree_map
warnings.simplefilter("ignore")
dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", SHAPE)
bad, compared = {}, [0, 0]

def close(a, b):
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(close, a, b))
    if not is_tensor(a):
        return a == b or a != a
    b = b.full_tensor() if isinstance(b, DTensor) else b
    if a.layout is not fw.strided:
        return b.layout is a.layout and close(a.to_dense(), b.to_dense())
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    exact = not (a.dtype.is_floating_point or a.dtype.is_complex)
    return fw.equal(a, b) if exact else fw.allclose(a, b, 1e-4, 1e-4, equal_nan=True)

def fits(t):
    if not isinstance(t, DTensor):
        return True
    return list(t.to_local().shape) == local_shape(mesh, t.placements, tuple(t.shape))

def differentiable(t):
    return is_tensor(t) and t.is_floating_point() and t.layout is fw.strided

def placed(t, generator):
    if not is_tensor(t) or t.layout is not fw.strided:
        return t
    kinds = [Replicate(), *(Shard(d) for d in range(t.dim()))]
    return distribute_tensor(t.detach(), mesh, [generator.choice(kinds) for _ in SHAPE])

def outcome(op, arguments, with_gradients):
    leaves = [t.requires_grad_() for t in flat(list(arguments.values())) if differentiable(t)]
    fw.manual_seed(0)
    with fw.set_grad_enabled(with_gradients):
        result = run(op, arguments)
    ends = [t for t in flat(result) if differentiable(t) and t.requires_grad]
    if not with_gradients or not ends:
        return result, [None for _ in leaves]
    total = sum((t * (t.detach() * 0.25 + 1).nan_to_num(0, 0, 0)).sum() for t in ends)
    grads = fw.autograd.grad(total, leaves, allow_unused=True)
    return result, [None if g is None else g.detach() for g in grads]

def attempted(op, arguments, with_gradients):
    try:
        return outcome(op, arguments, with_gradients)
    except Exception as error:
        return error

def verdict(want, got):
    failed = isinstance(got, Exception)
    counts = fw.tensor([failed, not failed and not all(map(fits, flat(list(got))))]).int()
    dist.all_reduce(counts)  # over the processes
    failures, misfits = counts.tolist()
    if misfits:
        return "a part of another size"
    if failures not in (0, size):
        return f"not all processes fail: {got}"
    if isinstance(want, Exception):
        return "" if type(got) is type(want) else f"expected {type(want).__name__}, got {got!r}"
    if failed:
        return f"{type(got).__name__}: {got}"
    (first, grads), (second, others) = want, got
    compared[0] += 1
    compared[1] += sum(g is not None for g in grads)
    if not close(first, second):
        return "another result"
    pairs = [(g, fw.zeros_like(g) if o is None else o) for g, o in zip(grads, others) if g is not None]
    return "" if all(close(*pair) for pair in pairs) else "another gradient"

SKIPPED = ("ctc_loss.Tensor", "tensor_split.tensor_indices_or_sections", "resize_", "resize_as_")
names = [n for n, op in operators().items() if op.record["samples"] and op.is_fixed and n not in SKIPPED]
for name in names:
    op = operators()[name]
    for number, call in enumerate(list(calls(op))[SAMPLES]):
        for with_gradients in (False, True):
            generator = random.Random(f"{SEED} {name} {number} {with_gradients}")
            made = lambda: tensors(call.materialise(op.main_dtype(), 0), op.main_dtype())
            want = attempted(op, made(), with_gradients)
            parts = tree_map(lambda t: placed(t, generator), made())
            fault = verdict(want, attempted(op, parts, with_gradients))
            if fault:
                where = tree_map(lambda t: str(t.placements) if isinstance(t, DTensor) else t, parts)
                bad[f"{name} {number} {with_gradients}"] = f"{fault[:400]} {where}"[:900]
put([bad, compared, len(names)])
"""


# The first sample of each operator on three processes and on a square of four, in which placements along one
# dimension are those of two processes; the second sample on two processes.
@pytest.mark.parametrize(
    ("shape", "samples"), [((2,), slice(1, 2)), ((3,), slice(0, 1)), ((2, 2), slice(0, 1))]
)
def test_operators_on_parts(shape: tuple[int, ...], samples: slice) -> None:
    size = shape[0] * (shape[1] if len(shape) > 1 else 1)
    code = (
        CODE.replace("SHAPE", repr(shape)).replace("SAMPLES", repr(samples)).replace("ROOT", repr(str(ROOT)))
    )
    for bad, compared, names in run(size, code.replace("SEED", "0"), seconds=400):
        assert bad == {}
        assert names > 700 and compared[0] > 700 and compared[1] > 400


WRITES = """
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor
dist.init_process_group("gloo")
warnings.simplefilter("ignore")
mesh = dist.init_device_mesh("cpu", (size,))
x = fw.arange(12.0).reshape(4, 3)
writes = [
    lambda a: a[0].fill_(7), lambda a: a.__setitem__(slice(1, 3), 5), lambda a: a[1:3][1].mul_(3),
    lambda a: a[:, 1].fill_(2), lambda a: a.t()[1:, 2].add_(1), lambda a: a.view(12)[3:9].zero_(),
    lambda a: a.unbind(0)[2].neg_(), lambda a: a.diagonal()[1:].copy_(a.diagonal()[:2] * 2),
]
found = []
for placement in (Shard(0), Shard(1), Replicate()):
    for write in writes:
        plain, divided = x.clone(), distribute_tensor(x.clone(), mesh, [placement])
        write(plain), write(divided)
        leaf = distribute_tensor(x.clone(), mesh, [placement]).requires_grad_()
        other = x.clone().requires_grad_()
        for y in (leaf * 1, other * 1):
            if write is not writes[6]:  # one of several views: autograd refuses the write
                write(y)
            (y * y).sum().backward()
        found.append([(divided.full_tensor() - plain).abs().max().item(), str(divided.placements[0]),
                      str(placement), (leaf.grad.full_tensor() - other.grad).abs().max().item()])
put(found)
"""


@pytest.mark.parametrize("size", [2, 3])
def test_writes_to_views_reach_the_tensor(size: int) -> None:
    for found in run(size, WRITES):
        assert len(found) == 24
        for difference, placement, before, of_gradients in found:
            assert difference == 0 and of_gradients == 0 and placement == before
