"""The engine, compared with PyTorch: passes, errors, order, accumulation, layout, anomaly mode."""

import threading

from sides import Scenarios, leaf, raised, warned

scenario = Scenarios()


@scenario
def backward_to_inputs_that_are_no_leaves(torch):
    x, w = leaf(torch, 2), leaf(torch, 3)
    y = x * w
    (y * y).backward(inputs=[y], retain_graph=True)
    found = [y.grad, x.grad, w.grad]
    (y * y).backward(inputs=[x, y])
    return [*found, y.grad, x.grad, w.grad]


@scenario
def arguments_that_are_refused(torch):
    x = leaf(torch, 1, 2)
    grad, backward = torch.autograd.grad, torch.autograd.backward
    return [
        raised("grad can be implicitly created", (x * 2).backward),
        raised("Mismatch in shape", (x * 2).backward, torch.ones(3, dtype=torch.float64)),
        raised("does not require grad", torch.ones(1).backward),
        raised("does not require grad", grad, (x * 2).sum(), torch.ones(1)),
        raised("allow_unused=True", grad, (x * 2).sum(), leaf(torch, 1)),
        raised("`inputs`", grad, x.sum(), []),
        raised("`inputs`", x.sum().backward, inputs=[]),
        raised("allow_unused", grad, x.sum(), x, materialize_grads=True, allow_unused=False),
        raised("Tensors or None", backward, x.sum(), 3.0),
        raised("second time", lambda: [y.backward() for y in [x.exp().sum()] * 2]),
        raised("", lambda: [y.backward() for y in [x.sum()] * 2]),
        raised("", backward, [x.sum(), x.sum()], [None]),
        raised("complex", (x * 1j).sum().backward),
    ]


@scenario
def unused_inputs(torch):
    x, z = leaf(torch, 1), leaf(torch, 2, 3)
    return [
        torch.autograd.grad(x * 2, [x, z], allow_unused=True),
        torch.autograd.grad(x * 2, [x, z], materialize_grads=True),
    ]


@scenario
def batched_gradients(torch):
    x = leaf(torch, 1, 2, 3)
    y = x * x
    (rows,) = torch.autograd.grad(y, x, torch.eye(3, dtype=torch.float64), is_grads_batched=True)
    return rows


@scenario
def one_input_twice_and_outputs_among_inputs(torch):
    x = leaf(torch, 2)
    y = x * x
    return [torch.autograd.grad(y, [x, y, x])]


@scenario
def create_graph_adds_without_changing_the_sum_in_place(torch):
    x = leaf(torch, 2)
    (x**3).backward(create_graph=True)
    first = x.grad
    (x**3).backward(create_graph=True)
    return [first, x.grad, x.grad is first, x.grad.requires_grad]


@scenario
def sums_change_in_place(torch):
    x = leaf(torch, 2)
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    return [x.grad is first, first]


@scenario
def gradients_are_taken_over_where_safe(torch):
    x = leaf(torch, *range(8))
    given = torch.ones(8, dtype=torch.float64)
    x.backward(given)
    kept = [x.grad.data_ptr() == given.data_ptr()]
    x, y = leaf(torch, 1, 2), leaf(torch, 1, 2)
    (x + y).sum().backward()
    kept.append(x.grad.data_ptr() == y.grad.data_ptr())
    x.grad.add_(1)
    return [kept, x.grad, y.grad]


@scenario
def layout_of_gradients(torch):
    found = []
    for make in (
        lambda: torch.ones(3, 4).t(),
        lambda: torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
        lambda: torch.ones(6, 4)[::2],
        lambda: torch.ones(3, 1).expand(3, 4),
    ):
        x = make().detach().requires_grad_()
        (x * x).sum().backward()
        found.append(list(x.grad.stride()))
        x.grad = None
        x.contiguous().sin().sum().backward()
        found.append(list(x.grad.stride()))
    return found


@scenario
def a_gradient_with_history_is_kept(torch):
    x = leaf(torch, 2)
    x.grad = torch.ones(1, dtype=torch.float64)
    old = x.grad
    (x * 3).backward()
    return [x.grad is old, old]


@scenario
def threads_over_one_graph(torch):
    x = leaf(torch, 0.5)
    y = x
    for _ in range(20):
        y = y * x + y
    threads = [
        threading.Thread(target=lambda: [y.backward(retain_graph=True) for _ in range(10)]) for _ in range(4)
    ]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return x.grad


@scenario
def passes_within_passes(torch):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_()
                ctx.y = ctx.x.sin() * 2
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, grad):
            ctx.y.backward(grad)
            return ctx.x.grad

    x = leaf(torch, 0.3)
    Inner.apply(Inner.apply(x).exp()).backward()
    return x.grad


@scenario
def deeply_nested_passes(torch):
    class Deep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x.detach()
            return ctx.x.clone()

        @staticmethod
        def backward(ctx, grad):
            ctx.x -= 1
            if ctx.x <= 0:
                return grad
            with torch.enable_grad():
                Deep.apply(ctx.x.requires_grad_()).sum().backward()
            return grad

    x = torch.tensor(1500.0, requires_grad=True)
    Deep.apply(x).backward()
    return x.grad


@scenario
def grad_mode_in_hooks_and_functions(torch):
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(torch.is_grad_enabled())
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            seen.append(torch.is_grad_enabled())
            return grad

    x = leaf(torch, 1)
    x.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    Look.apply(x).backward()
    Look.apply(x).backward(create_graph=True)
    return seen


@scenario
def order_by_sequence(torch):
    log = []
    x = leaf(torch, 1)
    a = x * 2
    b = x * 3
    c = a.exp()
    for name, t in (("a", a), ("b", b), ("c", c)):
        t.grad_fn.register_hook(lambda *_, name=name: log.append(name))
    (c + b).backward()
    return log


@scenario
def chains_of_a_million(torch):
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(1_000_000 if torch.__name__ == "flambeau" else 1000):
        y = y + 0
    y.backward()
    first = x.grad
    del y
    for _ in range(300_000):
        x = x.view(1)
    del x
    return first


@scenario
def inference_tensors(torch):
    with torch.inference_mode():
        t = torch.ones(2)
        view = t[:1]
    x = torch.ones(2, requires_grad=True)
    normal = torch.ones(2)
    with torch.inference_mode():
        made = x * 2
        alias = normal.view(2)
    found = [
        t.is_inference(),
        view.is_inference(),
        made.is_inference(),
        alias.is_inference(),
        made.requires_grad,
    ]
    return [
        *found,
        raised("Inference tensors cannot be saved", lambda: x * t),
        raised("Inplace update to inference tensor", t.add_, 1),
        raised("requires_grad=True on", t.requires_grad_),
        raised("Inference tensors do not", lambda: t._version),
        (x + t).requires_grad,
        raised("", alias.add_, 1),
    ]


@scenario
def anomaly_mode_finds_nan(torch):
    x = leaf(torch, 0)

    def run(check_nan):
        with torch.autograd.detect_anomaly(check_nan=check_nan):
            (x.sqrt() * 0).backward()

    return [
        raised("Function 'SqrtBackward0' returned nan values in its 0th output", run, True),
        raised("", run, False),
        warned("Anomaly Detection has been enabled", lambda: torch.autograd.detect_anomaly()),
        torch.is_anomaly_enabled(),
        torch.is_anomaly_check_nan_enabled(),
    ]


@scenario
def anomaly_mode_shows_the_forward_call(torch):
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("here")

    x = leaf(torch, 1)

    def the_forward_call():
        return Failing.apply(x)

    def run():
        with torch.autograd.detect_anomaly():
            y = the_forward_call()
            try:
                y.backward()
            except ValueError:
                pass

    text = []
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    for w in caught:
        text.append(str(w.message))
    joined = "".join(text)
    return [
        "Error detected in FailingBackward" in joined,
        "Traceback of forward call" in joined,
        "the_forward_call" in joined,
    ]


@scenario
def anomaly_mode_shows_the_creator(torch):
    import warnings

    x = leaf(torch, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            y = (x**1.5).sum()
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            found = raised("nan", lambda: (g.sqrt() * 0).backward())
    joined = "".join(str(w.message) for w in caught)
    return [found, "Error detected in" in joined]


@scenario
def anomaly_mode_names_the_node_that_made_a_node(torch):
    import warnings

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, grad):
            return grad.clone()

        @staticmethod
        def backward(ctx, grad):
            raise ValueError("second pass")

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return Inner.apply(grad)

    def the_forward_call(x):
        return Outer.apply(x)

    x, w = leaf(torch, 1), leaf(torch, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            (g,) = torch.autograd.grad(the_forward_call(x) * w, x, create_graph=True)
            found = raised("second pass", g.backward)
    joined = "".join(str(w.message) for w in caught)
    return [found, "InnerBackward" in joined, "OuterBackward" in joined, "the_forward_call" in joined]


@scenario
def set_detect_anomaly_as_function(torch):
    torch.autograd.set_detect_anomaly(True)
    on = torch.is_anomaly_enabled()
    torch.autograd.set_detect_anomaly(False)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        inner = [torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()]
    return [on, inner, torch.is_anomaly_enabled()]


NAMED = """
x**2; x**3; x**2.5; x + 1; x - 1; x * 2; x / 2; -x; x.abs(); x.exp(); x.log(); x.sin(); x.square(); x.sqrt()
x.rsqrt(); x.reciprocal(); x.sum(); x.sum(0); x.mean(); x.mean(0); x.t(); x.T; x[0]; x[0:1]; x[[0]]
x.view(4); x.expand(3, 2, 2); x.transpose(0, 1); x.permute(1, 0); x.unsqueeze(0); x @ x; x.mm(x); x.mv(x[0])
x[None].bmm(x[None]); x.relu(); x.tanh(); x.sigmoid(); f.gelu(x); f.silu(x); f.leaky_relu(x); f.softplus(x)
f.elu(x); x.softmax(0); x.log_softmax(0); x.clone(); x.max(0)[0]; x.prod(); x.std(); x.var(); x.norm()
x.cumsum(0); torch.cat([x, x]); torch.stack([x, x]); x.unbind(0)[0]; x.flatten(); x.where(x > 0, x); x.float()
x.index_select(0, torch.tensor([0])); x.gather(0, torch.zeros(1, 2, dtype=torch.int64)); x.tril(); x.triu()
x.diagonal(); x.flip(0); x.roll(1); f.linear(x, x); f.linear(x, x, x[0]); f.embedding(torch.tensor([0]), x)
torch.addmm(x, x, x); x.logsumexp(0); x.sort()[0]; x.topk(1)[0]; torch.atan2(x, x); torch.maximum(x, x)
x.reshape(4); x.erf()
"""


@scenario
def names_of_nodes(torch):
    x = torch.full((2, 2), 0.5, dtype=torch.float64, requires_grad=True)
    scope = {"torch": torch, "x": x, "f": torch.nn.functional}
    expressions = NAMED.strip().replace("\n", "; ").split("; ")
    return [(e, eval(e, scope).grad_fn.name()) for e in expressions]


test_as_in_pytorch = scenario.test()
