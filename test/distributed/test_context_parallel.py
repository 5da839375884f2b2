"""Context parallelism: sequences in parts, and attention over several processes."""

import flambeau as fb
import pytest
from distributed.ranks import ROOT, run
from flambeau.distributed.tensor.experimental._attention import _HeadTailLoadBalancer

PREAMBLE = """
if fw.__name__ == "torch":
    import torch.nn.functional as F
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental import _attention as A
else:
    import flambeau.nn.functional as F
    from flambeau.distributed.tensor.experimental import context_parallel
    from flambeau.distributed.tensor.experimental import _attention as A
warnings.simplefilter("ignore")
dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (size,))

def attempt(call, *arguments, **options):
    with context_parallel(mesh):
        return raised(call, *arguments, **options)

def enter(*arguments, **options):
    with context_parallel(*arguments, **options):
        pass
"""

# Compares results and gradients of each process with its part of what one process computes.
ATTENTION = (
    PREAMBLE
    + """
def far(q, k, v, method="allgather", **options):
    A.set_rotate_method(method)
    whole = [t.detach().clone().requires_grad_() for t in (q, k, v)]
    want = F.scaled_dot_product_attention(*whole, **options)
    weights = fw.sin(fw.arange(want.numel(), dtype=want.dtype)).view(want.shape)
    (want * weights).sum().backward()
    targets = [want.detach(), weights, *(t.grad for t in whole)]
    parts = [t.detach().clone() for t in (q, k, v)] + targets
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[-2] * len(parts)):
        mine = [t.clone().requires_grad_() for t in parts[:3]]
        got = F.scaled_dot_product_attention(*mine, **options)
        assert got.dtype == want.dtype
        pairs = [(parts[3].clone(), got)]
        weights = parts[4].clone()
        wanted = [t.clone() for t in parts[5:]]
    (got * weights).sum().backward()  # outside of the context
    pairs += [(w, t.grad) for w, t in zip(wanted, mine)]
    return max(((a - b).abs().max() / a.abs().max()).item() for a, b in pairs)

def draw(*shape, **options):
    return fw.randn(*shape, **options)

fw.manual_seed(3)
n = size
found = {}
for method in ("allgather", "alltoall"):
    for causal in (False, True):
        def case(name, *tensors, **options):
            found[f"{name}, {method}, {causal}"] = far(*tensors, method=method, is_causal=causal, **options)
        case("heads", *(draw(2, 3, 4 * n, 5) for _ in range(3)))
        case("odd parts", *(draw(2, 3 * n, 5) for _ in range(3)))  # not balanced
        case("one position each", *(draw(n, 4) for _ in range(3)))
        case("scale, width", draw(2, 6 * n, 4), draw(2, 6 * n, 4), draw(2, 6 * n, 3), scale=-0.7)
        shared = [draw(2, h, 2 * n, 4) for h in (6, 2, 3)]
        case("shared heads", *shared, enable_gqa=True)
        case("broadcast", draw(2, 3, 2 * n, 4), draw(2 * n, 4), draw(3, 2 * n, 4))
        case("double", *(draw(2, 2 * n, 4, dtype=fw.float64) for _ in range(3)))
        big = [draw(1, 2, 40 * n, 4) * 6 for _ in range(2)]  # exp of the scores overflows
        case("large scores", *big, draw(1, 2, 40 * n, 4))
        case("strided", *(draw(4 * n, 3, 2, 5).permute(2, 1, 0, 3) for _ in range(3)))
        half = [draw(2, 4 * n, 8).bfloat16() for _ in range(3)]
        case("bfloat16", *half)
    cross = draw(2, 2 * n, 4), draw(2, 3 * n, 4), draw(2, 3 * n, 4)
    found[f"cross, {method}"] = far(*cross, method=method)
A._cp_options.enable_load_balance = False
found["in order"] = far(*(draw(2, 4 * n, 4) for _ in range(3)), is_causal=True)
put(found)
"""
)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_attention_over_processes_equals_that_of_one(size):
    for found in run(size, ATTENTION):
        assert len(found) == 43
        for name, far in found.items():
            # The logarithms of about 200 have errors of 200 * 2^-24 in each process, as with one.
            bounds = {"bfloat16": 1.2e-2, "double": 1e-12, "large scores": 1e-4}
            bound = bounds.get(name.partition(",")[0], 1e-5)
            assert far < bound, (name, far)


LAYOUT = (
    PREAMBLE
    + """
x = fw.arange(32.0).view(2, 16)
y = x[:, :8] if VIEW else x[:, :8].clone()
kept = fw.arange(8).view(1, 8)
found = []
place = y.data_ptr()
with context_parallel(mesh, buffers=[y, kept], buffer_seq_dims=[1, 1], no_restore_buffers={kept}):
    found.append([y.tolist(), kept.tolist()])
    found.append(A.context_parallel_unshard(mesh, [y, kept], [1, 1])[1].tolist())
found.append([y.tolist(), y.data_ptr() == place, list(y.stride()), kept.tolist()])
found.append(x.sum().item())
try:
    with context_parallel(mesh, buffers=[kept], buffer_seq_dims=[1]):
        found.append(kept.tolist())
        raise KeyError
except KeyError:
    found.append(kept.tolist())
odd = fw.arange(7 * size).view(1, -1)
with context_parallel(mesh, buffers=[odd], buffer_seq_dims=[1]):
    found.append(odd.tolist())
leaf = fw.arange(4.0).view(1, 4).requires_grad_()
other = A.context_parallel_unshard(mesh, [leaf], [1])[0]
found.append([other.requires_grad, other.tolist()])
balancer = A._HeadTailLoadBalancer(8, size, "cpu")
A._cp_options.enable_load_balance = False
part = (fw.arange(4) + 4 * rank).view(1, 4)
found.append(A.context_parallel_unshard(mesh, [part], [1], balancer)[0].tolist())
found.append(A.context_parallel_unshard(mesh, [part], [1])[0].tolist())
weight = fw.ones(1, requires_grad=True)
z = fw.arange(8.0).view(1, 8)
with context_parallel(mesh, buffers=[z], buffer_seq_dims=[1]):
    inside = (weight * z).sum()
error = raised(inside.backward)
found.append([error[0], "modified by an inplace operation" in error[1]])
put(found)
dist.barrier()
"""
)


def test_buffers_are_divided_as_in_pytorch():
    ours, of_view = (run(2, LAYOUT.replace("VIEW", view)) for view in ("False", "True"))
    assert ours[0][0][0] == [[0, 1, 6, 7], [16, 17, 22, 23]]
    assert ours == run(2, LAYOUT.replace("VIEW", "False"), "torch")
    # PyTorch makes a view contiguous and writes over other elements of its base.
    for found, expected in zip(of_view, ours, strict=True):
        assert (
            found[2] == [expected[2][0], True, [16, 1], *expected[2][3:]]
            and found[3:] == expected[3:]
            and found[:2] == expected[:2]
        )


ERRORS = (
    PREAMBLE
    + """
x = fw.arange(8.0)
def entering(**options):
    return raised(enter, mesh, **options)
found = [
    entering(buffers=[x], buffer_seq_dims=[]),
    entering(buffers=[x], buffer_seq_dims=[0], no_restore_buffers={x.clone()}),
    entering(buffers=[x, fw.ones(8, requires_grad=True)], buffer_seq_dims=[0, 0]),
    entering(buffers=[x], buffer_seq_dims=[1]),
    raised(A.set_rotate_method, "ring"),
    raised(A.set_rotate_method, None),
    raised(enter, dist.init_device_mesh("cpu", (size, 1)), buffers=[x], buffer_seq_dims=[0]),
]
put([x.tolist(), found])
dist.barrier()
"""
)


def test_errors_have_the_types_of_pytorch():
    ours, theirs = run(2, ERRORS)[0], run(2, ERRORS, "torch")[0]
    assert ours[0] == list(range(8))  # nothing was changed before the error; in PyTorch it was
    assert [e[0] for e in ours[1]] == [e[0] for e in theirs[1]]
    texts = [e[1] for e in ours[1]]
    assert texts[0] == "context_parallel: expected as many buffer_seq_dims as buffers, got 0 for 1 buffers"
    assert "cannot resize variables that require grad" in texts[2] and "from -1 to 0" in texts[3]
    assert texts[4] == "set_rotate_method: expected 'allgather' or 'alltoall', got 'ring'"


REFUSED = (
    PREAMBLE
    + """
x = fw.ones(9)
q = fw.ones(2, 4, 3)
sdpa = lambda *a, **k: F.scaled_dot_product_attention(*a, **k)
plain = F.scaled_dot_product_attention
from flambeau.distributed.tensor import Shard, distribute_tensor
divided = distribute_tensor(q, mesh, [Shard(0)])
found = [
    raised(enter, mesh, buffers=[x], buffer_seq_dims=[0]),
    raised(enter, mesh, buffers=[x[:8], x[:8], x], buffer_seq_dims=[0, 0, 0]),
    raised(enter, mesh, buffers=[q, q], buffer_seq_dims=[1, 1]),
    raised(enter, "cpu"),
    attempt(sdpa, q, q, q, dropout_p=0.5),
    attempt(sdpa, q, q, q, fw.ones(4, 4, dtype=fw.bool)),
    attempt(sdpa, q, q[:, :2], q[:, :2], is_causal=True),
    attempt(sdpa, q[..., :0], q[..., :0], q),
    attempt(sdpa, q, q.double(), q),
    attempt(sdpa, fw.ones(3), q, q),
    attempt(sdpa, divided, divided, divided),
    attempt(sdpa, fw.ones(2, 3, 4, 3), fw.ones(2, 2, 4, 3), fw.ones(2, 2, 4, 3), enable_gqa=True),
]
with context_parallel(mesh):
    with context_parallel(mesh):
        nested = sdpa(q, q, q).tolist()
    empty = list(sdpa(q[:0], q[:0], q[:0]).shape)
    once = q.clone().requires_grad_()
    grad, = fw.autograd.grad(sdpa(once, q, q).square().sum(), once, create_graph=True)
    again = raised(grad.sum().backward)
put([found, nested == q.tolist(), empty, again, F.scaled_dot_product_attention is plain])
"""
)


def test_what_is_refused():
    found, nested, empty, again, restored = run(2, REFUSED)[0]
    assert nested and empty == [0, 4, 3] and restored
    assert again[0] == "RuntimeError" and "once_differentiable" in again[1]
    errors = [tuple(e) for e in found]
    uneven = "context_parallel: expected a length that 2 processes divide, got 9 in dimension 0"
    assert errors[0] == ("ValueError", uneven + " of a buffer of shape (9,)")
    assert errors[1] == errors[0]
    assert errors[2] == (
        "ValueError",
        "context_parallel: expected different buffers, got the same tensor twice",
    )
    assert errors[3] == ("TypeError", "context_parallel: expected a DeviceMesh as mesh, got str")
    name = "scaled_dot_product_attention in context_parallel: "
    assert errors[4] == ("NotImplementedError", name + "expected dropout_p=0, got 0.5")
    assert errors[5] == ("NotImplementedError", name + "expected attn_mask=None, got a mask of (4, 4)")
    lengths = "expected queries and keys of equal lengths with is_causal=True, got 4 and 2"
    assert errors[6] == ("ValueError", name + lengths)
    assert errors[7] == ("ValueError", name + "expected at least one feature, got a query of (2, 4, 0)")
    assert errors.pop(10) == ("NotImplementedError", name + "expected plain tensors, got a DTensor")
    for error, text in zip(errors[8:], ("one dtype", "at least 2 dimensions", "query heads"), strict=True):
        assert error[0] == "RuntimeError" and text in error[1], error


# A causal transformer with multi-head attention, rotary angles as a buffer, and parameters in parts.
TRAINING = (
    PREAMBLE
    + """
from flambeau.distributed.fsdp import fully_shard
nn = fw.nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(11, 8), nn.Embedding(16, 8)
        self.mix, self.out = nn.ModuleList(nn.Linear(8, 24) for _ in range(2)), nn.Linear(8, 11)
        self.register_buffer("angles", fw.linspace(0, 1, 16).view(16, 1))
        self.register_buffer("positions", fw.arange(16))
    def forward(self, tokens):
        x = self.embed(tokens) + self.place(self.positions) * self.angles.cos()
        for mix in self.mix:
            heads = mix(x).unflatten(-1, (3, 2, 4)).movedim(-3, 0).transpose(-3, -2)
            x = x + F.scaled_dot_product_attention(*heads, is_causal=True).transpose(-3, -2).flatten(-2)
        return self.out(x)

def loss_of(model, tokens, targets):
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())

def losses(model, parallel):
    optimizer = fw.optim.SGD(model.parameters(), lr=0.5)
    found = []
    for step in range(4):
        tokens = (fw.arange(32) * (step + 2) % 11).view(2, 16)
        targets = tokens.roll(-1, 1)
        buffers = [tokens, targets, model.angles, model.positions]
        scope = context_parallel(mesh, buffers=buffers, buffer_seq_dims=[1, 1, 0, 0]) if parallel else None
        with scope or fw.enable_grad():
            loss = loss_of(model, tokens, targets)
            loss.backward()
        value = loss.detach()
        if parallel:
            dist.all_reduce(value, dist.ReduceOp.AVG)
        found.append(value.item())
        optimizer.step()
        optimizer.zero_grad()
    return found

result = []
for method in ("allgather", "alltoall"):
    A.set_rotate_method(method)
    fw.manual_seed(0)
    alone = Model()
    fw.manual_seed(0)
    together = fully_shard(Model(), mesh=mesh)
    result.append([losses(alone, False), losses(together, True)])
put(result)
"""
)


@pytest.mark.parametrize("size", [2, 4])
def test_training_with_parameters_in_parts_equals_one_process(size):
    for found in run(size, TRAINING):
        for alone, together in found:
            assert together == pytest.approx(alone, rel=2e-5) and alone[-1] < alone[0]


# The transformer of the examples: heads along one dimension of a mesh, sequences and parameters along the
# other.
TWO_DIMENSIONS = (
    PREAMBLE
    + """
sys.path.insert(0, EXAMPLES)
import contextlib
from plans import divide
from transformer import Transformer, batch, loss_of
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor.parallel import loss_parallel
both = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("cp", "tp"))

def losses(model, divided):
    optimizer = fw.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)
    found = []
    for step in range(3):
        tensors = batch(step)
        with contextlib.ExitStack() as stack:
            if divided:
                stack.enter_context(loss_parallel())
                dims = dict(buffers=list(tensors), buffer_seq_dims=[1, 1, 1])
                stack.enter_context(context_parallel(both["cp"], **dims))
            loss = loss_of(model, *tensors)
            loss.backward()
        value = loss.detach()
        if divided:
            value = value.full_tensor()
            dist.all_reduce(value, dist.ReduceOp.AVG)
        found.append(value.item())
        optimizer.step()
        optimizer.zero_grad()
    return found

fw.manual_seed(0)
alone = Transformer()
fw.manual_seed(0)
together = fully_shard(divide(Transformer(), both["tp"]), mesh=both["cp"])
put([losses(alone, False), losses(together, True)])
"""
)


def test_with_tensor_parallelism_along_another_dimension():
    code = TWO_DIMENSIONS.replace("EXAMPLES", repr(str(ROOT / "examples/distributed")))
    for alone, together in run(4, code):
        assert together == pytest.approx(alone, rel=2e-5)


AUTOCAST = (
    PREAMBLE
    + """
fw.manual_seed(0)
q = fw.randn(2, 8, 4)
with fw.autocast("cpu", fw.bfloat16):
    want = F.scaled_dot_product_attention(q, q, q, is_causal=True)
    parts = [q.clone(), want.clone()]
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[1, 1]):
        got = F.scaled_dot_product_attention(parts[0], parts[0], parts[0], is_causal=True)
        put([str(got.dtype)[-8:], (got - parts[1]).abs().max().item()])
"""
)


def test_autocast_lowers_the_precision():
    for dtype, far in run(2, AUTOCAST):
        assert dtype == "bfloat16" and far < 1.6e-2


def test_orders_are_permutations_with_equal_causal_work():
    for size in (1, 2, 3, 5):
        length = 4 * size
        balancer = _HeadTailLoadBalancer(length, size, "cpu")
        order, back = balancer._generate_indices()[0], balancer._generate_indices(restore=True)[0]
        assert order[back].tolist() == back[order].tolist() == list(range(length))
        work = (order + 1).view(size, -1).sum(1)
        assert work.eq(work[0]).all()
    with pytest.raises(ValueError, match="a seq_length that 6 divides, got 8"):
        _HeadTailLoadBalancer(8, 3, "cpu")
    assert fb.nn.functional.scaled_dot_product_attention.__name__ == "scaled_dot_product_attention"
