"""`flex_attention` in compiled functions: one node with graphs of its functions, with gradients."""

import flambeau as fb
import pytest
from captured import Recorder, same
from flambeau._dynamo.utils import counters
from flambeau.compiler.passes import fusion
from flambeau.nn.attention import _blocks
from flambeau.nn.attention._of_graph import flex_attention_of_graph
from flambeau.nn.attention.flex_attention import (
    AuxRequest,
    and_masks,
    create_block_mask,
    flex_attention,
    noop_mask,
)
from flambeau.utils.checkpoint import checkpoint

BACKENDS = pytest.mark.parametrize("backend", ["eager", "inductor"])


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Fuse groups of any size, so that tests can use small tensors."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    counters["fusion"].clear()
    yield
    fb.compiler.reset()


def parts(heads=2, kv_heads=2, length=6, width=4, dtype=fb.float64):
    fb.manual_seed(0)
    sizes = [(2, heads, length, width), (2, kv_heads, length, width), (2, kv_heads, length, width)]
    return [fb.randn(size, dtype=dtype, requires_grad=True) for size in sizes]


def causal(b, h, q, kv):
    return q >= kv


def outcome(function, *arguments):
    """Return the results, and the gradients of the tensors among the arguments."""
    leaves = [a for a in arguments if isinstance(a, fb.Tensor) and a.requires_grad]
    found = function(*arguments)
    results = [t for t in fb.utils._pytree.tree_leaves(found) if isinstance(t, fb.Tensor)]
    total = sum((fb.nan_to_num(t, neginf=0.0) ** 2).sum() for t in results if t.requires_grad)
    gradients = fb.autograd.grad(total, leaves, allow_unused=True) if isinstance(total, fb.Tensor) else []
    return [*(t.detach() for t in results), *gradients]


def agree(function, *arguments, backend="inductor"):
    """Compile in one graph; compare results and gradients of three calls with the plain function's."""
    compiled = fb.compile(function, backend=backend, fullgraph=True)
    expected = outcome(function, *arguments)
    for _ in range(3):
        found = outcome(compiled, *arguments)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None)
            assert a is None or (a.dtype == b.dtype and fb.allclose(a, b, equal_nan=True))


def graph_of(function, *arguments):
    backend = Recorder()
    fb.compile(function, backend=backend, fullgraph=True)(*arguments)
    return backend.graphs[0]


@BACKENDS
def test_scores_with_operands_that_have_gradients(backend):
    q, k, v = parts()
    slopes = fb.randn(2, dtype=fb.float64, requires_grad=True)

    def program(q, k, v, slopes):
        rates = slopes.exp()
        return (
            flex_attention(q * 2 + 1, k, v.tanh() * 2, lambda s, b, h, i, j: s - rates[h] * (i - j).abs()) + 1
        )

    agree(program, q, k, v, slopes, backend=backend)
    if backend == "inductor":
        assert counters["fusion"]["groups"] > 0


@BACKENDS
def test_masks_by_blocks_and_documents(backend):
    q, k, v = parts(length=8)
    documents = fb.tensor([0, 0, 0, 1, 1, 1, 1, 2])

    def same_document(b, h, i, j):
        return (i >= j) & (documents[i] == documents[j])

    mask = create_block_mask(same_document, None, None, 8, 8, BLOCK_SIZE=2)
    agree(lambda q, k, v: flex_attention(q.sin() * 2, k, v, block_mask=mask), q, k, v, backend=backend)


@BACKENDS
def test_rows_of_blocks_are_computed_alone(backend, monkeypatch):
    monkeypatch.setattr(_blocks, "_SCORES_PER_ROW", 0)
    q, k, v = parts(length=8)
    mask = create_block_mask(lambda b, h, i, j: (i - j).abs() < 2, 2, 2, 8, 8, BLOCK_SIZE=2)
    agree(lambda q, k, v, m: flex_attention(q * 3 + 1, k, v, None, m), q, k, v, mask, backend=backend)


@BACKENDS
@pytest.mark.parametrize("lse", [False, True])
@pytest.mark.parametrize("largest", [False, True])
def test_further_results(backend, lse, largest):
    q, k, v = parts()
    mask = create_block_mask(lambda b, h, i, j: i > j, None, None, 6, 6, BLOCK_SIZE=3)  # an empty row

    def program(q, k, v):
        wanted = AuxRequest(lse=lse, max_scores=largest)
        out, aux = flex_attention(q * 2, k, v, block_mask=mask, return_aux=wanted)
        assert (aux.lse is not None, aux.max_scores is not None) == (lse, largest)
        return out, [t for t in aux if t is not None]

    agree(program, q, k, v, backend=backend)


def test_grouped_heads_scale_and_lse():
    q, k, v = parts(heads=4)

    def program(q, k, v):
        return flex_attention(q + 0, k, v, lambda s, b, h, i, j: s * (h + 1), None, 0.3, True, True)

    agree(program, q, k, v)


@pytest.mark.parametrize("dtype", [fb.float32, fb.bfloat16, fb.float16])
def test_lower_precisions(dtype):
    q, k, v = parts(dtype=dtype)
    agree(lambda q, k, v: flex_attention(q * 2, k, v, lambda s, b, h, i, j: s + b), q, k, v)


def test_the_node_and_its_subgraphs():
    q, k, v = parts()
    bias = fb.ones(2)
    mask = create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=3)

    def program(q, k, v):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h], mask)

    graph = graph_of(program, q, k, v)
    (node,) = [n for n in graph.graph.nodes if n.target is flex_attention_of_graph]
    score, mask_graph = (getattr(graph, str(n.target)) for n in node.args[:2])
    assert "bias" in score.code and ">=" in mask_graph.code
    inputs = [n.meta["example_value"] for n in graph.graph.nodes if n.op == "placeholder"]
    assert fb.equal(graph.forward(*inputs)[0], program(q, k, v))


def test_masks_that_differ_are_recorded_or_read_again():
    q, k, v = parts(length=8)

    def program(q, k, v, mask):
        return flex_attention(q * 2, k, v, block_mask=mask)

    compiled = fb.compile(program, fullgraph=True)
    masks = [create_block_mask(mod, None, None, 8, 8, BLOCK_SIZE=2)
             for mod in (causal, lambda b, h, i, j: i <= j, causal)]  # fmt: skip
    for mask in [*masks, *masks, None]:
        assert fb.allclose(compiled(q, k, v, mask), program(q, k, v, mask))
    masks[0].kv_num_blocks = fb.zeros_like(masks[0].kv_num_blocks)
    assert fb.allclose(compiled(q, k, v, masks[0]), program(q, k, v, masks[0]))
    masks[0].full_kv_num_blocks.zero_()  # now all rows are empty
    found = compiled(q, k, v, masks[0])
    assert fb.equal(found, program(q, k, v, masks[0])) and not found.any()


def test_closures_that_change():
    q, k, v = parts()
    rate = 1.0

    def program(q, k, v):
        return flex_attention(q * 2, k, v, lambda s, b, h, i, j: s * rate)

    compiled = fb.compile(program, fullgraph=True)
    for rate in (1.0, 2.0, 2.0, 1.0):  # noqa: B007  (the closure reads `rate`)
        assert fb.allclose(compiled(q, k, v), program(q, k, v))


def test_masks_of_masks_and_no_mask():
    q, k, v = parts()
    for mod in (and_masks(causal, lambda b, h, i, j: i - j < 2), noop_mask):
        mask = create_block_mask(mod, None, None, 6, 6, BLOCK_SIZE=3)
        compiled = fb.compile(lambda q, k, v, m=mask: flex_attention(q * 2, k, v, block_mask=m))
        expected = flex_attention(q * 2, k, v, block_mask=mask)
        for _ in range(3):
            assert fb.allclose(compiled(q, k, v), expected)


def test_functions_that_cannot_be_recorded_end_the_graph():
    q, k, v = parts()
    seen = []

    def noting(s, b, h, i, j):
        seen.append(1)
        return s

    def branching(s, b, h, i, j):
        return s if len(seen) < 10**9 else -s

    def vector(s, b, h, i, j):
        return s + fb.ones(3, dtype=s.dtype)

    for mod, works in ((noting, True), (branching, True), (vector, False)):
        compiled = fb.compile(lambda q, k, v, mod=mod: flex_attention(q * 2, k, v, mod))
        if works:
            assert fb.allclose(compiled(q, k, v), flex_attention(q * 2, k, v, mod))
        else:
            with pytest.raises(Exception) as plain:
                flex_attention(q * 2, k, v, mod)
            with pytest.raises(type(plain.value)):
                compiled(q, k, v)
    assert seen


@pytest.mark.parametrize("change", ["rank", "heads", "type", "mask", "length"])
def test_wrong_arguments_raise_the_plain_errors(change):
    q, k, v = parts()
    mask = create_block_mask(causal, None, None, 2, 2, BLOCK_SIZE=2)
    arguments = {
        "rank": (q[0], k, v), "heads": (q[:, :1], k, v), "type": (q, k, None), "mask": (q, k, v, None, mask),
        "length": (q, k[..., :3, :], v),
    }[change]  # fmt: skip

    def program(*args):
        return flex_attention(args[0] * 2, *args[1:])

    with pytest.raises(Exception) as plain:
        program(*arguments)
    with pytest.raises(type(plain.value)):
        fb.compile(program)(*arguments)


def test_autocast_and_no_grad_around_it():
    q, k, v = parts(dtype=fb.float32)

    def program(q, k, v):
        with fb.autocast("cpu", dtype=fb.bfloat16):
            return flex_attention(q @ fb.eye(4), k, v, lambda s, b, h, i, j: s * 2).float()

    expected = program(q, k, v)
    compiled = fb.compile(program)
    with fb.no_grad():
        assert same(compiled(q, k, v), program(q, k, v))
    for _ in range(3):
        assert fb.allclose(compiled(q, k, v), expected, atol=1e-2)


def test_empty_and_single_positions():
    for length in (0, 1):
        q, k, v = parts(length=length)
        if length:
            agree(lambda q, k, v: flex_attention(q * 2, k, v, lambda s, b, h, i, j: s + j), q, k, v)
            continue

        def program(q, k, v):
            return flex_attention(q * 2, k, v)

        assert fb.compile(program)(q, k, v).shape == program(q, k, v).shape


def test_within_checkpoints_and_beside_each_other():
    q, k, v = parts()
    mask = create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=3)

    def program(q, k, v):
        def inner(q):
            return flex_attention(q * 2 + 1, k, v, lambda s, b, h, i, j: s * 2)

        first = checkpoint(inner, q, use_reentrant=False)
        return first + flex_attention(first, k, v, lambda s, b, h, i, j: s + h, mask)

    agree(program, q, k, v)


def test_tables_by_position_and_conditions_on_operands():
    q, k, v = parts()
    table = fb.randn(6, 6, dtype=fb.float64, requires_grad=True)
    reach = fb.tensor(3.0, dtype=fb.float64, requires_grad=True)

    def program(q, k, v, table, reach):
        def near(s, b, h, i, j):
            return fb.where(i - j < reach, s + table[i, j], s * reach)

        return flex_attention(q * 2 + 1, k, v, near)

    agree(program, q, k, v, table, reach)


def test_inputs_without_gradients():
    q, k, v = parts()
    for frozen in ((q,), (q, k), (v,), (k, v)):
        given = [t.detach() if any(t is f for f in frozen) else t for t in (q, k, v)]
        agree(lambda q, k, v: flex_attention(q * 2 + 1, k, v, lambda s, b, h, i, j: s * 2), *given)


def test_other_sizes():
    def program(q, k, v):
        return flex_attention(q * 2 + 1, k, v, lambda s, b, h, i, j: s + i, None, 1 / q.shape[-1])

    compiled = fb.compile(program, dynamic=True, fullgraph=True)
    for length in (4, 5, 6, 4):
        q, k, v = parts(length=length)
        assert fb.allclose(compiled(q, k, v), program(q, k, v))


def test_modules_with_parameters_and_masks():
    class Attention(fb.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = fb.nn.Parameter(fb.ones(2, dtype=fb.float64))
            self.mask = create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=3)

        def forward(self, q, k, v):
            return flex_attention(q * 2 + 1, k, v, lambda s, b, h, i, j: s * self.bias[h], self.mask)

    module = Attention()
    q, k, v = parts()
    compiled = fb.compile(module, fullgraph=True)
    for _ in range(3):
        found = []
        for function in (module, compiled):
            module.bias.grad = None
            function(q, k, v).sum().backward()
            found.append(module.bias.grad)
        assert fb.allclose(*found)
        with fb.no_grad():
            module.bias.add_(1)


def test_writes_to_saved_tensors_are_detected():
    q, k, v = parts()

    def program(q, k, v):
        doubled = q * 2
        out = flex_attention(doubled, k, v)
        doubled.add_(1)
        return out + doubled

    for function in (program, fb.compile(program)):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                function(q, k, v).sum().backward()


def test_masks_that_the_program_makes_end_the_graph():
    q, k, v = parts()

    def program(q, k, v):
        mask = create_block_mask(causal, None, None, 6, 6, BLOCK_SIZE=3)
        return flex_attention(q * 2 + 1, k, v, None, mask)

    compiled = fb.compile(program)
    for _ in range(3):
        assert fb.allclose(compiled(q, k, v), program(q, k, v))
