"""Names that PyTorch has for what is trivial here, compared with PyTorch."""

from __future__ import annotations

import importlib

from sides import Scenarios, raised

scenario = Scenarios()


@scenario
def kinds_of_tensors(torch):
    x = torch.ones(2, 3)
    kinds = "ipu maia mkldnn mps mtia nested sparse_csr vulkan xla xpu".split()
    flags = [getattr(x, f"is_{kind}") for kind in kinds]
    known = [x.name, x.volatile, x.dense_dim(), x.sparse_dim(), x.is_pinned(), torch.is_inference(x)]
    return [flags, known, x.to_dense().tolist(), x.const_data_ptr() == x.data_ptr()]


@scenario
def arithmetic_of_sizes(torch):
    whole = [torch.sym_max(1, 2), torch.sym_min(1, 2), torch.sym_int(2.7), torch.sym_not(0)]
    mixed = [torch.sym_max(1, 2.0), torch.sym_min(1, 2.0), torch.sym_float(3), torch.sym_sqrt(9)]
    return [
        whole,
        mixed,
        [type(v).__name__ for v in mixed],
        torch.sym_sum([1, 2, 3]),
        torch.sym_ite(True, 1, 2),
    ]


@scenario
def functions_in_place(torch):
    x = torch.ones(2, 3, requires_grad=True) * 2
    torch.detach_(x)
    y = torch.addmv_(torch.ones(2), x, torch.ones(3))
    z = [f(x, 0.5, False).tolist() for f in (torch.alpha_dropout_, torch.feature_dropout_)]
    dropped = torch.feature_alpha_dropout_(x, 0.0, True) is x
    return [x.requires_grad, y.tolist(), z, dropped, torch.row_stack((x, x)).tolist()]


@scenario
def norms_of_rows(torch):
    x = torch.arange(6.0).reshape(3, 2)
    norms = [torch.norm_except_dim(x, 2, d).tolist() for d in (0, 1, -1)]
    torch.embedding_renorm_(x, torch.tensor([[0, 2], [2, 0]]), 1.0, 2.0)
    return [norms, [round(v, 5) for v in x.flatten().tolist()]]


@scenario
def gradients_of_convolutions(torch):
    grad = importlib.import_module(torch.__name__ + ".nn.grad")
    out = []
    for dims in (1, 2, 3):
        x = torch.arange(2.0 * 5**dims).reshape(1, 2, *[5] * dims)
        w = torch.ones(4, 1, *[3] * dims)
        g = torch.ones(1, 4, *[3] * dims)
        options = {"stride": 2, "padding": 1, "groups": 2}
        out.append(getattr(grad, f"conv{dims}d_input")(x.shape, w, g, **options).tolist())
        out.append(getattr(grad, f"conv{dims}d_weight")(x, w.shape, g, **options).tolist())
    return out


@scenario
def data_sets_together(torch):
    data = importlib.import_module(torch.__name__ + ".utils.data")
    a = data.TensorDataset(torch.arange(3))
    pairs, named = data.StackDataset(a, [4, 5, 6]), data.StackDataset(x=[1, 2, 3], y=[4, 5, 6])

    class Numbers(data.IterableDataset):
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return iter(range(self.n))

        def __len__(self):
            return self.n

    chain = data.ChainDataset([Numbers(2), Numbers(3)])
    return [
        [pairs[1][1], named[2], len(pairs), named.__getitems__([0, 2])],
        [list(chain), len(chain), list(Numbers(1) + Numbers(2))],
        raised("Size mismatch", data.StackDataset, [1], [1, 2]),
        raised("At least one", data.StackDataset),
        raised("IterableDataset", list, data.ChainDataset([[1]])),
        data.default_convert({"a": (1, "b"), "c": [2.0]}),
    ]


@scenario
def layouts_of_networks(torch):
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.Linear(2, 2)).to(
        memory_format=torch.channels_last
    )
    other = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.Conv3d(2, 3, 2))
    torch.nn.utils.convert_conv2d_weight_memory_format(other, torch.channels_last)
    torch.nn.utils.convert_conv3d_weight_memory_format(other, torch.channels_last_3d)
    return [list(net[0].weight.stride()), *(list(layer.weight.stride()) for layer in other)]


@scenario
def norms_of_empty_matrices(torch):
    out = []
    for shape in ((0, 3), (3, 0), (2, 0, 3)):
        for order in (1, -1, 2, -2, float("inf"), -float("inf"), "nuc", "fro"):
            try:
                out.append(torch.linalg.matrix_norm(torch.zeros(shape), order).tolist())
            except (IndexError, RuntimeError) as error:
                out.append(type(error).__name__)
    return out


test_as_in_pytorch = scenario.test()
