"""`.data`, inference tensors, hooks of saved tensors and out=: who counts, who may read, as in PyTorch."""

from __future__ import annotations

import pytest
from sides import Scenarios, leaf, raised

scenario = Scenarios()
WRITES = [
    lambda d: d.add_(1),
    lambda d: d.__setitem__(0, 2),
    lambda d: d[1:].fill_(3),
    lambda d: d.view(3).mul_(2),
    lambda d: d.detach().zero_(),
    lambda d: d.unsqueeze(0)[0].add_(1),
]


@scenario
def writes_to_data_do_not_count(torch):
    out = []
    for write in WRITES:
        w = leaf(torch, 1, 2, 3)
        y = (w * w).sum()
        data = w.data
        write(data)
        y.backward()
        out.append([w.grad, w, w._version, data._version, data[0]._version, data.data._version])
    return out


@scenario
def assigned_data_leaves_the_count_of_each(torch):
    """The tensor counts on from its own number, whatever the other memory has seen."""
    out = []
    for own_writes, other_writes in ((0, 0), (1, 3), (3, 1)):
        x, y = torch.ones(3), torch.zeros(3)
        for _ in range(own_writes):
            x.add_(1)
        for _ in range(other_writes):
            y.add_(1)
        x.data = y
        out.append([x._version, y._version])
        x.add_(1)
        x[0].mul_(2)
        out.append([x._version, y._version, x, y])
        y.add_(1)
        x.data = x
        out.append([x._version, y._version, x.data._version])
    return out


@scenario
def backward_reads_data_assigned_after_forward(torch):
    out = []
    for writes in range(3):
        w = leaf(torch, 1, 2, 3)
        y = (w * w).sum()
        other = torch.full((3,), 5.0)
        for _ in range(writes):
            other.mul_(1)
        w.data = other
        y.backward()
        out.append([w.grad, w._version])
    return out


@scenario
def views_with_other_data_keep_their_history(torch):
    """A write that the other memory has seen before is not a write to the base of the view."""
    out = []
    for numbers in ([2.0, 3.0], [5.0], [1.0] * 9):
        for dtype in (torch.float32, torch.float16):
            for is_written in (False, True):
                base = leaf(torch, 1, 1)
                view = base.reshape(-1, 1)
                data = torch.tensor(numbers).to(dtype)
                if is_written:
                    data.add_(0.5)
                view.data = data
                out += [view.is_leaf, view.requires_grad, view.grad_fn.name(), list(view.shape)]
                out.append(raised("invalid gradient", (view * 1.0).sum().backward))
                assert out[-1], "the shape of the history is that of the view before"
    return out


@scenario
def views_with_data_of_their_shape_pass_gradients_on(torch):
    base = leaf(torch, 1, 1)
    view = base.reshape(-1, 1)
    data = torch.zeros(2, 1)
    data[0] = 7.0
    view.data = data
    (view * view).sum().backward()
    return base.grad


@scenario
def data_that_is_saved_is_watched(torch):
    out = []
    for write in WRITES:
        v = leaf(torch, 1, 2, 3)
        x = leaf(torch, 1, 2, 3).data
        y = (v * x).sum()
        write(x)
        out.append(raised("modified by an inplace operation", y.backward))
    return out


@scenario
def inference_tensors_are_read(torch):
    with torch.inference_mode():
        a = torch.ones(3)
        inside = [a.numpy().tolist(), a.detach().numpy().tolist()]
    outside = [a.numpy().tolist(), a.detach().numpy().tolist(), a[1:].numpy().tolist()]
    phrase = "Inplace update to inference tensor"
    return [inside, outside, raised(phrase, a.add_, 1), a.detach().is_inference(), a.data.is_inference()]


@scenario
def numpy_needs_no_gradients_to_be_recorded(torch):
    w = leaf(torch, 1, 2)
    with torch.no_grad():
        inside = w.numpy().tolist()
    return [inside, raised("Can't call numpy() on Tensor that requires grad", w.numpy)]


@scenario
def saved_tensors_packed_as_arrays(torch):
    w = leaf(torch, 1, 2, 3)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.numpy(), torch.from_numpy):
        y = (w * w.exp()).sum()
    y.backward()
    return w.grad


@scenario
def out_and_gradients(torch):
    w, phrase = leaf(torch, 1, 2, 3), "don't support automatic differentiation"
    empty = lambda *size, **kw: torch.empty(*size, dtype=torch.float64, **kw)  # noqa: E731
    calls = [
        lambda: torch.mul(w, 2, out=empty(3)),
        lambda: torch.add(torch.ones(3).double(), 1, out=empty(3, requires_grad=True)),
        lambda: torch.cat([w, w], out=empty(6)),
        lambda: torch.clamp(w, 0, 1, out=empty(3)),
        lambda: torch.div(w, 2, rounding_mode="floor", out=empty(3)),
        lambda: torch.max(w, 0, out=(empty(()), torch.empty((), dtype=torch.int64))),
    ]
    allowed = [
        torch.argmax(w, out=torch.empty(0, dtype=torch.int64)),
        torch.eq(w, w, out=torch.empty(3, dtype=torch.bool)),
        torch.isposinf(w, out=torch.empty(3, dtype=torch.bool)),
    ]
    return [[raised(phrase, call) for call in calls], allowed]


@scenario
def factories_with_out_require_gradients(torch):
    makers = [torch.ones, torch.zeros, torch.rand, torch.randn, torch.empty]
    found = [make(3, out=torch.empty(3), requires_grad=True).requires_grad for make in makers]
    found.append(torch.arange(3, out=torch.empty(0), requires_grad=True).requires_grad)
    found.append(torch.full((2,), 1.0, out=torch.empty(2), requires_grad=True).requires_grad)
    found.append(torch.ones(3, out=torch.empty(3)).requires_grad)
    return found


@scenario
def hooks_by_keyword(torch):
    def count(tensor):
        tensor.grad.add_(1)

    w = leaf(torch, 1, 2)
    w.register_hook(hook=lambda g: g * 2)
    w.register_post_accumulate_grad_hook(hook=count)
    (w * 3).sum().backward()
    return w.grad


@scenario
def other_keywords(torch):
    x, a = torch.ones(2), [torch.ones(2), torch.ones(2) * 2]
    lists = [
        torch._foreach_add(self=a, other=a, alpha=2),
        torch._foreach_mul(self=a, scalar=3),
        torch._foreach_addcmul(self=a, tensor1=a, tensor2=a, value=2),
        torch._foreach_lerp(self=a, tensors1=a, weight=0.5),
        torch._foreach_norm(self=a, ord=2),
        torch._foreach_sqrt(self=a),
    ]
    refused = raised("", torch._foreach_abs, input=a)[0]
    return [torch.zeros(2).copy_(other=x), [list(each) for each in lists], refused]


@scenario
def no_device(torch):
    x = torch.ones(2)
    return [x.to(None) is x, x.to(None, torch.float64), x.to(device=None, dtype=None) is x]


@scenario
def equality_of_other_types(torch):
    whole, real = torch.ones(2, dtype=torch.int64), torch.ones(2)
    return [
        torch.equal(whole, real),
        torch.equal(whole, torch.ones(3)),
        real.equal(real.double()),
        torch.equal(whole * 2, real),
    ]


@scenario
def losses_without_a_reduction(torch):
    a, b = torch.tensor([[0.1, 0.7]]), torch.tensor([[0.3, 0.2]])
    results = [
        torch.kl_div(a, b),
        torch.kl_div(a, b, 1),
        torch.kl_div(a, b, reduction=2, log_target=True),
        torch.hinge_embedding_loss(a, b),
        torch.binary_cross_entropy_with_logits(a, b),
        torch.margin_ranking_loss(a, b, b),
        torch.nn.functional.kl_div(a, b),
    ]
    return [[list(r.shape), [round(v, 5) for v in r.flatten().tolist()]] for r in results]


@scenario
def lazy_clones_are_copies(torch):
    a = torch.ones(3)
    b, view = a._lazy_clone(), a[1:]
    view.add_(5)
    b.add_(1)
    return [a, b, torch._lazy_clone(a)]


test_as_in_pytorch = scenario.test()


@pytest.mark.parametrize("grad", [True, False])
def test_data_shares_memory(grad):
    import flambeau

    w = flambeau.ones(3, requires_grad=grad)
    w.data[0] = 5
    assert w.tolist() == [5, 1, 1] and w.data.data_ptr() == w.data_ptr()
