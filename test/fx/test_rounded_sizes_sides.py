"""Rounded numbers, conditions and new data of tensors with symbolic sizes, side by side with PyTorch's."""

import math
from importlib import import_module

import flambeau as fb
import pytest

pytest.importorskip("sympy")


@pytest.fixture(params=["flambeau", "torch"])
def fw(request):
    return fb if request.param == "flambeau" else pytest.importorskip("torch")


def new_mode(fw):
    env = import_module(f"{fw.__name__}.fx.experimental.symbolic_shapes").ShapeEnv()
    fake = import_module(f"{fw.__name__}._subclasses.fake_tensor")
    return env, fake.FakeTensorMode(shape_env=env)


def traced(fw, f, *examples):
    make_fx = import_module(f"{fw.__name__}.fx.experimental.proxy_tensor").make_fx
    return make_fx(f, tracing_mode="symbolic")(*examples)


NUMBERS = {
    "floor": lambda fw, n, m: math.floor(n / -2),
    "ceil": lambda fw, n, m: math.ceil(n / -4),
    "trunc": lambda fw, n, m: math.trunc(n / -2),
    "round": lambda fw, n, m: round(n / 4),
    "sym_int": lambda fw, n, m: fw.sym_int(n / -2),
    "shifts by numbers": lambda fw, n, m: (n << 2) + (m >> 1) - ((n - 20) >> 3),
    "shifts by sizes": lambda fw, n, m: (n << m) + (1 << n) + (10_000 >> m),
    "abs": lambda fw, n, m: abs(n - m),
    "sym_sqrt": lambda fw, n, m: fw.sym_sqrt(n),
    "sym_max": lambda fw, n, m: fw.sym_max(n, 2 * m) - fw.sym_min(n, m),
    "sym_ite": lambda fw, n, m: fw.sym_ite(n > m, n, 2 * m),
    "float": lambda fw, n, m: fw.sym_float(n) / 3,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_graphs_compute_numbers_as_programs_do(fw, name):
    def program(x):
        return x * NUMBERS[name](fw, x.shape[0], x.shape[1])

    graph = traced(fw, program, fw.ones(5, 6))
    for size in ((7, 4), (3, 8), (11, 2), (6, 6), (16, 5)):
        x = fw.arange(float(math.prod(size))).reshape(size)
        assert graph(x).tolist() == program(x).tolist(), size


def test_graphs_combine_conditions():
    def program(x):
        n, m = x.shape
        both, either = (n > 3) & (m > 3), (n > 8) | (m > 8)
        return x * fb.sym_ite(both, n, m) + fb.sym_ite(fb.sym_not(either), n, m)

    graph = traced(fb, program, fb.ones(5, 6))
    for size in ((7, 4), (3, 8), (11, 2), (2, 9), (2, 2)):
        x = fb.ones(size)
        assert graph(x).tolist() == program(x).tolist(), size


def test_factors_that_are_quotients_of_sizes():
    """The sizes of the result are rounded products of floats, not quotients of integers."""

    def program(x):
        factor = x.shape[-1] / x.shape[-2]
        return fb.nn.functional.interpolate(x, scale_factor=factor, recompute_scale_factor=False)

    graph = traced(fb, program, fb.ones(1, 1, 4, 6))
    for size in ((3, 5), (49, 93), (7, 3)):
        x = fb.arange(float(math.prod(size))).reshape(1, 1, *size)
        assert graph(x).tolist() == program(x).tolist(), size


def test_new_data_changes_the_geometry(fw):
    _, mode = new_mode(fw)
    x = mode.from_tensor(fw.ones(5, 6))
    y = x.clone()
    y.data = fw.cat([x, x, x], 1).t()
    n, m = x.shape
    assert [str(s) for s in y.shape] == [str(3 * m), str(n)]
    assert [str(s) for s in y.stride()] == ["1", str(3 * m)]
    assert str((y + 1).numel()) == str(3 * m * n)


@pytest.mark.parametrize("method", ["size", "stride"])
def test_dimensions_of_tensors_without_any(fw, method):
    _, mode = new_mode(fw)
    x = mode.from_tensor(fw.ones(5, 6)).sum()
    for dim in (0, -1, 1):
        with pytest.raises(IndexError, match=f"Dimension specified as {dim} but tensor has no dimensions"):
            getattr(x, method)(dim)
    with pytest.raises(IndexError, match="out of range"):
        getattr(mode.from_tensor(fw.ones(5, 6)), method)(2)


def test_wrong_shifts(fw):
    _, mode = new_mode(fw)
    n = mode.from_tensor(fw.ones(5, 6)).shape[0]
    for shift in (lambda: n << -1, lambda: n >> -1, lambda: 1 << (n - 7)):
        with pytest.raises(ValueError, match="negative shift count"):
            shift()
    with pytest.raises(TypeError):
        _ = n << 1.5


def test_sizes_for_which_a_number_is_nan_are_excluded():
    def scale(x):
        return math.nan if x.shape[0] > 20 else 3.0

    env, mode = new_mode(fb)
    x = mode.from_tensor(fb.ones(5, 6))
    assert mode._lanes.program.call(scale, (x,)) == 3.0
    assert env.format_guards() == " - s0 <= 20"
