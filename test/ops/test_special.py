"""Special functions: error bounds against SciPy over wide intervals, and special values."""

from __future__ import annotations

import flambeau as fb
import mpmath as mp
import numpy as np
import pytest
import scipy.special as sp

inf, nan = float("inf"), float("nan")
# Name, exact function, interval, relative bound in eps; where the function has zeros, of 1 / 20 of its size.
WIDE = [
    ("bessel_j0", lambda x: mp.besselj(0, x), (-60, 60), 12),
    ("bessel_j1", lambda x: mp.besselj(1, x), (-60, 60), 12),
    ("modified_bessel_i0", lambda x: mp.besseli(0, x), (-100, 100), 8),
    ("modified_bessel_i1", lambda x: mp.besseli(1, x), (-100, 100), 8),
    ("modified_bessel_k0", lambda x: mp.besselk(0, x), (1e-3, 100), 8),
    ("modified_bessel_k1", lambda x: mp.besselk(1, x), (1e-3, 100), 8),
    ("scaled_modified_bessel_k0", lambda x: mp.exp(x) * mp.besselk(0, x), (1e-3, 1e4), 8),
    ("scaled_modified_bessel_k1", lambda x: mp.exp(x) * mp.besselk(1, x), (1e-3, 1e4), 8),
    ("i0e", lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), (-1e3, 1e3), 8),
    ("i1", lambda x: mp.besseli(1, x), (-100, 100), 8),
    ("i1e", lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), (-1e3, 1e3), 8),
    ("airy_ai", mp.airyai, (-7, 7), 64),
    ("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), (-25, 100), 8),
    ("ndtr", mp.ncdf, (-20, 9), 8),
    ("log_ndtr", lambda x: mp.log(mp.ncdf(x)), (-100, 5), 8),
    ("ndtri", lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), (1e-9, 1 - 1e-9), 8),
    ("entr", lambda x: -x * mp.log(x), (1e-3, 10), 8),
    ("spherical_bessel_j0", lambda x: mp.sin(x) / x, (1e-3, 60), 8),
]


def bounds_hold(got: np.ndarray, want: list[mp.mpf], bound: float, eps: float) -> bool:
    """Relative errors, and absolute ones where the function is near a zero."""
    errors = [abs(mp.mpf(float(g)) - w) for g, w in zip(got, want, strict=True)]
    return all(
        e <= bound * eps * max(abs(w), min(abs(w) * 20, mp.mpf(1) / 20))
        for e, w in zip(errors, want, strict=True)
    )


@pytest.mark.parametrize(("name", "exact", "interval", "bound"), WIDE, ids=[row[0] for row in WIDE])
def test_error_bound(name, exact, interval, bound):
    x = np.random.default_rng(0).uniform(*interval, 150)
    with mp.workdps(30):
        want = [exact(mp.mpf(float(v))) for v in x]
        got = getattr(fb.special, name)(fb.from_numpy(x)).numpy()
        assert bounds_hold(got, want, bound, np.finfo(np.float64).eps)
        narrow = x[np.abs(x) < 80].astype(np.float32)  # further out float32 overflows
        want = [exact(mp.mpf(float(v))) for v in narrow]
        got = getattr(fb.special, name)(fb.from_numpy(narrow)).numpy()
        kept = [i for i, w in enumerate(want) if 1e-37 < abs(w) < 1e38]
        assert bounds_hold(got[kept], [want[i] for i in kept], 1, np.finfo(np.float32).eps)


def amplitude(x: float) -> mp.mpf:
    """What oscillating Bessel functions reach near x."""
    return min(mp.mpf(1), mp.sqrt(2 / (mp.pi * abs(mp.mpf(x)))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("second", [False, True])
def test_bessel_functions_beside_zeros(second, order, dtype):
    with mp.workdps(40):
        name, exact = f"bessel_{'y' if second else 'j'}{order}", mp.bessely if second else mp.besselj
        zeros = [(mp.besselyzero if second else mp.besseljzero)(order, k) for k in range(1, 9)]
        steps = [*np.linspace(-0.3, 0.3, 9), *np.linspace(-1e-6, 1e-6, 5)]
        # The borders of the formulas, small and large numbers.
        others = [8.0, np.nextafter(8.0, 0), 7.999, 8.001, 1e-30, 1e-8, 0.1, 300.0, 1e6, 1e15]
        others += np.random.default_rng(0).uniform(1e-3, 60, 200).tolist()
        x = np.array([float(zero) + step for zero in zeros for step in steps] + others, dtype)
        got = getattr(fb.special, name)(fb.from_numpy(x)).numpy()
        eps = float(np.finfo(dtype).eps)
        for v, g in zip(x.tolist(), got.tolist(), strict=True):
            want = exact(order, mp.mpf(v))
            relative = not second and abs(v) < 8  # the zeros of J below 8 are factors
            size = abs(want) if relative else max(abs(want), amplitude(v))
            assert abs(mp.mpf(g) - want) <= (1 if dtype == np.float32 else 8) * eps * size, v


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64, fb.bfloat16, fb.float16])
@pytest.mark.parametrize(
    ("name", "expected"),  # at 0, -0, inf, -inf, NaN, -1
    [
        ("bessel_j0", [1, 1, 0, 0, nan, 0.7651976865579666]),
        ("bessel_j1", [0, 0, 0, 0, nan, -0.4400505857449335]),
        ("bessel_y0", [-inf, -inf, 0, nan, nan, nan]),
        ("bessel_y1", [-inf, -inf, 0, nan, nan, nan]),
        ("modified_bessel_k0", [inf, inf, 0, nan, nan, nan]),
        ("modified_bessel_k1", [inf, inf, 0, nan, nan, nan]),
        ("scaled_modified_bessel_k0", [inf, inf, 0, nan, nan, nan]),
        ("scaled_modified_bessel_k1", [inf, inf, 0, nan, nan, nan]),
        ("i0e", [1, 1, 0, 0, nan, 0.46575960759364043]),
        ("i1e", [0, 0, 0, 0, nan, -0.2079104153497085]),
        ("i0", [1, 1, inf, inf, nan, 1.2660658777520084]),
        ("i1", [0, 0, inf, -inf, nan, -0.565159103992485]),
        ("spherical_bessel_j0", [1, 1, 0, 0, nan, 0.8414709848078965]),
        ("airy_ai", [0.3550280538878172, 0.3550280538878172, nan, nan, nan, 0.5355608832923521]),
    ],
)
def test_bessel_functions_at_the_ends(name, expected, dtype):
    x = fb.tensor([0.0, -0.0, inf, -inf, nan, -1.0] * 6, dtype=dtype)
    got = getattr(fb.special, name)(x)
    assert got.dtype == dtype
    rtol = {fb.float64: 4e-15, fb.float32: 1e-7}.get(dtype, 4e-3)
    np.testing.assert_allclose(got.double().numpy(), np.array(expected * 6, float), rtol=rtol)
    if name in ("bessel_j1", "i1", "i1e"):
        assert np.signbit(got[1::6].double().numpy()).all()


def test_tiny_arguments_of_bessel_functions():
    least = 5e-324
    x = fb.tensor([least, 1e-310, 1e-300], dtype=fb.float64)
    with mp.workdps(30):
        for name, exact in [
            ("bessel_y0", lambda v: mp.bessely(0, v)),
            ("modified_bessel_k0", lambda v: mp.besselk(0, v)),
        ]:
            want = [float(exact(mp.mpf(v))) for v in x.tolist()]
            np.testing.assert_allclose(getattr(fb.special, name)(x).numpy(), want, rtol=1e-15)
    assert fb.special.bessel_y1(x).tolist()[:2] == [-inf, -inf]
    assert fb.special.modified_bessel_k1(x).tolist()[:2] == [inf, inf]
    np.testing.assert_allclose(fb.special.bessel_j1(x).numpy(), [0, 5e-311, 5e-301], rtol=1e-15)


@pytest.mark.parametrize("name", ["bessel_j0", "bessel_y1", "modified_bessel_k1", "airy_ai", "i1e"])
def test_special_functions_of_strided_and_short_tensors(name):
    function = getattr(fb.special, name)
    for dtype in (fb.float32, fb.float64):
        x = fb.from_numpy(np.random.default_rng(4).uniform(0.1, 20, (33, 18))).to(dtype)
        whole = function(x)
        np.testing.assert_allclose(function(x.t()).numpy(), whole.t().numpy(), rtol=1e-6)
        np.testing.assert_allclose(function(x[::2, ::3]).numpy(), whole[::2, ::3].numpy(), rtol=1e-6)
        for n in range(20):  # loops end with numbers, which the C library may round otherwise
            short = function(x[0, : min(n, 18)]).numpy()
            np.testing.assert_allclose(short, whole[0, : min(n, 18)].numpy(), rtol=1e-6)


def test_trigamma_against_mpmath():
    rng = np.random.default_rng(2)
    wide = 10.0 ** rng.uniform(-100, 100, 100)
    x = np.concatenate([rng.uniform(-30, 0, 150), rng.uniform(0, 12, 200), wide])
    with mp.workdps(120):
        exact = [mp.mpf(float(v)) for v in x]
        want = [mp.psi(1, v) if v < 1e10 else 1 / v + 1 / (2 * v * v) for v in exact]
        got = fb.polygamma(1, fb.from_numpy(x)).numpy()
        # Near the poles the distance to them is what the function depends on.
        bound = [8 * (1 if v > 0 else abs(v) / abs(v - round(v)) + 1) for v in x]
        eps = np.finfo(np.float64).eps
        for v, g, w, b in zip(x, got, want, bound, strict=True):
            assert abs(mp.mpf(float(g)) - w) <= b * eps * w, (v, g, w)


def test_trigamma_at_the_ends():
    x = fb.tensor([0.0, -0.0, -1.0, -2.0, inf, nan], dtype=fb.float64)
    assert fb.polygamma(1, x).tolist()[:5] == [inf, inf, inf, inf, 0.0]
    assert fb.polygamma(1, x)[5].isnan()
    assert fb.polygamma(1, fb.tensor([True, False])).tolist() == [pytest.approx(np.pi**2 / 6), inf]


def test_trigamma_gradients():
    x = fb.tensor([0.3, 2.0, -0.7], dtype=fb.float64, requires_grad=True)
    fb.polygamma(1, x).sum().backward()
    with mp.workdps(30):
        want = [float(mp.psi(2, mp.mpf(float(v)))) for v in x.detach().numpy()]
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize(
    ("function", "exact", "a", "x", "bound"),
    [
        (fb.igamma, lambda a, x: mp.gammainc(a, 0, x, regularized=True), (1e-3, 5), (1e-3, 20), 1e-14),
        (fb.igammac, lambda a, x: mp.gammainc(a, x, regularized=True), (1e-3, 5), (1e-3, 20), 1e-14),
        (fb.igamma, lambda a, x: mp.gammainc(a, 0, x, regularized=True), (50, 5000), (0.8, 1.2), 1e-12),
        (fb.igammac, lambda a, x: mp.gammainc(a, x, regularized=True), (50, 5000), (0.8, 1.2), 1e-12),
        (fb.special.zeta, mp.zeta, (1.01, 20), (0.01, 100), 1e-13),
    ],
)
def test_two_arguments(function, exact, a, x, bound):
    rng = np.random.default_rng(1)
    first, second = rng.uniform(*a, 60), rng.uniform(*x, 60)
    if a[0] == 50:
        second *= first  # near the edge, where the expansions are hard
    got = function(fb.from_numpy(first), fb.from_numpy(second)).numpy()
    with mp.workdps(80):
        for g, p, q in zip(got, first, second, strict=True):
            want = exact(mp.mpf(float(p)), mp.mpf(float(q)))
            assert want < 1e-200 or abs(mp.mpf(float(g)) - want) <= bound * want


POLYNOMIALS = [
    ("chebyshev_polynomial_t", sp.eval_chebyt),
    ("chebyshev_polynomial_u", sp.eval_chebyu),
    ("shifted_chebyshev_polynomial_t", sp.eval_sh_chebyt),
    ("shifted_chebyshev_polynomial_u", sp.eval_sh_chebyu),
    ("hermite_polynomial_h", sp.eval_hermite),
    ("hermite_polynomial_he", sp.eval_hermitenorm),
    ("laguerre_polynomial_l", sp.eval_laguerre),
    ("legendre_polynomial_p", sp.eval_legendre),
]


@pytest.mark.parametrize(("name", "exact"), POLYNOMIALS, ids=[row[0] for row in POLYNOMIALS])
def test_polynomials(name, exact):
    x = np.linspace(-1.5, 1.5, 61)
    for n in (0, 1, 2, 5, 13):
        got = getattr(fb.special, name)(fb.from_numpy(x), n).numpy()
        want = exact(n, x)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12 * np.abs(want).max())
    assert getattr(fb.special, name)(fb.ones(1), -2).tolist() == [0]
    assert getattr(fb.special, name)(fb.ones(1), -0.5).tolist() == [1]
    assert np.isnan(getattr(fb.special, name)(fb.tensor([nan]), 3).item())


@pytest.mark.parametrize(
    "name",
    ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"],
)
def test_degrees_that_no_recurrence_reaches_give_nan(name):
    for n in (2**24 + 1, 1e18, inf):
        assert np.isnan(getattr(fb.special, name)(fb.tensor([0.5], dtype=fb.float64), n).item())


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("bessel_y0", [0.0, -1.0, inf], [-inf, nan, 0.0]),
        ("modified_bessel_k1", [0.0, -1.0, inf], [inf, nan, 0.0]),
        ("i0e", [inf, -inf, nan, 0.0], [0.0, 0.0, nan, 1.0]),
        ("modified_bessel_i1", [inf, -inf, 0.0], [inf, -inf, 0.0]),
        ("erfcx", [inf, -inf, 0.0, -30.0], [0.0, inf, 1.0, inf]),
        ("ndtri", [0.0, 1.0, 0.5, -0.1, 1.1, nan], [-inf, inf, 0.0, nan, nan, nan]),
        ("log_ndtr", [-inf, inf, -1e300], [-inf, 0.0, -inf]),
        ("entr", [0.0, -1.0, nan, inf], [0.0, -inf, nan, -inf]),
        ("airy_ai", [inf, nan, 200.0], [nan, nan, 0.0]),
        ("spherical_bessel_j0", [0.0, inf], [1.0, 0.0]),
    ],
)
def test_special_values(name, given, expected):
    got = getattr(fb.special, name)(fb.tensor(given, dtype=fb.float64)).numpy()
    np.testing.assert_allclose(got, np.array(expected), rtol=2e-16, atol=0)


def test_igamma_at_the_ends():
    a = fb.tensor([0.0, 0.0, 1.0, 1.0, -1.0, inf], dtype=fb.float64)
    x = fb.tensor([1.0, 0.0, 0.0, inf, 1.0, 1.0], dtype=fb.float64)
    np.testing.assert_array_equal(fb.igamma(a, x).numpy(), [1, nan, 0, 1, nan, 0])
    np.testing.assert_array_equal(fb.igammac(a, x).numpy(), [0, nan, 1, 0, nan, 1])


def test_zeta_at_the_ends():
    s = fb.tensor([1.0, 0.5, 2.0, 2.5, 2.0, 3.0], dtype=fb.float64)
    q = fb.tensor([1.0, 1.0, -1.0, -0.5, 1e300, -1e6 + 0.5], dtype=fb.float64)
    got = fb.special.zeta(s, q).numpy()
    assert got[0] == inf and np.isnan(got[1]) and got[2] == inf and np.isnan(got[3])
    assert got[4] == 1e-300 and abs(got[5]) < 1e-10  # the terms of either sign cancel


def test_orders_that_do_not_exist():
    with pytest.raises(RuntimeError, match="polygamma: expected n of 0 or more, got -1"):
        fb.polygamma(-1, fb.ones(2))
    with pytest.raises(RuntimeError, match="p >= 1"):
        fb.mvlgamma(fb.ones(2), 0)


def test_second_names_are_the_same_functions():
    x = fb.tensor([0.3, 0.6])
    for name, other in (("expit", "sigmoid"), ("gammaln", "lgamma"), ("psi", "digamma"), ("i0", "i0")):
        assert getattr(fb.special, name)(x).tolist() == getattr(fb, other)(x).tolist()
    assert fb.absolute(-x).tolist() == x.tolist()
    assert (-x).arctan_().tolist() == fb.atan(-x).tolist()
    assert fb.clip(x, max=0.5).tolist() == x.clamp(max=0.5).tolist()


@pytest.mark.parametrize("dtype", [fb.int64, fb.int32, fb.int16, fb.int8, fb.uint8, fb.bool], ids=str)
def test_ndtri_of_integers(dtype):
    """Integers are at the ends of the range or outside it, also in a vector that ends with a part."""
    given = (fb.arange(45) % 4).to(dtype)
    if dtype.is_signed:
        given = given - 1
    ends = {0: -inf, 1: inf}
    expected = [ends.get(x, nan) for x in given.to(fb.int64).tolist()]
    np.testing.assert_array_equal(fb.special.ndtri(given).numpy(), np.array(expected, np.float32))


@pytest.mark.parametrize("dtype", [fb.float32, fb.float64], ids=str)
@pytest.mark.parametrize("place", [0, 7, 15, 16, 44])
def test_ndtri_of_one_number_among_ends(dtype, place):
    given = fb.tensor([0.0, 1.0, -0.0, 2.0, -inf, nan, inf, -1.0, 1.0] * 5, dtype=dtype)
    expected = np.array([-inf, inf, -inf, nan, nan, nan, nan, nan, inf] * 5)
    for inside in (0.25, 0.97, 1e-30, fb.finfo(dtype).smallest_normal, 1 - fb.finfo(dtype).eps):
        given[place] = inside
        expected[place] = fb.special.ndtri(fb.tensor(inside, dtype=dtype)).item()
        got = fb.special.ndtri(given).numpy()
        np.testing.assert_allclose(got, expected.astype(got.dtype), rtol=2 * fb.finfo(dtype).eps)
        strided = fb.stack([given, given], 1)[:, 1]
        np.testing.assert_array_equal(fb.special.ndtri(strided).numpy(), got)


LANE_POLYNOMIALS = [
    *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]


def by_steps(name, x, n):
    """The three-term recurrence of one polynomial in 60 digits."""
    kind = name[-1] if name.startswith("chebyshev") else name
    first = {
        "t": x, "u": 2 * x, "v": 2 * x - 1, "w": 2 * x + 1, "hermite_polynomial_h": 2 * x,
        "hermite_polynomial_he": x, "laguerre_polynomial_l": 1 - x, "legendre_polynomial_p": x,
    }[kind]  # fmt: skip
    before, here = mp.mpf(1), mp.mpf(first)
    if n <= 0:
        return mp.mpf(1 if n == 0 else 0)
    for k in range(1, n):
        after = {
            "hermite_polynomial_h": lambda k=k, h=here, b=before: 2 * x * h - 2 * k * b,
            "hermite_polynomial_he": lambda k=k, h=here, b=before: x * h - k * b,
            "laguerre_polynomial_l": lambda k=k, h=here, b=before: ((2 * k + 1 - x) * h - k * b) / (k + 1),
            "legendre_polynomial_p": lambda k=k, h=here, b=before: ((2 * k + 1) * x * h - k * b) / (k + 1),
        }.get(kind, lambda h=here, b=before: 2 * x * h - b)()
        before, here = here, after
    return here


@pytest.mark.parametrize("name", LANE_POLYNOMIALS)
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64], ids=str)
def test_polynomials_of_mixed_degrees(name, dtype):
    """Degrees on both sides of each change of formula, ends, special numbers and a last part of a vector.

    Bound: 2 eps of float32; 1e-11 and 1e-12 of the largest value for float64, as in test_polynomials.
    """
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.2, 1.2, 403)
    x[::7] = rng.choice([1.0, -1.0, 0.0, 0.99999994, -0.99999994], len(x[::7]))
    degrees = rng.choice([-2, -1, 0, 1, 2, 5, 6, 7, 8, 12, 15, 16, 17, 18, 30], len(x)) + rng.choice(
        [0, 0.5], 403
    )
    points, n = fb.from_numpy(x).to(dtype), fb.from_numpy(degrees).to(dtype)
    got = getattr(fb.special, name)(points, n)
    assert got.dtype == dtype
    with mp.workdps(60):
        want = [
            float(by_steps(name, mp.mpf(p), int(np.trunc(k)))) if k > -1 else 0.0
            for p, k in zip(points.double().tolist(), degrees, strict=True)
        ]
    scale = np.array([max(abs(np.array(want)[degrees // 1 == d // 1])) for d in degrees])
    rtol, atol = (2.5e-7, 1e-12) if dtype == fb.float32 else (1e-11, 1e-12)
    assert (np.abs(got.double().numpy() - want) <= rtol * np.abs(want) + atol * np.maximum(scale, 1)).all()
    strided = fb.stack([points, points], 1)[:, 0]
    assert getattr(fb.special, name)(strided, n).equal(got)
    assert getattr(fb.special, name)(points[:0], n[:0]).shape == (0,)


@pytest.mark.parametrize("name", LANE_POLYNOMIALS)
@pytest.mark.parametrize("dtype", [fb.float32, fb.float64], ids=str)
def test_polynomials_keep_lanes_apart(name, dtype):
    """NaN, infinities and huge degrees in one lane leave the others as they are."""
    function = getattr(fb.special, name)
    x = fb.linspace(-0.9, 0.9, 21, dtype=dtype)
    n = fb.arange(21, dtype=dtype) % 9
    plain = function(x, n)
    for place in (0, 7, 8, 15, 20):
        for other, degree in (
            (nan, 5),
            (0.5, nan),
            (inf, 3),
            (-inf, 2),
            (1.0, 1000),
            (3.0, 1e6),
            (1e30, 40),
            (0.3, 20),
        ):
            points, degrees = x.clone(), n.clone()
            points[place], degrees[place] = other, degree
            got = function(points, degrees)
            one = function(points[place : place + 1], degrees[place : place + 1])
            assert got[place].equal(one[0]) or (got[place].isnan() and one[0].isnan())
            keep = fb.arange(21) != place
            np.testing.assert_allclose(
                got[keep], plain[keep], rtol=4 * fb.finfo(dtype).eps, atol=40 * fb.finfo(fb.float64).eps
            )
            if np.isnan(other) or np.isnan(degree):
                assert got[place].isnan()
