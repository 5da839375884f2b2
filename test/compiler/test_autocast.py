"""Autocast in compiled programs: dtypes, values and gradients equal the plain program's and PyTorch's."""

import threading

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau._dynamo.utils import counters
from flambeau.compiler.passes import fusion
from oracle import pytorch

LOWER = (fb.bfloat16, fb.float16)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Fuse groups of any size, so that tests can use small tensors."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    counters["fusion"].clear()


def leaves(lib, *shapes, grad=True):
    made = []
    for i, shape in enumerate(shapes):
        count = 1
        for n in shape:
            count *= n
        values = lib.arange(count, dtype=lib.float32).view(shape)
        made.append(((values * (i + 1.37)).sin() * 0.7).requires_grad_(grad))
    return made


def run(function, inputs, backward=True):
    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    if backward:
        sum(r.float().sum() for r in results if r.requires_grad).backward()
    return results, [x.grad for x in inputs]


def assert_same(one, other, exact=False):
    assert (one is None) == (other is None)
    if one is None:
        return
    assert (one.dtype, one.shape, one.requires_grad) == (other.dtype, other.shape, other.requires_grad)
    one, other = one.detach(), other.detach()
    assert fb.equal(one, other) if exact else fb.allclose(one, other, rtol=2e-2, atol=1e-2)


def region(lib, dtype):
    def program(x, w, b):
        with lib.autocast("cpu", dtype=dtype):
            hidden = (x @ w + b).relu() * 2 + 1
            out = lib.softmax(hidden @ w, -1)
        return out * x, hidden

    return program


def nested(lib, dtype):
    def program(x, w, b):
        with lib.autocast("cpu", dtype=dtype):
            y = x @ w
            with lib.autocast("cpu", enabled=False):
                z = y.float() @ w * 2 + 1
            return (z @ w + b).exp() * 0.1 + y, z

    return program


def promoted(lib, dtype):
    def program(x, w, b):
        with lib.autocast("cpu", dtype=dtype):
            y = lib.cat([x @ w, x])
            return lib.nn.functional.layer_norm(y * 2, (4,), b, b).sigmoid() * y

    return program


def shared_weight(lib, dtype):
    def program(x, w, b):
        with lib.autocast("cpu", dtype=dtype):
            return ((x @ w).tanh() @ w).tanh() @ w * 2 + b

    return program


PROGRAMS = [region, nested, promoted, shared_weight]
SHAPES = ((4, 4), (4, 4), (4,))


@pytest.mark.parametrize("dtype", LOWER, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_with_regions(program, dtype):
    function = program(fb, dtype)
    compiled = fb.compile(function)
    for _ in range(3):
        ours, theirs = leaves(fb, *SHAPES), leaves(fb, *SHAPES)
        found, expected = run(compiled, ours), run(function, theirs)
        for one, other in zip(found[0], expected[0], strict=True):
            assert_same(one, other, exact=True)
        for one, other in zip(found[1], expected[1], strict=True):
            assert_same(one, other)
        assert not fb.is_autocast_enabled("cpu")
    assert counters["fusion"]["groups"] > 0
    assert not any("autocast" in reason for reason in counters["fusion"])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_dtypes_and_values_of_pytorch(program):
    torch = pytorch()
    compiled = fb.compile(program(fb, fb.bfloat16))
    run(compiled, leaves(fb, *SHAPES))
    found = run(compiled, leaves(fb, *SHAPES))
    expected = run(program(torch, torch.bfloat16), leaves(torch, *SHAPES))
    for ours, theirs in zip([*found[0], *found[1]], [*expected[0], *expected[1]], strict=True):
        assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
        other = fb.tensor(theirs.detach().float().tolist())
        assert fb.allclose(ours.detach().float(), other, rtol=3e-2, atol=3e-2)


def step(x, w):
    return ((x @ w) * 2 + 1).relu() * x


def test_region_around_the_call_is_guarded():
    compiled = fb.compile(step)
    x, w = leaves(fb, (4, 4), (4, 4))
    groups = []
    for dtype in (None, fb.bfloat16, fb.float16, None, fb.bfloat16):
        with fb.autocast("cpu", dtype=dtype or fb.bfloat16, enabled=dtype is not None):
            expected = step(x, w)
            found = compiled(x, w)
            assert fb.is_autocast_enabled("cpu") == (dtype is not None)
        assert found.dtype == expected.dtype == fb.float32
        assert fb.equal(found, expected)
        (one,), (other,) = fb.autograd.grad(found.sum(), w), fb.autograd.grad(expected.sum(), w)
        assert_same(one, other)
        groups.append(counters["fusion"]["groups"])
    assert 0 < groups[0] < groups[1] < groups[2] == groups[3] == groups[4]  # one graph per state


def test_composites_cast_once():
    def program(x, w, b):  # operators inside layer_norm and the loss must not be cast separately
        y = F.layer_norm(F.linear(x, w) * 2 + 1, (4,), b, b)
        return F.cross_entropy(y * 3 + 1, fb.tensor([0, 1, 2, 3])), y

    compiled = fb.compile(program)
    for _ in range(2):
        with fb.autocast("cpu", dtype=fb.bfloat16):
            found = run(compiled, leaves(fb, *SHAPES), backward=False)[0]
            expected = run(program, leaves(fb, *SHAPES), backward=False)[0]
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, exact=True)


def test_backward_inside_a_region():
    compiled = fb.compile(step)
    for _ in range(2):
        ours, theirs = leaves(fb, (4, 4), (4, 4)), leaves(fb, (4, 4), (4, 4))
        with fb.autocast("cpu", dtype=fb.bfloat16):
            found, expected = run(compiled, ours), run(step, theirs)
            assert fb.is_autocast_enabled("cpu")
        for one, other in zip(found[1], expected[1], strict=True):
            assert_same(one, other)


def test_inputs_that_are_computed():
    compiled = fb.compile(shared_weight(fb, fb.bfloat16))
    for _ in range(2):
        gradients = []
        for function in (compiled, shared_weight(fb, fb.bfloat16)):
            x, w, b = leaves(fb, *SHAPES)
            function(x, w * 2, b).float().sum().backward()
            gradients.append((x.grad, w.grad))
        for one, other in zip(*gradients, strict=True):
            assert_same(one, other)


def test_graph_that_ends_inside_a_region():
    def program(x, w):
        y = (x @ w) * 2 + 1
        with fb.autocast("cpu", dtype=fb.bfloat16):
            z = (x @ w) * 2 + 1
            fb._dynamo.graph_break()
            u = (x @ w) * 2 + 1
            inner = fb.is_autocast_enabled("cpu")
        return y, z, u, (x @ w) * 2 + 1, fb.tensor(inner)

    compiled = fb.compile(program)
    for _ in range(3):
        ours, theirs = leaves(fb, (4, 4), (4, 4)), leaves(fb, (4, 4), (4, 4))
        found, expected = run(compiled, ours), run(program, theirs)
        assert [r.dtype for r in found[0]] == [r.dtype for r in expected[0]]
        for one, other in zip(found[0], expected[0], strict=True):
            assert_same(one, other, exact=True)
        for one, other in zip(found[1], expected[1], strict=True):
            assert_same(one, other)
        assert not fb.is_autocast_enabled("cpu")
        assert fb.autocast_increment_nesting() == 1
        assert fb.autocast_decrement_nesting() == 0
    assert counters["fusion"]["groups"] > 0


def test_graph_that_ends_inside_no_grad_keeps_earlier_gradients():
    def program(x):
        y = (x * 2 + 1).sigmoid()
        with fb.no_grad():
            fb._dynamo.graph_break()
            z = (y * 2 + 1).sigmoid()
        return y, z

    compiled = fb.compile(program)
    for _ in range(3):
        (x,) = leaves(fb, (4,))
        y, z = compiled(x)
        assert y.requires_grad and not z.requires_grad and fb.is_grad_enabled()
        y.sum().backward()
        (other,) = leaves(fb, (4,))
        program(other)[0].sum().backward()
        assert fb.equal(x.grad, other.grad)


def test_an_exception_leaves_the_state():
    def program(x, w):
        with fb.autocast("cpu", dtype=fb.bfloat16):
            y = x @ w * 2 + 1
            if y.sum().item() > -1e9:
                raise ValueError("told")
            return y

    compiled = fb.compile(program)
    for _ in range(3):
        with pytest.raises(ValueError, match="told"):
            compiled(*leaves(fb, (4, 4), (4, 4)))
        assert not fb.is_autocast_enabled("cpu")
        assert fb.autocast_increment_nesting() == 1
        assert fb.autocast_decrement_nesting() == 0


def test_nan_inf_empty_and_float64():
    def program(x, w):
        with fb.autocast("cpu", dtype=fb.float16):
            return (x @ w) * 2 + 1, x.exp() * 2 + w.sum()

    compiled = fb.compile(program)
    special = fb.tensor([[float("nan"), float("inf")], [1e30, -0.0]])
    for x, w in (
        (special, fb.ones(2, 2)),
        (fb.ones(0, 2), fb.ones(2, 2)),
        (fb.ones(2, 2, dtype=fb.float64), fb.ones(2, 2, dtype=fb.float64)),
        (fb.ones(2, 2, dtype=fb.bfloat16), fb.ones(2, 2, dtype=fb.bfloat16).t()),
    ):
        for _ in range(2):
            for one, other in zip(compiled(x, w), program(x, w), strict=True):
                assert one.dtype == other.dtype and one.shape == other.shape
                assert fb.equal(one.nan_to_num(), other.nan_to_num())


def test_many_sizes():
    program = region(fb, fb.bfloat16)
    compiled = fb.compile(program, dynamic=True)
    for rows in (2, 3, 5, 3, 3):
        x, w, b = leaves(fb, (rows, 4), (4, 4), (4,), grad=False)
        for one, other in zip(compiled(x, w, b), program(x, w, b), strict=True):
            assert_same(one, other, exact=True)


def test_each_thread_has_its_own_autocast_state():
    compiled = fb.compile(step)
    x, w = leaves(fb, (8, 8), (8, 8), grad=False)
    plain = step(x, w)
    with fb.autocast("cpu", dtype=fb.bfloat16):
        cast = step(x, w)
    assert not fb.equal(plain, cast)
    wrong = []

    def work(is_cast):
        for _ in range(50):
            with fb.autocast("cpu", dtype=fb.bfloat16, enabled=is_cast):
                if not fb.equal(compiled(x, w), cast if is_cast else plain):
                    wrong.append(is_cast)

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tensors_without_memory_are_cast_only_while_programs_are_recorded():
    x = fb.ones(2, 2, device="meta")
    with fb.autocast("cpu", dtype=fb.bfloat16):
        assert (x @ x).dtype == fb.float32
    fb.compile(step)(*leaves(fb, (4, 4), (4, 4)))
    with fb.autocast("cpu", dtype=fb.bfloat16):
        assert (x @ x).dtype == fb.float32
