"""Sizes that do not fit: negative, beyond int64 in their product, gradients unlike the result."""

import flambeau
import numpy as np
import pytest

F = flambeau._C._functions
HUGE = 2**62


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: flambeau.empty([2, -3]), "negative dimension"),
        (lambda: flambeau.empty([HUGE, 8, 8]), "Storage size calculation overflowed"),
        (lambda: flambeau.empty([HUGE], device="meta"), "Storage size calculation overflowed"),
        (lambda: flambeau.empty([0, HUGE, 8]), "Stride calculation overflowed"),
        (lambda: flambeau.empty_strided([2], [HUGE]), "Storage size calculation overflowed"),
        (lambda: flambeau.ones(1).expand(HUGE, HUGE), "overflow"),
        (lambda: flambeau.ones(1).as_strided([HUGE], [HUGE]), "overflow"),
        (lambda: flambeau.ones(3).as_strided([1], [1], 2**63 - 1), "overflow"),
        (lambda: flambeau.ones(4).reshape(HUGE, 4, HUGE), "invalid for input of size 4"),
        (lambda: flambeau.ones(5).narrow(0, 3, 2**63 - 1), "exceeds dimension size"),
        (lambda: flambeau.ones(3).repeat(2**63 - 1), "overflow"),
        (lambda: flambeau.ones(3).tile(2**63 - 1), "overflow"),
        (lambda: flambeau.pixel_shuffle(flambeau.ones(1, 4, 2, 2), 2**63 - 1), "divisible"),
        (
            lambda: flambeau.instance_norm(flambeau.ones(()), None, None, None, None, True, 0.1, 0.0, False),
            "instance_norm: expected an input of at least 2 dimensions",
        ),
        (lambda: flambeau.ones(5).split([2**63 - 1, 2**63 - 1, 7]), "overflow"),
        (lambda: F._unreduce(flambeau.ones(()), [3, -(2**31)], None, False), "negative dimension"),
        (lambda: flambeau.nn.functional.max_pool1d(flambeau.ones(1, 5), HUGE, 1, HUGE // 2), "overflow"),
        (
            lambda: flambeau.conv1d(flambeau.ones(1, 1, 5), flambeau.ones(1, 1, 2), dilation=2**63 - 1),
            "overflow",
        ),
        (lambda: flambeau.combinations(flambeau.ones(5), 2**62, with_replacement=True), "overflow"),
        (lambda: flambeau.ones(3).resize_(2**62), "overflow"),
        (lambda: flambeau.fft.fftn(flambeau.ones(2, 2), [HUGE, 4]), "overflow"),
        (lambda: flambeau.empty_permuted([2, HUGE, 4], [0, 1, 2]), "overflow"),
        (lambda: flambeau.bincount(flambeau.tensor([2**63 - 1])), "expected numbers below"),
        (lambda: flambeau.fft.hfft(flambeau.ones(3), 2**63 - 1), "overflow"),
        (
            lambda: flambeau.as_strided(flambeau.ones(3), [2], [2**63 - 1], 1),
            "overflow",
        ),
        (
            lambda: flambeau.as_strided(flambeau.ones(3), [3], [1, 1], 0),
            "one stride per size",
        ),
        (
            lambda: flambeau.conv1d(flambeau.ones(1, 1, 5), flambeau.ones(1, 1, 2), groups=0),
            "non-positive groups",
        ),
    ],
)
def test_sizes_beyond_int64_are_refused(make, message):
    with pytest.raises(RuntimeError, match=message):
        make()


@pytest.mark.parametrize(
    "call",
    [
        lambda g: F._avg_pool_backward(g, [2, 6], [2], [2], [0], False, True, None),
        lambda g: F._adaptive_avg_pool_backward(g, [2, 7], [3]),
        lambda g: F.convolution_backward(
            g, flambeau.ones(1, 2, 4), flambeau.ones(3, 2, 2), True, [1], [0], [1], False, [0], 1, [True] * 3
        ),
        lambda g: F._grid_sampler_backward(
            g, flambeau.ones(1, 1, 4, 5), flambeau.zeros(1, 3, 2, 2), 0, 0, False
        ),
        lambda g: F._unfold_backward(g, [7], 0, 3, 1),
    ],
)
@pytest.mark.parametrize("shape", [(), (5,), (1, 2, 3, 4)])
def test_gradients_have_the_shape_of_the_result(call, shape):
    with pytest.raises(RuntimeError, match="Expected grad_output to have shape"):
        call(flambeau.ones(shape))


@pytest.mark.parametrize(
    "split",
    [lambda: flambeau.ones(3).tensor_split(2**40), lambda: flambeau.ones(0).chunk(2**40)],
)
def test_pieces_that_cannot_be_had_are_refused(split):
    with pytest.raises(RuntimeError, match=f"expected fewer than .*, got {2**40}"):
        split()


@pytest.mark.parametrize(
    "make",
    [
        lambda: flambeau.linspace(0, 1, 2**50),
        lambda: flambeau.randperm(2**50),
        lambda: flambeau.fft.fftfreq(2**50),
        lambda: flambeau.mvlgamma(flambeau.ones(1), 2**50),
        lambda: flambeau.tril_indices(2**25, 2**25),
        lambda: flambeau.combinations(flambeau.ones(1), 2**50, with_replacement=True),
    ],
)
def test_memory_that_cannot_be_had_is_named(make):
    with pytest.raises(RuntimeError, match=r"can't allocate memory of \d+ bytes"):
        make()


def test_a_required_tensor_may_not_be_absent():
    values, vectors = flambeau.linalg.eigh(flambeau.eye(2))
    with pytest.raises(TypeError, match="grad_vectors"):
        F._eigh_inner(None, None, values, vectors)
    given = F._eig_inner(flambeau.tensor([2.0, 3.0]), None, values, vectors)
    assert given.tolist() == [[2, 0], [0, 3]]


def test_other_numbers_are_not_read_as_truth_values():
    with pytest.raises(RuntimeError, match="_is_any"):
        F._is_any(flambeau.tensor([2], dtype=flambeau.uint8))
    assert F._is_any(flambeau.tensor([False, True]))


def test_divisions_by_no_groups_are_refused():
    with pytest.raises(RuntimeError, match="non-positive groups"):
        F.convolution_backward(
            flambeau.ones(1, 3, 3),
            flambeau.ones(1, 2, 4),
            flambeau.ones(3, 2, 2),
            True,
            [1],
            [0],
            [1],
            False,
            [0],
            0,
            [True] * 3,
        )


def test_elements_without_memory_are_not_read():
    lengths = flambeau.ones(2, dtype=flambeau.int64, device="meta")
    targets = flambeau.ones(2, 1, dtype=flambeau.int64)
    with pytest.raises(RuntimeError, match="have values|doesn't have storage"):
        F.ctc_loss(flambeau.zeros(4, 2, 3), targets, lengths, lengths)
    assert flambeau.ones(3, device="meta").data_ptr() == 0


def test_truth_values_of_any_byte_are_read_as_such():
    x = np.array([0, 190, 1], np.uint8).view(bool)
    assert flambeau.from_numpy(x).tolist() == [False, True, True]
    assert flambeau.from_numpy(x)[1].item() is True


def test_differences_end_when_nothing_is_left():
    assert flambeau.ones(3, 4).diff(n=2**31 - 1).shape == (3, 0)
    assert flambeau.ones(0, 4).diff(n=2**31 - 1, dim=0).shape == (0, 4)


def test_internal_operators_refuse_what_their_callers_never_pass():
    aten = flambeau.ops.aten
    pivots = flambeau.arange(1, 6, dtype=flambeau.int32)
    with pytest.raises(RuntimeError, match="at most one pivot for each of 1 rows, got 5"):
        aten._pivots_to_permutation(pivots, 1)
    images = flambeau.ones(2, 2, 2, 2)
    for numbers in ([1], [1, 1, 1], []):
        with pytest.raises(RuntimeError, match="two numbers for each of kernel size"):
            aten._deform_columns(images, images, images, numbers, [1, 1], [0, 0], [1, 1], 1, False)
        with pytest.raises(RuntimeError, match="two numbers for each of kernel size"):
            aten._deform_columns(images, images, images, [1, 1], [1, 1], numbers, [1, 1], 1, False)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "linear-aa", "cubic", "cubic-aa"])
@pytest.mark.parametrize("scale", [1e-300, 1e-45, 1e300, np.inf, np.nan, -1.0, 0.0])
def test_scales_of_any_size_take_elements_of_the_input(mode, scale):
    x = flambeau.arange(1.0, 4.0)[None]
    found = flambeau.ops.aten._resample(x, 1, 5, mode, False, scale)
    assert found.shape == (1, 5)
    if mode.startswith("nearest"):
        assert set(found[0].tolist()) <= {1.0, 2.0, 3.0}
    grad = flambeau.ops.aten._resample_backward(flambeau.ones(1, 5), 1, 3, mode, False, scale)
    assert grad.shape == (1, 3)


def test_gradients_of_repeats_of_nothing():
    x = flambeau.ones(4, dtype=flambeau.complex128, requires_grad=True)
    x.tile(2**63 - 1, 0, 0).sum().abs().backward()
    assert x.grad.tolist() == [0, 0, 0, 0]
