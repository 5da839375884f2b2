"""Operators of strided tensors on tensors of layout sparse_coo, as in PyTorch."""

import warnings

from sides import Scenarios, raised

scenario = Scenarios()
PLACES = [[0, 1, 1, 0], [2, 0, 2, 2]]
KEEP_ZERO = (
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p "
    "nan_to_num neg positive rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh trunc"
).split()


def sample(torch, dtype="float64"):
    values = torch.tensor([0.3, -0.4, 0.5, -0.1], dtype=torch.float64).to(getattr(torch, dtype))
    return torch.sparse_coo_tensor(torch.tensor(PLACES), values, (2, 3))


def hybrid(torch):
    values = torch.arange(8.0, dtype=torch.float64).reshape(4, 2)
    return torch.sparse_coo_tensor(torch.tensor(PLACES), values, (2, 3, 2))


def dense(torch):
    return torch.arange(6.0, dtype=torch.float64).reshape(2, 3) + 1


def shown(x):
    """The layout, its numbers of dimensions, the dtype and the elements."""
    if isinstance(x, tuple | list):
        return [shown(item) for item in x]
    kind = str(x.dtype).rpartition(".")[2]
    if not x.is_sparse:
        return ["strided", kind, list(x.shape), x]
    return [kind, list(x.shape), x.sparse_dim(), x.dense_dim(), x.to_dense()]


@scenario
def functions_that_keep_zero(torch):
    found = []
    for name in KEEP_ZERO:
        x = sample(torch)
        result = getattr(torch, name)(x)
        found.append([name, shown(result), result.is_coalesced() or name in ("neg", "positive")])
        if hasattr(x, name + "_") and name not in ("positive", "square", "nan_to_num"):
            written = x.coalesce()
            getattr(written, name + "_")()
            found[-1].append(shown(written))
    out = torch.sparse_coo_tensor((2, 3), dtype=torch.float64)
    torch.sin(sample(torch), out=out)
    torch.mul(sample(torch), 2, out=torch.sparse_coo_tensor((2, 3), dtype=torch.float64))
    return [*found, shown(out)]


@scenario
def powers_and_quotients(torch):
    x, y = sample(torch), sample(torch).abs()
    number = torch.tensor(2.0, dtype=torch.float64)
    made = [y**2, y**0.5, torch.pow(x, 3), x / number, torch.div(x, 0.1, rounding_mode="floor"), x // 0.1]
    made += [torch.div(x, 0.1, rounding_mode="trunc"), x.double() * 3, sample(torch, "int64") / 2]
    return [shown(m) for m in made]


@scenario
def powers_that_are_refused(torch):
    x = sample(torch)
    return [raised("", lambda: x**0)[0] in ("RuntimeError", "NotImplementedError")] + [
        raised("", getattr(torch, name), x)[0] for name in "exp cos sigmoid log cosh digamma erfc".split()
    ]


@scenario
def products_with_what_broadcasts(torch):
    x, h = sample(torch), hybrid(torch)
    row = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    column = torch.tensor([[2.0], [5.0]], dtype=torch.float64)
    pair = torch.tensor([10.0, 100.0], dtype=torch.float64)
    made = [x * row, row * x, x * column, x * row[:1], x * dense(torch), dense(torch) * x, h * pair, h * h]
    into = dense(torch).mul_(x)
    out = torch.mul(x, x, out=torch.sparse_coo_tensor((2, 3), dtype=torch.float64))
    return [[shown(m) for m in made], into, shown(out), raised("", lambda: x * torch.ones(4))[0]]


@scenario
def dimensions(torch):
    x, h = sample(torch), hybrid(torch)
    made = [
        x.permute(1, 0),
        h.permute(1, 0, 2),
        x.T,
        x.mT,
        x.H,
        x.adjoint(),
        x.movedim(0, 1),
        x.swapaxes(0, 1),
    ]
    made += [x.unsqueeze(0), x.unsqueeze(1), x.unsqueeze(-1), h.unsqueeze(3), h.unsqueeze(2), h.unsqueeze(0)]
    made += [x[0], x[-1], x[:, 0], x[..., 2], x[None], x.select(1, 2), h.select(2, 1), h.select(0, 1), h[1]]
    made += [x[0, 2], x[1][0], h[0, 2], x.unbind(), x.unbind(1), list(x), list(h)]
    made += [torch.narrow_copy(x, 0, 1, 1), torch.narrow_copy(x, 1, 1, 2), torch.narrow_copy(h, 2, 1, 1)]
    y = sample(torch)
    y.t_()
    one = torch.sparse_coo_tensor([[2]], [5.0], (4,))
    errors = [raised("", lambda: x[2])[0], raised("", x.select, 2, 0)[0], raised("", x.permute, 0, 0)[0]]
    mixed = raised("", h.permute, 2, 0, 1)
    return [[shown(m) for m in made], shown(y), one[2], one[1], errors, mixed[0]]


@scenario
def gathered_and_joined(torch):
    x, h = sample(torch), hybrid(torch)
    index = torch.tensor([1, 0, 1])
    made = [x.index_select(0, index), x.index_select(1, index), h.index_select(2, torch.tensor([1, 1, 0]))]
    made += [x.index_select(1, torch.tensor([], dtype=torch.int64)), h.index_select(0, index)]
    made += [torch.cat([x, x]), torch.cat([x, x.coalesce()], 1), torch.cat([h, h], 2), torch.cat([h, h], -3)]
    made += [torch.stack([x, x]), torch.stack([x, x], 1), torch.hstack([x, x]), torch.vstack([x, x])]
    errors = [
        raised("", torch.cat, [x, dense(torch)])[0],
        raised("", x.index_select, 0, torch.tensor([2]))[0],
    ]
    return [[shown(m) for m in made], errors]


@scenario
def sums_and_norms(torch):
    x, h = sample(torch), hybrid(torch)
    flags = torch.sparse_coo_tensor(PLACES, [True, False, True, True], (2, 3))
    made = [x.sum(0), x.sum(1), x.sum([0, 1]), x.sum(0, keepdim=True), x.sum([0, 1], keepdim=True)]
    made += [
        h.sum(2),
        h.sum([0, 2]),
        h.sum(0),
        h.sum([0, 1, 2]),
        sample(torch, "int32").sum(0),
        h.sum([0, 1]),
    ]
    made += [x.sum(0, dtype=torch.float32), torch.sparse.sum(x, 0), torch.sparse.sum(h, [0, 1])]
    made += [x.norm(), x.norm(1), x.norm(0), x.norm(3), x.any(), h.norm(), flags.any()]
    return [shown(m) for m in made]


@scenario
def batches_of_matrices(torch):
    x = sample(torch)
    batch = torch.stack([x, x * 2])
    other = torch.arange(12.0, dtype=torch.float64).reshape(2, 3, 2)
    weight = torch.arange(12.0, dtype=torch.float64).reshape(4, 3)
    linear = torch.nn.functional.linear
    made = [torch.bmm(batch, other), torch.mv(x, weight[0]), weight[:2, 0] @ x]
    made += [torch.addmm(weight[:2, :2], x, other[0], beta=2, alpha=3)]
    made += [linear(x, weight), torch.hspmm(x, other[0]).to_dense()]
    made += [torch.mm(x, other[0], out=torch.empty(2, 2, dtype=torch.float64)), torch.smm(x, other[0])]
    made += [torch.dsmm(x, other[0]), torch.hsmm(x, other[0]), torch.spmm(x, other[0])]
    made += [torch.sspaddmm(weight[:2, :2].to_sparse(), x, other[0], beta=2, alpha=3)]
    return [shown(m) for m in made]


@scenario
def zeros_numbers_and_truth(torch):
    x = sample(torch)
    one = torch.tensor([2.0]).to_sparse()
    made = [torch.zeros_like(x), torch.zeros_like(x, layout=torch.strided), torch.zeros_like(hybrid(torch))]
    made += [torch.zeros_like(x, dtype=torch.int64), torch.nn.functional.dropout(x, 0.0), x.real]
    numbers = [
        one.item(),
        float(torch.tensor(2.0).to_sparse()),
        bool(one),
        int(one),
        x.stride(),
        x.storage_offset(),
    ]
    errors = [raised("", call)[0] for call in (x.item, x.data_ptr, lambda: x.nbytes, x.share_memory_)]
    errors.append(raised("", lambda: x.__setitem__(0, 1.0))[0] in ("TypeError", "NotImplementedError"))
    return [[shown(m) for m in made], numbers, errors, x.is_contiguous(), torch.empty_like(x).shape[0]]


@scenario
def sizes_that_change(torch):
    x = sample(torch)
    x.sparse_resize_((3, 3), 2, 0)
    y = sample(torch).sparse_resize_and_clear_((4, 5, 2), 2, 1)
    z = torch.sparse_coo_tensor((1, 1), dtype=torch.float64)
    z.copy_(sample(torch))
    e = torch.sparse_coo_tensor((2, 3)).sparse_resize_((5, 2), 1, 1)
    smaller = raised("", sample(torch).sparse_resize_, (1, 3), 2, 0)
    other = raised("", sample(torch).sparse_resize_, (2, 3), 1, 1)
    claimed = sample(torch)._coalesced_(True)
    return [
        shown(x),
        shown(y),
        shown(z),
        shown(e),
        smaller[0],
        other[0],
        claimed.is_coalesced(),
        claimed._nnz(),
    ]


@scenario
def lists_of_tensors(torch):
    x = sample(torch)
    doubled = torch._foreach_mul([x, x], 2.0)
    total = torch._foreach_add([dense(torch)], [x])
    return [shown(doubled), shown(total)]


@scenario
def gradients(torch):
    found = []
    uses = [
        lambda x: x.sum(),
        lambda x: x.relu(),
        lambda x: x * dense(torch),
        lambda x: x * x,
        lambda x: x / 2,
        lambda x: dense(torch) + x,
        lambda x: torch.stack([x, x]),
        lambda x: x.permute(1, 0),
        lambda x: x.abs(),
        lambda x: torch.bmm(torch.stack([x, x]), torch.ones(2, 3, 2, dtype=torch.float64)),
        lambda x: x**2,
        lambda x: x.square(),
        lambda x: x.double(),
        lambda x: x.clone(),
        lambda x: x.sparse_mask(x.coalesce().detach()),
        lambda x: torch.sparse.addmm(torch.ones(2, 2).double(), x, torch.ones(3, 2).double()),
        lambda x: x @ torch.ones(3, dtype=torch.float64),
        lambda x: torch.sparse.mm(x, x.t()),
    ]
    for use in uses:
        values = torch.tensor([0.3, 0.4, 0.5, -0.1], dtype=torch.float64, requires_grad=True)
        result = use(torch.sparse_coo_tensor(torch.tensor(PLACES), values, (2, 3)))
        result = result.to_dense() if result.is_sparse else result
        (result * result).sum().backward()
        found.append(values.grad)
    return found


@scenario
def gradients_of_leaves(torch):
    found = []
    factor = torch.arange(6.0, dtype=torch.float64).reshape(2, 3).requires_grad_()
    (sample(torch) * factor).to_dense().sum().backward()
    found.append(factor.grad.to_dense())
    leaf = torch.nn.Parameter(sample(torch).coalesce())
    (leaf * 2).to_dense().pow(2).sum().backward()
    found += [leaf.grad.is_sparse, leaf.grad.to_dense(), leaf.is_sparse]
    strided = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    strided.grad = sample(torch)
    return [*found, strided.grad.is_sparse]


@scenario
def warnings_of_none(torch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return shown(sample(torch).coalesce().sin())


test_as_in_pytorch = scenario.test()
