"""Names that PyTorch has for what is trivial here, compared with PyTorch."""

from __future__ import annotations

import copy
import importlib
import pickle
import tempfile
from pathlib import Path

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


@scenario
def keywords_of_numpy(torch):
    x = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    sums = [torch.sum(x, axis=0, keepdims=True), x.mean(axis=1), torch.max(x, axis=0).values]
    plain = [torch.sin(x=x), torch.exp(a=x), torch.add(x1=x, x2=x), x.mul(x2=x), torch.cat((x, x), axis=1)]
    refused = raised("x2", torch.sin, x2=x)[0]
    return [sums, plain, refused]


@scenario
def products_of_groups(torch):
    product = torch.nn.functional.grouped_mm
    a, b = torch.arange(96.0).reshape(6, 16) / 64, torch.arange(256.0).reshape(2, 16, 8) / 64
    ends = torch.tensor([2, 6], dtype=torch.int32)
    a.requires_grad_()
    rows = product(a, b, offs=ends)
    (rows * 2).sum().backward()  # PyTorch refuses an expanded gradient
    wide = product(
        b.mT, torch.arange(256.0).reshape(16, 16) / 64, offs=torch.tensor([8, 16], dtype=torch.int32)
    )
    inner = product(a.mT[:, :4] * 1, a[:4] * 1, offs=torch.tensor([0, 4], dtype=torch.int32))
    each = product(b.mT.contiguous(), b)
    return [rows, a.grad, wide, inner, each, raised("2d", product, a, b)]


@scenario
def gradients_by_name(torch):
    x, y = (torch.tensor([v], requires_grad=True) for v in (2.0, 3.0))
    found = torch.autograd.grad((x * y).sum(), {"x": x, "y": y})
    first = torch.autograd.grad((x * y).sum(), x, None, None, False, True, True)
    return [{k: v.tolist() for k, v in found.items()}, first]


@scenario
def memory_of_others(torch):
    x = torch.arange(3.0)
    shared, copied = torch.from_dlpack(x), torch.from_dlpack(x, copy=True)
    x[0] = 5.0
    made = torch.testing.make_tensor(
        (2, 3, 2, 2), dtype=torch.float32, device="cpu", memory_format=torch.channels_last
    )
    return [shared, copied, torch.from_dlpack(ext_tensor=x, device="cpu"), list(made.stride())]


@scenario
def bytes_of_tensors(torch):
    x = torch.tensor([1.0, 2.0])
    own, made = x.untyped_storage(), torch.UntypedStorage([1, 2, 3])
    own[3] = 64
    known = [
        own.tolist(),
        own.nbytes(),
        own.element_size(),
        own[2],
        made.tolist(),
        len(torch.UntypedStorage(4)),
    ]
    copy = made.clone().fill_(7)
    return [known, x, copy.tolist(), made.copy_(copy).tolist(), made[1:].tolist(), made.untyped() is made]


@scenario
def tensors_of_files(torch):
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "numbers")
        Path(place).write_bytes(b"\0\0\x80?" * 4)
        private = torch.from_file(place, size=3)
        private += 1
        whole = torch.from_file(place, shared=True, size=6, dtype=torch.int32)
        whole[5] = 9
        return [
            [private, whole, list(Path(place).read_bytes()[-8:])],
            raised("smaller than", torch.from_file, place, size=30),
            raised("unable to open", torch.from_file, place + "x", size=3),
            torch.from_file(place),
        ]


@scenario
def results_with_names(torch):
    kinds = importlib.import_module(torch.__name__ + ".return_types")
    x = torch.tensor([[1.0, 3.0], [2.0, 0.0]], dtype=torch.float64)
    found = [torch.topk(x, 1), x.max(0), torch.linalg.qr(x), x.sort(), torch.sort(x, stable=True), x.frexp()]
    types = [kinds.topk, kinds.max, kinds.linalg_qr, kinds.sort, kinds.sort, kinds.frexp]
    again = [pickle.loads(pickle.dumps(result)) for result in found]
    return [
        [type(result) is kind for result, kind in zip(found, types, strict=True)],
        [type(result) is kind for result, kind in zip(again, types, strict=True)],
        [result[1] for result in again],
        [copy.deepcopy(found[0]).values, type(copy.copy(found[1])) is kinds.max],
        raised("no attribute", getattr, kinds, "none_such"),
    ]


@scenario
def ways_of_attention(torch):
    ways = importlib.import_module(torch.__name__ + ".nn.attention")
    masks = importlib.import_module(torch.__name__ + ".nn.attention.bias")
    flags = torch.backends.cuda
    before = [flags.math_sdp_enabled(), flags.flash_sdp_enabled()]
    q, k = ((torch.arange(float(4 * n)) % 7 / 4).reshape(1, 1, n, 4) for n in (3, 5))
    with ways.sdpa_kernel(ways.SDPBackend.MATH):
        inside = [flags.math_sdp_enabled(), flags.flash_sdp_enabled()]
        attend = torch.nn.functional.scaled_dot_product_attention
        made = (masks.causal_upper_left(3, 5), masks.causal_lower_right(3, 5))
        found = [attend(q.double(), k.double(), k.double(), attn_mask=mask) for mask in made]
    after = [flags.math_sdp_enabled(), flags.flash_sdp_enabled()]
    with ways.sdpa_kernel([ways.SDPBackend.MATH, ways.SDPBackend.FLASH_ATTENTION], set_priority=True):
        both = [flags.math_sdp_enabled(), flags.flash_sdp_enabled()]
    return [before == after, inside, both, [[round(v, 6) for v in f.flatten().tolist()] for f in found]]


@scenario
def whole_numbers_for_layers(torch):
    slopes = torch.nn.PReLU(2, 3)
    layers = [torch.nn.Softplus(2, 10), torch.nn.Hardtanh(-2, 2), torch.nn.ELU(2), torch.nn.LayerNorm(2, 1)]
    x = torch.tensor([[-3.0, 0.5], [1.5, 4.0]], dtype=torch.float64)
    found = [layer.double()(x) for layer in [slopes, *layers]]
    return [str(slopes.weight.dtype).split(".")[1], slopes.weight, found, [repr(layer) for layer in layers]]


@scenario
def factories_that_write_to_a_tensor(torch):
    made = {
        "zeros": (3,), "ones": (2, 2), "full": ((3,), 2.5), "eye": (2,), "linspace": (0, 4, 3),
        "arange": (0, 4, 1.5), "logspace": (0, 2, 3), "range": (0, 3, 1),
    }  # fmt: skip
    found = []
    for name, arguments in made.items():
        for dtype in (torch.int64, torch.float64, torch.float16):
            out = torch.empty(0, dtype=dtype)
            result = getattr(torch, name)(*arguments, out=out)
            found.append([name, str(dtype).split(".")[1], result is out, out])
    whole = torch.empty(0, dtype=torch.int64)
    return [found, raised("step must be nonzero", torch.arange, 0, 64, 0.5, out=whole)]


test_as_in_pytorch = scenario.test()
