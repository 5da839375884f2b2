"""Compiled functions whose inputs have other sizes at each call, against the plain functions."""

import math
from collections import defaultdict, namedtuple
from dataclasses import dataclass

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau._dynamo.utils import counters

nn = fb.nn
SIZES = (
    (3, 4),
    (5, 4),
    (7, 4),
    (5, 6),
    (1, 4),
    (0, 4),
    (5, 1),
    (8, 2),
    (5, 4),
    (7, 4),
    (7, 4),
    (4, 4),
    (2, 9),
)
Pair = namedtuple("Pair", "rows columns")


def same(found, expected):
    """Assert equal types and values, in containers too."""
    assert type(found) is type(expected), (found, expected)
    if isinstance(expected, fb.Tensor):
        assert found.shape == expected.shape and found.stride() == expected.stride()
        assert found.dtype == expected.dtype and found.requires_grad == expected.requires_grad
        assert fb.equal(found, expected) or fb.allclose(found, expected, equal_nan=True)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert [type(k) for k in found] == [type(k) for k in expected]
            same(found[key], expected[key])
    elif isinstance(expected, Parts):
        same([found.rows, found.shape], [expected.rows, expected.shape])
    else:
        assert found == expected or (found != found and expected != expected)


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__


def records(compiled):
    """Return how often each position of a compiled function was recorded."""
    return [len(found) for found in compiled._torchdynamo_program.segments.values()]


def in_loop(x):
    for i in range(x.shape[0]):
        x = x + i
    return x


def in_keys(x):
    table = {x.shape[0]: "rows", 4: "four"}
    return table.get(x.shape[1], "none"), table, x * len(table)


def in_elements(x):
    values = [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    values[x.shape[1]] = -1
    return x * values[x.shape[0]], values[: x.shape[0]], values


def in_default_dict(x):
    found = defaultdict(list)
    for n in x.shape:
        found[n].append(n)
    return dict(found), x + 1


def in_exceptions(x):
    if x.shape[0] % 7 == 0 and x.shape[0]:
        raise ValueError(f"{x.shape[0]} rows")
    return x * 2


def in_generators(x):
    return [x * n for n in x.shape], sum(n for n in x.shape), all(n > 2 for n in x.shape)


def in_closures(x):
    n = x.shape[0]

    def add(y):
        nonlocal n
        n += 1
        return y + n

    return add(add(x)), n, add


@dataclass
class Parts:
    rows: int
    shape: list


def in_objects(x):
    shape = list(x.shape)
    parts = Parts(x.shape[0], shape)
    again = {"parts": parts, "shape": shape, "deep": [(x.shape[0], shape)]}
    return again, again["deep"][0][1] is parts.shape, x * parts.rows


def after_a_break(x):
    n, m = x.shape
    half = n // 2
    math.fsum([1.0])
    y = x * n
    str(id(y))[:0]
    return y[half:] + m, half


PROGRAMS = {
    "shape": lambda x: (x * 2, x.shape),
    "sizes": lambda x: (x.size(), x.size(0), x.size(-1), x.stride(), x.stride(0), x + 1),
    "arithmetic": lambda x: (x * (x.shape[0] * 2 + 1) / (x.shape[1] - 10), -x.shape[0], abs(2 - x.shape[0])),
    "division": lambda x: (divmod(x.shape[0], 3), x.shape[0] / 3, x.shape[0] // 2, x.shape[0] % 3, x + 0),
    "powers": lambda x: x * x.shape[1] ** -0.5 + math.sqrt(x.shape[0]) + 2 ** x.shape[1],
    "bits": lambda x: (x + (x.shape[0] << 1), x.shape[0] & 3, ~x.shape[0], x.shape[1] | 1),
    "comparison": lambda x: x + 1 if x.shape[0] > 4 else x - 1,
    "chain": lambda x: x * 3 if 2 < x.shape[0] <= 5 != x.shape[1] else x,
    "truth": lambda x: (x + 1, bool(x.shape[0]), not x.shape[0]) if x.shape[0] else (x, None),
    "membership": lambda x: (x * 2, x.shape[0] in (3, 5), x.shape[1] in range(3, 9), 4 in x.shape),
    "identity": lambda x: (x.shape[0] is None, x * 1),
    "types": lambda x: (isinstance(x.shape[0], int), type(x.shape[0]) is int, type(x.shape[1]), x),
    "text": lambda x: (f"{x.shape[0]:>5}", str(x.shape[1]), repr(x.shape[0]), "a" * x.shape[0], x * 2),
    "conversion": lambda x: (float(x.shape[0]), int(x.shape[1]), complex(x.shape[0]), x),
    "extremes": lambda x: x * max(x.shape) + min(x.shape[0], 4) + max(x.shape[1], 3),
    "sums": lambda x: (sum(x.shape), math.prod(x.shape), x + sum(x.shape)),
    "sorted": lambda x: (sorted(x.shape), x + sorted(x.shape)[0]),
    "zip": lambda x: (dict(zip("ab", x.shape, strict=True)), list(enumerate(x.shape)), x * 2),
    "lists": lambda x: ([*x.shape, 1], [0] * x.shape[0], x.reshape([*x.shape, 1])),
    "tuples": lambda x: (x.shape + (1,), x.shape[:1] + x.shape[1:], Pair(*x.shape), x.view(*x.shape, 1)),
    "size": lambda x: (fb.Size([x.shape[1], x.shape[0]]), fb.Size(x.shape), x.shape.numel(), x * 2),
    "equality": lambda x: (x.shape == (5, 4), x.shape != x.t().shape, x.shape == x.shape, x + 1),
    "slices": lambda x: (x[: x.shape[0] // 2], x[:, x.shape[1] - 1 :], x[..., -x.shape[1] :]),
    "factories": lambda x: (fb.zeros(x.shape[0], 2), fb.arange(x.shape[1]), fb.eye(*x.shape) + x),
    "like": lambda x: (x.new_zeros(x.shape), fb.full((x.shape[1],), x.shape[0]), fb.zeros_like(x)),
    "views": lambda x: (x.view(-1), x.reshape(x.numel()), x.t(), x.unsqueeze(0).expand(3, *x.shape)),
    "numel": lambda x: (x / max(x.numel(), 1), len(x), x.nelement(), fb.numel(x), x.nbytes),
    "contiguity": lambda x: (x.t().is_contiguous(), x.t().contiguous() + 1, x.is_contiguous()),
    "layout": lambda x: x.t() * 2 if x.t().is_contiguous() else x * 3,
    "iteration": lambda x: [row * i for i, row in enumerate(x)],
    "unbind": lambda x: (len(x.unbind(1)), sum(x.unbind(1)) if x.shape[1] else 0),
    "split": lambda x: x.split(max(x.shape[0] // 2, 1)),
    "chunks": lambda x: fb.chunk(x, 2, dim=1),
    "padding": lambda x: F.pad(x, (0, x.shape[0])),
    "reductions": lambda x: (x.sum(0) / max(x.shape[0], 1), x.mean(1), x.softmax(-1), x.cumsum(0)),
    "broadcast": lambda x: (x + x.sum(0, keepdim=True), fb.broadcast_shapes(x.shape, (1,)), x.expand_as(x)),
    "products": lambda x: (x @ x.t(), fb.einsum("ij,kj->ik", x, x)),
    "intermediate": lambda x: (x @ x.t()).view(-1).shape[0] * x.sum(),
    "concatenation": lambda x: fb.cat([x, x * 2])[: x.shape[0] + 1],
    "boolean index": lambda x: x[x > 0].shape[0] if x.shape[0] > 4 else x,
    "limits": lambda x: x[:4].shape[0] * x,
    "nothing": lambda x: x.shape[0] * 2 + 1,
    "loop": in_loop, "keys": in_keys, "elements": in_elements, "default dict": in_default_dict,
    "exceptions": in_exceptions, "generators": in_generators, "closures": in_closures,
    "objects": in_objects, "break": after_a_break,
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_programs_of_sizes(name, dynamic, backend):
    program = PROGRAMS[name]
    compiled = fb.compile(program, dynamic=dynamic, backend=backend)
    for i, size in enumerate(SIZES):
        x = fb.arange(float(math.prod(size))).view(size).sub_(7)
        x = x.t().contiguous().t() if i % 3 == 2 else x
        found, expected = outcome(compiled, x), outcome(program, x)
        if name == "closures" and isinstance(expected, tuple):
            same(found[2](x), expected[2](x))
            found, expected = found[:2], expected[:2]
        same(found, expected)


@pytest.mark.parametrize("name", ["shape", "arithmetic", "division", "powers", "slices", "factories", "views",
                                  "reductions", "concatenation", "padding", "products", "sizes"])  # fmt: skip
def test_one_record_holds_for_many_sizes(name):
    compiled = fb.compile(PROGRAMS[name], backend="eager", dynamic=True)
    for n in range(2, 30):
        compiled(fb.ones(n, n % 5 + 2))
    assert records(compiled) == [1]


def test_sizes_that_differ_are_left_open():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    weight = fb.ones(4, 4)
    compiled = fb.compile(lambda x: (x @ weight).view(-1, 2, 2).sum(0) * x.shape[0], backend=backend)
    for n in (3, 4, 5, 6, 3, 9):
        same(compiled(fb.ones(n, 4)), fb.full((2, 2), 4.0 * n * n))
    assert len(graphs) == 2  # one for the size of the first call, one for all others
    assert not any(n.target == "size" for n in graphs[0].graph.nodes)


def test_dynamic_false_records_each_size():
    compiled = fb.compile(lambda x: x * 2 + x.shape[0], backend="eager", dynamic=False)
    for n in (2, 3, 4, 2, 3):
        same(compiled(fb.ones(n)), fb.ones(n) * 2 + n)
    assert records(compiled) == [3]


def test_marks():
    compiled = fb.compile(lambda x: x * x.shape[0], backend="eager")
    for n in (2, 3, 4):
        x = fb.ones(n)
        fb._dynamo.mark_dynamic(x, 0)
        same(compiled(x), fb.ones(n) * n)
    assert records(compiled) == [1]
    compiled = fb.compile(lambda x: x * x.shape[0], backend="eager", dynamic=True)
    for n in (2, 3, 4):
        x = fb.ones(n)
        fb._dynamo.mark_static(x)
        same(compiled(x), fb.ones(n) * n)
    assert records(compiled) == [3]
    with pytest.raises(IndexError):
        fb._dynamo.mark_dynamic(fb.ones(2), 3)


class Block(nn.Module):
    def __init__(self, width=16, heads=2, most=32):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("mask", fb.ones(most, most).tril().view(1, 1, most, most))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(self.norm(x)).split(c, dim=2)
        q, k, v = (a.view(b, t, self.heads, c // self.heads).transpose(1, 2) for a in (q, k, v))
        attention = q @ k.transpose(-2, -1) * (1.0 / math.sqrt(k.size(-1)))
        attention = attention.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
        y = (attention @ v).transpose(1, 2).contiguous().view(b, t, c)
        return x + F.gelu(self.out(y))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, ids):
        t = ids.size(1)
        assert t <= 32, f"{t} tokens"
        x = self.tokens(ids) + self.places(fb.arange(t))
        for block in self.blocks:
            x = block(x)
        return x.flatten(1).sum(1)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_transformer_of_many_lengths(backend):
    fb.manual_seed(0)
    model = Model()
    compiled = fb.compile(model, backend=backend)
    for t in (4, 7, 9, 12, 20, 3, 31, 7, 7, 9, 9, 1, 32):
        ids = fb.randint(0, 50, (3, t))
        results = []
        for run in (model, compiled):
            model.zero_grad()
            result = run(ids)
            result.sum().backward()
            results.append([result.detach(), *(p.grad.clone() for p in model.parameters())])
        for a, b in zip(*results, strict=True):
            assert fb.allclose(a, b, rtol=1e-4, atol=1e-5)
    assert sum(len(found) for found in compiled._program.segments.values()) <= 2
    with pytest.raises(AssertionError, match="40 tokens"):
        compiled(fb.zeros(1, 40, dtype=fb.int64))


def test_random_numbers_are_those_of_the_program():
    def program(x):
        return F.dropout(x, 0.5) + fb.rand(x.shape[0], 1)

    compiled = fb.compile(program, dynamic=True)
    for n in (5, 6, 7, 6, 6, 6, 7):
        x = fb.ones(n, 900)
        fb.manual_seed(n)
        expected, after = program(x), fb.rand(3)
        fb.manual_seed(n)
        same(compiled(x), expected)
        same(fb.rand(3), after)


def test_functions_of_autograd_run_once_per_call():
    calls = []

    class Twice(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(tuple(x.shape))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    compiled = fb.compile(lambda x: Twice.apply(x + 1) * x.shape[0], dynamic=True, backend="eager")
    for n in (2, 3, 4, 3):
        same(compiled(fb.ones(n)), fb.full((n,), 4.0 * n))
    assert calls == [(2,), (3,), (4,), (3,)]


def test_writes_and_attributes():
    class Counter:
        seen, last = 0, None

    def program(x, state):
        x[: x.shape[0] // 2] += 1
        state.seen += x.shape[0]
        state.last = [x.shape[0], {"columns": x.shape[1]}]
        return state.seen

    compiled = fb.compile(program, dynamic=True)
    plain, quick = Counter(), Counter()
    for n in (4, 5, 6, 5, 5, 9):
        a, b = fb.zeros(n, 2), fb.zeros(n, 2)
        same(compiled(a, quick), program(b, plain))
        same(a, b)
        same(quick.seen, plain.seen)
        same(quick.last, plain.last)


def test_two_inputs_of_one_size_or_of_two():
    def program(x, y):
        return (x + y) * y.shape[0]

    compiled = fb.compile(program, dynamic=True, backend="eager")
    for a, b in ((3, 3), (4, 4), (4, 1), (1, 5), (3, 4), (5, 5), (2, 0)):
        x, y = fb.ones(a), fb.ones(b)
        same(outcome(compiled, x, y), outcome(program, x, y))


def test_memory_formats_and_strides():
    def program(x):
        return x.stride(), x.flatten(), x.view(-1)

    compiled = fb.compile(program, dynamic=True, backend="eager")
    for x in (
        fb.ones(3, 4),
        fb.ones(4, 3).t(),
        fb.ones(6, 8)[::2, ::2],
        fb.ones(3, 1).expand(3, 4),
        fb.ones(5, 4),
    ):
        same(outcome(compiled, x), outcome(program, x))


def test_gradients_of_many_sizes():
    def program(x, w):
        return ((x * w).sigmoid() * x.shape[0]).sum() / x.numel()

    compiled = fb.compile(program, dynamic=True)
    for n in (3, 4, 5, 4, 4, 5, 5):
        found = []
        for run in (program, compiled):
            x = fb.linspace(0, 1, 3000 * n).view(n, 3000).requires_grad_()
            w = fb.linspace(1, 2, 3000, requires_grad=True)
            run(x, w).backward()
            found.append((x.grad, w.grad))
        for a, b in zip(*found, strict=True):
            assert fb.allclose(a, b, rtol=1e-4, atol=1e-6)


def test_autocast_and_gradient_modes_stay_as_they_are():
    def program(x):
        with fb.no_grad():
            y = x * x.shape[0]
        return y + x

    compiled = fb.compile(program, dynamic=True)
    for n in (2, 3, 4, 3, 3):
        x = fb.ones(n, requires_grad=True)
        same(compiled(x), program(x))
        assert fb.is_grad_enabled()
        with fb.autocast("cpu"):
            same(compiled(x), program(x))
            assert fb.is_autocast_enabled("cpu")


def test_other_tensors_keep_their_size():
    """Parameters, subclasses, sparse tensors and conjugates are recorded for one size each."""

    class Own(fb.Tensor):
        pass

    def program(x):
        return x * 2

    compiled = fb.compile(program, dynamic=True)
    for n in (2, 3):
        for x in (
            nn.Parameter(fb.ones(n)),
            fb.ones(n).as_subclass(Own),
            fb.complex(fb.ones(n), fb.ones(n)).conj(),
        ):
            same(compiled(x).resolve_conj(), program(x).resolve_conj())
        assert fb.equal(compiled(fb.ones(n).to_sparse()).to_dense(), fb.full((n,), 2.0))


def test_a_limit_of_sizes_that_are_used_as_constants():
    counters.clear()
    compiled = fb.compile(in_loop, backend="eager", recompile_limit=4)
    with pytest.warns(UserWarning, match="was recorded 4 times"):
        for n in range(2, 12):
            same(compiled(fb.ones(n, 2)), in_loop(fb.ones(n, 2)))


def test_many_sizes_do_not_collect_memory(monkeypatch):
    from flambeau.compiler.symbolic import variants

    monkeypatch.setattr(variants, "MOST_KNOWN", 10)
    monkeypatch.setattr(variants, "MOST_COMPILED", 3)
    compiled = fb.compile(lambda x: (x * 2 + 1).relu() * x.shape[0], dynamic=True)
    for n in list(range(5000, 5030)) * 2 + [5000] * 4:
        same(compiled(fb.ones(n)), fb.full((n,), 3.0 * n))
    program = compiled._torchdynamo_program
    (segment,) = (s for found in program.segments.values() for s in found)
    assert len(segment.variants._known) <= 10 and segment.variants._compiled <= 3
