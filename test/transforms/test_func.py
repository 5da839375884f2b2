"""grad, grad_and_value, vjp, jvp, linearize: values, containers, nesting and errors, as PyTorch's."""

import flambeau as fb
import numpy as np
import pytest
from flambeau.func import grad, jvp, linearize, vjp, vmap
from side_by_side import agree, fail_alike, numbers
from transforms.custom import cube

X, Y = numbers(3, seed=1), numbers(3, seed=2)


def f(m):
    return lambda a: a.sin().sum()


def both(m):
    return lambda a, b: (a * b).sum()


def with_constant(m):
    def inner(a):
        with m.no_grad():
            c = a.sin()
        return (a * c).sum()

    return inner


GRADS = {
    "grad": lambda m, x, y: m.func.grad(f(m))(x),
    "the last argument": lambda m, x, y: m.func.grad(both(m), argnums=-1)(x, y),
    "several": lambda m, x, y: m.func.grad(both(m), argnums=(1, 0))(x, y),
    "one of several": lambda m, x, y: m.func.grad(both(m), argnums=(1,))(x, y),
    "containers": lambda m, x, y: m.func.grad(lambda d: (d["a"] * d["b"][0]).sum())({"a": x, "b": (y,)}),
    "keyword arguments": lambda m, x, y: m.func.grad(lambda a, b=None: (a * b).sum())(x, b=y),
    "an auxiliary result": lambda m, x, y: m.func.grad(lambda a: (f(m)(a), {"k": [a * 2]}), has_aux=True)(x),
    "and the value": lambda m, x, y: m.func.grad_and_value(f(m))(x),
    "all": lambda m, x, y: m.func.grad_and_value(lambda a: (f(m)(a), a), has_aux=True)(x),
    "of a constant": lambda m, x, y: m.func.grad(lambda a: m.tensor(1.0))(x),
    "of one that is not used": lambda m, x, y: m.func.grad(lambda a, b: a.sum(), argnums=(0, 1))(x, y),
    "of a detached value": lambda m, x, y: m.func.grad(lambda a: a.detach().sum())(x),
    "no_grad inside": lambda m, x, y: m.func.grad(with_constant(m))(x),
    "no_grad inside, twice": lambda m, x, y: m.func.grad(
        lambda a: m.func.grad(with_constant(m))(a).sum() + a.sum()
    )(x),
    "no_grad inside, forward": lambda m, x, y: m.func.jvp(m.func.grad(with_constant(m)), (x,), (y,)),
    "no_grad inside a vmap": lambda m, x, y: m.func.grad(lambda a: m.vmap(with_constant(m))(a[None]).sum())(
        x
    ),
    "autograd inside": lambda m, x, y: m.func.grad(
        lambda a: m.autograd.grad(a.sin().sum(), a, create_graph=True)[0].square().sum()
    )(x),
    "in place on a copy": lambda m, x, y: m.func.grad(lambda a: a.clone().mul_(a).add_(y).sum())(x),
    "in place on a new tensor": lambda m, x, y: m.func.grad(lambda a: m.zeros(3).add_(a).mul_(a).sum())(x),
    "into a part": lambda m, x, y: m.func.grad(lambda a: _filled(m, a).square().sum())(x),
    "of a view": lambda m, x, y: m.func.grad(lambda a: a[1:].exp().sum())(x),
    "twice": lambda m, x, y: m.func.grad(lambda a: m.func.grad(f(m))(a).sum())(x),
    "three times": lambda m, x, y: m.func.grad(m.func.grad(m.func.grad(m.sin)))(x[0]),
    "perturbations stay apart": lambda m, x, y: m.func.grad(lambda a: a * m.func.grad(lambda b: a * b)(a))(
        x[0]
    ),
    "of an outer argument": lambda m, x, y: m.func.grad(
        lambda a: m.func.grad(lambda b: (a * b * b).sum())(y).sum()
    )(x),
    "per entry": lambda m, x, y: m.vmap(m.func.grad(m.sin))(x),
    "of a vmap": lambda m, x, y: m.func.grad(lambda a: m.vmap(m.sin)(a).sum())(x),
    "of a vmap of grads": lambda m, x, y: m.func.grad(lambda a: m.vmap(m.func.grad(m.sin))(a).sum())(x),
    "per entry, twice": lambda m, x, y: m.vmap(m.vmap(m.func.grad(m.func.grad(lambda a: a**3))))(x[None]),
    "with a constant": lambda m, x, y: m.vmap(m.func.grad(lambda a, b: (a * b).sum()), in_dims=(0, None))(
        x, y
    ),
}


def _filled(m, a):
    out = m.zeros(2, 3)
    out[0] = a
    out[1, :2] = a[1:] * 2
    return out


@pytest.mark.parametrize("program", GRADS.values(), ids=GRADS)
def test_gradients_are_pytorchs(program):
    agree(program, X, Y)


GRAD_FAILURES = {
    "a vector": (lambda m, x: m.func.grad(m.sin)(x), "to return a scalar"),
    "one number in a vector": (lambda m, x: m.func.grad(lambda a: a.sum()[None])(x), "to return a scalar"),
    "a float": (lambda m, x: m.func.grad(lambda a: 3.0)(x), "to return a Tensor, got <class 'float'>"),
    "a tuple": (lambda m, x: m.func.grad(lambda a: (a.sum(), a))(x), "to return a Tensor, got"),
    "no such argument": (lambda m, x: m.func.grad(f(m), argnums=1)(x), "1 positional inputs"),
    "none before": (lambda m, x: m.func.grad(f(m), argnums=-2)(x), "1 positional inputs"),
    "a name": (lambda m, x: m.func.grad(f(m), argnums="a")(x), "argnums.* int"),
    "a list": (lambda m, x: m.func.grad(both(m), argnums=[0, 1])(x, x), "argnums.* int"),
    "names": (lambda m, x: m.func.grad(f(m), argnums=(0, "a"))(x), "argnum must be int"),
    "none": (lambda m, x: m.func.grad(f(m), argnums=())(x), "argnums must be non-empty"),
    "one twice": (lambda m, x: m.func.grad(both(m), argnums=(0, 0))(x, x), "argnums"),
    "nothing": (lambda m, x: m.func.grad(f(m))(), "0 positional inputs"),
    "integers": (lambda m, x: m.func.grad(f(m))(x.long()), "floating point"),
    "a number": (lambda m, x: m.func.grad(f(m))(3.0), "transform"),
    "a number inside": (
        lambda m, x: m.func.grad(lambda d: d[0].sum())((x, 3)),
        "transform",
    ),
    "no aux": (lambda m, x: m.func.grad(f(m), has_aux=True)(x), "output, aux"),
    "three": (lambda m, x: m.func.grad(lambda a: (f(m)(a), a, a), has_aux=True)(x), "output, aux"),
    "a list of two": (lambda m, x: m.func.grad(lambda a: [f(m)(a), a], has_aux=True)(x), "output, aux"),
    "aux of numbers": (lambda m, x: m.func.grad(lambda a: (f(m)(a), 3), has_aux=True)(x), "Expected tensors"),
    "complex": (
        lambda m, x: m.func.grad(lambda a: a.sum().to(m.complex64))(x),
        "real",
    ),
    "no function": (lambda m, x: m.func.grad(3)(x), "not callable"),
}


@pytest.mark.parametrize(("program", "match"), GRAD_FAILURES.values(), ids=GRAD_FAILURES)
def test_failures_of_grad(program, match):
    fail_alike(program, X, match=match)


PRODUCTS = {
    "vjp": lambda m, x, y: m.func.vjp(m.sin, x)[1](y),
    "vjp of two": lambda m, x, y: m.func.vjp(m.mul, x, y)[1](x),
    "vjp of containers": lambda m, x, y: m.func.vjp(lambda d: (d["a"], {"b": d["a"] * 2}), {"a": x})[1](
        (x, {"b": y})
    ),
    "vjp's output": lambda m, x, y: m.func.vjp(m.sin, x)[0],
    "vjp's aux": lambda m, x, y: m.func.vjp(lambda a: (a, [a * 2]), x, has_aux=True)[2],
    "vjp of a constant": lambda m, x, y: m.func.vjp(lambda a: m.ones(3), x)[1](y),
    "vjp twice of one record": lambda m, x, y: _twice(m.func.vjp(m.sin, x)[1], x, y),
    "vjp of vjp": lambda m, x, y: m.func.vjp(lambda a: m.func.vjp(m.sin, a)[1](y)[0], x)[1](y),
    "vjp mapped over vectors": lambda m, x, y: m.vmap(m.func.vjp(m.sin, x)[1])(m.eye(3)),
    "vjp in vmap": lambda m, x, y: m.vmap(lambda a: m.func.vjp(m.sin, a)[1](a))(x),
    "vjp by weights": lambda m, x, y: m.func.jvp(lambda v: m.func.vjp(m.sin, x)[1](v), (y,), (x,)),
    "vjp's record in grad": lambda m, x, y: m.func.grad(
        lambda v: m.func.vjp(m.sin, x)[1](v)[0].square().sum()
    )(y),
    "jvp": lambda m, x, y: m.func.jvp(m.sin, (x,), (y,)),
    "jvp of two": lambda m, x, y: m.func.jvp(m.mul, (x, y), (y, x)),
    "jvp of containers": lambda m, x, y: m.func.jvp(
        lambda d: (d["a"], {"b": d["a"].exp()}), ({"a": x},), ({"a": y},)
    ),
    "jvp's aux": lambda m, x, y: m.func.jvp(lambda a: (a * 2, a), (x,), (y,), has_aux=True),
    "jvp of a constant": lambda m, x, y: m.func.jvp(lambda a: m.ones(3), (x,), (y,)),
    "jvp of jvp": lambda m, x, y: m.func.jvp(lambda a: m.func.jvp(m.sin, (a,), (y,))[1], (x,), (x,)),
    "jvp of three": lambda m, x, y: m.func.jvp(
        lambda a: m.func.jvp(lambda b: m.func.jvp(m.exp, (b,), (a,))[1], (a,), (y,))[1], (x,), (x,)
    ),
    "jvp of grad": lambda m, x, y: m.func.jvp(m.func.grad(f(m)), (x,), (y,)),
    "grad of jvp": lambda m, x, y: m.func.grad(lambda a: m.func.jvp(m.sin, (a,), (y,))[1].sum())(x),
    "jvp in vmap": lambda m, x, y: m.vmap(lambda a, t: m.func.jvp(m.sin, (a,), (t,)))(x, y),
    "jvp of vmap": lambda m, x, y: m.func.jvp(m.vmap(m.sin), (x,), (y,)),
    "jvp of an in-place change": lambda m, x, y: m.func.jvp(lambda a: a.clone().mul_(a).exp_(), (x,), (y,)),
    "jvp of a new tensor": lambda m, x, y: m.func.jvp(lambda a: _filled(m, a), (x,), (y,)),
    "linearize": lambda m, x, y: _applied(m.func.linearize(m.sin, x), y),
    "linearize two": lambda m, x, y: _applied(
        m.func.linearize(lambda a, b: (a * b, {"k": a.exp()}), x, y), y, x
    ),
}


def _applied(pair, *tangents):
    return pair[0], pair[1](*tangents)


def _twice(product, x, y):
    return product(x), product(y)


@pytest.mark.parametrize("program", PRODUCTS.values(), ids=PRODUCTS)
def test_products_are_pytorchs(program):
    agree(program, X, Y)


PRODUCT_FAILURES = {
    "vjp's shape": (lambda m, x: m.func.vjp(m.sin, x)[1](x[:2]), "Mismatch in shape: grad_output.0."),
    "vjp's tree": (
        lambda m, x: m.func.vjp(lambda a: (a, a), x)[1]([x, x]),
        "cotangents",
    ),
    "vjp of a number": (lambda m, x: m.func.vjp(m.sin, 3.0), "transform"),
    "vjp to a number": (lambda m, x: m.func.vjp(lambda a: 3, x), "to return"),
    "vjp to nothing": (lambda m, x: m.func.vjp(lambda a: (), x), "output"),
    "vjp without aux": (lambda m, x: m.func.vjp(lambda a: a, x, has_aux=True), "output, aux"),
    "jvp's primals": (lambda m, x: m.func.jvp(m.sin, x, x), "primals"),
    "jvp's tree": (lambda m, x: m.func.jvp(m.sin, (x,), x), "structure|nested"),
    "jvp's shape": (lambda m, x: m.func.jvp(m.sin, (x,), (x[:2],)), "size"),
    "jvp of nothing": (lambda m, x: m.func.jvp(m.sin, (), ()), "primals"),
    "jvp to a number": (lambda m, x: m.func.jvp(lambda a: 3, (x,), (x,)), "to return"),
    "jvp to nothing": (lambda m, x: m.func.jvp(lambda a: (), (x,), (x,)), "output"),
    "jvp by a number": (lambda m, x: m.func.jvp(m.sin, (x,), (3,)), "tangents"),
    "jvp of integers": (lambda m, x: m.func.jvp(m.sin, (x.long(),), (x.long(),)), "primal"),
    "jvp without aux": (lambda m, x: m.func.jvp(m.sin, (x,), (x,), has_aux=True), "output, aux"),
    "strict": (
        lambda m, x: m.func.jvp(lambda a: m.ones(3), (x,), (x,), strict=True),
        "strict=True",
    ),
    "linearize's shape": (lambda m, x: m.func.linearize(m.sin, x)[1](x[:2]), "shape"),
    "linearize's dtype": (lambda m, x: m.func.linearize(m.sin, x)[1](x.double()), "dtype"),
    "linearize's tree": (lambda m, x: m.func.linearize(m.sin, x)[1](x, x), "tangents"),
}  # fmt: skip


@pytest.mark.parametrize(("program", "match"), PRODUCT_FAILURES.values(), ids=PRODUCT_FAILURES)
def test_failures_of_products(program, match):
    fail_alike(program, X, match=match)


def test_linearize_runs_the_function_once():
    runs = []

    def counted(x):
        runs.append(1)
        return x.sin() * x

    x = fb.tensor(X)
    output, jvp_fn = linearize(counted, x)
    for scale in (1, 2):
        tangent = scale * fb.tensor(Y)
        assert fb.allclose(jvp_fn(tangent), tangent * (x.cos() * x + x.sin()), atol=1e-6)
    assert len(runs) == 1
    assert fb.allclose(output, x.sin() * x)
    columns = vmap(jvp_fn)(fb.eye(3))
    assert fb.allclose(columns, fb.diag(x.cos() * x + x.sin()), atol=1e-6)


def test_what_lies_outside_records_transforms():
    x = fb.tensor(X).requires_grad_()
    slopes = grad(lambda a: a.sin().sum())(x)
    assert slopes.requires_grad
    (second,) = fb.autograd.grad(slopes.sum(), x)
    np.testing.assert_allclose(second.numpy(), -np.sin(X), rtol=1e-5)
    with fb.no_grad():
        slopes = grad(lambda a: a.sin().sum())(x)
    assert not slopes.requires_grad
    np.testing.assert_allclose(slopes.numpy(), np.cos(X), rtol=1e-5)
    assert x.grad is None


def test_constants_inside_are_constants_outside():
    x = fb.tensor(X).requires_grad_()
    assert not grad(with_constant(fb))(x).requires_grad
    assert grad(lambda a: (a * a).sum())(x).requires_grad


def test_captured_tensors_keep_their_own_graph():
    w = fb.tensor(Y).requires_grad_()
    slopes = grad(lambda a: (a * w * w).sum())(fb.tensor(X))
    slopes.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * Y, rtol=1e-6)


def test_a_custom_function_in_transforms():
    apply = cube(fb)
    x = fb.tensor(X)
    np.testing.assert_allclose(grad(lambda a: apply(a).sum())(x).numpy(), 3 * X**2, rtol=1e-5)
    np.testing.assert_allclose(vmap(grad(apply))(x).numpy(), 3 * X**2, rtol=1e-5)
    np.testing.assert_allclose(vmap(grad(grad(apply)))(x).numpy(), 6 * X, rtol=1e-5)
    np.testing.assert_allclose(vmap(apply)(x).numpy(), X**3, rtol=1e-5)
    np.testing.assert_allclose(jvp(apply, (x,), (x,))[1].numpy(), 3 * X**3, rtol=1e-5)


def test_a_tracked_tensor_that_escapes_is_its_value():
    kept = []
    grad(lambda a: kept.append(a) or a.sum())(fb.tensor(X))
    np.testing.assert_allclose((kept[0] + 1).numpy(), X + 1)
    assert repr(kept[0]).startswith("tensor(")


def test_an_error_leaves_no_layer_and_no_level_behind():
    for transform in (grad, lambda g: lambda x: jvp(g, (x,), (x,)), lambda g: lambda x: vjp(g, x)):
        with pytest.raises(ZeroDivisionError):
            transform(lambda a: 1 / 0)(fb.tensor(X))
    assert fb._C._transform_depth() == 0
    assert fb.autograd.forward_ad._current_level == -1
    assert grad(lambda a: a * a)(fb.tensor(3.0)).item() == 6


def test_a_dual_level_around_jvp_is_shared():
    fw = fb.autograd.forward_ad
    with fw.dual_level():
        _, slope = jvp(fb.sin, (fb.tensor(0.0),), (fb.tensor(2.0),))
        x = fw.make_dual(fb.tensor(3.0), fb.tensor(1.0))
        value, slope_of_dual = jvp(lambda a: a**3, (x,), (fb.tensor(1.0),))
        second = fw.unpack_dual(slope_of_dual).tangent
    assert (slope.item(), value.item(), second.item()) == (2, 27, 18)


def test_maml():
    """One step of learning inside, its effect on another batch differentiated outside."""

    def program(m, w, xs, ys):
        def loss(w, x, y):
            return (m.tanh(x @ w) - y).square().mean()

        def adapted(w, x, y):
            step = w - 0.1 * m.func.grad(loss)(w, x[:2], y[:2])
            return loss(step, x[2:], y[2:])

        def over_tasks(w):
            return m.vmap(adapted, in_dims=(None, 0, 0))(w, xs, ys).mean()

        return m.func.grad(over_tasks)(w), m.vmap(m.func.grad(adapted), in_dims=(None, 0, 0))(w, xs, ys)

    agree(program, X, numbers(5, 4, 3, seed=4), numbers(5, 4, seed=5))
