"""Indexing by tensors, and slices by index: values against NumPy, repeated positions, errors."""

from __future__ import annotations

from collections.abc import Callable

import flambeau as fb
import numpy as np
import pytest

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
A = fb.tensor
WHOLE = slice(None)


def counted(*sizes: int) -> fb.Tensor:
    """0, 1, 2, ... in row-major order."""
    return fb.arange(int(np.prod(sizes))).reshape(sizes)


def to_numpy(index: object) -> object:
    return index.numpy() if isinstance(index, fb.Tensor) else index


INDICES = [
    (A([0, 2, -1]),),
    (A([[0], [1]]), A([1, 2])),
    (WHOLE, A([1, 0])),
    (A([0, 1]), WHOLE, A([2, 2])),
    (WHOLE, A([[1]]), A([0, -2])),
    (A([True, False, True]),),
    (WHOLE, A([[True, False, True]] * 4)),
    (A([], dtype=fb.int64),),
    (A([1, 2], dtype=fb.int32), A([0, 0])),
]


@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
@pytest.mark.parametrize("layout", ["row-major", "transposed", "expanded"])
def test_reading(index: tuple[object, ...], layout: str) -> None:
    x = counted(3, 4, 3)
    if layout == "transposed":
        x = counted(3, 4, 3).transpose(0, 2)
    elif layout == "expanded":
        x = counted(3, 1, 3).expand(3, 4, 3)
    np.testing.assert_array_equal(x[index].numpy(), x.numpy()[tuple(map(to_numpy, index))])


@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
def test_writing_and_adding(index: tuple[object, ...]) -> None:
    x, plain = counted(3, 4, 3), counted(3, 4, 3).numpy().copy()
    where = tuple(map(to_numpy, index))
    x[index] = 7
    plain[where] = 7
    np.testing.assert_array_equal(x.numpy(), plain)
    values = counted(*x[index].shape)
    if WHOLE not in index:
        x.index_put_(index, values, accumulate=True)
        np.add.at(plain, where, values.numpy())
        np.testing.assert_array_equal(x.numpy(), plain)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_size_moves_unchanged(dtype: str) -> None:
    x = counted(4, 3).to(getattr(fb, dtype))
    order = A([2, 0, 3, 1])
    back = fb.zeros(4, 3, dtype=x.dtype)
    assert back.index_copy_(0, order, x[order]).equal(x)
    assert fb.index_select(x, 0, order).equal(x[order])
    assert fb.gather(x, 0, order[:, None].expand(4, 3)).equal(x[order])
    assert fb.take(x, fb.arange(12).reshape(4, 3)).equal(x)


def test_repeated_positions_are_added_in_order_at_any_number_of_threads() -> None:
    values = fb.randn(20000, 8)
    places = fb.randint(0, 5, (20000,))
    want = fb.zeros(5, 8)
    for i, place in enumerate(places[:200].tolist()):
        want[place] += values[i]
    got = fb.zeros(5, 8).index_put_((places[:200],), values[:200], accumulate=True)
    assert got.equal(want)
    once = fb.zeros(5, 8).index_add_(0, places, values)
    threads = fb.get_num_threads()
    fb.set_num_threads(1)
    try:
        assert once.equal(fb.zeros(5, 8).index_add_(0, places, values))
    finally:
        fb.set_num_threads(threads)


def test_the_last_of_repeated_writes_wins() -> None:
    x = fb.zeros(3)
    x[A([1, 1, 1])] = A([1.0, 2.0, 3.0])
    assert x.tolist() == [0, 3, 0]


def test_alpha_is_rounded_to_the_tensors_dtype() -> None:
    assert fb.index_add(A([1, 2]), 0, A([0, 0]), A([2, 3]), alpha=1.5).tolist() == [6, 2]


def test_masks_may_be_bytes() -> None:
    assert counted(3, 4)[A([[1, 0, 0, 1]] * 3, dtype=fb.uint8)].tolist() == [0, 3, 4, 7, 8, 11]


def test_a_number_under_a_mask_is_cast_and_a_tensor_is_not() -> None:
    x = fb.zeros(3, dtype=fb.int32)
    x.index_put_((A([True, False, True]),), A(1.5))
    assert x.tolist() == [1, 0, 1]
    with pytest.raises(RuntimeError, match="index_put_: expected values"):
        x.index_put_((A([0]),), A(1.5))


def test_gradients_of_repeated_positions_add_up() -> None:
    x = fb.zeros(4, requires_grad=True)
    (x[A([0, 0, -1])] * A([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [3, 0, 0, 3]


def test_gradients_of_filling_with_a_tensor() -> None:
    x, value = fb.zeros(2, 3, requires_grad=True), fb.tensor(1.0, requires_grad=True)
    fb.index_fill(x, 1, A([0, -1]), value).sum().backward()
    assert value.grad.item() == 4
    assert x.grad.tolist() == [[0, 1, 0]] * 2


X = counted(3, 4)
ONES = fb.ones(1, 4, dtype=fb.int64)
ERRORS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: X[A([3])], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda: X[:, A([-5])], IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
    (lambda: X[A([True, False])], IndexError, r"The shape of the mask \[2\]"),
    (lambda: X[A([0, 1]), A([0, 1, 2])], IndexError, r"broadcast together, got \[int64\[2\], int64\[3\]\]"),
    (lambda: X[A([1.0])], IndexError, "bool or an integer"),
    (lambda: X[A([0]), A([0]), A([0])], IndexError, "too many indices"),
    (lambda: fb.zeros(0, 3)[A([0])], IndexError, "index is out of bounds"),
    (lambda: X.index_put((A([0, 1]),), X), RuntimeError, r"expected values that broadcast .*\[3, 4\]"),
    (lambda: X.clone().index_put_((A([5]),), ONES), IndexError, "index 5 is out of bounds"),
    (lambda: fb.index_select(X, 0, A([3])), IndexError, "index out of range"),
    (lambda: fb.index_select(X, 0, A([-1])), IndexError, "index out of range"),
    (lambda: fb.index_select(X, 1, A([4])), RuntimeError, "from 0 to 3, got 4"),
    (lambda: fb.index_select(X, 0, A([[1]])), IndexError, "0 or 1 dimensions, got 2"),
    (lambda: fb.index_select(X, 0, A([1.0])), RuntimeError, "int64 or int32, got float32"),
    (lambda: fb.index_select(X, 2, A([1])), IndexError, r"range of \[-2, 1\], got 2"),
    (lambda: fb.index_add(X, 0, A([3]), ONES), RuntimeError, "index 3 is out of bounds for dimension 0"),
    (lambda: fb.index_add(X[0], 0, A([4]), A([1])), IndexError, "index out of range"),
    (lambda: fb.index_add(X, 0, A([1, 2]), ONES), RuntimeError, r"each of the 1 slices.* got 2"),
    (lambda: fb.index_add(X, 0, A([1]), ONES[:, :3]), RuntimeError, "equal sizes"),
    (lambda: fb.index_add(X, 0, A([1]), ONES.float()), RuntimeError, r"dtype Long, got Float"),
    (lambda: X[:1].clone().expand(3, 4).index_add_(0, A([1]), ONES), RuntimeError, "share memory"),
    (lambda: fb.index_copy(X, 0, A([-1]), ONES), IndexError, "index -1 is out of bounds for dimension 0"),
    (lambda: fb.index_copy(X, 0, A([1]), ONES[:, :3]), RuntimeError, "slices of one shape"),
    (lambda: fb.index_copy(X, 0, A([1], dtype=fb.int32), ONES), RuntimeError, "dtype int64, got int32"),
    (lambda: fb.index_fill(X, 0, A([-4]), 1), IndexError, "index -4 is out of bounds for dimension 0"),
    (lambda: fb.index_fill(X, 0, A([1]), 1j), RuntimeError, "a real value"),
    (lambda: fb.index_fill(X, 0, A([1]), A([1])), RuntimeError, "0 dimensions, got 1"),
    (lambda: fb.gather(X, 0, A([[3]])), RuntimeError, "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda: fb.gather(X, 0, A([1])), RuntimeError, r"dimensions, got int64\[1\] and int64\[3, 4\]"),
    (lambda: fb.gather(X, 1, A([[0]] * 4)), RuntimeError, "dimensions but 1"),
    (lambda: fb.take(X, A([12])), IndexError, "12 elements, got 12"),
    (lambda: fb.take(X, A([True])), RuntimeError, "dtype int64, got bool"),
    (lambda: fb.zeros(3).put_(A([1, 2]), A([1.0])), IndexError, "one element of source per index"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("wrong", [-1, 20, 2**62, -(2**63)])
def test_each_index_is_checked_before_it_is_used(wrong) -> None:
    x = fb.arange(20.0)
    for n in (1, 7, 8, 9, 23):
        for place in range(n):
            index = fb.arange(n) % 20
            index[place] = wrong
            with pytest.raises(RuntimeError, match="out of bounds"):
                fb.gather(x, 0, index)
            with pytest.raises((IndexError, RuntimeError), match="out of range"):
                fb.index_select(x, 0, index)
