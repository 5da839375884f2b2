"""Jacobians and Hessians by transforms and by autograd.functional; batched gradients; per-sample ones."""

import flambeau as fb
import numpy as np
import pytest
from flambeau.func import functional_call, grad, hessian, jacfwd, jacrev, vmap
from side_by_side import agree, fail_alike, numbers

X, Y, M = numbers(3, seed=1), numbers(3, seed=2), numbers(2, 3, seed=3)

FUNCTIONS = {
    "pointwise": lambda m: lambda x, y: x.sin() * y,
    "a product": lambda m: lambda x, y: m.outer(x, y) @ x,
    "containers": lambda m: lambda x, y: {"a": x * y, "b": (x.sum(), [y.exp()])},
    "a constant": lambda m: lambda x, y: m.ones(2),
    "nothing": lambda m: lambda x, y: m.ones(2, 0) * x.sum(),
    "views": lambda m: lambda x, y: m.cat([x[1:], y.flip(0)]).reshape(5, 1),
    "in place": lambda m: lambda x, y: x.clone().mul_(y).exp_(),
}
ARGNUMS = [0, 1, (0,), (1, 0)]
PAIRS = [(name, argnums) for name in FUNCTIONS for argnums in ARGNUMS]


@pytest.mark.parametrize("transform", ["jacrev", "jacfwd"])
@pytest.mark.parametrize(("name", "argnums"), PAIRS, ids=str)
def test_jacobians_are_pytorchs(transform, name, argnums):
    agree(lambda m, x, y: getattr(m.func, transform)(FUNCTIONS[name](m), argnums)(x, y), X, Y)


@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_keyword_arguments_and_places_from_the_end(transform):
    x, y = fb.tensor(X), fb.tensor(Y)
    last = transform(lambda a, b, k=1: a * b * k, argnums=-1)(x, y, k=2 * x)
    assert fb.allclose(last, fb.diag(2 * x * x))


@pytest.mark.parametrize("argnums", ARGNUMS, ids=str)
def test_hessians_are_pytorchs(argnums):
    agree(lambda m, x, y: m.func.hessian(lambda a, b: (a**3 * b).sum(), argnums)(x, y), X, Y)
    agree(lambda m, x, y: m.func.hessian(lambda a, b: a**3 * b, argnums)(x, y), X, Y)


@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("inner", [jacrev, jacfwd])
def test_second_derivatives_by_any_two(outer, inner):
    x = fb.tensor(X)
    found = outer(inner(lambda a: (a**3).sum() + a[0] * a[1]))(x)
    expected = np.diag(6 * X)
    expected[0, 1] = expected[1, 0] = 1
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def _changed_in_place(a):
    out = a.new_zeros(2, 3) + a * 2
    out[0] = a * a
    out[1, :2] = a[1:] * a[:2]
    return (out**3).sum()


def _the_same(m, a):
    rows = [a * a, m.cat([a[1:] * a[:2], 2 * a[2:]])]
    return (m.stack(rows) ** 3).sum()


@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("inner", [jacrev, jacfwd])
def test_second_derivatives_through_changed_parts(outer, inner):
    x = fb.tensor(X.astype(np.float64))
    expected = hessian(lambda a: _the_same(fb, a))(x)
    assert fb.allclose(outer(inner(_changed_in_place))(x), expected)
    assert fb.allclose(fb.autograd.functional.hessian(_changed_in_place, x), expected)
    agree(lambda m, a: m.func.hessian(lambda b: _the_same(m, b))(a), X, rtol=1e-4, atol=1e-4)


def test_third_derivatives():
    found = jacfwd(jacrev(jacfwd(lambda a: (a**4).sum())))(fb.tensor(X))
    expected = np.zeros((3, 3, 3))
    expected[range(3), range(3), range(3)] = 24 * X
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


OTHERS = {
    "chunks": lambda m, x, a: [
        m.func.jacrev(lambda b: (b * b, b.sum()), chunk_size=n)(a) for n in (1, 2, 5, 100)
    ],
    "aux": lambda m, x, a: m.func.jacrev(lambda b: (b * b, [b * 2]), has_aux=True)(x),
    "aux forward": lambda m, x, a: m.func.jacfwd(lambda b: (b * b, b * 2), has_aux=True)(x),
    "trees of arguments": lambda m, x, a: m.func.jacrev(lambda d: d["a"] * d["b"][0])({"a": x, "b": (x,)}),
    "forward": lambda m, x, a: m.func.jacfwd(lambda d: d["a"] * d["b"][0])({"a": x, "b": (x,)}),
    "numbers": lambda m, x, a: (m.func.jacrev(m.sin)(x[0]), m.func.jacfwd(m.sin)(x[0])),
    "empty": lambda m, x, a: (m.func.jacrev(m.sin)(x[:0]), m.func.jacfwd(m.sin)(x[:0])),
    "per entry": lambda m, x, a: m.vmap(m.func.jacrev(m.sin))(a),
    "per entry, forward": lambda m, x, a: m.vmap(m.func.jacfwd(m.sin))(a),
    "per entry, hessian": lambda m, x, a: m.vmap(m.func.hessian(lambda b: (b**3).sum() * b[0]))(a),
    "of a gradient": lambda m, x, a: m.func.jacrev(m.func.grad(lambda b: (b**3).prod()))(x),
    "in grad": lambda m, x, a: m.func.grad(lambda b: m.func.jacfwd(m.exp)(b).square().sum())(x),
    "in grad, reverse": lambda m, x, a: m.func.grad(lambda b: m.func.jacrev(m.exp)(b).square().sum())(x),
}


@pytest.mark.parametrize("program", OTHERS.values(), ids=OTHERS)
def test_options_are_pytorchs(program):
    agree(program, X, M)


FAILURES = {
    "chunks": (lambda m, x: m.func.jacrev(m.sin, chunk_size=0)(x), "chunk_size"),
    "argnums": (lambda m, x: m.func.jacrev(m.sin, argnums=3)(x), "1 positional inputs"),
    "argnums forward": (lambda m, x: m.func.jacfwd(m.sin, argnums="a")(x), "argnums.* int"),
    "none": (lambda m, x: m.func.jacfwd(m.sin, argnums=())(x), "argnums must be non-empty"),
    "a number": (lambda m, x: m.func.jacrev(lambda a: 3)(x), "to return"),
    "a number forward": (lambda m, x: m.func.jacfwd(lambda a: 3)(x), "to return"),
    "complex out": (lambda m, x: m.func.jacrev(lambda a: a * 1j)(x), "outputs"),
    "complex in": (lambda m, x: m.func.jacrev(m.sin)(x.to(m.complex64)), "inputs"),
    "complex out forward": (lambda m, x: m.func.jacfwd(lambda a: a * 1j)(x), "outputs"),
    "complex in forward": (lambda m, x: m.func.jacfwd(m.sin)(x.to(m.complex64)), "inputs"),
    "random": (lambda m, x: m.func.jacfwd(lambda a: a * m.randn(3))(x), "randomness error mode"),
}


@pytest.mark.parametrize(("program", "match"), FAILURES.values(), ids=FAILURES)
def test_failures(program, match):
    fail_alike(program, X, match=match)


# --- autograd.functional ---------------------------------------------------------------------------

FUNCTIONAL = {
    "jacobian": lambda F, m, x, a, **k: F.jacobian(lambda b: (b.exp(), b.sum()), x, vectorize=True, **k),
    "of two": lambda F, m, x, a, **k: F.jacobian(
        lambda b, c: (b * c, c.sum()), (x, 2 * x), vectorize=True, **k
    ),
    "of a constant": lambda F, m, x, a, **k: F.jacobian(lambda b: m.ones(2), x, vectorize=True, **k),
    "of a matrix": lambda F, m, x, a, **k: F.jacobian(lambda b: b.sin() @ x, a, vectorize=True, **k),
}


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("program", FUNCTIONAL.values(), ids=FUNCTIONAL)
def test_vectorized_jacobians(program, strategy):
    agree(lambda m, x, a: program(m.autograd.functional, m, x, a, strategy=strategy), X, M)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_vectorized_hessians(strategy):
    options = {"vectorize": True, "outer_jacobian_strategy": strategy}
    agree(
        lambda m, x, a: (
            m.autograd.functional.hessian(lambda b: (b**3).sum(), x, **options),
            m.autograd.functional.hessian(lambda b, c: (b * c).sum() ** 2, (x, 2 * x), **options),
        ),
        X,
        M,
    )


def test_a_vectorized_jacobian_can_be_differentiated():
    x = fb.tensor(X).requires_grad_()
    fb.autograd.functional.jacobian(lambda a: a**3, x, create_graph=True, vectorize=True).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 6 * X, rtol=1e-5)


def _functional(name, *args, **kwargs):
    return lambda m, x: getattr(m.autograd.functional, name)(
        *(a(m, x) if callable(a) and i else a(m) if not i else a for i, a in enumerate(args)), **kwargs
    )


SQUARE = {"sin": lambda m: m.sin, "sum": lambda m: lambda a: a.sum(), "two": lambda m: lambda a, b: a.sum()}
ITSELF, PAIR = (lambda m, x: x), (lambda m, x: (x, x))
STRICT = {
    "a constant": ("jacobian", lambda m: lambda a: m.ones(()), ITSELF, {}, "does not require gradients"),
    "jacobian of one": ("jacobian", SQUARE["two"], PAIR, {}, "utput 0.* is independent of input 1"),
    "vjp of one": ("vjp", SQUARE["two"], PAIR, {}, "is independent of input 1"),
    "vjp of a constant": ("vjp", lambda m: lambda a: m.ones(()), ITSELF, {}, "does not require gradients"),
    "vjp, linear": ("vjp", SQUARE["sum"], ITSELF, {"create_graph": True}, "jacobian .*independent"),
    "linear": ("jacobian", SQUARE["sum"], ITSELF, {"create_graph": True}, "jacobian .*independent"),
    "hessian, linear": ("hessian", SQUARE["sum"], ITSELF, {}, "hessian"),
    "vectorized": ("jacobian", SQUARE["sin"], ITSELF, {"vectorize": True}, "strict"),
    "forward": (
        "jacobian",
        SQUARE["sin"],
        ITSELF,
        {"vectorize": True, "strategy": "forward-mode"},
        "strict",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "function", "inputs", "options", "match"), STRICT.values(), ids=STRICT)
def test_strict(name, function, inputs, options, match):
    fail_alike(_functional(name, function, inputs, strict=True, **options), X, match=match)


VECTORS = {
    "none": ("vjp", "sin", ITSELF, None, "v "),
    "jvp": ("jvp", "sin", ITSELF, None, "v "),
    "shape": ("vjp", "sin", ITSELF, lambda m, x: x[:2], "v has invalid size"),
    "two for one": ("hvp", "sum", ITSELF, PAIR, "v.* Tensor"),
    "one for two": ("vhp", "two", PAIR, ITSELF, "2.* got 1"),
    "shape of one": ("jvp", "two", PAIR, lambda m, x: (x, x[:2]), "Entry 1 in v has invalid size"),
    "no tensor": ("jvp", "sin", ITSELF, 3, "a Tensor or"),
    "inputs": ("jvp", "sin", 3.0, None, "a Tensor or"),
    "an input": ("vhp", "sum", lambda m, x: (x, 3.0), None, "the value at index 1"),
}


@pytest.mark.parametrize(("name", "function", "inputs", "v", "match"), VECTORS.values(), ids=VECTORS)
def test_vectors_are_checked(name, function, inputs, v, match):
    fail_alike(_functional(name, SQUARE[function], inputs, v), X, match=match)


def test_unknown_strategies_are_refused():
    fail_alike(_functional("jacobian", SQUARE["sin"], ITSELF, strategy="x"), X, match="reverse-mode")


# --- batched gradients -----------------------------------------------------------------------------


def batched(m, x, weights, wanted=None, **options):
    x = x.requires_grad_()
    other = m.ones(2).requires_grad_()
    outputs, inputs = (x.sin(), x.sum()), (x, other)
    chosen = wanted(m) if wanted else (weights, None)
    pairs = [(o, w) for o, w in zip(outputs, chosen, strict=True) if w is not None]
    options = {"is_grads_batched": True, "retain_graph": True, **options}
    return m.autograd.grad([o for o, _ in pairs], inputs, [w for _, w in pairs], **options)


def test_batched_gradients():
    agree(lambda m, x, w: batched(m, x, w, allow_unused=True)[0], X, M)
    assert batched(fb, fb.tensor(X), fb.tensor(M), allow_unused=True)[1] is None
    agree(lambda m, x, w: batched(m, x, w, materialize_grads=True), X, M)
    agree(lambda m, x, w: batched(m, x, w, lambda m: (w, m.ones(2)), allow_unused=True)[0], X, M)


BATCHED = {
    "too few dimensions": (lambda m, x: batched(m, x, x), "is_grads_batched=True"),
    "sizes": (lambda m, x: batched(m, x, m.ones(2, 4)), "is_grads_batched=True"),
    "batches": (
        lambda m, x: batched(m, x, None, lambda m: (m.ones(2, 3), m.ones(4))),
        "mapped dimension",
    ),
    "unused": (lambda m, x: batched(m, x, m.ones(2, 3)), "allow_unused=True"),
}


@pytest.mark.parametrize(("program", "match"), BATCHED.values(), ids=BATCHED)
def test_failures_of_batched_gradients(program, match):
    fail_alike(program, X, match=match)


# --- networks --------------------------------------------------------------------------------------


def convnet(m):
    m.manual_seed(0)
    return m.nn.Sequential(
        m.nn.Conv2d(1, 4, 3, padding=1),
        m.nn.GroupNorm(2, 4),
        m.nn.ReLU(),
        m.nn.MaxPool2d(2),
        m.nn.Conv2d(4, 8, 3, stride=2),
        m.nn.Tanh(),
        m.nn.Flatten(),
        m.nn.Linear(8, 5),
    )


def per_sample(model, images, labels):
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, image, label):
        scores = functional_call(model, parameters, (image.unsqueeze(0),))
        return fb.nn.functional.cross_entropy(scores, label.unsqueeze(0))

    return vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)


def test_per_sample_gradients_of_a_convnet_are_a_loops():
    model = convnet(fb)
    images, labels = fb.tensor(numbers(6, 1, 8, 8, seed=7)), fb.tensor([0, 1, 2, 3, 4, 0])
    found = per_sample(model, images, labels)
    for i in range(6):
        model.zero_grad()
        fb.nn.functional.cross_entropy(model(images[i : i + 1]), labels[i : i + 1]).backward()
        for name, parameter in model.named_parameters():
            assert fb.allclose(found[name][i], parameter.grad, rtol=1e-4, atol=1e-6), (name, i)


def test_the_hessian_of_a_network_is_pytorchs():
    def program(m, x, y, w, b, v):
        def loss(parameters):
            w, b, v = parameters
            return (m.tanh(x @ w + b) @ v - y).square().mean()

        return m.func.hessian(loss)((w, b, v)), m.func.jacrev(m.func.jacrev(loss))((w, b, v))

    shapes = [(5, 3), (5,), (3, 4), (4,), (4,)]
    agree(program, *(numbers(*shape, seed=i) for i, shape in enumerate(shapes)), rtol=1e-4, atol=1e-5)


def test_the_hessian_of_a_module():
    fb.manual_seed(0)
    model = fb.nn.Sequential(fb.nn.Linear(3, 4), fb.nn.Softplus(), fb.nn.Linear(4, 1))
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x = fb.tensor(numbers(6, 3))
    found = hessian(lambda p: functional_call(model, p, (x,)).square().mean())(parameters)
    flat = fb.nn.utils.parameters_to_vector(model.parameters())

    def of_vector(vector):
        parts, first = {}, 0
        for name, p in parameters.items():
            parts[name] = vector[first : first + p.numel()].reshape(p.shape)
            first += p.numel()
        return functional_call(model, parts, (x,)).square().mean()

    whole = fb.autograd.functional.hessian(of_vector, flat)
    rows = fb.cat(
        [fb.cat([found[a][b].reshape(parameters[a].numel(), -1) for b in parameters], 1) for a in parameters]
    )
    assert fb.allclose(rows, whole, rtol=1e-4, atol=1e-5)


OWN_GRADIENTS = {
    "median": lambda a: fb.median(a),
    "nanmedian": lambda a: fb.nanmedian(a),
    "pinv": lambda a: fb.linalg.pinv(a).sin(),
    "svdvals": lambda a: fb.linalg.svdvals(a),
    "eigvalsh": lambda a: fb.linalg.eigvalsh(a @ a.mT),
    "lu_solve": lambda a: fb.lu_solve(a[:, :1], *fb.linalg.lu_factor(a)),
    "ormqr": lambda a: fb.ormqr(a, fb.full((4,), 0.5, dtype=a.dtype), fb.eye(4, dtype=a.dtype)).sin(),
    "as_strided_scatter": lambda a: fb.as_strided_scatter(
        fb.zeros_like(a).mul(2), a[0, :2], (2,), (3,), 1
    ).sin(),
}


@pytest.mark.parametrize("function", OWN_GRADIENTS.values(), ids=OWN_GRADIENTS)
def test_gradients_of_a_batch_are_those_of_its_entries(function):
    """Operators whose gradient is not that of their parts, and those that ask whether they have one."""
    a = fb.tensor(numbers(2, 4, 4, seed=11, dtype=np.float64)).requires_grad_()
    (together,) = fb.autograd.grad(vmap(lambda m: function(m).sum())(a).sum(), a)
    alone = [fb.autograd.grad(function(m).sum(), a)[0] for m in a]
    assert fb.allclose(together, sum(alone), atol=1e-7)
    assert fb.allclose(grad(lambda m: vmap(lambda e: function(e).sum())(m).sum())(a.detach()), together)
    assert fb.allclose(vmap(grad(lambda e: function(e).sum()))(a.detach()), together, atol=1e-7)
