"""Integers at the limits of their types: they wrap around, and no count, divisor or size is misread there."""

import math

import flambeau as fb
import numpy as np
import pytest

LEAST = -(2**63)
MOST = 2**63 - 1


def test_shifts_of_uint64_by_more_than_its_width_push_every_bit_out():
    x = fb.tensor([1, 2**64 - 1, 2**63], dtype=fb.uint64)
    for count in (64, 2**63, 2**63 + 1, 2**64 - 1):
        counts = fb.tensor([count] * 3, dtype=fb.uint64)
        assert fb.bitwise_left_shift(x, counts).tolist() == [0, 0, 0]
        assert fb.bitwise_right_shift(x, counts).tolist() == [0, 0, 0]


def test_shifts_by_negative_counts_push_every_bit_out():
    x = fb.tensor([5, -5])
    assert fb.bitwise_left_shift(x, -1).tolist() == [0, 0]
    assert fb.bitwise_right_shift(x, -1).tolist() == [0, -1]


@pytest.mark.parametrize("dtype", [fb.int8, fb.int16, fb.int32, fb.int64])
def test_divisors_of_the_least_integer(dtype: fb.dtype):
    least = fb.iinfo(dtype).min
    others = [1, -1, 2, 3, -3, 5, 7, 96, 127]
    x, y = fb.tensor([least] * len(others), dtype=dtype), fb.tensor(others, dtype=dtype)
    assert fb.gcd(x, y).tolist() == fb.gcd(y, x).tolist() == [math.gcd(least, n) for n in others]
    bits = fb.iinfo(dtype).bits
    wrapped = [(math.lcm(least, n) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for n in others]
    assert [n % 2**bits for n in fb.lcm(x, y).tolist()] in (
        [n % 2**bits for n in wrapped],
        [-n % 2**bits for n in wrapped],
    )


def test_sums_and_products_wrap():
    source = np.random.default_rng(0)
    values = source.choice([LEAST, MOST, -1, 2, 3, 2**62], size=(6, 37))
    x = fb.from_numpy(values)
    for dim in (0, 1):
        np.testing.assert_array_equal(fb.cumsum(x, dim).numpy(), np.cumsum(values, dim))
        np.testing.assert_array_equal(fb.cumprod(x, dim).numpy(), np.cumprod(values, dim))
    np.testing.assert_array_equal((x @ x.t()).numpy(), values @ values.T)
    np.testing.assert_array_equal((x @ x[0]).numpy(), values @ values[0])


def test_strides_where_nothing_is_stepped_over_may_be_any_number():
    x = fb.tensor([1.5, 2.5])
    assert x.as_strided([1], [MOST]).tolist() == [1.5]
    empty = x.as_strided([2, 0], [MOST, 1])
    assert empty.tolist() == [[], []]
    assert empty.sum() == 0 and (empty + 1).shape == (2, 0)


def test_results_whose_strides_overflow_are_refused():
    with pytest.raises(RuntimeError, match="overflow"):
        fb.add(fb.empty(0, 2**40, 1), fb.empty(0, 1, 2**40))
    with pytest.raises(RuntimeError, match="overflow"):
        fb.add(fb.empty(2**40, 0, 1).transpose(0, 1), fb.empty(0, 1, 2**40))


def test_parts_of_softmax_refuse_gradients_of_another_shape():
    functions = fb._C._functions
    for backward in (functions._softmax_backward, functions._log_softmax_backward):
        with pytest.raises(RuntimeError, match="one shape"):
            backward(fb.ones(3), fb.ones(3, 3, 3), -1)
        with pytest.raises(RuntimeError, match="one shape"):
            backward(fb.ones(2, 1), fb.ones(1, 2, 1), 0)


def test_repeats_whose_sum_overflows_are_refused():
    # The first sum is 5 modulo 2 ** 64: so many places were made, and 2 ** 60 were written to.
    for repeats in ([2**60] * 16 + [5], [2**62] * 3 + [2**62 + 5], [MOST, 2]):
        with pytest.raises(RuntimeError, match="overflow"):
            fb.repeat_interleave(fb.tensor(repeats))


def test_transposed_convolutions_of_integers_wrap():
    weight = fb.tensor([[[1, 1]]])
    assert fb.conv_transpose1d(fb.tensor([[[LEAST, MOST]]]), weight).tolist() == [[[LEAST, -1, MOST]]]
    assert fb.conv_transpose1d(fb.full((1, 1, 3), MOST), weight).tolist() == [[[MOST, -2, -2, MOST]]]


def test_circular_padding_that_cuts_everything_off_is_refused():
    x = fb.arange(3.0).reshape(1, 1, 3)
    for padding in ((1, -3), (-3, 2), (-2, -1), (-5, 3)):
        with pytest.raises(RuntimeError, match="padding that leaves elements"):
            fb.nn.functional.pad(x, padding, mode="circular")
    assert fb.nn.functional.pad(x, (-1, 1), mode="circular").tolist() == [[[1, 2, 1]]]


def test_ranges_whose_length_overflows_are_refused():
    for bounds in ((LEAST, 2), (LEAST, MOST, 2**62), (MOST, LEAST, -(2**62)), (0, LEAST, -1)):
        with pytest.raises(RuntimeError, match="overflow"):
            fb.arange(*bounds)
    assert fb.arange(MOST - 2, MOST).tolist() == [MOST - 2, MOST - 1]
    assert fb.arange(LEAST, LEAST + 5, 2).tolist() == [LEAST, LEAST + 2, LEAST + 4]


def test_pivots_at_the_limits_are_refused():
    for pivot in (0, -(2**31), 2**31 - 1):
        with pytest.raises(RuntimeError, match="pivots between 1 and 3"):
            fb.lu_unpack(fb.eye(3), fb.tensor([pivot, 2, 3], dtype=fb.int32))


def test_parts_that_join_differ_in_dtype():
    stack, cat = fb._C._functions._stack, fb._C._functions._cat
    long, short = fb.full((2, 4096), 1.5, dtype=fb.float64), fb.full((2, 4096), 2.0, dtype=fb.bfloat16)
    for result in (stack([long, short], 1)[:, 1], cat([long, short], [4096, 4096], 1)[:, 4096:]):
        assert result.dtype == fb.float64 and (result == 2).all()


def test_a_derivative_has_one_gradient_per_tensor():
    x = fb.ones(2, requires_grad=True)
    joined = fb._C._functions._cat([x, x], [4], 0)
    with pytest.raises(RuntimeError, match="gradient for each of 2 tensors"):
        joined.sum().backward()


def test_parts_of_fourier_transforms_refuse_tensors_without_dimensions():
    functions = fb._C._functions
    for call in (
        lambda: functions._fft_c2c(fb.tensor(1j), [0], 1.0, True),
        lambda: functions._fft_r2c(fb.tensor(1.0), [0], 1.0, True),
        lambda: functions._fft_c2r(fb.tensor(1j), [0], 1.0, 1),
    ):
        with pytest.raises(RuntimeError, match="dimensions"):
            call()


def test_positions_of_another_integer_type_are_refused():
    with pytest.raises(IndexError, match="int64"):
        fb._C._functions._index(fb.arange(4), [fb.tensor([1], dtype=fb.int32)])


def test_gather_from_a_dimension_without_elements_is_refused():
    for rows in (1, 3):
        with pytest.raises(RuntimeError, match="out of bounds"):
            fb.zeros(0, 5).gather(0, fb.zeros(rows, 3, dtype=fb.int64))
        with pytest.raises(RuntimeError, match="out of bounds"):
            fb.zeros(4, 0, 5).gather(1, fb.zeros(rows, 3, 2, dtype=fb.int64))


@pytest.mark.parametrize("edges", [(LEAST, 0), (0, LEAST), (LEAST, LEAST), (LEAST, 2), (-3, -3)])
def test_circular_padding_that_cuts_too_much_is_refused(edges: tuple[int, int]):
    with pytest.raises(RuntimeError, match="pad"):
        fb.nn.functional.pad(fb.ones(1, 1, 4), edges, mode="circular")


def test_sizes_and_offsets_of_batches_that_overflow_are_refused():
    with pytest.raises(RuntimeError, match="overflow"):
        fb.kron(fb.empty(2**40, device="meta"), fb.empty(2**40, device="meta"))
    base = fb.arange(12.0).view(3, 4)
    with pytest.raises(RuntimeError, match="overflow"):
        fb.vmap(lambda row: row.as_strided((2,), (1,), MOST))(base[1:])


def test_many_differences_of_nothing_end_at_once():
    assert fb.empty(2**40, 0).diff(n=MOST, dim=0).shape == (0, 0)
    assert fb.empty(2**40, 0).diff(n=5, dim=0).shape == (2**40 - 5, 0)
    assert fb.empty(2**40, device="meta").diff(n=3).shape == (2**40 - 3,)
    assert fb.ones(3).diff(n=MOST).shape == (0,)


def test_scattered_sums_and_products_wrap():
    x = fb.tensor([MOST, LEAST])
    at, by = fb.tensor([0, 1]), fb.tensor([1, -1])
    assert x.scatter_add(0, at, by).tolist() == [LEAST, MOST]
    assert x.index_add(0, at, by).tolist() == [LEAST, MOST]
    assert x.scatter_reduce(0, at, fb.tensor([2, 2]), "prod").tolist() == [-2, 0]


def test_extents_of_pooling_windows_that_overflow_are_refused():
    for dilation in (2**62, MOST):
        with pytest.raises(RuntimeError, match="overflow"):
            fb.nn.functional.max_pool2d(fb.ones(2, 5, 3), 3, 1, 1, (dilation, 2))


def test_a_permutation_backwards_names_each_dimension_once():
    x = fb.ones(3, 3, 3, 3, 3)
    with pytest.raises(RuntimeError, match="dim"):
        fb._C._functions._permute_back(x, [-4, 3, -3, 4, 3])


def test_biases_of_integer_convolutions_wrap_around():
    x, weight = fb.full((1, 1, 2), MOST), fb.ones(1, 1, 1, dtype=fb.int64)
    assert fb.nn.functional.conv1d(x, weight, fb.tensor([1])).tolist() == [[[LEAST, LEAST]]]
    assert fb.nn.functional.conv_transpose1d(x, weight, fb.tensor([2])).tolist() == [[[LEAST + 1] * 2]]
