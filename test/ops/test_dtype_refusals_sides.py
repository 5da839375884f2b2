"""Which dtypes operators refuse, and by which exception, compared with PyTorch.

Each call is made with an argument of each dtype. Both must raise the same type of exception or none. One
difference is allowed: what PyTorch has no kernel for (NotImplementedError) may be computed here.
"""

import itertools
import warnings

import flambeau
import pytest
from oracle import pytorch

DTYPES = ("bool", "uint8", "int32", "int64", "float16", "bfloat16", "float64", "complex64")
WITHOUT_KERNEL = "NotImplementedError"


def outcome(fw, call, dtype):
    try:
        call(fw, getattr(fw, dtype))
    except Exception as error:
        return type(error).__name__
    return "a result"


def differences(call):
    torch = pytorch()
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in DTYPES:
            ours, theirs = outcome(flambeau, call, dtype), outcome(torch, call, dtype)
            if ours != theirs and (ours, theirs) != ("a result", WITHOUT_KERNEL):
                found.append(f"{dtype}: {ours} in place of {theirs}")
    return found


def path(fw, name):
    for part in name.split("."):
        fw = getattr(fw, part)
    return fw


def functions(names, *arguments, shape=(3, 3)):
    """One argument of the dtype, further ones as they are."""
    return {
        name: lambda fw, dtype, name=name: path(fw, name)(fw.ones(shape).to(dtype), *arguments)
        for name in names.split()
    }


def pairs(names, shape=(3, 3)):
    """Two arguments: both of the dtype, or one of them."""
    calls = {}
    for name in names.split():
        for label, which in (("both", (1, 1)), ("first", (1, 0)), ("second", (0, 1))):

            def call(fw, dtype, name=name, which=which):
                first, second = (fw.ones(shape).to(dtype if of else fw.float32) for of in which)
                return path(fw, name)(first, second)

            calls[f"{name} {label}"] = call
    return calls


MATRICES = (
    "linalg.cholesky linalg.cholesky_ex cholesky cholesky_inverse linalg.lu linalg.lu_factor lu linalg.qr qr "
    "linalg.lu_factor_ex geqrf linalg.eig linalg.eigvals linalg.eigh linalg.eigvalsh linalg.svd linalg.inv "
    "linalg.svdvals inverse linalg.det linalg.ldl_factor linalg.cond linalg.vander linalg.slogdet"
)
REDUCTIONS = (
    "mean std var nanmean nansum std_mean var_mean prod sum any all argmax amax aminmax median mode trace"
)
POINTWISE = (
    "abs neg sign sgn ceil floor round trunc frac relu bitwise_not logical_not isneginf isposinf signbit "
    "square deg2rad rad2deg nn.functional.relu6 nn.functional.tanhshrink nn.functional.hardtanh "
    "nn.functional.glu trapezoid cumulative_trapezoid"
)
TWO = (
    "maximum minimum fmax fmin heaviside polar sub rsub add mul atan2 hypot isin dist equal "
    "linalg.vecdot linalg.cross cross nn.functional.pairwise_distance cosine_similarity bitwise_and"
)
LOSSES = (
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy soft_margin_loss kl_div poisson_nll_loss"
)

CALLS = {
    **{
        f"{name} of a matrix": lambda fw, dtype, name=name: path(fw, name)(fw.eye(3).to(dtype))
        for name in MATRICES.split()
    },
    **functions(REDUCTIONS),
    **functions(POINTWISE, shape=(4, 4)),
    **functions("mvlgamma", 1),
    **functions("quantile nanquantile", 0.5),
    **functions("nn.functional.max_pool1d nn.functional.adaptive_max_pool1d", 2, shape=(1, 4, 4)),
    **functions("nn.functional.max_pool2d nn.functional.adaptive_max_pool2d", 2, shape=(1, 4, 4, 4)),
    **pairs(TWO),
    **pairs(" ".join(f"nn.functional.{name}" for name in LOSSES.split())),
    "solve": lambda fw, d: fw.linalg.solve(fw.eye(3).to(d), fw.eye(3).to(d)),
    "solve_triangular": lambda fw, d: fw.linalg.solve_triangular(
        fw.eye(3).to(d), fw.eye(3).to(d), upper=True
    ),
    "cholesky_solve": lambda fw, d: fw.cholesky_solve(fw.eye(3).to(d), fw.eye(3).to(d)),
    "lstsq": lambda fw, d: fw.linalg.lstsq(fw.eye(3).to(d), fw.eye(3).to(d)),
    "orgqr": lambda fw, d: fw.orgqr(fw.eye(3).to(d), fw.ones(3).to(d)),
    "ormqr": lambda fw, d: fw.ormqr(fw.eye(3).to(d), fw.ones(3).to(d), fw.eye(3).to(d)),
    "True - x": lambda fw, d: True - fw.ones(2).to(d),
    "1 - x": lambda fw, d: 1 - fw.ones(2).to(d),
    "x - True": lambda fw, d: fw.ones(2).to(d) - True,
    "x - 1": lambda fw, d: fw.ones(2).to(d) - 1,
    "x -= True": lambda fw, d: fw.ones(2).to(d).sub_(True),
    "-x": lambda fw, d: -fw.ones(2).to(d),
    "neg_": lambda fw, d: fw.ones(2).to(d).neg_(),
    "_foreach_sub": lambda fw, d: fw._foreach_sub([fw.ones(2).to(d)], [fw.ones(2)]),
    "add alpha": lambda fw, d: fw.add(fw.ones(2).to(d), fw.ones(2).to(d), alpha=True),
    "sub alpha": lambda fw, d: fw.sub(fw.ones(2).to(d), fw.ones(2).to(d), alpha=True),
    "lerp self": lambda fw, d: fw.lerp(fw.ones(3).to(d), fw.ones(3), 0.5),
    "lerp end": lambda fw, d: fw.lerp(fw.ones(3), fw.ones(3).to(d), 0.5),
    "linear bias": lambda fw, d: fw.nn.functional.linear(fw.ones(3), fw.ones(3, 3), fw.ones(3).to(d)),
    "bilinear bias": lambda fw, d: fw.nn.functional.bilinear(
        fw.ones(2, 3), fw.ones(2, 3), fw.ones(3, 3, 3), fw.ones(3).to(d)
    ),
    "conv input": lambda fw, d: fw.nn.functional.conv2d(fw.ones(1, 3, 5, 5).to(d), fw.ones(3, 3, 3, 3)),
    "conv_transpose input": lambda fw, d: fw.nn.functional.conv_transpose2d(
        fw.ones(1, 3, 5, 5).to(d), fw.ones(3, 3, 3, 3)
    ),
    "batch_norm input": lambda fw, d: fw.nn.functional.batch_norm(
        fw.ones(2, 3, 4).to(d), fw.zeros(3), fw.ones(3)
    ),
    "instance_norm weight": lambda fw, d: fw.nn.functional.instance_norm(
        fw.ones(2, 3, 4), fw.zeros(3), fw.ones(3), fw.ones(3).to(d)
    ),
    "nll_loss input": lambda fw, d: fw.nn.functional.nll_loss(fw.ones(2, 3).to(d), fw.tensor([0, 1])),
    "nll_loss target": lambda fw, d: fw.nn.functional.nll_loss(fw.ones(2, 3), fw.tensor([0, 1]).to(d)),
    "bce_with_logits": lambda fw, d: fw.nn.functional.binary_cross_entropy_with_logits(
        fw.ones(2, 3).to(d), fw.ones(2, 3)
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_refused_as_in_pytorch(name):
    assert not differences(CALLS[name])


# --- out= ------------------------------------------------------------------------------------------

EXACT = (
    "bitwise_not ceil floor conj_physical frac neg round sgn sign signbit trunc isposinf isneginf "
    "quantile nanquantile diag diagonal_copy expand_copy alias_copy diff"
)


def written(fw, name, dtype):
    x = fw.tensor([1, 2, 3]) if name == "bitwise_not" else fw.tensor([1.0, 2.0, 3.0])
    arguments = {"quantile": (0.5,), "nanquantile": (0.5,), "expand_copy": ((3,),)}.get(name, ())
    x = x.reshape(1, 3) if name == "diagonal_copy" else x
    return getattr(fw, name)(x, *arguments, out=fw.empty(0, dtype=dtype))


@pytest.mark.parametrize("name", EXACT.split())
def test_out_takes_its_own_dtype(name):
    assert not differences(lambda fw, dtype: written(fw, name, dtype))


OUTS = {
    "arange": lambda fw, d: fw.arange(3, out=fw.empty(0, dtype=d)),  # out says what it is made of
    "linspace": lambda fw, d: fw.linspace(0, 1, 3, out=fw.empty(0, dtype=d)),
    "clamp": lambda fw, d: fw.clamp(fw.ones(2), 0, 1, out=fw.empty(0, dtype=d)),
    "abs of complex numbers": lambda fw, d: fw.abs(fw.ones(2) * 1j, out=fw.empty(0, dtype=d)),
}


for name, given in itertools.product(("any", "all"), ("bool", "uint8", "float32")):
    for dim in ((), (0,), ((0, 1),)):
        OUTS[f"{name} of {given}, {dim}"] = lambda fw, d, name=name, given=given, dim=dim: getattr(fw, name)(
            fw.ones(2, 2, dtype=getattr(fw, given)), *dim, out=fw.empty(0, dtype=d)
        )
FACTORIES = {
    "arange": (3,),
    "linspace": (0, 1, 3),
    "full": ((3,), 1),
    "randint": (1, 5, (3,)),
    "randperm": (3,),
}
FACTORIES |= dict.fromkeys(("zeros", "ones", "empty", "eye", "rand", "randn"), (3,))
for (name, sizes), asked in itertools.product(FACTORIES.items(), ("int64", "float64")):
    OUTS[f"{name} of {asked}"] = lambda fw, d, name=name, sizes=sizes, asked=asked: getattr(fw, name)(
        *sizes, dtype=getattr(fw, asked), out=fw.empty(0, dtype=d)
    )


@pytest.mark.parametrize("name", OUTS)
def test_out_of_these_dtypes(name):
    assert not differences(OUTS[name])


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_truth_values_go_to_bool_and_uint8(device):
    for given, out in itertools.product((flambeau.uint8, flambeau.float32), (flambeau.uint8, flambeau.bool)):
        x = flambeau.tensor([[1, 0], [2, 3]]).to(given).to(device)
        into = flambeau.empty(0, dtype=out, device=device)
        assert flambeau.all(x, 0, out=into) is into and into.shape == (2,)
        assert device == "meta" or into.tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="dtype"):
        flambeau.any(x, out=flambeau.empty(0, device=device))
