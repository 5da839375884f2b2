"""Sparse gradients of embeddings: clipping, optimizers, states, files and processes, as in PyTorch."""

import copy
import io
import pickle

import flambeau
import pytest
from oracle import pytorch
from sparse_cases import agreeing, dense, hybrid, sample


def table(t):
    return t.nn.Parameter(dense(t, 4, 2))


def look_up(t, weight, *indices, **more):
    return t.nn.functional.embedding(t.tensor(indices), weight, sparse=True, **more)


def bag(t, mode, **more):
    weight = table(t)
    starts = t.tensor([0, 2])
    made = t.nn.functional.embedding_bag(t.tensor([1, 2, 1]), weight, starts, mode=mode, sparse=True, **more)
    (made * dense(t, 2, 2)).sum().backward()
    return [weight, weight.grad]


def weighted_bag(t):
    shares = dense(t, 3).requires_grad_()
    return [*bag(t, "sum", per_sample_weights=shares), shares.grad]


def looked_up(t, *indices, **more):
    weight = table(t)
    made = look_up(t, weight, *indices, **more)
    (made * dense(t, *made.shape)).sum().backward()
    return [made.detach(), weight, weight.grad]


def clipped(t, clip, *indices):
    weight, other = table(t), t.nn.Parameter(dense(t, 2))
    (look_up(t, weight, *indices) @ other).sum().backward()
    weight.grad = weight.grad.coalesce()
    return [clip(t, weight), weight.grad]


def trained(t, make, steps=5):
    weight = table(t)
    optimizer = make(t.optim, [weight])
    for i in range(steps):
        optimizer.zero_grad()
        (look_up(t, weight, 1, 2, 1, i % 4) ** 2).sum().backward()
        if type(optimizer).__name__ == "LBFGS":
            optimizer.step(lambda: (weight**2).sum())
        else:
            optimizer.step()
    return weight


def resumed(t):
    weight = table(t)
    optimizer = t.optim.SparseAdam([weight])
    look_up(t, weight, 1).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    t.save(optimizer.state_dict(), file)
    file.seek(0)
    other = t.optim.SparseAdam([weight])
    other.load_state_dict(t.load(file))
    other.step()
    return weight


def joined(t, first, second):
    weight = table(t)
    for sparse in (first, second):
        t.nn.functional.embedding(t.tensor([1, 1, 2]), weight, sparse=sparse).sum().backward()
    return weight.grad


def sparse_parameter(t, **more):
    x = sample(t).coalesce().requires_grad_()
    optimizer = t.optim.SGD([x], lr=0.01, **more)
    for _ in range(4):
        optimizer.zero_grad()
        t.sparse.mm(x, dense(t, 3, 2)).pow(2).sum().backward()
        optimizer.step()
    return x


def through_file(t, value, **more):
    file = io.BytesIO()
    t.save(value, file)
    file.seek(0)
    return t.load(file, **more)


def module(t):
    made = t.nn.Module()
    made.register_buffer("adjacency", sample(t))
    made.weight = t.nn.Parameter(hybrid(t).coalesce())
    return made


def moved(t):
    made = module(t).float()
    other = module(t).float()
    other.adjacency.zero_()
    other.load_state_dict(made.state_dict())
    return [str(list(made.state_dict())), other.adjacency, other.weight]


def zeroed(t):
    weight = table(t)
    look_up(t, weight, 1).sum().backward()
    t.optim.SGD([weight], lr=0.1).zero_grad(set_to_none=False)
    return weight.grad


OPTIMIZERS = {
    "SGD": lambda o, p: o.SGD(p, lr=0.1),
    "SGD momentum": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9),
    "SGD nesterov": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "SGD dampening": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
    "SGD maximize": lambda o, p: o.SGD(p, lr=0.1, maximize=True),
    "SGD foreach": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "SGD fused": lambda o, p: o.SGD(p, lr=0.1, fused=True),
    "SGD weight_decay": lambda o, p: o.SGD(p, lr=0.1, weight_decay=0.1),
    "Adagrad": lambda o, p: o.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5),
    "Adagrad maximize": lambda o, p: o.Adagrad(p, lr=0.1, maximize=True),
    "Adagrad foreach": lambda o, p: o.Adagrad(p, lr=0.1, foreach=True),
    "Adagrad weight_decay": lambda o, p: o.Adagrad(p, lr=0.1, weight_decay=0.1),
    "SparseAdam": lambda o, p: o.SparseAdam(p, lr=0.1, betas=(0.5, 0.7), eps=1e-3),
    "SparseAdam maximize": lambda o, p: o.SparseAdam(p, lr=0.1, maximize=True),
    **{
        name: lambda o, p, name=name: getattr(o, name)(p)
        for name in "Adam AdamW Adamax NAdam RAdam RMSprop Rprop ASGD Adadelta Adafactor LBFGS".split()
    },
}
CASES = {
    "rows": lambda t: looked_up(t, 1, 2, 1),
    "no rows": lambda t: t.autograd.grad(
        t.nn.functional.embedding(t.zeros(0, dtype=t.int64), w := table(t), sparse=True).sum(), w
    ),
    "padding": lambda t: looked_up(t, 1, 2, 1, padding_idx=2),
    "padding from the end": lambda t: looked_up(t, 1, 2, 1, padding_idx=-2),
    "max_norm": lambda t: looked_up(t, 1, 2, 1, max_norm=1.0),
    "max_norm, order 1": lambda t: looked_up(t, 1, 3, max_norm=2.0, norm_type=1.0),
    "frequencies": lambda t: looked_up(t, 1, 2, 1, scale_grad_by_freq=True),
    "bag mean": lambda t: bag(t, "mean"),
    "bag sum": lambda t: bag(t, "sum"),
    "bag max": lambda t: bag(t, "max"),
    "bag frequencies": lambda t: bag(t, "sum", scale_grad_by_freq=True),
    "bag padding": lambda t: [*bag(t, "sum", padding_idx=1), *bag(t, "mean", padding_idx=1)],
    "bag max_norm": lambda t: bag(t, "mean", max_norm=1.0),
    "bag weighted": weighted_bag,
    "clip by value": lambda t: clipped(t, lambda t, w: t.nn.utils.clip_grad_value_([w], 1.5), 1, 2),
    "clip by value, list": lambda t: clipped(
        t, lambda t, w: t.nn.utils.clip_grad_value_([w], 1.5, foreach=True), 1, 2
    ),
    "clip with a norm": lambda t: clipped(
        t, lambda t, w: t.nn.utils.clip_grads_with_norm_([w], 0.1, t.tensor(2.0)), 1, 2
    ),
    "sparse, then strided": lambda t: joined(t, True, False),
    "strided, then sparse": lambda t: joined(t, False, True),
    "sparse, then sparse": lambda t: joined(t, True, True),
    "zeroed": zeroed,
    "sparse parameter": sparse_parameter,
    "sparse parameter, momentum": lambda t: sparse_parameter(t, momentum=0.5),
    "SparseAdam of a sparse parameter": lambda t: t.optim.SparseAdam([sample(t).requires_grad_()]),
    "resumed": resumed,
    "gradient of another layout": lambda t: setattr(w := table(t), "grad", sample(t)) or w.grad,
    "pickle": lambda t: pickle.loads(pickle.dumps([sample(t), hybrid(t).coalesce()])),
    "pickle that wants gradients": lambda t: pickle.loads(pickle.dumps(sample(t).requires_grad_())),
    "deepcopy": lambda t: [copy.deepcopy(sample(t).requires_grad_()), copy.copy(sample(t))],
    "file": lambda t: through_file(t, [sample(t), hybrid(t).coalesce()], weights_only=True),
    "file of a parameter": lambda t: through_file(t, t.nn.Parameter(sample(t))),
    "file of a state": lambda t: list(through_file(t, module(t).state_dict()).values()),
    "module": moved,
    "loader": lambda t: list(t.utils.data.DataLoader([sample(t), sample(t)], batch_size=None)),
    "loader that collates": lambda t: list(t.utils.data.DataLoader([sample(t), sample(t)], batch_size=2)),
    "loader that stacks": lambda t: list(
        t.utils.data.DataLoader([sample(t), sample(t)], batch_size=2, collate_fn=t.stack)
    ),
    **{name: lambda t, make=make: trained(t, make) for name, make in OPTIMIZERS.items()},
}
test_sparse_gradients = agreeing(CASES)


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, float("inf")])
def test_norms_of_sparse_gradients(order):
    """PyTorch has none of them: here it is that of the strided gradient."""
    torch = pytorch()
    weight, other = table(torch), torch.nn.Parameter(dense(torch, 2))
    (torch.nn.functional.embedding(torch.tensor([1, 2, 1]), weight) @ other).sum().backward()
    expected = torch.nn.utils.clip_grad_norm_([weight, other], 1.0, order)
    ours, second = table(flambeau), flambeau.nn.Parameter(dense(flambeau, 2))
    (look_up(flambeau, ours, 1, 2, 1) @ second).sum().backward()
    found = flambeau.nn.utils.clip_grad_norm_([ours, second], 1.0, order)
    assert float(found) == pytest.approx(float(expected), rel=1e-6)
    assert ours.grad.is_sparse
    for a, b in ((ours.grad.to_dense(), weight.grad), (second.grad, other.grad)):
        assert a.reshape(-1).tolist() == pytest.approx(b.reshape(-1).tolist(), rel=1e-6)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_sparse_samples_come_from_workers(batch_size):
    data = [sample(flambeau), hybrid(flambeau)[:, :, 0]] * 2
    collate = {} if batch_size is None else {"collate_fn": flambeau.stack}
    loader = flambeau.utils.data.DataLoader(data, batch_size=batch_size, num_workers=1, **collate)
    found = list(loader)
    alone = list(flambeau.utils.data.DataLoader(data, batch_size=batch_size, **collate))
    assert len(found) == len(alone) > 0
    for a, b in zip(found, alone, strict=True):
        assert a.is_sparse and a.is_coalesced() == b.is_coalesced()
        assert flambeau.equal(a.to_dense(), b.to_dense())


def test_text_of_a_sparse_parameter_is_pytorchs():
    torch = pytorch()
    for x, y in ((sample(flambeau), sample(torch)), (hybrid(flambeau).coalesce(), hybrid(torch).coalesce())):
        for change in (lambda x: x, lambda x: x.requires_grad_(), lambda x: (x * 2).float()):
            ours, theirs = repr(change(x)), repr(change(y))
            assert ours.replace("flambeau.", "torch.").split() == theirs.split()
