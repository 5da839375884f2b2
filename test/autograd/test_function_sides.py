"""Custom Functions, forward mode and complex gradients, compared with PyTorch."""

import importlib

from sides import Scenarios, leaf, raised

scenario = Scenarios()


def make(torch, forward, backward, **members):
    """A Function class from its two halves."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    body |= {k: v if isinstance(v, bool) else staticmethod(v) for k, v in members.items()}
    return type("Made", (torch.autograd.Function,), body)


def forward_ad(torch):
    return importlib.import_module(torch.__name__ + ".autograd.forward_ad")


@scenario
def what_inputs_need(torch):
    seen = []

    def forward(ctx, x, n, y, flag=None):
        seen.append(list(ctx.needs_input_grad))
        return x * n + y

    def backward(ctx, grad):
        seen.append(list(ctx.needs_input_grad))
        return grad, None, None, None

    f = make(torch, forward, backward)
    x, y = leaf(torch, 1), torch.ones(1, dtype=torch.float64)
    f.apply(x, 2, y, "flag").backward()
    f.apply(y, 2, y)
    return [seen, x.grad]


@scenario
def gradients_of_outputs_that_got_none(torch):
    seen = []
    for materialize in (True, False):

        def forward(ctx, x, materialize=materialize):
            ctx.set_materialize_grads(materialize)
            return x * 1, x * 2

        def backward(ctx, a, b):
            seen.append([a, b])
            return a

        x = leaf(torch, 1, 2)
        make(torch, forward, backward).apply(x)[0].sum().backward()
    return seen


@scenario
def outputs_of_all_kinds(torch):
    def forward(ctx, x):
        a, b, c = x * 1, x > 0, x * 3
        ctx.mark_non_differentiable(c)
        return a, b, c, "text", 5, None, [1]

    x = leaf(torch, 1)
    out = make(torch, forward, lambda ctx, *g: g[0] * 7).apply(x)
    out[0].backward()
    return [
        len(out),
        out[1].requires_grad,
        out[2].requires_grad,
        out[3:],
        x.grad,
        raised("", out[2].backward)[0],
    ]


@scenario
def wrong_numbers_of_gradients(torch):
    def forward(ctx, x, y):
        return x * y

    found = []
    for result, phrase in (
        (lambda g: g, "expected 2"),
        (lambda g: (g, g, g), "expected 2"),
        (lambda g: (g, g, None), ""),
        (lambda g: (None, None), ""),
        (lambda g: (g, torch.ones(7, dtype=torch.float64)), "invalid gradient at index 1"),
        (lambda g: (g.sum(), g), ""),
        (lambda g: (3, g), ""),
        (lambda g: [g, g], ""),
    ):
        x, y = leaf(torch, 1, 2), leaf(torch, 3, 4)
        f = make(torch, forward, lambda ctx, g, result=result: result(g))
        found.append((raised(phrase, f.apply(x, y).sum().backward), x.grad, y.grad))
    f = make(torch, lambda ctx, x, n: x * n, lambda ctx, g: (g, g))
    found.append(raised("", f.apply(leaf(torch, 1), 3).backward))
    return found


@scenario
def saved_tensors_and_their_end(torch):
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, None, y)
        return y

    def backward(ctx, grad):
        x, none, y = ctx.saved_tensors
        assert none is None
        return grad * y

    f = make(torch, forward, backward)
    x = leaf(torch, 1)
    y = f.apply(x)
    found = [
        [t if t is None else t.tolist() for t in y.grad_fn.saved_tensors],
        y.grad_fn.saved_tensors[2].requires_grad,
    ]
    y.backward()
    found += [
        raised("freed", lambda: y.grad_fn.saved_tensors),
        raised("second time", y.backward),
    ]
    z = x * 1
    y = f.apply(z)
    z.add_(1)
    found.append(raised("modified by an inplace operation", y.backward))
    bad = make(torch, lambda ctx, x: ctx.save_for_backward(3) or x * 1, backward)
    found.append(raised("save_for_backward", bad.apply, x))
    return [*found, x.grad]


@scenario
def double_backward(torch):
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    x = leaf(torch, 2)
    (g,) = torch.autograd.grad(Cube.apply(x), x, create_graph=True)
    (gg,) = torch.autograd.grad(g, x, create_graph=True)
    (ggg,) = torch.autograd.grad(gg, x)
    return [g, gg, ggg]


@scenario
def differentiable_once(torch):
    once = importlib.import_module(torch.__name__ + ".autograd.function").once_differentiable
    f = make(torch, lambda ctx, x: x * 2, once(lambda ctx, g: g * 2))
    x = leaf(torch, 1)
    (g,) = torch.autograd.grad(f.apply(x), x)
    y = leaf(torch, 1)
    (h,) = torch.autograd.grad(f.apply(y) * y, y, create_graph=True)
    return [g, h, raised("once_differentiable", h.backward)]


@scenario
def new_style(torch):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(x, factor=2):
            return x * factor, factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]
            ctx.outputs = len(output)

        @staticmethod
        def backward(ctx, grad, _):
            return grad * ctx.factor * ctx.outputs, None

    x = leaf(torch, 3)
    y, n = Scaled.apply(x, 5)
    y.backward()
    return [y, n, x.grad]


@scenario
def called_twice(torch):
    f = make(torch, lambda ctx, x: x * 2, lambda ctx, g: g * 2)
    x = leaf(torch, 1)
    (f.apply(f.apply(x)) + f.apply(x)).backward()
    return x.grad


@scenario
def returning_inputs(torch):
    f = make(torch, lambda ctx, x: x, lambda ctx, g: g * 3)
    x = leaf(torch, 1)
    y = f.apply(x)
    y.backward()
    g = make(torch, lambda ctx, x, y: (y, x), lambda ctx, a, b: (b * 2, a * 5))
    a, b = leaf(torch, 1), leaf(torch, 2)
    p, q = g.apply(a, b)
    (p * 10 + q).backward()
    return [y is x, y.grad_fn.name(), x.grad, a.grad, b.grad]


@scenario
def misuse(torch):
    class Nothing(torch.autograd.Function):
        pass

    class NoBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g

    x = leaf(torch, 1)
    return [
        raised("forward", Nothing.apply, x),
        raised("backward", NoBackward.apply(x).backward),
        raised("vjp", lambda: Both.apply(x).backward()),
        raised("jvp", lambda: dual_of(torch, NoBackward, x)),
        raised("", Nothing),
        raised("", lambda: Nothing()(x))[0],
    ]


def dual_of(torch, function, x):
    with forward_ad(torch).dual_level():
        return function.apply(forward_ad(torch).make_dual(x.detach(), torch.ones_like(x)))


@scenario
def errors_in_backward_pass_through(torch):
    def backward(ctx, g):
        raise ZeroDivisionError("mine")

    f = make(torch, lambda ctx, x: x * 1, backward)
    return raised("mine", f.apply(leaf(torch, 1)).backward)


@scenario
def marking_wrong_tensors_dirty(torch):
    def forward(ctx, x):
        y = x * 1
        ctx.mark_dirty(y)
        return y

    f = make(torch, forward, lambda ctx, g: g)

    def forgets(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x.clone()

    g = make(torch, forgets, lambda ctx, g: g)
    return [raised("", f.apply, leaf(torch, 1)), raised("", g.apply, leaf(torch, 1) * 1)]


@scenario
def tangents_of_functions(torch):
    ad = forward_ad(torch)

    class Mul(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_forward(x, y)
            ctx.save_for_backward(x, y)
            return x * y, x + 1

        @staticmethod
        def backward(ctx, a, b):
            x, y = ctx.saved_tensors
            return a * y + b, a * x

        @staticmethod
        def jvp(ctx, tx, ty):
            x, y = ctx.saved_tensors
            return tx * y + ty * x, tx

    x, y = torch.tensor([2.0]), torch.tensor([3.0])
    with ad.dual_level():
        a, b = Mul.apply(ad.make_dual(x, torch.ones(1)), ad.make_dual(y, torch.ones(1) * 10))
        c, _ = Mul.apply(ad.make_dual(x, torch.ones(1)), y)
        return [ad.unpack_dual(t).tangent for t in (a, b, c)]


@scenario
def tangents_of_views_and_in_place(torch):
    ad = forward_ad(torch)

    class View(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def jvp(ctx, t):
            return t.view(-1)

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, t):
            return t.mul_(2)

    with ad.dual_level():
        x = ad.make_dual(torch.ones(2, 1), torch.full((2, 1), 5.0))
        view = View.apply(x)
        found = [ad.unpack_dual(view).tangent]
        y = ad.make_dual(torch.ones(2), torch.full((2,), 5.0))
        out = Twice.apply(y)
        found += [out is y, ad.unpack_dual(y).tangent]
    return found


@scenario
def dual_numbers(torch):
    ad = forward_ad(torch)
    x = torch.tensor([0.5], dtype=torch.float64)
    with ad.dual_level():
        d = ad.make_dual(x, torch.ones_like(x))
        y = (d.sin() * d).exp()
        v = d.view(1, 1)
        v.mul_(3)
        found = [
            ad.unpack_dual(y).tangent,
            ad.unpack_dual(v).tangent,
            ad.unpack_dual(d).tangent,
            ad.unpack_dual(x).tangent is None,
        ]
        found.append(raised("", ad.make_dual, x, torch.ones(2, dtype=torch.float64))[0])
        found.append(raised("", ad.make_dual, x, torch.ones(1))[0])
        with torch.no_grad():
            found.append(ad.unpack_dual(d * 2).tangent)
    found.append(ad.unpack_dual(d).tangent is None)
    found.append(raised("level", ad.make_dual, x, x)[0])
    return found


@scenario
def forward_over_reverse(torch):
    ad = forward_ad(torch)
    x = torch.tensor([0.5, 0.7], dtype=torch.float64)
    with ad.dual_level():
        d = ad.make_dual(x.requires_grad_(), torch.tensor([1.0, 2.0], dtype=torch.float64))
        y = (d.sin() * d.exp()).prod()
        (g,) = torch.autograd.grad(y, d, create_graph=True)
        return [ad.unpack_dual(g).primal, ad.unpack_dual(g).tangent]


@scenario
def complex_gradients(torch):
    found = []
    for f in (
        lambda z: z.abs(),
        lambda z: (z * z).real,
        lambda z: z.imag * z.real,
        lambda z: z.exp().abs(),
        lambda z: z.angle(),
        lambda z: (z * z.conj()).real,
        lambda z: z.sqrt().real,
        lambda z: torch.view_as_real(z)[..., 0] ** 2,
        lambda z: z.log().imag,
        lambda z: (z**3).real,
        lambda z: (z / (1 + 2j)).imag,
        lambda z: (1 / z).real,
        lambda z: z.sgn().real,
        lambda z: z.prod().real,
        lambda z: (z @ z).real,
        lambda z: z.tanh().real,
        lambda z: z.sin().imag,
        lambda z: torch.polar(z.abs(), z.angle()).real,
    ):
        z = torch.tensor([1 + 2j, -0.5 + 0.3j], dtype=torch.complex128, requires_grad=True)
        f(z).sum().backward()
        found.append(z.grad)
    x = leaf(torch, 2)
    (x * (1 + 3j)).abs().backward()
    z = torch.tensor([1 + 2j], dtype=torch.complex128, requires_grad=True)
    (z * 2j).backward(torch.ones(1, dtype=torch.complex128))
    return [*found, x.grad, x.grad.dtype == torch.float64, z.grad]


test_as_in_pytorch = scenario.test()
