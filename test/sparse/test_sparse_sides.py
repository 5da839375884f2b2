"""Tensors of layout sparse_coo: construction, arithmetic, products, gradients, as in PyTorch."""

import copy
import io
import pickle

from sides import Scenarios, raised

scenario = Scenarios()
PLACES = [[0, 1, 1, 0], [2, 0, 2, 2]]


def parts(x):
    """All that a sparse tensor shows of itself."""
    kind = str(x.dtype).rpartition(".")[2]
    known = [kind, list(x.shape), x.sparse_dim(), x.dense_dim(), x._nnz(), x.is_coalesced(), x.requires_grad]
    return [*known, x._indices(), x._values()]


def sample(torch, grad=False):
    values = torch.tensor([3.0, 4.0, 5.0, -1.0], dtype=torch.float64, requires_grad=grad)
    return values, torch.sparse_coo_tensor(torch.tensor(PLACES), values, (2, 3))


def hybrid(torch):
    values = torch.arange(8.0, dtype=torch.float64).reshape(4, 2)
    return torch.sparse_coo_tensor(torch.tensor(PLACES), values, (2, 3, 2))


@scenario
def construction(torch):
    values = [3.0, 4.0, 5.0, -1.0]
    made = [
        torch.sparse_coo_tensor(PLACES, values, (2, 3)),
        torch.sparse_coo_tensor(PLACES, values),
        torch.sparse_coo_tensor(torch.tensor(PLACES), torch.tensor(values), (4, 4), dtype=torch.float64),
        torch.sparse_coo_tensor(torch.tensor(PLACES, dtype=torch.int32), torch.tensor([1, 2, 3, 4]), (2, 3)),
        torch.sparse_coo_tensor(torch.empty(2, 0, dtype=torch.int64), torch.empty(0), (2, 3)),
        torch.sparse_coo_tensor((2, 3)),
        torch.sparse_coo_tensor(torch.empty(2, 0, dtype=torch.int64), torch.empty(0, 4), (0, 3, 4)),
        torch.sparse_coo_tensor(PLACES, values, (2, 3), requires_grad=True),
        torch.sparse_coo_tensor([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (2, 2), is_coalesced=True),
        torch.sparse.FloatTensor(torch.tensor(PLACES), torch.tensor(values), torch.Size([2, 3])),
    ]
    x = made[0]
    kinds = [x.is_sparse, x.layout == torch.sparse_coo, torch.ones(1).layout == torch.strided, x.numel()]
    names = [x.type().partition(".")[2], isinstance(x, torch.sparse.FloatTensor), isinstance(x, torch.Tensor)]
    return [*map(parts, made), kinds, names]


@scenario
def construction_that_fails(torch):
    def make(indices, values, size=None, **more):
        return lambda: torch.sparse_coo_tensor(indices, values, size, check_invariants=True, **more)

    one = torch.ones(2)
    return [
        raised("", make([[0, 1], [1, 0]], torch.ones(3), (2, 2))),
        raised("", make([[0, 1], [1, 0]], one, (2,))),
        raised("", make([[0, 1], [1, 0]], one, (2, 2, 2))),
        raised("", make([[0, 1], [1, 0]], torch.ones(2, 3), (2, 2, 4))),
        raised("", make(torch.zeros(2, 2, 2, dtype=torch.int64), one, (2, 2))),
        raised("found negative index", lambda: torch.sparse_coo_tensor([[0, -1], [1, 0]], one)),
        raised("overflow", lambda: torch.sparse_coo_tensor([[0], [0]], [1.0], (2**40, 2**40))),
    ]


@scenario
def taking_apart(torch):
    _, x = sample(torch)
    y = x.coalesce()
    dense = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 3.0]], dtype=torch.float64)
    back = dense.to_sparse()
    deep = torch.arange(12.0).reshape(2, 3, 2)
    found = [parts(x), parts(y), y.indices(), y.values(), x.to_dense(), y.coalesce() is y, parts(back)]
    found += [
        parts(deep.to_sparse(1)),
        parts(deep.to_sparse(2)),
        parts(deep.to_sparse()),
        hybrid(torch).to_dense(),
    ]
    found += [parts(hybrid(torch).coalesce()), x.is_coalesced(), dense.to_dense() is dense]
    found += [raised("uncoalesced tensor", x.indices), raised("uncoalesced tensor", x.values)]
    found += [parts(dense.sparse_mask(y)), dense.sparse_dim(), dense.dense_dim()]
    flags = torch.sparse_coo_tensor(PLACES, [True, False, True, True], (2, 3))
    return [*found, flags.to_dense(), parts(flags.coalesce())]


@scenario
def arithmetic(torch):
    _, x = sample(torch)
    y, h = x.coalesce(), hybrid(torch)
    dense = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    number = torch.tensor(2.0, dtype=torch.float64)
    made = [x + x, y + y, y - x, x * 2, 2 * x, x / 4, -x, y * y, y * number, y * dense, h + h, h * 3, y.abs()]
    strided = [dense + x, torch.add(dense, x, alpha=-2), dense - x]
    z = x.clone()
    z += y
    z *= 3
    w = dense.clone()
    w += x
    w.add_(x, alpha=0.5)
    v = x.clone()
    v.zero_()
    u = torch.sparse_coo_tensor((2, 3), dtype=torch.float64)
    u.copy_(x)
    return [
        [t.to_dense() for t in (*made, z, v, u)],
        strided,
        w,
        x.sum(),
        h.sum(),
        x.sum(dtype=torch.float32),
    ]


@scenario
def dtypes_and_copies(torch):
    _, x = sample(torch)
    c = torch.sparse_coo_tensor(PLACES, torch.tensor([1j, 2, 3 - 1j, 4]), (2, 3))
    same = [x.to(torch.float64) is x, x.cpu() is x, x.detach().is_sparse]
    made = [
        x.float(),
        x.to(torch.int64),
        x.half(),
        x.clone(),
        x.detach(),
        x.double(),
        x.to("cpu", torch.float32),
    ]
    z = x.detach()
    z._values()[0] = 100.0
    return [*map(parts, made), same, x._values(), c.conj().to_dense(), c.t().to_dense(), (c * 1j).to_dense()]


@scenario
def dimensions(torch):
    _, x = sample(torch)
    h = hybrid(torch)
    made = [x.t(), x.transpose(0, 1), x.transpose(-1, 0), h.transpose(0, 1), h.transpose(-3, 1)]
    return [[m.to_dense() for m in made], [list(m.shape) for m in made], len(x), x.dim(), x.size(1)]


@scenario
def products(torch):
    _, x = sample(torch)
    dense = torch.arange(12.0, dtype=torch.float64).reshape(3, 4) - 5
    vector = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    other = torch.tensor([[0.0, 2.0], [1.0, 0.0], [0.0, 3.0]], dtype=torch.float64).to_sparse()
    ints = torch.sparse_coo_tensor(PLACES, [1, 2, 3, 4], (2, 3))
    plus = torch.ones(2, 4, dtype=torch.float64)
    empty = torch.sparse_coo_tensor((2, 3), dtype=torch.float64)
    return [
        torch.mm(x, dense), x @ dense, torch.matmul(x, dense), torch.sparse.mm(x, dense),
        torch.spmm(x, dense),
        x.matmul(vector), x.mv(vector), (x @ other).to_dense(), torch.sparse.mm(x, other).to_dense(),
        torch.addmm(plus, x, dense), torch.sparse.addmm(plus, x, dense, beta=2, alpha=3), empty @ dense,
        ints @ torch.arange(6).reshape(3, 2), x.float() @ dense.float(), (x * 1j) @ (dense + 0j),
        raised("", lambda: x @ dense.t()), raised("", lambda: x @ dense.float()),
    ]  # fmt: skip


@scenario
def sums_and_softmax(torch):
    _, x = sample(torch)
    h = hybrid(torch)
    sums = [torch.sparse.sum(x), torch.sparse.sum(h, (0, 1)), torch.sparse.sum(x, (0, 1))]
    some = [
        torch.sparse.sum(x, 0),
        torch.sparse.sum(x, [1]),
        torch.sparse.sum(h, [0, 2]),
        torch.sparse.sum(h, -1),
    ]
    soft = [torch.sparse.softmax(x, 0), torch.sparse.softmax(x, 1), torch.sparse.log_softmax(x, 1)]
    soft += [torch.sparse.softmax(h, 1), torch.sparse.softmax(h, 2), torch.sparse.softmax(h, 0)]
    return [sums, [s.to_dense() for s in some], [s.to_dense() for s in soft], some[0].is_sparse]


@scenario
def gradients_through_values(torch):
    dense = torch.arange(12.0, dtype=torch.float64).reshape(3, 4).requires_grad_()
    found = []
    uses = [
        lambda x: torch.sparse.mm(x, dense), lambda x: x @ dense, lambda x: x.to_dense() ** 2,
        lambda x: (x * 3).to_dense().exp(), lambda x: (-x + x + x).to_dense() ** 3,
        lambda x: x.t().to_dense() ** 2,
        lambda x: x.coalesce().values() ** 2, lambda x: torch.sparse.softmax(x, 1).to_dense() ** 2,
        lambda x: torch.sparse.sum(x, 1).to_dense() ** 2, lambda x: (x / 2).float().to_dense() ** 2,
        lambda x: torch.sparse.sum(x) ** 2,
    ]  # fmt: skip
    for use in uses:
        values, x = sample(torch, grad=True)
        dense.grad = None
        use(x).sum().backward()
        found.append([values.grad, dense.grad is None or dense.grad])
    return found


@scenario
def gradients_of_sparse_leaves(torch):
    dense = torch.arange(12.0, dtype=torch.float64).reshape(3, 4).requires_grad_()
    leaf = sample(torch)[1].coalesce().requires_grad_()
    torch.sparse.mm(leaf, dense).pow(2).sum().backward()
    first = [leaf.grad.is_sparse, leaf.grad.to_dense(), dense.grad]
    leaf.grad = None
    leaf.to_dense().pow(2).sum().backward()
    second = [leaf.grad.is_sparse, leaf.grad.to_dense(), leaf.is_leaf, leaf.grad_fn is None]
    x = torch.tensor([[0.0, 2.0], [3.0, 0.0]], dtype=torch.float64, requires_grad=True)
    (x.to_sparse().to_dense() ** 2).sum().backward()
    (x.to_sparse() * 2).to_dense().sum().backward()
    return [first, second, x.grad.to_dense()]


@scenario
def embeddings_have_sparse_gradients(torch):
    found = []
    index = torch.tensor([[1, 3], [3, 0]])
    for padding in (None, 3):
        layer = torch.nn.Embedding(5, 2, padding_idx=padding, sparse=True, dtype=torch.float64)
        weight = torch.arange(10.0, dtype=torch.float64).reshape(5, 2)
        layer.weight.data.copy_(weight)
        layer(index).pow(2).sum().backward()
        g = layer.weight.grad
        found += [g.is_sparse, g._nnz(), list(g.shape), g.to_dense(), repr(layer)]
        layer(index).sum().backward()
        found += [layer.weight.grad.is_sparse, layer.weight.grad.to_dense()]
        layer.weight.sum().backward()
        found += [layer.weight.grad.is_sparse, layer.weight.grad.to_dense()]
        layer(index).sum().backward()
        found += [layer.weight.grad.is_sparse, layer.weight.grad.to_dense()]
        layer.zero_grad(set_to_none=False)
        found.append(layer.weight.grad.to_dense())
    both = torch.arange(10.0, dtype=torch.float64).reshape(5, 2).requires_grad_()
    looked = torch.nn.functional.embedding(index, both, sparse=True).sum() + (both**2).sum()
    looked.backward()
    return [*found, both.grad.to_dense()]


@scenario
def bags_have_sparse_gradients(torch):
    found = []
    index, offsets = torch.tensor([1, 3, 3, 0, 2]), torch.tensor([0, 2, 2])
    for mode in ("sum", "mean"):
        layer = torch.nn.EmbeddingBag(5, 2, mode=mode, sparse=True, dtype=torch.float64)
        layer.weight.data.copy_(torch.arange(10.0, dtype=torch.float64).reshape(5, 2))
        out = layer(index, offsets)
        out.pow(2).sum().backward()
        found += [out, layer.weight.grad.is_sparse, layer.weight.grad.to_dense()]
    return found


@scenario
def optimizers(torch):
    found = []
    index = torch.tensor([[1, 3], [3, 0]])
    makers = [
        lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1), lambda p: torch.optim.SparseAdam(p, lr=0.1),
        lambda p: torch.optim.SparseAdam(p, lr=0.1, maximize=True),
    ]  # fmt: skip
    for make in makers:
        weight = (torch.arange(10.0, dtype=torch.float64).reshape(5, 2) / 7).requires_grad_()
        opt = make([weight])
        for step in range(4):
            opt.zero_grad()
            torch.nn.functional.embedding(index[step % 2], weight, sparse=True).pow(2).sum().backward()
            opt.step()
        found.append(weight)
    return found


@scenario
def optimizers_that_refuse(torch):
    found = []
    for name in "Adam AdamW Adadelta Adamax NAdam RAdam RMSprop Rprop".split():
        weight = torch.ones(5, 2, requires_grad=True)
        opt = getattr(torch.optim, name)([weight], foreach=False)
        torch.nn.functional.embedding(torch.tensor([1]), weight, sparse=True).sum().backward()
        found.append([name, raised("sparse gradients", opt.step)])
    weight = torch.ones(5, 2, requires_grad=True)
    opt = torch.optim.SparseAdam([weight])
    weight.sum().backward()
    found.append(raised("does not support dense gradients", opt.step))
    sparse = torch.ones(2, 2).to_sparse().requires_grad_()
    found.append(raised("SparseAdam requires dense", torch.optim.SparseAdam, [sparse]))
    return [*found, raised("Invalid learning rate", torch.optim.SparseAdam, [weight], lr=0)]


@scenario
def files_and_copies(torch):
    _, x = sample(torch)
    y = x.coalesce()
    found = []
    for source in (x, y, hybrid(torch)):
        file = io.BytesIO()
        torch.save({"x": source}, file)
        found.append(parts(torch.load(io.BytesIO(file.getvalue()))["x"]))
        found.append(parts(torch.load(io.BytesIO(file.getvalue()), weights_only=False)["x"]))
        found.append(parts(pickle.loads(pickle.dumps(source))))
    twin = copy.deepcopy(x)
    twin._values()[0] = 50.0
    found += [parts(twin), parts(x)]

    class Graph(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", y)

    state = Graph().state_dict()
    other = Graph()
    other.load_state_dict(state)
    return [*found, list(state), other.adjacency.to_dense()]


@scenario
def text(torch):
    x = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    ints = torch.sparse_coo_tensor([[0]], [3], (2,))
    leaf = x.clone().requires_grad_()
    shown = [repr(x), repr(ints), repr(torch.sparse_coo_tensor((2, 3))), repr(leaf)]
    return [s.replace("flambeau.", "torch.") for s in shown]


@scenario
def what_is_refused(torch):
    _, x = sample(torch)
    found = []
    calls = [
        lambda: x.numpy(), lambda: x.view(6), lambda: x.storage(), lambda: torch.linalg.svd(x),
        lambda: torch.fft.fft(x), lambda: x.cumsum(0),
    ]  # fmt: skip
    for call in calls:
        try:
            call()
        except Exception as error:
            found.append(isinstance(error, (RuntimeError, TypeError)))
        else:
            found.append("nothing")
    return found


test_as_in_pytorch = scenario.test()
