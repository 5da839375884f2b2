"""In-place custom Functions on views, changed bases, hooks that replace .grad: compared with PyTorch."""

from sides import Scenarios, doubling, leaf, raised, short_name

scenario = Scenarios()


def functions(torch):
    """In-place custom Functions: doubles, squares, changes one of two."""
    return doubling(torch), square(torch), both(torch)


def square(torch):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.clone())
            x.mul_(x.clone())
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    return Square


def both(torch):
    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x, y * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2, h * 3

    return Both


VIEWS = {
    "itself": lambda b: b,
    "row": lambda b: b[0],
    "flat": lambda b: b.view(-1),
    "transposed": lambda b: b.t(),
    "columns": lambda b: b[:, 1:],
    "view of a view": lambda b: b[0][1:],
}


@scenario
def gradients_through_the_view_and_its_base(torch):
    found = []
    for function in functions(torch)[:2]:
        for name, view in VIEWS.items():
            for total in (
                lambda b, v: b.sum(),
                lambda b, v: (v * v).sum(),
                lambda b, v: (b * b).sum() + v.sum(),
            ):
                a = leaf(torch, 1, 2, 3, 4, 5, 6)
                b = (a * 1).view(2, 3).clone()
                v = view(b)
                same = function.apply(v) is v
                total(b, v).backward()
                found.append([name, same, short_name(v.grad_fn), short_name(b.grad_fn), b, a.grad])
    return found


@scenario
def second_derivatives(torch):
    found = []
    for function in functions(torch)[:2]:
        a = leaf(torch, 1, 2, 3, 4)
        b = a * a
        v = b[:2]
        function.apply(v)
        (g,) = torch.autograd.grad((b * v.sum()).sum(), a, create_graph=True)
        found += [g, *torch.autograd.grad(g.sum(), a)]
    return found


@scenario
def several_changes_of_one_base(torch):
    double = functions(torch)[0]
    a = leaf(torch, 1, 2, 3, 4)
    b = a * 1
    v, w = b[:2], b[1:]
    double.apply(v)
    v.mul_(3)
    double.apply(v)
    double.apply(w)
    (b.sum() + v.sum() + w.sum()).backward()
    return [b, v, w, a.grad]


@scenario
def retained_gradients(torch):
    double = functions(torch)[0]
    a = leaf(torch, 1, 2, 3, 4)
    b = a * 1
    v = b[:2]
    b.retain_grad()
    v.retain_grad()
    double.apply(v)
    (v.sum() * 3).backward()
    return [b.grad, v.grad, a.grad]


@scenario
def two_outputs_one_of_which_is_a_changed_view(torch):
    change = functions(torch)[2]
    a, y = leaf(torch, 1, 2, 3, 4), leaf(torch, 5, 6)
    b = a * 1
    found = [raised("return", change.apply, b[:2], y)]
    whole = a[:2] * 1
    r, s = change.apply(whole, y)
    (r.sum() + s.sum()).backward()
    return [*found, a.grad, y.grad]


@scenario
def forward_mode(torch):
    double, ad = functions(torch)[0], torch.autograd.forward_ad
    found = []
    for view in (lambda b: b, lambda b: b[:2]):
        with ad.dual_level():
            d = ad.make_dual(torch.arange(1.0, 5), torch.ones(4))
            v = view(d)
            double.apply(v)
            found += [*ad.unpack_dual(d), *ad.unpack_dual(v)]
    return found


@scenario
def views_without_history_of_their_own(torch):
    class Flat(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, g):
            return g.view(2, 2)

    a = leaf(torch, 1, 2, 3, 4)
    b = (a * 1).view(2, 2).clone()
    v = Flat.apply(b)
    with torch.no_grad():
        w = b.view(-1)
    b.mul_(2)
    phrase = "modified inplace"
    found = [
        v.requires_grad,
        w.requires_grad,
        raised(phrase, lambda: v.grad_fn),
        raised(phrase, lambda: w * 2),
    ]
    with torch.no_grad():
        return [*found, v * 2, w * 2, "Invalid" in repr(v)]


@scenario
def order_of_hooks_at_a_leaf(torch):
    found = []
    for times in (1, 2):
        x = leaf(torch, 1, 1)
        node = x.view_as(x).grad_fn.next_functions[0][0]
        seen = []

        def replace(inputs, outputs, x=x, seen=seen):
            seen.append(outputs[0].tolist())
            x.grad = outputs[0] * 10

        def raise_by_half(p):
            p.grad.add_(0.5)

        x.register_hook(lambda g: g - 2)
        x.register_post_accumulate_grad_hook(raise_by_half)
        node.register_hook(replace)
        node.register_prehook(lambda g: (g[0] / 5,))
        for _ in range(times):
            x.sum().backward()
        found += [x.grad, seen]
    return found


@scenario
def hooks_that_replace_the_gradient(torch):
    found = []
    for times in (1, 2, 3):
        for before in (None, [5.0, 5.0]):
            x = leaf(torch, 1, 2)
            x.grad = None if before is None else torch.tensor(before, dtype=torch.float64)
            seen = []

            def negate(p, seen=seen):
                seen.append(p.grad.tolist())
                p.grad = -p.grad

            x.register_post_accumulate_grad_hook(negate)
            for _ in range(times):
                (x * x + x).sum().backward()
            found += [x.grad, seen]
    return found


test_as_in_pytorch = scenario.test()
