"""The values that compiled graphs save for backward: minimum cut, budget, operators that must not repeat."""

import gc
import itertools
import random

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau._dynamo.utils import counters
from flambeau._functorch import config
from flambeau.compiler.aot import cut, partition
from flambeau.compiler.passes import fusion

pytest.importorskip("scipy")
nn = fb.nn
AGAIN = "operators computed again"


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Fuse groups and repeat operators of any size, so that tests can use small tensors."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    monkeypatch.setattr(cut, "_LEAST_ELEMENTS", 1)
    counters["fusion"].clear()


def leaf(*sizes, seed=0):
    generator = fb.Generator().manual_seed(seed)
    return fb.randn(sizes, generator=generator).requires_grad_()


def chain(x, w):
    for _ in range(3):
        x = F.gelu(x @ w) * 2
    return x.sum()


def saved_bytes(result):
    return sum(t.numel() * t.element_size() for t in result.grad_fn.saved_tensors)


def peak(step):
    gc.collect()
    fb._C._reset_peak()
    before = fb._C._memory_stats()["allocated_bytes"]
    step()
    return fb._C._memory_stats()["peak_allocated_bytes"] - before


def trained(function, *inputs, seed=0):
    fb.manual_seed(seed)
    given = [x.detach().clone().requires_grad_() for x in inputs]
    result = function(*given)
    result.backward()
    return result.detach(), [x.grad for x in given]


def assert_as_plain(function, *inputs):
    compiled = fb.compile(function)
    for seed in range(3):
        found, expected = trained(compiled, *inputs, seed=seed), trained(function, *inputs, seed=seed)
        assert fb.equal(found[0].nan_to_num(), expected[0].nan_to_num())
        for one, other in zip(found[1], expected[1], strict=True):
            assert fb.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("budget", [1.0, 0.7, 0.3, 0.0])
def test_budgets_change_no_values(budget):
    with config.patch(activation_memory_budget=budget):
        assert_as_plain(chain, leaf(8, 8), leaf(8, 8, seed=1))
    assert counters["fusion"][AGAIN] > 0


def test_less_is_saved_under_less_budget():
    sizes = []
    for budget in (1.0, 0.5, 0.0):
        with config.patch(activation_memory_budget=budget):
            compiled = fb.compile(chain)
            compiled(leaf(8, 8), leaf(8, 8))
            sizes.append(saved_bytes(compiled(leaf(8, 8), leaf(8, 8))))
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[2] == 2 * 8 * 8 * 4  # only the inputs


def test_without_a_solver_the_values_of_autograd_are_saved(monkeypatch):
    monkeypatch.setattr(partition, "solver", lambda: None)
    with config.patch(activation_memory_budget=0.0):
        assert_as_plain(chain, leaf(8, 8), leaf(8, 8, seed=1))
    assert AGAIN not in counters["fusion"]


@pytest.mark.parametrize("budget", [1.0, 0.0])
def test_random_numbers_are_not_drawn_again(budget):
    def noisy(x, w):
        y = F.dropout(F.gelu(x @ w), 0.5)
        return (F.dropout(y @ w, 0.5) * fb.rand_like(x).exp()).sum()

    with config.patch(activation_memory_budget=budget):
        assert_as_plain(noisy, leaf(8, 8), leaf(8, 8, seed=1))
    compiled = fb.compile(noisy)
    for _ in range(2):
        states = []
        for function in (noisy, compiled):
            fb.manual_seed(3)
            function(leaf(8, 8), leaf(8, 8)).backward()
            states.append(fb.get_rng_state())
        assert fb.equal(*states)


@pytest.mark.parametrize("budget", [1.0, 0.0])
def test_a_value_that_was_overwritten_is_not_read_again(budget):
    norm = nn.BatchNorm1d(6)
    other = nn.BatchNorm1d(6)

    def program(x, w, module=norm):
        y = F.gelu(x @ w)
        z = (y * 2).sin()
        z = F.gelu(module(z).add_(1) @ w)
        return (z * module.running_mean.detach()).sum()

    with config.patch(activation_memory_budget=budget):
        compiled = fb.compile(lambda x, w: program(x, w))
        for _ in range(3):
            found = trained(compiled, leaf(6, 6), leaf(6, 6, seed=1))
            expected = trained(lambda x, w: program(x, w, other), leaf(6, 6), leaf(6, 6, seed=1))
            assert fb.equal(found[0], expected[0])
            for one, two in zip(found[1], expected[1], strict=True):
                assert fb.allclose(one, two, rtol=1e-5, atol=1e-6)
            assert fb.equal(norm.running_mean, other.running_mean)


@pytest.mark.parametrize("budget", [1.0, 0.0])
def test_writes_of_the_program_before_backward(budget):
    """Writes that autograd allows give right gradients; other writes raise an error."""

    def program(x, w):
        hidden = x * 3  # does not save x
        return F.gelu(hidden @ w).sum() + hidden.sigmoid().sum(), hidden.detach() * 2

    with config.patch(activation_memory_budget=budget):
        compiled = fb.compile(program)
        for _ in range(3):
            gradients = []
            for function in (program, compiled):
                x, w = leaf(6, 6), leaf(6, 6, seed=1)
                loss, extra = function(x, w)
                extra.zero_()
                with fb.no_grad():
                    x.zero_()
                loss.backward()
                gradients.append((x.grad, w.grad))
            for one, other in zip(*gradients, strict=True):
                assert fb.allclose(one, other, rtol=1e-5, atol=1e-6)
        x, w = leaf(6, 6), leaf(6, 6, seed=1)
        loss, _ = compiled(x, w)
        with fb.no_grad():
            w.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_nan_inf_empty_and_zero_dim():
    special = fb.tensor([[float("nan"), float("inf")], [-float("inf"), -0.0]]).requires_grad_()
    for x, w in ((special, leaf(2, 2)), (leaf(0, 2), leaf(2, 2))):
        assert_as_plain(chain, x, w)
    assert_as_plain(lambda x: F.gelu(x.sin() * 2) * x.exp(), leaf())


def test_views_and_transposed_inputs():
    def program(x, w):
        y = F.gelu((x.t() @ w).view(2, 3, 4).transpose(0, 1).reshape(6, 4))
        return (y[1:] * y[:-1].sin()).sum()

    assert_as_plain(program, leaf(5, 6), leaf(5, 4, seed=1))


def test_two_passes_and_a_third_one():
    compiled = fb.compile(chain)
    for _ in range(2):
        x, w = leaf(8, 8), leaf(8, 8, seed=1)
        loss = compiled(x, w)
        loss.backward(retain_graph=True)
        first = w.grad.clone()
        loss.backward()
        assert fb.allclose(w.grad, 2 * first)
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()


def test_hooks_of_saved_tensors_see_what_is_saved():
    compiled = fb.compile(chain)
    compiled(leaf(8, 8), leaf(8, 8))
    packed, unpacked = [], []
    x, w = leaf(8, 8), leaf(8, 8, seed=1)
    with fb.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t) or t, lambda t: unpacked.append(t) or t
    ):
        loss = compiled(x, w)
    loss.backward()
    assert len(packed) == len(unpacked) > 2
    assert fb.allclose(w.grad, trained(chain, x, w)[1][1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("act", [nn.GELU, nn.SiLU, nn.Tanh], ids=lambda a: a.__name__)
def test_peak_of_a_training_step(act, monkeypatch):
    monkeypatch.setattr(cut, "_LEAST_ELEMENTS", 4096)
    module = nn.Sequential(*[m for _ in range(6) for m in (nn.Linear(64, 64), act(), nn.Softplus())])
    compiled, x = fb.compile(module), fb.randn(1024, 64)

    def step(function):
        function(x).square().mean().backward()
        module.zero_grad(set_to_none=False)

    for function in (module, compiled):
        for _ in range(3):
            step(function)
    assert peak(lambda: step(compiled)) < 0.9 * peak(lambda: step(module))


# --- the cut against all choices of saved values ----------------------------------------------------


def random_graph(rng, count):
    """A graph of `count` pointwise operators, sums and products, whose values have three sizes."""
    graph = fb.fx.Graph()
    aten = fb.ops.aten
    nodes = []
    for i in range(2):
        node = graph.placeholder(f"x{i}")
        node.meta["val"] = fb.empty(4, 4 * (i + 1), device="meta")
        nodes.append(node)
    for _ in range(count):
        source = rng.choice(nodes)
        node = graph.call_function(rng.choice([aten.sin.default, aten.exp.default]), (source,))
        size = list(source.meta["val"].shape)
        if rng.random() < 0.3:
            size = [4, 4 * rng.choice([1, 2, 3])]
            node.target = aten.cumsum.default  # not cheap
        node.meta["val"] = fb.empty(size, device="meta")
        nodes.append(node)
    return nodes[:2], nodes[2:]


def is_enough(forward, kept, again):
    """Whether repeatable operators can compute all values that backward reads from the kept ones."""
    kept = set(kept)

    def follows(node):
        return node in kept or (node in again and all(map(follows, node.all_input_nodes)))

    return all(map(follows, forward.saved))


@pytest.mark.parametrize("seed", range(30))
def test_no_choice_saves_less(seed):
    rng = random.Random(seed)
    inputs, calls = random_graph(rng, 7)
    outputs = [calls[-1]]
    saved = [n for n in (*inputs, *calls) if rng.random() < 0.5] or [calls[0]]
    forward = cut.Forward(inputs, calls, outputs, saved, [])
    found = forward.cut(forward.cheap)
    assert is_enough(forward, found, forward.cheap)
    allowed = [n for n in (*inputs, *calls) if forward.may_be_saved(n)]
    choices = itertools.chain.from_iterable(
        itertools.combinations(allowed, k) for k in range(len(allowed) + 1)
    )

    def price(kept):
        return sum(1 + cut.size_of(n) for n in kept)

    least = min(price(kept) for kept in choices if is_enough(forward, kept, forward.cheap))
    assert price(found) == least
    repeated = forward.repeated(found)
    assert set(repeated) <= forward.cheap
    assert repeated == [n for n in calls if n in set(repeated)]
