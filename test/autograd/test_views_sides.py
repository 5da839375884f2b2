"""Views, in-place operations, leaves and versions, compared with PyTorch."""

from sides import Scenarios, doubling, leaf, raised, short_name, warned

scenario = Scenarios()


@scenario
def in_place_through_views_of_views(torch):
    x = leaf(torch, *range(1, 9))
    y = (x * 2).view(2, 4)
    z = y[1].view(2, 2)[:, 1:]
    z.mul_(x[:2].view(2, 1))
    z += 1
    (y * torch.arange(8, dtype=torch.float64).view(2, 4)).sum().backward()
    return [y, x.grad, short_name(y.grad_fn), z._base is y._base]


@scenario
def base_sees_what_a_view_becomes(torch):
    x, w = leaf(torch, 1, 2), leaf(torch, 5)
    base = torch.zeros(4, dtype=torch.float64)
    view = base[1:3]
    view.copy_(x)
    found = [base.requires_grad, base.is_leaf, view.is_leaf, short_name(base.grad_fn), base[0].requires_grad]
    base[3] = w[0]
    (base * base).sum().backward()
    return [found, x.grad, w.grad]


@scenario
def bases_and_versions(torch):
    x = torch.ones(4)
    v = x[1:]
    w = v.view(3)
    d = x.detach()
    data = x.data
    v.add_(1)
    data.add_(1)
    return [
        v._base is x,
        w._base is x,
        x._base,
        d._base,
        v._is_view(),
        d._is_view(),
        x._is_view(),
        x._version,
        v._version,
        w._version,
        d._version,
        data._version,
        x,
    ]


@scenario
def leaves(torch):
    x = leaf(torch, 1, 2)
    y = x * 2
    z = torch.ones(2)
    return [
        x.is_leaf,
        y.is_leaf,
        z.is_leaf,
        y.detach().is_leaf,
        x.view(2).is_leaf,
        x.output_nr,
        raised("leaf Variable", x.add_, 1),
        raised("leaf Variable", x.view(2).add_, 1),
        raised("leaf Variable", x[0].fill_, 1),
        raised("leaf", lambda: x.__setitem__(0, 1)),
        raised("requires_grad flags", lambda: setattr(y, "requires_grad", False)),
        raised("floating point", torch.ones(2, dtype=torch.int64).requires_grad_),
        raised("", setattr, x, "requires_grad", 1)[0],
        y.requires_grad_().requires_grad,
    ]


@scenario
def detach_in_place(torch):
    x = leaf(torch, 1, 2)
    y = x * 2
    y.detach_()
    v = (x * 2)[0:1]
    return [y.is_leaf, y.requires_grad, y.grad_fn, raised("detach", v.detach_), x.detach_().requires_grad]


@scenario
def views_made_without_grad(torch):
    x = leaf(torch, 1, 2)
    y = x * 2
    with torch.no_grad():
        v = y[:1]
    found = [v.requires_grad, v.grad_fn, raised("no_grad mode", v.add_, 1)]
    base = torch.ones(2, dtype=torch.float64)
    with torch.no_grad():
        w = base[:1]
    found.append(raised("no_grad mode", w.mul_, x[:1]))
    with torch.no_grad():
        w.add_(1)
        y.mul_(2)
    y.sum().backward()
    return [*found, x.grad, base]


@scenario
def multi_output_views(torch):
    found = []
    for split in (lambda t: t.unbind(0), lambda t: t.split(1), lambda t: t.chunk(2)):
        x = leaf(torch, 1, 2)
        y = x * 1
        a, b = split(y)
        found.append(raised("multiple views", a.mul_, 2))
        y = x * 1
        a, b = split(y)
        y.mul_(2)
        found.append(raised("multiple views", lambda a=a: a.grad_fn))
        y = x * 1
        a, b = split(y)
        found.append(raised("multiple views", a.view(-1).mul_, 2))
        with torch.no_grad():
            a.mul_(2)
        base = torch.ones(2, dtype=torch.float64)
        a, b = split(base)
        a.mul_(2)
        found.append(raised("", a.mul_, x[:1].view(a.shape)))
    return found


@scenario
def saved_tensors_that_changed(torch):
    x = leaf(torch, 1, 2)
    y = x * 1
    z = y.exp() * y
    y.add_(1)
    found = [raised("modified by an inplace operation", z.sum().backward)]
    y = x * 1
    out = y.exp()
    out[0] = 0
    found.append(raised("is at version 1", out.sum().backward))
    y = x.exp()
    y.data.mul_(2)
    y.sum().backward()
    return [*found, x.grad]


@scenario
def setting_data(torch):
    x = leaf(torch, 1, 2)
    version = x._version
    x.data = torch.ones(3, dtype=torch.float64)
    found = [x.shape[0], x.requires_grad, x.is_leaf, x._version == version]
    x.sum().backward()
    found.append(x.grad)
    y = leaf(torch, 1) * 2
    y.data = torch.zeros(1, dtype=torch.float64)
    return [
        *found,
        y,
        y.grad_fn.name(),
        raised("floating point", setattr, x, "data", torch.ones(3, dtype=torch.int64))[0],
        raised("", setattr, x, "data", 3)[0],
    ]


@scenario
def setting_grad(torch):
    x = leaf(torch, 1, 2)
    x.grad = torch.ones(2, dtype=torch.float64)
    found = [x.grad]
    del x.grad
    return [
        found,
        x.grad,
        raised("size", setattr, x, "grad", torch.ones(3, dtype=torch.float64)),
        raised("dtype", setattr, x, "grad", torch.ones(2))[0],
        raised("Tensor or None", setattr, x, "grad", 3),
        raised("own grad", setattr, x, "grad", x),
        warned("not a leaf Tensor", lambda: (x * 2).grad),
    ]


@scenario
def changing_the_storage(torch):
    x = leaf(torch, 1, 2)
    found = [
        raised("resize", x.resize_, 3)[0],
        raised("resize", (x * 2).resize_, 3)[0],
        raised("", lambda: x.set_(torch.ones(3, dtype=torch.float64)))[0],
    ]
    with torch.no_grad():
        found.append(raised("resize", x.resize_, 2)[0])
        x.set_(torch.ones(3, dtype=torch.float64))
    y = torch.ones(4)
    y.resize_(2)
    return [found, x.shape[0], x.requires_grad, y.shape[0]]


@scenario
def in_place_of_what_needs_no_gradient(torch):
    x = leaf(torch, 1, 2)
    y = torch.zeros(2, dtype=torch.float64)
    y += x
    y.mul_(x)
    y.sum().backward()
    return [x.grad, y.is_leaf, y.requires_grad]


@scenario
def overlapping_views(torch):
    x = leaf(torch, 1, 2)
    y = (x * 1).expand(3, 2)
    found = [raised("unsupported operation", y.add_, 1)]
    z = (x * 1).unfold(0, 1, 1)
    z.mul_(3)
    z.sum().backward()
    return [*found, x.grad]


@scenario
def views_as_other_dtypes(torch):
    x = torch.ones(2, dtype=torch.complex128, requires_grad=True)
    y = x * 2
    torch.view_as_real(y)[:, 0].mul_(3)
    y.abs().sum().backward()
    z = x.detach() * 1
    view = torch.view_as_real(z)
    w = leaf(torch, 3)
    view[0, 1:].copy_(w)
    (z * z.conj()).real.sum().backward()
    return [x.grad, w.grad]


@scenario
def diagonal_and_strided_writes(torch):
    x, w = leaf(torch, 1, 2, 3), leaf(torch, 7)
    y = (x[:, None] * x).clone()
    y.diagonal().mul_(w)
    y.t()[0].zero_()
    y[[0, 2]] = w
    y[y > 8] = 0.5 * w
    y.sum().backward()
    return [y, x.grad, w.grad]


@scenario
def functions_whose_outputs_are_views(torch):
    class View(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, grad):
            return grad.view(2, 1) * 2

    x = torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
    y = View.apply(x * 1)
    found = [y._is_view(), raised("custom Function", y.mul_, 2)]
    y = View.apply(x * 1)
    y.sum().backward()
    return [*found, x.grad]


@scenario
def functions_that_change_views(torch):
    double = doubling(torch)
    x = leaf(torch, 1, 2, 3)
    y = x * 1
    double.apply(y[1:])
    y.sum().backward()
    found = [x.grad, y, short_name(y.grad_fn)]
    z = leaf(torch, 1) * 1
    out = double.apply(z)
    found += [out is z, z.grad_fn.name(), raised("leaf", double.apply, leaf(torch, 1))]
    return found


@scenario
def requires_grad_of_a_base_after_its_view(torch):
    base = torch.ones(3, dtype=torch.float64)
    view = base[:2]
    base.requires_grad_()
    return [view.requires_grad, view.is_leaf, raised("", (view * 2).sum().backward)]


@scenario
def retain_grad_across_in_place(torch):
    x = leaf(torch, 1, 2)
    y = x * 1
    y.retain_grad()
    y.mul_(3)
    (y * 2).sum().backward()
    return [y.grad, x.grad]


@scenario
def swapping_history_by_copy(torch):
    x, w = leaf(torch, 1, 2), leaf(torch, 3, 4)
    y = x * 2
    y.copy_(w)
    y.sum().backward()
    z = x * 2
    z.zero_()
    z.sum().backward()
    return [x.grad, w.grad]


test_as_in_pytorch = scenario.test()
