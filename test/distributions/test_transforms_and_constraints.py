"""Transforms against their Jacobians and inverses, constraints against values written down by hand."""

from __future__ import annotations

import math

import flambeau as fb
import flambeau.distributions as d
import pytest
from flambeau.distributions import constraints

INF, NAN = math.inf, math.nan


def t(values):
    return fb.tensor(values, dtype=fb.float64)


REALS = t([[-2.5, -0.3, 0.0], [0.7, 1.1, 3.0]])
POSITIVE = t([[0.1, 0.5, 1.0], [1.5, 4.0, 30.0]])
UNITS = t([[0.02, 0.3, 0.5], [0.6, 0.9, 0.99]])
LOWER = t([[0.8, 0.0, 0.0], [0.3, 1.7, 0.0], [-0.2, 0.5, 2.0]])


def strictly_lower(y):
    return y[..., fb.tril(fb.ones(y.shape[-2:]), -1).bool()]


def first(y):
    return y[..., :-1]


# Name -> the transform, a batch of values of its domain, and which coordinates of an event are free.
TRANSFORMS = {
    "Exp": (d.ExpTransform(), REALS, None),
    "Power": (d.PowerTransform(t(1.7)), POSITIVE, None),
    "negative Power": (d.PowerTransform(t([-2.0, 0.5, 3.0])), POSITIVE, None),
    "Sigmoid": (d.SigmoidTransform(), REALS, None),
    "Softplus": (d.SoftplusTransform(), REALS, None),
    "Tanh": (d.TanhTransform(), REALS, None),
    "Affine": (d.AffineTransform(t([1.0, 2.0, 3.0]), t([-0.5, 2.0, 4.0])), REALS, None),
    "Affine of vectors": (d.AffineTransform(1.0, t([-0.5, 2.0, 4.0]), event_dim=1), REALS, None),
    "Affine by a number": (d.AffineTransform(0.5, -3.0, event_dim=1), REALS, None),
    "CumulativeDistribution": (
        d.CumulativeDistributionTransform(d.Normal(t(0.3), t(1.2))), REALS, None),
    "StickBreaking": (d.StickBreakingTransform(), REALS, first),
    "CorrCholesky": (d.CorrCholeskyTransform(), REALS, strictly_lower),
    "Reshape": (d.ReshapeTransform((3,), (3, 1)), REALS, None),
    "Compose": (d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.ExpTransform()]), REALS, None),
    "Compose of vectors": (
        d.ComposeTransform([d.AffineTransform(0.0, t([1.0, -2.0, 3.0])), d.StickBreakingTransform()]),
        REALS, first),
    "Independent": (d.IndependentTransform(d.ExpTransform(), 1), REALS, None),
    "Cat": (
        d.CatTransform([d.ExpTransform(), d.AffineTransform(0.0, 3.0)], dim=-1, lengths=[1, 2]), REALS, None),
    "Stack": (
        d.StackTransform([d.ExpTransform(), d.TanhTransform(), d.SigmoidTransform()], dim=-1), REALS, None),
    "inverse of Exp": (d.ExpTransform().inv, POSITIVE, None),
    "inverse of Sigmoid": (d.SigmoidTransform().inv, UNITS, None),
    "inverse of Compose": (
        d.ComposeTransform([d.AffineTransform(1.0, 2.0), d.ExpTransform()]).inv, POSITIVE, None),
}  # fmt: skip


def jacobian_of(transform, x, free):
    """log |det| of the matrix of derivatives of the free coordinates of one event."""

    def flat(values):
        y = transform(values.view(x.shape))
        return (y if free is None else free(y)).reshape(-1)

    matrix = fb.autograd.functional.jacobian(flat, x.reshape(-1))
    assert matrix.shape[0] == matrix.shape[1]
    return fb.linalg.slogdet(matrix)[1]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_log_abs_det_jacobian(name):
    transform, x, free = TRANSFORMS[name]
    y = transform(x)
    found = transform.log_abs_det_jacobian(x, y)
    events = x.dim() - transform.domain.event_dim
    assert found.shape == x.shape[:events] or name == "Stack"  # its domain has a dimension more
    whole = (
        jacobian_of(transform, x, None) if free is None else sum(jacobian_of(transform, r, free) for r in x)
    )
    fb.testing.assert_close(found.sum(), whole, rtol=1e-9, atol=1e-9)
    if free is None and events == x.dim():  # each element by itself: the matrix is diagonal
        diagonal = fb.autograd.functional.jacobian(lambda v: transform(v), x).reshape(6, 6).diagonal()
        fb.testing.assert_close(found.reshape(-1), diagonal.abs().log(), rtol=1e-9, atol=1e-9)
        if name != "Cat":
            sign = fb.as_tensor(transform.sign)
            assert (sign.expand(x.shape).reshape(-1) == diagonal.sign()).all()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_inverse(name):
    transform, x, _ = TRANSFORMS[name]
    y = transform(x)
    assert transform.codomain.check(y).all() and transform.domain.check(x).all()
    assert tuple(y.shape) == tuple(transform.forward_shape(x.shape))
    assert tuple(x.shape) == tuple(transform.inverse_shape(y.shape))
    fb.testing.assert_close(transform.inv(y), x, rtol=1e-8, atol=1e-8)
    assert transform.inv.inv is transform and transform.inv.domain.check(y).all()
    if type(transform).__name__ not in ("CumulativeDistributionTransform",):
        there = transform.log_abs_det_jacobian(x, y)
        fb.testing.assert_close(transform.inv.log_abs_det_jacobian(y, x), -there)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_cached_values_are_given_back(name):
    transform, x, _ = TRANSFORMS[name]
    if name.startswith("inverse") or name == "Reshape":
        kept = transform.with_cache(1) if name == "Reshape" else transform.inv.with_cache(1).inv
    else:
        kept = transform.with_cache(1)
    y = kept(x)
    assert kept(x) is y, "the value of the same argument is computed once"
    assert kept.inv(y) is x, "the argument of the last value is kept, and not computed"
    again = x.clone()
    assert kept(again) is not y and kept(again).equal(y)
    plain = transform(x)
    assert transform(x) is not plain


@pytest.mark.parametrize("exponent", [-1.0, 3.0, 0.5])
@pytest.mark.parametrize("x", [1e-200, 1e200])
def test_a_power_of_an_extreme_number_has_a_finite_jacobian(exponent, x):
    power, value = d.PowerTransform(t(exponent)), t(x)
    found = power.log_abs_det_jacobian(value, power(value))
    expected = math.log(abs(exponent)) + (exponent - 1) * math.log(x)
    if 0 < power(value) < INF:
        assert abs(found.item() - expected) < 1e-9 * abs(expected) + 1e-9


def test_matrices_of_transforms():
    for transform in (d.LowerCholeskyTransform(), d.PositiveDefiniteTransform()):
        x = LOWER.clone()
        y = transform(x)
        assert transform.codomain.check(y)
        fb.testing.assert_close(transform.inv(y), x)
    y = d.SoftmaxTransform()(REALS)
    assert constraints.simplex.check(y).all() and not d.SoftmaxTransform.bijective
    fb.testing.assert_close(d.SoftmaxTransform()(d.SoftmaxTransform().inv(y)), y)
    x = t([-2.0, 3.0])
    assert d.AbsTransform()(x).tolist() == [2.0, 3.0] and d.AbsTransform().inv(t([2.0])).item() == 2.0


# Constraint, what it takes, what it refuses. The last dimensions of a value are its event's.
YES_AND_NO = {
    "boolean": (constraints.boolean, [0.0, 1.0], [0.5, -1.0, 2.0, NAN]),
    "one_hot": (
        constraints.one_hot, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
        [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.5, 0.5, 0.0], [2.0, -1.0, 0.0], [NAN, 1.0, 0.0]]),
    "integer_interval": (constraints.integer_interval(-1, 2), [-1.0, 0.0, 2.0], [-2.0, 3.0, 0.5, NAN, INF]),
    "nonnegative_integer": (constraints.nonnegative_integer, [0.0, 1.0, 7.0], [-1.0, 0.5, NAN]),
    "positive_integer": (constraints.positive_integer, [1.0, 9.0], [0.0, 1.5, -1.0, NAN]),
    "real": (constraints.real, [0.0, -1e300, INF, -INF], [NAN]),
    "real_vector": (constraints.real_vector, [[0.0, INF]], [[0.0, NAN]]),
    "greater_than": (constraints.greater_than(1.0), [1.5, INF], [1.0, -3.0, NAN]),
    "greater_than_eq": (constraints.greater_than_eq(1.0), [1.0, INF], [0.9, -INF, NAN]),
    "less_than": (constraints.less_than(1.0), [0.9, -INF], [1.0, INF, NAN]),
    "interval": (constraints.interval(-1.0, 2.0), [-1.0, 0.0, 2.0], [-1.1, 2.1, NAN, INF]),
    "half_open_interval": (constraints.half_open_interval(-1.0, 2.0), [-1.0, 1.9], [2.0, -1.1, NAN]),
    "positive": (constraints.positive, [1e-300, INF], [0.0, -0.0, -1.0, NAN]),
    "nonnegative": (constraints.nonnegative, [0.0, -0.0, 3.0], [-1e-300, NAN]),
    "unit_interval": (constraints.unit_interval, [0.0, 0.3, 1.0], [-0.1, 1.1, NAN]),
    "simplex": (
        constraints.simplex, [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.2, 0.3, 0.5 + 1e-8]],
        [[0.2, 0.3, 0.4], [-0.1, 0.6, 0.5], [0.5, 0.5, 0.5], [NAN, 0.5, 0.5]]),
    "multinomial": (
        constraints.multinomial(4), [[1.0, 3.0], [0.0, 0.0], [0.0, 4.0]],
        [[3.0, 2.0], [-1.0, 2.0], [NAN, 1.0]]),
    "lower_triangular": (
        constraints.lower_triangular, [[[1.0, 0.0], [5.0, -2.0]], [[0.0, 0.0], [0.0, 0.0]]],
        [[[1.0, 0.1], [5.0, 2.0]]]),
    "lower_cholesky": (
        constraints.lower_cholesky, [[[1.0, 0.0], [-5.0, 2.0]]],
        [[[1.0, 0.0], [5.0, -2.0]], [[0.0, 0.0], [1.0, 1.0]], [[1.0, 0.1], [0.0, 1.0]]]),
    "corr_cholesky": (
        constraints.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.0, 1.0]]],
        [[[1.0, 0.0], [0.6, 0.9]], [[-1.0, 0.0], [0.6, 0.8]], [[0.6, 0.8], [0.0, 1.0]]]),
    "symmetric": (
        constraints.symmetric, [[[1.0, 2.0], [2.0, -1.0]]], [[[1.0, 2.0], [2.1, 1.0]]]),
    "positive_semidefinite": (
        constraints.positive_semidefinite, [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 0.0], [0.0, 0.0]]],
        [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.0, 1.0]]]),
    "positive_definite": (
        constraints.positive_definite, [[[2.0, 1.0], [1.0, 2.0]]],
        [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]], [[2.0, 1.0], [0.5, 2.0]]]),
    "independent": (constraints.independent(constraints.positive, 1), [[1.0, 2.0]], [[1.0, 0.0], [NAN, 1.0]]),
    "cat": (
        constraints.cat([constraints.positive, constraints.real], dim=-1, lengths=[1, 1]),
        [[1.0, -1.0]], []),
    "stack": (constraints.stack([constraints.positive, constraints.real], dim=-1), [[1.0, -1.0]], []),
}  # fmt: skip


@pytest.mark.parametrize("name", YES_AND_NO)
def test_constraint(name):
    constraint, accepted, refused = YES_AND_NO[name]
    events = constraint.event_dim - (name == "stack")  # which answers for each part
    for values, answer in ((accepted, True), (refused, False)):
        for value in values:
            one = constraint.check(t(value))
            assert one.dtype == fb.bool and one.dim() == t(value).dim() - events
            assert bool(one.all()) is answer, (value, one)
        if values:  # a batch has an answer for each event
            found = constraint.check(t(values))
            assert found.reshape(len(values), -1).all(-1).tolist() == [answer] * len(values)


def test_constraints_of_several_parts_answer_for_each():
    both = constraints.cat([constraints.positive, constraints.less_than(0.0)], dim=-1, lengths=[2, 1])
    assert both.check(t([[1.0, -1.0, -1.0], [0.0, 1.0, 1.0]])).tolist() == [
        [True, False, True],
        [False, True, False],
    ]
    stacked = constraints.stack([constraints.positive, constraints.less_than(0.0)], dim=0)
    assert stacked.check(t([[1.0, -1.0], [-1.0, 1.0]])).tolist() == [[True, False], [True, False]]


def test_square_asks_for_the_shape_alone():
    assert constraints.square.check(t([[1.0, 2.0], [NAN, 3.0]])).item() is True
    assert constraints.square.check(t([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])).item() is False


def test_what_depends_on_parameters_cannot_be_checked():
    assert constraints.is_dependent(constraints.dependent)
    with pytest.raises(ValueError, match="dependent"):
        constraints.dependent.check(t(1.0))


@pytest.mark.parametrize(
    "name", ["real", "positive", "nonnegative", "unit_interval", "simplex", "interval", "half_open_interval",
             "greater_than", "greater_than_eq", "less_than", "lower_cholesky", "corr_cholesky",
             "positive_definite", "positive_semidefinite", "independent", "cat", "stack"],
)  # fmt: skip
def test_the_registry_maps_into_the_constraint(name):
    constraint = YES_AND_NO[name][0]
    x = fb.linspace(-3.0, 3.0, 6, dtype=fb.float64)
    x = x[:2] if name in ("cat", "stack") else x
    matrices = ("lower_cholesky", "positive_definite", "positive_semidefinite")
    for registry in (d.transform_to,) if name in matrices else (d.biject_to, d.transform_to):
        transform = registry(constraint)
        x = x[:4].reshape(2, 2) if name in matrices else x
        y = transform(x)
        assert constraint.check(y).all(), (registry, y)
        if registry is d.biject_to:
            back = transform.inv(y)
            fb.testing.assert_close(transform(back), y)
