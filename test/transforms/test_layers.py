"""The layers below the transforms: wrappers and their lives, in-place writes, views, modes, threads."""

import copy
import gc
import pickle
import threading

import flambeau as fb
import pytest
from flambeau import _C
from flambeau.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from side_by_side import agree, fail_alike, numbers

X = numbers(5, seed=1)
BATCH = numbers(3, 5, seed=2)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Whatever a test does, no layer may stay behind."""
    yield
    assert _C._transform_depth() == 0
    assert fb.is_grad_enabled()
    assert not (fb.ones(1) + 1).requires_grad


def written_in_parts(a):
    b = a * 2
    b.mul_(a)
    part = b[1:3]
    part.mul_(a[0:2])
    b[0] = a[2]
    return b * b


def total(a):
    return written_in_parts(a).sum()


def filled(m, a):
    made = m.zeros_like(a)
    made[1] = a[0]
    made.add_(a).unsqueeze_(0).t_()
    return made * made


def by_two_views(a):
    b = a * 1
    first, second = b[:3], b[2:]
    first.mul_(2)
    second.mul_(a[2:])
    return b.sin()


IN_PLACE = {
    "parts": lambda m, a: written_in_parts(a),
    "a new tensor": filled,
    "two views": lambda m, a: by_two_views(a),
    "a diagonal": lambda m, a: m.diag(a).fill_diagonal_(1.0).matmul(a),
    "a transposed view": lambda m, a: (lambda b: (b.t()[0].mul_(3), b)[1])(m.outer(a, a)),
    "an output of unbind": lambda m, a: sum(x * x for x in (a * 2).unbind()),
    "a mask": lambda m, a: (a * 2).masked_fill_(a > 0, 5.0) * a,
}
AROUND = {
    "jvp": lambda m, f, a: m.func.jvp(f, (a,), (a + 1,)),
    "jacfwd": lambda m, f, a: m.func.jacfwd(f)(a),
    "jacrev": lambda m, f, a: m.func.jacrev(f)(a),
    "hessian": lambda m, f, a: m.func.hessian(lambda b: f(b).sum())(a),
    "reverse over reverse": lambda m, f, a: m.func.jacrev(m.func.jacrev(lambda b: f(b).sum()))(a),
    "grad of grad": lambda m, f, a: m.func.grad(lambda b: m.func.grad(lambda c: f(c).sum())(b).sin().sum())(
        a
    ),
    "jvp of jvp": lambda m, f, a: m.func.jvp(lambda b: m.func.jvp(f, (b,), (b * 2,))[1], (a,), (a + 1,)),
    "vmap of grad": lambda m, f, a: m.vmap(m.func.grad(lambda b: f(b).sum()))(m.stack([a, a + 1])),
    "grad of vmap": lambda m, f, a: m.func.grad(lambda b: m.vmap(f)(m.stack([b, b * 2])).sum())(a),
}


@pytest.mark.parametrize("inside", IN_PLACE)
@pytest.mark.parametrize("around", AROUND)
def test_writes_in_place(around, inside):
    agree(lambda m, a: AROUND[around](m, lambda b: IN_PLACE[inside](m, b), a), X, rtol=1e-4, atol=1e-5)


def constant_inside(m, a, b):
    with m.no_grad():
        c = a * b
    return (c * b).sum()


def outer_leaf(m, a, weight):
    weight.requires_grad_()
    m.func.grad(lambda b: (b * b * weight).sum())(a).sum().backward()
    return weight.grad


def dual_outside(m, a, b):
    forward = m.autograd.forward_ad
    with forward.dual_level():
        dual = forward.make_dual(a, b)
        return tuple(forward.unpack_dual(m.func.grad(lambda c: (c * c * c).sum())(dual)))


def by_hook(m, a):
    b = a * 2
    b.register_hook(lambda g: g * 3)
    return (b * b).sum()


MODES = {
    "no_grad, of the inner layer's variable": lambda m, a, b: m.func.grad(
        lambda x: m.func.grad(lambda y: constant_inside(m, y, y * x))(x).sum()
    )(a),
    "no_grad, of the outer layer's": lambda m, a, b: m.func.grad(
        lambda x: m.func.grad(lambda y: constant_inside(m, x, y))(x).sum()
    )(a),
    "no_grad in a vmap": lambda m, a, b: m.func.grad(
        lambda x: m.vmap(lambda y: constant_inside(m, y, y))(x).sum()
    )(a),
    "detach": lambda m, a, b: m.func.grad(lambda x: (x.detach() * x * b).sum())(a),
    "data": lambda m, a, b: m.func.grad(lambda x: (x.data * x * b).sum())(a),
    "detach_": lambda m, a, b: m.func.grad(lambda x: ((x * 2).detach_() * x).sum())(a),
    "a hook": lambda m, a, b: m.func.grad(lambda x: by_hook(m, x))(a),
    "a leaf outside": outer_leaf,
    "a level of forward_ad outside": dual_outside,
    "a write into a tensor of data": lambda m, a, b: m.func.grad(
        lambda x: m.tensor([1.0, 2.0]).mul_(x[:2]).square().sum()
    )(a),
    "a write into zeros": lambda m, a, b: m.func.grad(lambda x: m.zeros(5).add_(x).mul_(x).sum())(a),
    "a transposition in place": lambda m, a, b: m.func.jvp(
        lambda x: m.outer(x, x + 1).t_().mul_(x), (a,), (b,)
    ),
    "a value read": lambda m, a, b: m.func.grad(lambda x: x.sum() * x[0].item() * float(x[1]))(a),
    "Tensor()": lambda m, a, b: m.func.grad(lambda x: (m.Tensor(x) * x).sum())(a),
}


@pytest.mark.parametrize("name", MODES)
def test_modes_and_levels_around(name):
    agree(MODES[name], X, X[::-1].copy())


def test_no_grad_around_a_transform_leaves_it_alone():
    with fb.no_grad():
        assert grad(lambda a: (a * a).sum())(fb.tensor([3.0])).tolist() == [6.0]
        assert jvp(lambda a: a * a, (fb.tensor(3.0),), (fb.tensor(1.0),))[1].item() == 6.0


def test_perturbations_stay_apart_in_both_modes():
    one = fb.tensor(1.0)
    assert grad(lambda a: a * grad(lambda b: a + b)(one))(one).item() == 1.0

    def slope(f):
        return lambda x: jvp(f, (x,), (one,))[1]

    assert slope(lambda a: a * slope(lambda b: a + b)(one))(one).item() == 1.0
    assert slope(lambda a: a * grad(lambda b: a * b)(one))(one).item() == 2.0
    assert grad(lambda a: a * slope(lambda b: a * b)(one))(one).item() == 2.0


def test_views_learn_of_a_tangent_that_their_base_gets():
    forward = fb.autograd.forward_ad
    with forward.dual_level():
        base = fb.zeros(4)
        middle = base[1:]
        middle[1:].add_(forward.make_dual(fb.ones(2), fb.tensor([5.0, 7.0])))
        assert forward.unpack_dual(base).tangent.tolist() == [0.0, 0.0, 5.0, 7.0]
        assert forward.unpack_dual(middle).tangent.tolist() == [0.0, 5.0, 7.0]


def test_jvp_leaves_the_level_of_forward_ad_alone():
    with fb.autograd.forward_ad.dual_level():
        dual = fb.autograd.forward_ad.make_dual(fb.tensor(2.0), fb.tensor(5.0))
        assert jvp(lambda a: a * 3, (fb.tensor(1.0),), (fb.tensor(1.0),))[1].item() == 3.0
        assert fb.autograd.forward_ad.unpack_dual(dual).tangent.item() == 5.0

        def inside(a):
            with pytest.raises(RuntimeError, match="Nested forward mode"):
                fb.autograd.forward_ad.enter_dual_level()
            return a * dual

        value, tangent = jvp(inside, (fb.tensor(1.0),), (fb.tensor(1.0),))
        assert (value.item(), tangent.item()) == (2.0, 2.0)
        assert fb.autograd.forward_ad.unpack_dual(tangent).tangent.item() == 5.0


# --- what a tensor of a layer may not do --------------------------------------------------------------------
CAPTURED = "transform, the function.* attempted to call in-?"


@pytest.mark.parametrize(
    "write",
    [
        lambda c, a: c.mul_(a),
        lambda c, a: c.__setitem__(0, a.sum()),
        lambda c, a: c[1:].add_(a[1:]),
        lambda c, a: c.zero_(),
        lambda c, a: c.unsqueeze_(0),
    ],
    ids=["mul_", "an item", "a view", "zero_", "unsqueeze_"],
)
def test_captured_tensors_are_not_written_to(write):
    def program(m, a):
        captured = m.zeros(5)
        return m.func.grad(lambda x: (write(captured, x), x.sum())[1])(a)

    with pytest.raises(RuntimeError, match="mutate a captured Tensor"):
        program(fb, fb.tensor(X))


READS = {
    "item": (lambda a: a.sum().item(), r"\.item\(\)"),
    "float": (lambda a: float(a.sum()), r"\.item\(\)"),
    "a branch": (lambda a: a if a.sum() > 0 else -a, "data-dependent control flow"),
    "an index": (lambda a: [1, 2][a.long()[0]], r"\.item\(\)"),
}


@pytest.mark.parametrize("name", READS)
def test_elements_of_a_batch_cannot_be_read(name):
    read, match = READS[name]
    fail_alike(lambda m, a: m.vmap(read)(a), BATCH, match=match)
    fail_alike(lambda m, a: m.vmap(m.func.grad(lambda b: (read(b), b.sum())[1]))(a), BATCH, match=match)


@pytest.mark.parametrize("read", [fb.Tensor.tolist, fb.Tensor.numpy, pickle.dumps, copy.deepcopy])
def test_memory_of_a_batch_cannot_be_read(read):
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(lambda a: (read(a.detach()), a)[1])(fb.tensor(BATCH))


def test_data_cannot_be_exchanged_within_a_transform():
    fail_alike(
        lambda m, a: m.func.grad(lambda x: (setattr(x, "data", m.ones(5)), x.sum())[1])(a), X, match="data"
    )


def test_backward_has_no_meaning_within_a_transform():
    match = "backward\\(\\)"
    fail_alike(lambda m, a: m.func.grad(lambda x: (x.sum().backward(), x.sum())[1])(a), X, match=match)
    fail_alike(lambda m, a: m.vmap(lambda x: (m.autograd.backward(x), x)[1])(a), X, match=match)


# --- lives of layers and wrappers ---------------------------------------------------------------------------
def escaped(transform):
    kept = []
    transform(lambda a: (kept.append(a * 2), a.sum())[1])
    return kept[0]


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: grad(f)(fb.tensor(X)),
        lambda f: jvp(f, (fb.tensor(X),), (fb.tensor(X),)),
        lambda f: vmap(f)(fb.tensor(BATCH)),
        lambda f: vmap(grad(f))(fb.tensor(BATCH)),
        lambda f: grad(lambda a: vmap(f)(a).sum())(fb.tensor(BATCH)),
    ],
    ids=["grad", "jvp", "vmap", "vmap of grad", "grad of vmap"],
)
def test_an_escaped_tensor_is_its_value(transform):
    tensor = escaped(transform)
    value = _C._unwrap_dead(tensor)
    assert not _C._wrapper_level(tensor)
    assert not _C._wrapper_level(value)
    assert repr(tensor) == repr(value)
    assert (tensor + 1).tolist() == (value + 1).tolist()
    assert type(tensor + 1) is fb.Tensor
    tensor.mul_(2)
    assert (tensor * 1).tolist() == value.tolist()
    # In a later transform it is a constant, whatever the level's number.
    assert grad(lambda a: (a * tensor).sum())(fb.ones_like(value)).tolist() == value.tolist()


def test_a_vjp_function_outlives_its_layer():
    x = fb.tensor(X)
    _, pull = vjp(total, x)
    cotangent = fb.tensor(2.0)
    assert pull(cotangent)[0].tolist() == pytest.approx((grad(total)(x) * 2).tolist())
    jacobian = vmap(lambda v: pull(v)[0])(fb.tensor([1.0, 3.0]))
    assert jacobian[1].tolist() == pytest.approx((grad(total)(x) * 3).tolist())


@pytest.mark.parametrize(
    "transform", [grad, lambda f: vmap(f), lambda f: vmap(grad(f)), hessian, jacfwd, jacrev]
)
def test_an_exception_leaves_no_layer(transform):
    def fails(a):
        raise ZeroDivisionError("on purpose")

    for _ in range(3):
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            transform(fails)(fb.tensor(BATCH))
        assert _C._transform_depth() == 0
    # One within an operator, under two layers.
    with pytest.raises(RuntimeError):
        transform(lambda a: a @ fb.ones(7, 7))(fb.tensor(BATCH))


def test_layers_are_popped_in_order():
    with pytest.raises(RuntimeError, match="no transform is active"):
        _C._pop_layer()
    with pytest.raises(ValueError, match="batch size"):
        _C._push_layer("vmap", -2)
    with pytest.raises(ValueError, match="expected a transform"):
        _C._push_layer("hessian")
    assert _C._push_layer("grad") == 1
    assert _C._push_layer("vmap", 3) == 2
    assert _C._innermost_layer() == ("vmap", 2, 3, "error")
    try:
        with pytest.raises(RuntimeError, match="still active"):
            _C._call_below(_C._pop_layer)
        with pytest.raises(ValueError, match="batch size 3"):
            _C._make_batched(fb.ones(2), 0, 2)
        with pytest.raises(IndexError, match="batch dimension"):
            _C._make_batched(fb.ones(3), 1, 2)
        with pytest.raises(RuntimeError, match="expected the level of a vmap"):
            _C._make_batched(fb.ones(3), 0, 1)
        with pytest.raises(RuntimeError, match="expected the level of a gradient transform"):
            _C._make_tracked(fb.ones(3), 2)
        with pytest.raises(RuntimeError, match="not active"):
            _C._make_tracked(fb.ones(3), 7)
    finally:
        _C._pop_layer()
        _C._pop_layer()


def test_a_layer_that_is_left_keeps_its_number():
    _C._push_layer("grad")
    try:
        assert _C._call_below(_C._transform_depth) == 0

        def below():
            level = _C._push_layer("grad")
            _C._pop_layer()
            return level

        assert _C._call_below(below) == 2
    finally:
        _C._pop_layer()


def in_thread(function):
    result = []

    def run():
        try:
            result.append(function())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


def test_a_tensor_of_a_layer_is_of_no_use_on_another_thread():
    def f(a):
        error = in_thread(lambda: a + 1)
        assert isinstance(error, RuntimeError)
        assert "another thread" in str(error)
        assert in_thread(_C._transform_depth) == 0
        return a.sum()

    grad(f)(fb.tensor(X))
    vmap(f)(fb.tensor(BATCH))


def test_threads_have_layers_of_their_own():
    x = fb.tensor(X)
    expected = hessian(total)(x).tolist()
    failures = []

    def work():
        for _ in range(5):
            if hessian(total)(x).tolist() != expected:
                failures.append("hessian")
            if jvp(lambda a: jvp(total, (a,), (a,))[1], (x,), (x,))[1].isnan():
                failures.append("jvp")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_deep_reentrant_passes_take_the_layers_along():
    class Again(fb.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.x = inputs[0]

        @staticmethod
        def backward(ctx, g):
            assert _C._transform_depth() == 1
            passes.append(_C._current_pass())
            if len(passes) == 70:
                return g * 2
            with fb.enable_grad():
                y = fb.ones(3).requires_grad_()
                return fb.autograd.grad(Again.apply(y).sum(), y)[0] * g

    passes = []

    def f(a):
        return fb.autograd.grad(Again.apply(a).sum(), a)[0].sum() + a.sum()

    assert grad(f)(fb.ones(3)).tolist() == [1.0] * 3
    assert len(set(passes)) == 70


def test_wrappers_do_not_outlive_their_use():
    _C._empty_cache()
    x = fb.tensor(X)

    def run():
        hessian(total)(x)
        vmap(grad(total))(fb.stack([x, x]))

    run()
    gc.collect()
    before = _C._memory_stats()["allocated_bytes"]
    for _ in range(10):
        run()
    gc.collect()
    # What earlier tests left behind may go meanwhile, so that less is allocated.
    assert _C._memory_stats()["allocated_bytes"] <= before


def test_a_resized_tensor_takes_its_wrapper_along():
    def f(a):
        b = a.detach() * 2
        b.resize_(100_000)
        b.fill_(3.0)
        assert b.shape == (100_000,)
        assert b.tolist()[-1] == 3.0
        c = a.detach() * 2
        c.set_(fb.ones(3))
        assert c.tolist() == [1.0] * 3
        return a.sum() * b[99_999] * c[2]

    assert grad(f)(fb.tensor(X)).tolist() == [3.0] * 5


def test_anomaly_mode_sees_tensors_of_layers():
    with fb.autograd.detect_anomaly():
        with pytest.raises(RuntimeError, match="nan values"):
            grad(lambda a: (a * 0).sqrt().sum() * 0)(fb.zeros(2))
        vmap(grad(lambda a: a.sin().sum()))(fb.tensor(BATCH))
