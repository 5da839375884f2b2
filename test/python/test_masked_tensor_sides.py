"""Masked tensors: the same programs in flambeau and PyTorch."""

import copy
import functools
import importlib
import pickle
import warnings

import flambeau
import pytest
from oracle import pytorch
from sides import differences, plain, raised

POINTWISE = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 "
    "floor frac i0 isnan isfinite lgamma log log10 log1p log2 logit nan_to_num neg positive rad2deg "
    "reciprocal round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc"
).split()
BINARY = (
    "add atan2 div eq floor_divide fmax fmin fmod ge gt le logaddexp logaddexp2 lt maximum minimum mul ne "
    "nextafter remainder sub true_divide"
).split()
REDUCTIONS = "sum mean amax amin prod var std argmax argmin all".split()
VIEWS = {
    "row": lambda x: x[0],
    "column": lambda x: x[:, 1],
    "element": lambda x: x[0, 1],
    "new": lambda x: x[None],
    "stepped": lambda x: x[..., ::2],
    "rows": lambda x: x[[1, 0]],
    "transposed": lambda x: x.transpose(0, 1),
    "reshaped": lambda x: x.reshape(3, 2),
    "viewed": lambda x: x.view(6),
    "flat": lambda x: x.flatten(),
    "expanded": lambda x: x.expand(2, 2, 3),
    "unsqueezed": lambda x: x.unsqueeze(1),
    "narrowed": lambda x: x.narrow(1, 1, 2),
    "unfolded": lambda x: x.unfold(1, 2, 1),
    "split": lambda x: x.split(1)[1],
    "chunk": lambda x: x.chunk(2)[0],
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "double": lambda x: x.double(),
    "half": lambda x: x.half(),
    "bool": lambda x: x.bool(),
    "ones": lambda x: x * 0 + 1,
    "contiguous": lambda x: x.transpose(0, 1).contiguous(),
}


def masked(fw):
    """The module; PyTorch warns of a prototype at its first use."""
    return importlib.import_module(f"{fw.__name__}.masked")


def values(fw):
    return fw.tensor([[0.25, -0.5, 0.75], [0.125, 0.5, -0.875]])


def mask(fw):
    return fw.tensor([[True, False, True], [False, True, True]])


def seen(x):
    """What a masked tensor shows: values where unmasked, and the mask."""
    if not hasattr(x, "get_mask"):
        return plain(x)
    return [repr(x), list(x.shape), str(x.dtype).split(".")[1], plain(x.get_mask().to_dense())]


def ignoring(function):
    """Call a function without the warnings."""

    @functools.wraps(function)
    def call(*args):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)

    return call


def alike(program):
    """Run a program of the framework and a masked tensor in both."""
    torch = pytorch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = (
            seen(program(fw, masked(fw).masked_tensor(values(fw), mask(fw)))) for fw in (flambeau, torch)
        )
    assert found == expected


@pytest.mark.parametrize("name", POINTWISE)
def test_functions_of_one_tensor(name):
    alike(lambda fw, x: getattr(fw, name)(x))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("other", ["masked", "tensor", "first"])
def test_functions_of_two_tensors(name, other):
    def program(fw, x):
        right = values(fw).flip(0)
        if other == "masked":
            right = masked(fw).masked_tensor(right, mask(fw))
        return getattr(fw, name)(right, x) if other == "first" else getattr(fw, name)(x, right)

    alike(program)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "eq", "lt", "fmod", "remainder", "pow"])
def test_functions_of_a_tensor_and_a_number(name):
    alike(lambda fw, x: getattr(fw, name)(x, 2))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift"])
def test_functions_of_integers(name):
    def program(fw, x):
        numbers = masked(fw).masked_tensor(fw.arange(6).reshape(2, 3), mask(fw))
        return getattr(fw, name)(numbers, numbers)

    alike(program)


@pytest.mark.parametrize("name", ["add_", "mul_", "sub_", "div_"])
def test_in_place(name):
    def program(fw, x):
        same = getattr(x, name)(x.clone())
        assert same is x
        return x

    alike(program)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("arguments", [{}, {"dim": 0}, {"dim": 1, "keepdim": True}, {"dim": -1}], ids=str)
def test_reductions(name, arguments):
    alike(lambda fw, x: getattr(x, name)(**arguments))
    alike(lambda fw, x: getattr(fw, name)(x, **arguments))


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "prod", "all"])
def test_a_reduction_of_masked_elements_is_masked(name):
    def program(fw, x):
        part = fw.tensor([[False, False, False], [True, False, True]])
        return getattr(masked(fw).masked_tensor(values(fw), part), name)(dim=1)

    alike(program)


def test_softmax():
    alike(lambda fw, x: fw.softmax(x, 1))
    alike(lambda fw, x: fw.nn.functional.softmax(x, dim=0))


@pytest.mark.parametrize("name", VIEWS)
def test_views_and_copies(name):
    alike(lambda fw, x: VIEWS[name](x))


def test_join():
    alike(lambda fw, x: fw.cat([x, x], 1))
    alike(lambda fw, x: fw.stack([x, x * 2]))


def test_data_mask_and_filled():
    alike(lambda fw, x: x.get_data())
    alike(lambda fw, x: x.get_mask())
    alike(lambda fw, x: x.to_tensor(7))


GRADIENTS = {
    "sum": lambda fw, x: x.sum(),
    "product": lambda fw, x: (x * x * 3).sum(),
    "exp": lambda fw, x: x.exp().sum(),
    "log": lambda fw, x: (x * x).log().sum(),
    "quotient": lambda fw, x: (1 / x).sum(),
    "power": lambda fw, x: (x**3).sum(),
    "mean": lambda fw, x: x.mean(),
    "mean of rows": lambda fw, x: x.mean(1).sum(),
    "maximum": lambda fw, x: x.amax(1).sum(),
    "ties": lambda fw, x: (x * 0).amax(),
    "minimum": lambda fw, x: x.amin(),
    "prod": lambda fw, x: x.prod(),
    "softmax": lambda fw, x: (fw.softmax(x, 1) * x).sum(),
    "row": lambda fw, x: (x[0] * 2).sum(),
    "columns": lambda fw, x: x[:, 1:].sum(),
    "view": lambda fw, x: x.view(6).sum(),
    "transposed": lambda fw, x: (x.transpose(0, 1) * 3).sum(),
    "stack": lambda fw, x: fw.stack([x, x]).sum(),
    "data": lambda fw, x: x.get_data().sum(),
    "filled": lambda fw, x: x.to_tensor(0).sum(),
    "double": lambda fw, x: x.double().sum(),
    "beside a tensor": lambda fw, x: (x * values(fw)).sum(),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("made", ["masked_tensor", "as_masked_tensor"])
def test_gradients(name, made):
    def program(fw, _):
        leaf = values(fw)
        if made == "masked_tensor":
            leaf = x = masked(fw).masked_tensor(leaf, mask(fw), requires_grad=True)
        else:
            x = masked(fw).as_masked_tensor(leaf.requires_grad_(), mask(fw))
        GRADIENTS[name](fw, x).backward()
        return leaf.grad.abs()  # the sign of zero is not compared

    alike(program)


def test_a_division_by_zero_that_is_masked_has_no_nan_in_its_gradient():
    def program(fw, _):
        x = fw.tensor([1.0, 1.0], requires_grad=True)
        quotient = x / fw.tensor([0.0, 1.0])
        masked(fw).as_masked_tensor(quotient, fw.tensor([False, True])).sum().backward()
        return x.grad

    alike(program)


def test_where_gives_each_side_a_gradient_under_its_own_mask():
    @ignoring
    def run(fw):
        x = fw.tensor([-10.0, -5.0, 0.0, 50.0, 100.0])
        below = x < 0
        left = masked(fw).masked_tensor(x, below, requires_grad=True)
        right = masked(fw).masked_tensor(fw.ones_like(x), ~below, requires_grad=True)
        out = fw.where(below, fw.exp(left), right)
        out.sum().backward()
        return [seen(out), seen(left.grad), seen(right.grad)]

    assert run(flambeau) == run(pytorch())


def test_sparse_layout():
    alike(lambda fw, x: x.to_sparse_coo())
    alike(lambda fw, x: x.to_sparse_coo().sin().to_dense())
    alike(lambda fw, x: (x.to_sparse_coo() * 2 + x.to_sparse_coo()).to_dense())
    alike(lambda fw, x: x.to_sparse_coo().sum())
    alike(
        lambda fw, x: fw.tensor([x.to_sparse_coo().is_sparse, x.is_sparse, x.to_sparse_coo().is_sparse_coo()])
    )


def test_leaves_are_copied_and_pickled():
    alike(lambda fw, x: copy.deepcopy(x))
    alike(lambda fw, x: pickle.loads(pickle.dumps(x)))
    alike(lambda fw, x: fw.nn.Parameter(x))


TEXTS = {
    "number": (1.0, True),
    "masked number": (1.0, False),
    "integers": ([1, 2, 3], [True, False, True]),
    "bools": ([True, False], [True, False]),
    "wide": ([[-1234567.25, 1.0], [2.0, 3.0]], [[True, True], [False, True]]),
    "wide beside a masked one": ([-123456789012, 1], [True, False]),
    "odd": ([float("nan"), float("inf"), 1e-9], [True, True, True]),
    "three dimensions": ([[[1.0, 2.0]], [[3.0, 4.0]]], [[[True, False]], [[False, False]]]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    def program(fw, _):
        data, part = TEXTS[name]
        return masked(fw).masked_tensor(fw.tensor(data), fw.tensor(part))

    alike(program)


def refusals(fw):
    """What each mistake raises, and whether a phrase is in it."""
    m, d = masked(fw), values(fw)
    x, other = m.masked_tensor(d, mask(fw)), m.masked_tensor(d, ~mask(fw))
    return [
        raised("data must be a tensor", m.masked_tensor, [1.0], mask(fw)),
        raised("mask must be a tensor", m.masked_tensor, d, [True]),
        raised("data must be a tensor", m.masked_tensor, x, mask(fw)),
        raised("mask must be a tensor", m.masked_tensor, d, x),
        raised("bool", m.masked_tensor, d, mask(fw).int()),
        raised("data.dim() must equal mask.dim()", m.masked_tensor, d, mask(fw)[0]),
        raised("data.size() must equal mask.size()", m.masked_tensor, d, mask(fw)[:, :2]),
        raised("same layout", m.masked_tensor, d.to_sparse(), mask(fw)),
        raised("is not supported in maskedtensor", m.masked_tensor, d.to(fw.complex64), mask(fw)),
        raised("is not supported in maskedtensor", m.masked_tensor, d.to(fw.uint8), mask(fw)),
        raised("is not supported in maskedtensor", m.masked_tensor, d.to(fw.bfloat16), mask(fw)),
        raised("input masks must match", lambda: x + other),
        raised("input masks must match", lambda: x.add_(other)),
        raised("input masks must match", lambda: fw.maximum(x, other)),
        raised("input masks must match", lambda: x + x[0]),
        raised("same layout", lambda: x + x.to_sparse_coo()),
        raised("mm", lambda: fw.mm(x, x.transpose(0, 1))),
        raised("max", lambda: x.max()),
        raised("median", lambda: x.median()),
        raised("sort", lambda: x.sort()),
        raised("", lambda: fw.nn.functional.mse_loss(x, x)),
        raised("", x.numpy),
        raised("", x.tolist),
        raised("", x.item),
        raised("", bool, x),
    ]


def test_mistakes():
    torch = pytorch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = refusals(flambeau), refusals(torch)
    assert found == expected, differences([list(f) for f in found], [list(e) for e in expected])
