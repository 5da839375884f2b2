"""Functions with derivatives of their own inside of transforms: as PyTorch's, in every nesting."""

import flambeau as fb
import pytest
from side_by_side import agree, fail_alike, numbers
from transforms.custom import cube

X = numbers(3, seed=1)


def scaled(m):
    """Two outputs of two tensors and a number, which the context keeps."""

    class Scaled(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y, n):
            return x * y * n, x + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs[:2])
            ctx.n = inputs[2]

        @staticmethod
        def backward(ctx, g, h):
            x, y = ctx.saved_tensors
            return g * y * ctx.n + h, g * x * ctx.n + h, None

    return Scaled.apply


def by_numpy(m, generate=False):
    """Reads its values: only its own rule can map it."""

    class ByNumpy(m.autograd.Function):
        generate_vmap_rule = generate

        @staticmethod
        def forward(x):
            return m.tensor(x.detach().numpy() ** 3)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] ** 2 * g

        @staticmethod
        def vmap(info, in_dims, x):
            assert info.randomness == "error"
            assert info.batch_size == x.shape[in_dims[0]]
            return ByNumpy.apply(x), in_dims[0]

    return ByNumpy.apply


def old(m):
    class Old(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] ** 2 * g

    return Old.apply


def leaf(x):
    return x.requires_grad_()


def gradients_of_both(m, x):
    y = leaf(m.tensor(2.0))
    outputs = m.vmap(scaled(m), in_dims=(0, None, None))(leaf(x), y, 3)
    return m.autograd.grad(sum(out.sum() for out in outputs), (x, y))


def total(m, function, in_dims):
    return lambda *args: sum(out.sum() for out in m.vmap(function, in_dims=in_dims)(*args, 3))


PROGRAMS = {
    "vmap": lambda m, x: m.vmap(cube(m))(x),
    "gradient of vmap": lambda m, x: m.autograd.grad(m.vmap(cube(m))(leaf(x)).sum(), x),
    "grad": lambda m, x: m.func.grad(lambda a: cube(m, generate=False)(a).sum())(x),
    "vmap of grad": lambda m, x: m.vmap(m.func.grad(cube(m)))(x),
    "grad of vmap": lambda m, x: m.func.grad(lambda a: m.vmap(cube(m))(a).sum())(x),
    "vmap of vmap of grad of grad": lambda m, x: m.vmap(m.vmap(m.func.grad(m.func.grad(cube(m)))))(x[None]),
    "jvp of vmap": lambda m, x: m.func.jvp(m.vmap(cube(m)), (x,), (x,)),
    "vmap of jvp": lambda m, x: m.vmap(lambda a: m.func.jvp(cube(m), (a,), (a,)))(x),
    "jacrev": lambda m, x: m.func.jacrev(cube(m))(x),
    "jacfwd": lambda m, x: m.func.jacfwd(cube(m))(x),
    "hessian": lambda m, x: m.func.hessian(lambda a: cube(m)(a).sum())(x),
    "mapped in another dimension": lambda m, x: m.vmap(cube(m), in_dims=1, out_dims=1)(x.outer(x)),
    "an argument that serves all": lambda m, x: m.vmap(scaled(m), in_dims=(0, None, None))(x, x[0], 3),
    "another": lambda m, x: m.vmap(scaled(m), in_dims=(None, 0, None))(x, x, 3),
    "gets the sum of its gradients": gradients_of_both,
    "in grad as well": lambda m, x: m.func.grad(total(m, scaled(m), (0, None, None)), argnums=(0, 1))(
        x, x[1]
    ),
    "and where both are mapped": lambda m, x: m.func.grad(total(m, scaled(m), (0, 0, None)), argnums=1)(x, x),
    "its own rule": lambda m, x: m.vmap(by_numpy(m))(x),
    "its own rule in vmap of grad": lambda m, x: m.vmap(m.func.grad(by_numpy(m)))(x),
    "its own rule in grad of vmap": lambda m, x: m.func.grad(lambda a: m.vmap(by_numpy(m))(a).sum())(x),
    "its own rule twice": lambda m, x: m.vmap(m.vmap(by_numpy(m)))(x[None]),
    "its own rule in jacrev": lambda m, x: m.func.jacrev(by_numpy(m))(x),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_results_are_pytorchs(program):
    agree(program, X)


FAILURES = {
    "no rule": (lambda m, x: m.vmap(cube(m, generate=False))(x), "does not have vmap support"),
    "two rules": (lambda m, x: m.vmap(by_numpy(m, generate=True))(x), "has both generate_vmap_rule=True and"),
    "old style in grad": (
        lambda m, x: m.func.grad(lambda a: old(m)(a).sum())(x),
        "setup_context",
    ),
    "old style in vmap": (lambda m, x: m.vmap(old(m))(x), "setup_context"),
}


@pytest.mark.parametrize(("program", "match"), FAILURES.values(), ids=FAILURES)
def test_failures(program, match):
    fail_alike(program, X, match=match)


def test_no_grad_around_the_call_holds():
    x = leaf(fb.tensor(X))

    def constant(a):
        with fb.no_grad():
            return (cube(fb)(a) * a).sum()

    assert not fb.func.grad(lambda a: (a * a).sum() + 0 * constant(a))(fb.tensor(X)).requires_grad
    assert not fb.vmap(constant)(x[None]).requires_grad
    assert fb.vmap(cube(fb))(x).requires_grad


def test_what_lies_outside_records_it():
    x = leaf(fb.tensor(X))
    fb.func.grad(lambda a: cube(fb)(a).sum())(x).sum().backward()
    assert fb.allclose(x.grad, 6 * x.detach(), atol=1e-5)


def test_a_bad_rule_is_reported():
    class Bad(fb.autograd.Function):
        @staticmethod
        def forward(x):
            return x

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return x

    with pytest.raises(RuntimeError, match=r"expected a tuple \(output, out_dims\)"):
        fb.vmap(Bad.apply)(fb.ones(2))
