"""Corner values, dtypes and arguments of operators, compared with PyTorch."""

import itertools
import math

import flambeau
from sides import Scenarios, leaf, raised

scenario = Scenarios()
NAN, INF = float("nan"), float("inf")


def geometry(torch, change, shape=(2, 3)):
    """What an in-place view does: identity, geometry, memory, elements."""
    base = torch.arange(6.0)
    x = base.view(shape)
    y = change(x)
    return [y is x, list(x.shape), list(x.stride()), x.data_ptr() == base.data_ptr(), base, x, x._version]


@scenario
def in_place_views_move_nothing(torch):
    changes = [
        lambda x: x.swapaxes_(0, 1),
        lambda x: x.swapdims_(-1, 0),
        lambda x: x.transpose_(0, 1),
        lambda x: x.t_(),
        lambda x: x.unsqueeze_(1),
        lambda x: x.as_strided_((2, 2), (1, 2)),
    ]
    squeezes = [lambda x: x.squeeze_(), lambda x: x.squeeze_(1), lambda x: x.squeeze_((0, 1))]
    found = [geometry(torch, change) for change in changes]
    return found + [geometry(torch, change, (2, 1, 3)) for change in squeezes]


@scenario
def in_place_views_have_gradients(torch):
    found = []
    for name in ("swapaxes_", "swapdims_", "transpose_"):
        x = leaf(torch, 1, 2, 3, 4, 5, 6)
        y = (x * x).view(2, 3).clone()
        getattr(y, name)(0, 1)
        (y * torch.arange(6.0, dtype=torch.float64).view(3, 2)).sum().backward()
        found += [x.grad, y.shape]
    return found


@scenario
def in_place_views_under_vmap(torch):
    def twice(x):
        return x.clone().swapaxes_(0, 1).swapdims_(0, 1).swapaxes_(0, 1) * 2

    return torch.vmap(twice)(torch.arange(12.0).view(2, 2, 3))


INTEGERS = ("uint8", "int8", "int16", "int32", "int64")


@scenario
def integers_to_negative_powers(torch):
    found = []
    for name in ("bool", *INTEGERS):
        x = torch.tensor([1, 2, 3, 0]).to(getattr(torch, name))
        phrase = "negative integer powers"
        found += [
            raised(phrase, lambda x=x: x**-1),
            raised(phrase, torch.pow, x, -2),
            raised(phrase, x.clone().pow_, -1),
            raised(phrase, lambda x=x: torch.pow(x, -1, out=torch.empty_like(x))),
            raised(phrase, torch._foreach_pow, [x], -1),
            torch.float_power(x, -1),
            x**-1.0,
            x**True,
            x**False,
        ]
    return found


@scenario
def integers_to_powers_of_tensors(torch):
    found = []
    for name in INTEGERS:
        x = torch.tensor([1, 2, 3, 1]).to(getattr(torch, name))
        found += [x ** torch.tensor([2, 1, 0, 3]), 2**x, str((x**2).dtype).rpartition(".")[2]]
    x = torch.tensor([-1, -2, 1, 2])
    return [
        *found,
        x ** torch.tensor([-2, -2, -2, -1]),
        1 ** torch.tensor([-1, 2]),
        (-1) ** torch.tensor([-3, -2]),
    ]


@scenario
def remainders_by_infinity(torch):
    found = []
    values = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3e4, INF, -INF, NAN)
    pairs = [p for p in itertools.product(values, (INF, -INF, 2.0, -2.0)) if p[0] == p[0]]
    for name in ("float64", "float32", "float16", "bfloat16"):
        a, b = (torch.tensor(side, dtype=getattr(torch, name)) for side in zip(*pairs, strict=True))
        for operator in (torch.fmod, torch.remainder, torch.floor_divide):
            out = operator(a, b)
            found.append([out, out.signbit() & ~out.isnan()])
    return found


@scenario
def in_place_results_must_fit_the_dtype(torch):
    phrase = "can't be cast"
    x = torch.tensor([1, 2])
    return [
        raised(phrase, x.pow_, 0.5),
        raised(phrase, x.pow_, 1j),
        raised(phrase, torch.ones(2, dtype=torch.float16).pow_, 1j),
        raised(phrase, torch.tensor([True]).pow_, 2),
        raised(phrase, x.float_power_, 2) == "nothing",
        x,
    ]


@scenario
def differences_of_order_zero(torch):
    x, ends = torch.arange(3.0), {"prepend": torch.tensor([9.0]), "append": torch.tensor([7.0])}
    found = [torch.diff(x, n=n, **ends) for n in (0, 1, 2, 5)]
    return [*found, torch.diff(x, n=0), raised("", torch.diff, x, n=-1)]


@scenario
def segments_that_do_not_add_up(torch):
    x = torch.arange(5.0)

    def tried(**bounds):
        unsafe = bounds.pop("unsafe", False)
        given = {k: torch.tensor(v, dtype=torch.int64) for k, v in bounds.items()}
        try:
            return [torch.segment_reduce(x, r, unsafe=unsafe, **given) for r in ("sum", "max", "mean")]
        except Exception as error:
            return type(error).__name__

    lengths = ([2, 2], [2, 4], [-1, 6], [6, -1], [2, 3], [5, 0], [0, 5, 0])
    offsets = ([0, 2, 5], [0, 3, 2, 5], [5, 0], [0, 2], [2, 5], [1, 3], [3])
    rows = [tried(lengths=v) for v in lengths] + [tried(offsets=v) for v in offsets]
    matrix = torch.ones(2, 5)
    return [
        *rows,
        tried(lengths=[2, 2], unsafe=True),
        raised("sum to", torch.segment_reduce, matrix, "sum", lengths=torch.tensor([[2, 3], [1, 3]]), axis=1),
        torch.segment_reduce(matrix, "sum", lengths=torch.tensor([[2, 3], [1, 4]]), axis=1),
        raised("", torch.segment_reduce, x, "sum", lengths=torch.tensor([5.0])),
        raised("", torch.segment_reduce, torch.arange(5), "sum", lengths=torch.tensor([5])),
    ]


@scenario
def products_keep_the_dtype(torch):
    found = []
    for name in (*INTEGERS, "float16", "bfloat16", "complex64"):
        t, u = (torch.ones(s).to(getattr(torch, name)) for s in ((1, 3), (3, 1)))
        for equation in ("ij,jk->ik", "ij,jk->j", "ij,jk->", "ij,kj->i", "ij->j", "ij->", "i...->..."):
            left, right = (t, u if "jk" in equation else t)
            out = torch.einsum(equation, *(left, right)[: equation.count(",") + 1])
            found.append([equation, str(out.dtype).rpartition(".")[2], out])
        found.append(str(torch.einsum("ij,jk,kl->il", t, u, t).dtype).rpartition(".")[2])
    return found


@scenario
def more_dimensions_than_a_word_has_bits(torch):
    found = []
    for n in (63, 64, 65, 70):
        x = torch.ones([1] * n)
        found += [
            x.permute(*reversed(range(n))).dim(),
            raised("duplicate dims", x.permute, *[0] * n),
            x.movedim(0, n - 1).dim(),
            x.movedim((0, 1), (n - 1, n - 2)).dim(),
            raised("", x.movedim, (0, 0), (1, 2)),
            x.squeeze().dim(),
            x.squeeze(n - 1).dim(),
            torch.ones([1] * (n - 1) + [2]).squeeze(n - 1).dim(),
            x.unsqueeze(0).dim(),
            x.repeat([1] * n).dim(),
        ]
    x = torch.ones([1] * 65)
    names = "64 dims"
    found += [raised(names, x.sum, 0), raised(names, x.flip, 0), raised(names, x.squeeze, (0, 64))]
    return [*found, torch.tensordot(torch.ones([1] * 30), torch.ones([1] * 31), dims=1).dim()]


EXTREMA = {
    "max": lambda torch, t: t.max(),
    "min": lambda torch, t: t.min(),
    "amax": lambda torch, t: t.amax(),
    "amin": lambda torch, t: torch.amin(t, 0),
    "max.dim": lambda torch, t: t.max(0)[0],
    "min.dim": lambda torch, t: t.min(0)[0],
    "median": lambda torch, t: t.median(),
    "nanmedian": lambda torch, t: t.nanmedian(),
    "median.dim": lambda torch, t: t.median(0)[0],
    "aminmax": lambda torch, t: torch.aminmax(t)[0],
    "cummax": lambda torch, t: t.cummax(0)[0],
    "kthvalue": lambda torch, t: t.kthvalue(1)[0],
    "topk": lambda torch, t: t.topk(1)[0],
    "maximum": lambda torch, t: torch.maximum(t, torch.full_like(t, 2)),
    "minimum": lambda torch, t: torch.minimum(torch.full_like(t, 2), t),
    "fmax": lambda torch, t: torch.fmax(t, torch.full_like(t, 2)),
    "fmin": lambda torch, t: torch.fmin(torch.full_like(t, 2), t),
    "clamp_max": lambda torch, t: t.clamp(max=2.0),
    "clamp": lambda torch, t: t.clamp(1.0, 2.0),
    "clamp by t": lambda torch, t: torch.clamp(torch.full_like(t, 2), max=t),
    "clamp from t": lambda torch, t: torch.clamp(torch.full_like(t, 2), min=t),
    "max_pool1d": lambda torch, t: torch.nn.functional.max_pool1d(t.view(1, 1, -1), t.numel()),
    "adaptive": lambda torch, t: torch.nn.functional.adaptive_max_pool1d(t.view(1, 1, -1), 1),
    "scatter amax": lambda torch, t: torch.zeros(1, dtype=t.dtype).scatter_reduce(
        0, torch.zeros(t.numel(), dtype=torch.int64), t, "amax"
    ),
}
VALUES = ([1, NAN, NAN], [1, 2, 2], [NAN, 1, NAN], [INF, INF, 1], [-INF, -INF], [NAN])


def gradient(torch, name, values):
    t = leaf(torch, *values)
    found = EXTREMA[name](torch, t)
    found.sum().backward()
    return [name, values, found.detach(), t.grad]


@scenario
def gradients_of_extrema_at_ties_and_nan(torch):
    return [gradient(torch, name, values) for name, values in itertools.product(EXTREMA, VALUES)]


@scenario
def windows_with_several_nan_take_the_last(torch):
    f = torch.nn.functional
    x = torch.arange(16.0).view(1, 1, 4, 4).clone()
    x[0, 0, 0, 1] = x[0, 0, 1, 0] = x[0, 0, 1, 1] = NAN
    last = torch.channels_last
    halves = [torch.float16, torch.bfloat16, torch.float64]
    return [
        f.max_pool2d(x, 2, return_indices=True)[1],
        f.max_pool2d(x.contiguous(memory_format=last), 2, return_indices=True)[1],
        f.adaptive_max_pool2d(x, 2, return_indices=True)[1],
        f.max_pool3d(torch.full((1, 1, 2, 2, 2), NAN), 2, return_indices=True)[1],
        [f.max_pool2d(x.to(d), 2, return_indices=True)[1] for d in halves],
        f.fractional_max_pool2d(
            x, 2, output_size=2, _random_samples=torch.zeros(1, 1, 2), return_indices=True
        )[1],
    ]


@scenario
def fractional_windows_of_samples_outside_their_range(torch):
    f, found = torch.nn.functional, []
    for dims, pool in ((2, f.fractional_max_pool2d), (3, f.fractional_max_pool3d)):
        x = torch.arange(5.0**dims).view(1, 1, *[5] * dims)
        for u in (0.0, 0.5, 0.9999999, 1.0, 1.5, 3.0, -0.1, -3.0, NAN, INF, -INF, 1e10):
            samples = torch.full((1, 1, dims), u)
            found.append(pool(x, 2, output_size=3, _random_samples=samples, return_indices=True)[1])
    return found


@scenario
def orders_of_older_programs(torch):
    t, a, b = (torch.tensor(v, dtype=torch.float64) for v in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]))
    m = torch.eye(2, dtype=torch.float64)
    batch, place = torch.stack([m, m]), torch.empty(2, dtype=torch.float64)
    found = []
    for name in ("addcmul", "addcdiv"):
        f = getattr(torch, name)
        found += [f(t, 2, a, b), getattr(t, name)(2.5, a, b), getattr(t.clone(), name + "_")(2, a, b)]
        found += [f(t, 2, a, b, out=place.clone()), f(t, 2, tensor1=a, tensor2=b), raised("", f, t, a, b, 2)]
    for name in ("add", "sub"):
        f = getattr(torch, name)
        found += [
            f(t, 2, a),
            getattr(t, name)(2, a),
            getattr(t.clone(), name + "_")(2, a),
            raised("", f, t, a, 2),
        ]
    operands = {"addmm": (m, m, m), "addmv": (t, m, a), "addr": (m, a, b), "baddbmm": (batch,) * 3}
    for name, (x, y, z) in (operands | {"addbmm": (m, batch, batch)}).items():
        f = getattr(torch, name)
        found += [f(2, x, 3, y, z), f(2, x, y, z), getattr(x, name)(2, 3, y, z), getattr(x, name)(2, y, z)]
        found += [
            getattr(x.clone(), name + "_")(2, y, z),
            raised("", f, x, 3, y, z),
            raised("", f, x, y, z, 2, 3),
        ]
    return found


@scenario
def functions_of_numbers(torch):
    found = []
    x, xf = torch.tensor([3, -7]), torch.tensor([3.0, -7.0])
    for name in ("add", "sub", "mul", "div", "floor_divide", "multiply", "subtract", "true_divide"):
        f = getattr(torch, name)
        for args in ((2.0, 3.0), (7, 3), (7, x), (7.5, xf), (2.5, x), (1j, xf)):
            try:
                out = f(*args)
                found.append([name, str(out.dtype).rpartition(".")[2], out])
            except Exception as error:
                found.append([name, type(error).__name__])
    return [*found, torch.add(2, 3, alpha=2), torch.add(input=7, other=x), raised("", torch.maximum, 7, x)]


@scenario
def numbers_on_the_left(torch):
    found = []
    x, xf = torch.tensor([3, -7]), torch.tensor([3.0, -7.0], dtype=torch.float64)
    shifts = ("bitwise_left_shift", "bitwise_right_shift")
    for name in ("remainder", "bitwise_and", "bitwise_or", "bitwise_xor", *shifts, "pow", "fmod"):
        f = getattr(torch, name)
        for args in ((5, x.abs()), (7.5, xf), (2.5, x), (True, x.abs())):
            try:
                out = f(*args)
                found.append([name, str(out.dtype).rpartition(".")[2], out])
            except Exception as error:
                found.append([name, type(error).__name__])
    values = [5 % x, 2.5 % x, 2.5 // x, True % x, 5 & x, 2.5**x]
    kinds = [str(v.dtype).rpartition(".")[2] for v in values]
    return [*found, values, kinds]


def gradients(torch, function, *lists):
    leaves = [leaf(torch, *values) for values in lists]
    return list(torch.autograd.grad(function(*leaves).sum(), leaves))


@scenario
def sums_of_exponentials_of_nothing(torch):
    empty = [torch.ones(0, 3), torch.ones(3, 0, dtype=torch.float64), torch.ones(2, 0).int()]
    found = [torch.logsumexp(x, d, keepdim=k) for x in empty for d in (0, 1, (0, 1)) for k in (False, True)]
    return [*found, gradients(torch, lambda x: torch.logsumexp(x, 0), ())]


@scenario
def gradients_at_the_ends_of_a_domain(torch):
    inside = (0.0, 1.0, 0.5, NAN, -1.0, 2.0, INF)
    return [
        gradients(torch, torch.logit, inside),
        gradients(torch, torch.special.entr, (*inside, -INF)),
        gradients(torch, torch.atan2, (0.0, 0.0, 1.0, -1.0, 0.0), (0.0, 1.0, 0.0, 0.0, -1.0)),
    ]


@scenario
def gradients_of_tiny_numbers(torch):
    tiny = (5e-324, -5e-324, 1e-310, 1e-308, 1e-200, 1e-20, 0.0)
    special = torch.special
    return [gradients(torch, f, tiny) for f in (torch.sinc, special.i1, special.i1e, special.i0e)]


def small_sincs(torch):
    """The gradient of sinc near 0, where the derivative of the quotient cancels."""
    x = torch.tensor([1e-9, 1e-6, 1e-4, 1e-3, 0.02, 0.03125, 0.04], dtype=torch.float64, requires_grad=True)
    return x.detach(), torch.autograd.grad(torch.sinc(x).sum(), x)[0], torch.sinc(x)


def test_sinc_near_zero():
    x, gradient, value = small_sincs(flambeau)
    for at, slope, height in zip(x.tolist(), gradient.tolist(), value.tolist(), strict=True):
        u, term, terms, slopes = (math.pi * at) ** 2, 1.0, 1.0, 0.0
        for k in range(1, 12):
            term *= -u / (2 * k * (2 * k + 1))
            terms, slopes = terms + term, slopes + 2 * k * term / at
        assert math.isclose(height, terms, rel_tol=1e-15)
        assert math.isclose(slope, slopes, rel_tol=1e-12)


@scenario
def gradients_of_nan(torch):
    F, x, y = torch.nn.functional, (1.0, NAN, 3.0, -INF, INF, 1.0), (NAN, 1.0, 1.0, 1.0, 1.0, 1.0)
    kinds = (
        F.hardtanh,
        F.relu6,
        F.relu,
        lambda x: F.hardsigmoid(x.float()),
        F.hardshrink,
        F.softshrink,
        F.leaky_relu,
    )
    losses = (F.huber_loss, F.smooth_l1_loss, F.l1_loss)
    found = [gradients(torch, f, x) for f in kinds]
    return found + [gradients(torch, lambda a, b, f=f: f(a, b, reduction="sum"), x, y) for f in losses]


@scenario
def ties_in_bags(torch):
    found = []
    rows = [[1.0, 2.0], [1.0, 3.0], [1.0, 1.0], [0.0, 3.0]]
    for indices, offsets in (([0, 1, 3, 2, 1], [0, 3]), ([3, 1, 0, 1], [0]), ([2, 0], [0, 0, 2]), ([], [0])):
        weight = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
        index = torch.tensor(indices, dtype=torch.int64)
        out = torch.nn.functional.embedding_bag(index, weight, torch.tensor(offsets), mode="max")
        found += [out, torch.autograd.grad(out.sum(), weight)[0]]
    return found


@scenario
def rows_that_a_bag_lacks(torch):
    bag, w = torch.nn.functional.embedding_bag, torch.ones(2, 3)
    return [
        raised("", bag, torch.tensor([wrong]), w, torch.tensor([0]), mode=mode)
        for wrong in (5, -1)
        for mode in ("sum", "mean", "max")
    ]


@scenario
def without_derivative(torch):
    found = []
    for function in (torch.floor_divide, torch.heaviside):
        x, y = leaf(torch, 1.0, 2.0), torch.ones(2, dtype=torch.float64)
        found.append(function(x, y).requires_grad)
        found.append(raised("", lambda f=function, x=x, y=y: f(x, y).sum().backward())[0])
        found.append(raised("", lambda f=function, x=x, y=y: f(y, x).sum().backward())[0])
    return found


@scenario
def lists_of_numbers_as_index(torch):
    x = torch.arange(6.0).view(2, 3)
    found = [x[[0.0, 1.0]], x[[0.5, 1], [1, 0]], x[0][[[0.0, 1.9]]], x[[]], raised("", lambda: x[[1j]])[0]]
    x[[1.0]] = -1.0
    return [*found, x, raised("", lambda: x[torch.tensor([0.0])])[0], raised("", lambda: x[1.5])[0]]


@scenario
def versions_of_resized_tensors(torch):
    found = []
    for sizes in ((3,), (5,), (2,), (1, 3), (0,)):
        x = torch.ones(3)
        y = x.view(3)
        y.resize_(sizes)
        found.append((x._version, y._version))
    return found


@scenario
def equality_across_dtypes(torch):
    x = torch.tensor([1.0, 2.0])
    return [torch.equal(x, x.to(d)) for d in (torch.int64, torch.float64, torch.complex64, torch.float16)] + [
        torch.equal(x, torch.tensor([1, 3])),
        torch.equal(x, torch.tensor([1])),
    ]


@scenario
def gradients_of_slices_that_renorm_keeps(torch):
    """Slices of infinite or NaN norm, which no comparison finds above the limit."""
    slices = ((NAN, 1.0, 2.0, 3.0), (INF, 1.0, 2.0, 0.0), (0.0, 0.0, 0.0, 2.0), (NAN, NAN, INF, 0.0))
    found = []
    for values, p, limit, d in itertools.product(slices, (1, 2, 3.0, INF), (1.0, INF), (0, 1)):
        (grad,) = gradients(torch, lambda x, a=(p, d, limit): torch.renorm(x.view(2, 2), *a), values)
        found.append([grad.isnan(), grad == 1])
    return found


test_as_in_pytorch = scenario.test()
