"""Batching rules: what the generated comparison with loops does not reach."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as fb
import pytest
from flambeau import _C
from flambeau.func import functional_call, grad, hessian, vmap


def same(a: Any, b: Any) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype
    assert fb.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


# --- dtypes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [fb.float64, fb.int64, fb.float16])
@pytest.mark.parametrize("other", [fb.float32, fb.int32])
def test_entries_without_dimensions_have_the_say_of_such(entry: Any, other: Any):
    scalars, tensor = fb.ones(3).to(entry), fb.ones(2).to(other)
    assert vmap(lambda s: s + tensor)(scalars).dtype == (scalars[0] + tensor).dtype
    assert vmap(lambda s: tensor * s)(scalars).dtype == (tensor * scalars[0]).dtype


def test_entries_and_captured_tensors_without_dimensions_promote_alike():
    scalars, captured = fb.ones(3), fb.tensor(2.0, dtype=fb.float64)
    assert vmap(lambda s: s + captured)(scalars).dtype == fb.float64
    assert vmap(lambda s: s + 2.5)(scalars.to(fb.int64)).dtype == fb.float32


# --- in place --------------------------------------------------------------------------------------


def test_in_place_writes_through_to_the_batch():
    x = fb.zeros(3, 2)

    def f(row: Any, y: Any) -> Any:
        row[0] = y
        return row.add_(1)

    same(vmap(f)(x, fb.arange(3.0)), fb.tensor([[1.0, 1], [2, 1], [3, 1]]))
    same(x, fb.tensor([[1.0, 1], [2, 1], [3, 1]]))


def test_in_place_needs_a_batched_target():
    captured = fb.zeros(2)
    with pytest.raises(RuntimeError, match=r"vmap: inplace arithmetic\(self, \*extra_args\) is not possible"):
        vmap(lambda y: captured.add_(y))(fb.ones(3, 2))
    same(captured, fb.zeros(2))


def test_results_of_functional_forms_may_be_written():
    captured, index = fb.zeros(4), fb.tensor([[0, 1], [2, 3], [1, 1]])
    found = vmap(lambda i: fb.index_put(captured, (i,), fb.ones(2), True))(index)
    loop = [fb.index_put(captured, (i,), fb.ones(2), True) for i in index]
    same(found, fb.stack(loop))


# --- random numbers --------------------------------------------------------------------------------


def test_random_operators_need_a_choice():
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda x: x + fb.rand(2))(fb.zeros(3, 2))


@pytest.mark.parametrize("draw", [lambda x: fb.rand(2), fb.rand_like, lambda x: fb.randperm(9) + x[0]])
def test_randomness(draw: Any):
    x = fb.zeros(5, 2)
    alike = vmap(lambda row: draw(row) + 0 * row[0], randomness="same")(x)
    assert (alike == alike[0]).all()
    apart = vmap(lambda row: draw(row) + 0 * row[0], randomness="different")(x)
    assert not (apart == apart[0]).all()


def test_the_same_numbers_do_not_fit_entries_that_differ():
    with pytest.raises(RuntimeError, match="same"):
        vmap(fb.bernoulli, randomness="same")(fb.rand(3, 2))


# --- data-dependent results ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function", [fb.nonzero, fb.unique, lambda x: fb.masked_select(x, x > 0), lambda x: fb.equal(x, x)]
)
def test_shapes_that_are_data_are_refused(function: Any):
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(function)(fb.ones(3, 2))


# --- the loop --------------------------------------------------------------------------------------


def put(x: Any, index: Any) -> Any:
    return x.clone().put_(index, fb.ones(1))


def test_the_loop_warns_once_and_can_be_silenced():
    x, index = fb.zeros(3, 4), fb.tensor([[0], [1], [3]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first = vmap(put)(x, index)
        vmap(put)(x, index)
    same(first, fb.eye(4)[[0, 1, 3]])
    told = [w for w in caught if "performance drop" in str(w.message)]
    assert len(told) <= 1
    assert _C._set_loop_warnings(False)
    assert not _C._set_loop_warnings(True)


def test_the_loop_of_an_empty_batch_knows_the_shape():
    assert vmap(put)(fb.zeros(0, 4), fb.zeros(0, 1, dtype=fb.int64)).shape == (0, 4)
    assert vmap(lambda x: fb.histc(x, 7))(fb.zeros(0, 4)).shape == (0, 7)


# --- placement -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_inner_batch_dimensions(dim: int):
    x = fb.randn(3, 4, 5)

    def f(row: Any) -> Any:
        return fb.cumsum(row, -1).softmax(0).transpose(0, 1)[1:].sum(1, keepdim=True)

    same(vmap(f, in_dims=dim)(x), fb.stack([f(row) for row in x.unbind(dim)]))


def test_dimensions_are_checked_without_the_batch():
    with pytest.raises(IndexError, match=r"range of \[-1, 0\].* got 1"):
        vmap(lambda row: row.softmax(1))(fb.zeros(3, 2))


@pytest.mark.parametrize("batched", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolution(batched: tuple[int | None, int | None], groups: int):
    x, w = fb.randn(3, 2, 4, 6, 6), fb.randn(3, 6, 4 // groups, 3, 3)
    given = [t if d == 0 else t[0] for t, d in zip((x, w), batched, strict=True)]

    def f(x: Any, w: Any) -> Any:
        return fb.nn.functional.conv2d(x, w, padding=1, groups=groups)

    rows = [[t if d is None else t[b] for t, d in zip(given, batched, strict=True)] for b in range(3)]
    same(vmap(f, in_dims=batched)(*given), fb.stack([f(*row) for row in rows]))


def test_gradients_of_each_sample_of_a_convolutional_net():
    fb.manual_seed(0)
    nn = fb.nn
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3), nn.GroupNorm(2, 6),
        nn.Flatten(), nn.Linear(6 * 2 * 2, 3),
    )  # fmt: skip
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    x, y = fb.randn(5, 1, 8, 8), fb.tensor([0, 1, 2, 1, 0])

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(functional_call(net, parameters, (x[None],)), y[None])

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="vmap: there is a performance drop")
        found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    rows = [grad(loss)(parameters, *example) for example in zip(x, y, strict=True)]
    for name, value in found.items():
        same(value, fb.stack([row[name] for row in rows]))


def test_host_choices_about_a_batch_are_taken_for_all_of_it():
    matrices = fb.cat([fb.randn(2, 2, 2), fb.zeros(1, 2, 2)])  # one of them is singular
    second = hessian(fb.linalg.det)
    same(vmap(second)(matrices), fb.stack([second(m) for m in matrices]))


def stacked(function, *batches):
    return fb.stack([function(*entries) for entries in zip(*batches, strict=True)])


@pytest.mark.parametrize("sizes", [(4,), (3, 4)])
def test_normalisation_with_batches_of_some_arguments(sizes):
    x, weights, bias = fb.randn(5, 6, 3, 4), fb.randn(5, *sizes), fb.randn(sizes)

    def f(x, weight):
        return fb.nn.functional.layer_norm(x, sizes, weight, bias)

    expected = stacked(lambda x: f(x, weights[0]), x)
    for place in range(4):
        found = fb.func.vmap(f, (place, None))(x.movedim(0, place), weights[0])
        assert fb.allclose(found, expected, atol=1e-6)
    assert fb.allclose(fb.func.vmap(f)(x, weights), stacked(f, x, weights), atol=1e-6)
    found = fb.func.vmap(f, (None, 0))(x[0], weights)
    assert fb.allclose(found, stacked(lambda weight: f(x[0], weight), weights), atol=1e-6)


def test_gradients_of_gathers_with_batches_of_some_arguments():
    x, index = fb.randn(5, 6, 4), fb.randint(0, 4, (5, 6, 2))
    f = fb.func.grad(lambda x, i: x.gather(-1, i).square().sum())
    assert fb.allclose(fb.func.vmap(f)(x, index), stacked(f, x, index))
    found = fb.func.vmap(f, (2, 2))(x.movedim(0, 2), index.movedim(0, 2))
    assert fb.allclose(found, stacked(f, x, index))
    assert fb.allclose(fb.func.vmap(f, (0, None))(x, index[0]), stacked(lambda x: f(x, index[0]), x))
    assert fb.allclose(fb.func.vmap(f, (None, 0))(x[0], index), stacked(lambda i: f(x[0], i), index))
    numbers = fb.func.vmap(f)(fb.arange(5.0), fb.zeros(5, dtype=fb.int64))
    assert fb.equal(numbers, 2 * fb.arange(5.0))


@pytest.mark.parametrize("shape", [(4,), (3, 4), (1, 4), (3, 0)])
@pytest.mark.parametrize("count", [0, 2])
def test_searches_for_batched_values_in_rows_without_a_batch(shape: tuple[int, ...], count: int):
    rows = fb.rand(shape).sort(-1)[0]
    values = fb.rand((5, *shape[:-1], count))
    expected = fb.stack([fb.searchsorted(rows, v) for v in values])
    assert fb.equal(vmap(lambda v: fb.searchsorted(rows, v))(values), expected)


@pytest.mark.parametrize("index", [1, -1])
@pytest.mark.parametrize("in_dims", [(0, 0), (0, None), (None, 0), (1, 0)])
def test_select_scatter_of_a_source_without_dimensions(index: int, in_dims: tuple[int | None, int | None]):
    rows, numbers = fb.arange(9.0).reshape(3, 3), fb.tensor([-1.0, -2.0, -3.0])
    given = (rows if in_dims[0] is not None else rows[0], numbers if in_dims[1] is not None else numbers[0])
    entries = rows.unbind(in_dims[0]) if in_dims[0] is not None else [rows[0]] * 3
    expected = [
        fb.select_scatter(entry, numbers[i if in_dims[1] is not None else 0], 0, index)
        for i, entry in enumerate(entries)
    ]
    found = vmap(lambda a, b: fb.select_scatter(a, b, 0, index), in_dims=in_dims)(*given)
    assert fb.equal(found, fb.stack(expected))


def test_select_scatter_of_a_batch_refuses_what_one_entry_refuses():
    with pytest.raises(IndexError):
        vmap(lambda a, b: fb.select_scatter(a, b, 0, 3))(fb.zeros(2, 3), fb.ones(2))
    with pytest.raises(RuntimeError, match="expected src to have a size"):
        vmap(lambda a, b: fb.select_scatter(a, b, 0, 1))(fb.zeros(2, 3), fb.ones(2, 2))
