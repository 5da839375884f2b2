"""Passes over graphs, modes and copies of tensors, compared with PyTorch."""

import copy

from sides import Scenarios, leaf, raised, warned

scenario = Scenarios()


@scenario
def passes_from_leaves_and_lists(torch):
    x, y = leaf(torch, 2), leaf(torch, 3)
    x.backward()
    torch.autograd.backward([x * y, y * y], [None, torch.tensor([2.0], dtype=torch.float64)])
    torch.autograd.backward((x * y,), inputs=y)
    return [x.grad, y.grad]


@scenario
def gradients_of_other_dtypes(torch):
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    found = [
        raised("", y.backward, torch.ones(2, dtype=torch.float64), retain_graph=True),
        x.grad.dtype == torch.float32,
    ]
    z = x.double() * 3
    z.sum().backward()
    half = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    (half.float() * 3).sum().backward()
    return [
        *found,
        x.grad,
        x.grad.dtype == torch.float32,
        half.grad.dtype == torch.bfloat16,
        half.grad.float(),
        raised("", y.backward, torch.ones(2, dtype=torch.int64)),
    ]


@scenario
def results_without_gradient(torch):
    x = leaf(torch, 1, 3, 2)
    made = [
        x > 1,
        x.argmax(),
        x.max(0)[1],
        x.detach(),
        x.long(),
        x.sort()[1],
        x.isnan(),
        x.data,
        x.sign(),
        x.floor(),
        x.new_ones(2),
        torch.zeros_like(x),
    ]
    return [t.requires_grad for t in made] + [raised("does not require grad", (x > 1).float().sum().backward)]


@scenario
def parts_of_a_graph_twice(torch):
    x = leaf(torch, 0.5)
    a = x.exp()
    b, c = a.sin(), a * 2
    b.backward(retain_graph=True)
    c.backward()
    found = [x.grad, raised("second time", b.backward)]
    y = leaf(torch, 1)
    w = y + 2
    w.backward()
    return [*found, raised("", w.backward), y.grad]


@scenario
def freed_by_grad_of_a_part(torch):
    x = leaf(torch, 0.5)
    y = x.exp()
    z = y.sin()
    torch.autograd.grad(z, y)
    return [raised("second time", z.backward), raised("", y.backward), x.grad]


@scenario
def requires_grad_switched_off_later(torch):
    x, w = leaf(torch, 1), leaf(torch, 2)
    y = x * w
    x.requires_grad_(False)
    y.backward()
    return [x.grad, w.grad]


@scenario
def grad_modes(torch):
    x, log = leaf(torch, 1), []

    @torch.no_grad()
    def plain():
        return (x * 2).requires_grad

    @torch.no_grad
    def bare():
        return (x * 2).requires_grad

    @torch.enable_grad()
    def recorded():
        return (x * 2).requires_grad

    @torch.no_grad()
    def generator():
        log.append(torch.is_grad_enabled())
        yield 1
        log.append(torch.is_grad_enabled())

    for _ in generator():
        log.append(torch.is_grad_enabled())
    with torch.no_grad():
        log += [recorded(), torch.is_grad_enabled()]
        with torch.enable_grad():
            log.append((x * 2).requires_grad)
        log.append(leaf(torch, 1).requires_grad)
        made = torch.ones(1, requires_grad=True)
    log += [plain(), bare(), made.requires_grad]
    return log


@scenario
def grad_modes_set_by_value(torch):
    x, log = leaf(torch, 1), []
    torch.set_grad_enabled(False)
    log.append((x * 2).requires_grad)
    torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        log.append((x * 2).requires_grad)
    with torch.inference_mode(False):
        log.append((x * 2).requires_grad)
    try:
        with torch.no_grad():
            raise KeyError
    except KeyError:
        log.append(torch.is_grad_enabled())
    return log


@scenario
def copies_of_tensors(torch):
    x = leaf(torch, 1, 2)
    (x * 3).sum().backward()
    twin = copy.deepcopy(x)
    shallow = copy.copy(x)
    return [
        twin.requires_grad,
        twin.grad,
        twin.is_leaf,
        twin.grad is x.grad,
        twin.data_ptr() == x.data_ptr(),
        shallow.requires_grad,
        raised("deepcopy", copy.deepcopy, x * 2),
        x.clone().requires_grad,
        x.clone().detach().requires_grad,
        torch.tensor(x.tolist()).requires_grad,
        warned("clone().detach()", torch.tensor, x),
    ]


@scenario
def conversions_that_need_detach(torch):
    x = leaf(torch, 1, 2)
    return [
        raised("detach", x.numpy),
        raised("", x.detach().numpy),
        raised("", x.tolist),
        raised("", (x * 2).sum().item),
        raised("", float, x.sum()),
    ]


@scenario
def zero_grad(torch):
    net = torch.nn.Linear(2, 1)
    net(torch.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    found = [net.weight.grad]
    net.zero_grad()
    return [*found, net.weight.grad]


@scenario
def hooks_and_inputs(torch):
    log = []
    x, w = leaf(torch, 1), leaf(torch, 2)
    y = x * w
    x.register_hook(lambda g: log.append("x"))
    w.register_hook(lambda g: log.append("w"))
    y.register_hook(lambda g: log.append("y"))
    torch.autograd.grad(y, x, retain_graph=True)
    y.backward(inputs=[w], retain_graph=True)
    torch.autograd.grad(y, y, retain_graph=True)
    return [log, x.grad, w.grad]


@scenario
def hooks_change_what_grad_returns(torch):
    x = leaf(torch, 1)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    return [torch.autograd.grad(y * 3, x, retain_graph=True), torch.autograd.grad(y * 3, y)]


@scenario
def third_derivatives(torch):
    x = leaf(torch, 0.3)
    y = (x.sin() * x.exp()).tanh() / (1 + x * x)
    found = []
    for _ in range(4):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        found.append(y)
    return found


@scenario
def materialized_second_derivatives(torch):
    x = leaf(torch, 0.3)
    (g,) = torch.autograd.grad(x * 2, x, create_graph=True)
    return [g.requires_grad, raised("", torch.autograd.grad, g, x)]


@scenario
def undefined_gradients_meet(torch):
    x = leaf(torch, 1, 2)
    a, b = (x * 2).unbind(0)
    q, r = torch.linalg.qr(torch.eye(2, dtype=torch.float64) * x)
    values, _ = (x * 3).sort()
    (a + values.sum() + r.sum()).backward()
    return x.grad


@scenario
def broadcast_and_expanded_gradients(torch):
    x, y = leaf(torch, 1), torch.ones(3, 1, dtype=torch.float64, requires_grad=True)
    (x + y * torch.ones(4, dtype=torch.float64)).sum().backward()
    z = torch.tensor(2.0, requires_grad=True)
    (z * torch.ones(3, 2)).sum().backward()
    return [x.grad, y.grad, z.grad]


@scenario
def where_nan_is_masked(torch):
    x = leaf(torch, 0, 1)
    torch.where(x > 0, x, torch.zeros_like(x)).sqrt().sum().backward()
    y = leaf(torch, -1, 4)
    torch.where(y > 0, y.sqrt(), torch.zeros_like(y)).sum().backward()
    return [x.grad, y.grad]


@scenario
def printing(torch):
    x = leaf(torch, 1)
    shown = [repr(x), repr(x * 2), repr((x * 2).detach()), repr(x.exp().grad_fn).split(" ")[0]]
    return [text.replace(torch.__name__ + ".", "") for text in shown]


test_as_in_pytorch = scenario.test()
