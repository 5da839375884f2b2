"""Pointwise operators on bfloat16: computed in float32, rounded once, for every value and in every layout."""

import flambeau as fb
import numpy as np
import pytest

EVERY = np.arange(1 << 16, dtype=np.uint16)  # the bits of all bfloat16 numbers
OTHER = np.random.default_rng(0).permutation(EVERY)
OPERATORS = {
    "a + b": lambda a, b: a + b,
    "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a * 2": lambda a, b: a * np.float32(2),
    "a * 0.1": lambda a, b: a * np.float32(0.1),  # no bfloat16 number
    "a - 0.5": lambda a, b: a - np.float32(0.5),
    "abs(a)": lambda a, b: abs(a),
    "-a": lambda a, b: -a,
}


def floats(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def tensor(bits):
    return fb.from_numpy(bits.view(np.int16).copy()).view(fb.bfloat16)


def nearest(x):
    """The bits of the nearest bfloat16 numbers, ties to even; all NaN alike."""
    bits = np.ascontiguousarray(x).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def bits_of(t):
    assert t.dtype == fb.bfloat16
    bits = t.contiguous().view(fb.int16).numpy().view(np.uint16)
    return np.where(np.isnan(floats(bits)), np.uint16(0x7FC0), bits)


def check(got, exact):
    np.testing.assert_array_equal(bits_of(got), nearest(exact))


# Less than one vector, rests of vectors and of pairs, beyond a block.
@pytest.mark.parametrize("n", [0, 1, 2, 3, 15, 16, 17, 31, 33, 63, 65, 1023, 1025, 65535, 65536])
@pytest.mark.parametrize("text", OPERATORS)
def test_every_value(text, n):
    a, b = EVERY[-n:] if n else EVERY[:0], OTHER[:n]
    function = OPERATORS[text]
    with np.errstate(all="ignore"):
        exact = function(floats(a), floats(b))
    check(eval(text, {"a": tensor(a), "b": tensor(b), "abs": abs}), exact)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 65536])
def test_rounding_keeps_the_sign_and_payload_of_nan(n):
    bits = np.random.default_rng(n).integers(0, 1 << 32, n, dtype=np.uint32)
    bits[::2] |= 0x7F800000
    got = fb.from_numpy(bits.view(np.float32)).bfloat16().view(fb.int16).numpy().view(np.uint16)
    upper = (bits >> 16).astype(np.uint16)
    is_nan = np.isnan(bits.view(np.float32))
    np.testing.assert_array_equal(got, np.where(is_nan, upper | 0x40, nearest(bits.view(np.float32))))


LAYOUTS = {
    "a row for all": lambda x: (x, x[3]),
    "a column for all": lambda x: (x, x[:, 3:4]),
    "transposed": lambda x: (x.swapaxes(0, 1), x),
    "both transposed": lambda x: (x.swapaxes(0, 1), x[::1].swapaxes(0, 1)),
    "at odd places": lambda x: (x[:, 1:], x[:, :-1]),
    "every second": lambda x: (x[:, ::2], x[:, 1::2]),
    "one element": lambda x: (x, x[5, 5]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    bits = OTHER.reshape(256, 256)
    a, b = LAYOUTS[layout](tensor(bits))
    x, y = LAYOUTS[layout](floats(bits))
    with np.errstate(all="ignore"):
        check(a * b, x * y)
        check(a + b, x + y)


def test_in_place_and_out():
    a, b = EVERY[:4097], OTHER[:4097]
    x, y = floats(a), floats(b)
    with np.errstate(all="ignore"):
        check(tensor(a).add_(tensor(b)), x + y)
        own = tensor(a)
        check(own.mul_(own), x * x)
        check(fb.mul(tensor(a), tensor(b), out=fb.empty(4097, dtype=fb.bfloat16)), x * y)
        check(tensor(a)[1:].add_(tensor(b)[:-1]), x[1:] + y[:-1])


def test_other_dtypes_are_converted():
    a = tensor(EVERY[0x3F00:0x4100])
    x = floats(EVERY[0x3F00:0x4100])
    ones = fb.ones(512)
    assert (a + ones).dtype == fb.float32
    np.testing.assert_array_equal((a + ones).numpy(), x + 1)
    check(a * fb.arange(512), x * np.arange(512, dtype=np.float32))
    assert (a > 1).dtype == fb.bool and (a > 1).numpy().tolist() == (x > 1).tolist()
    np.testing.assert_array_equal(fb.where(a > 1, a, 0.0).float().numpy(), np.where(x > 1, x, 0))


def test_params_stay_float32():
    a, b = tensor(EVERY[0x3F00:0x4100]), tensor(EVERY[0x4100:0x4300])
    x, y = floats(EVERY[0x3F00:0x4100]), floats(EVERY[0x4100:0x4300])
    check(fb.add(a, b, alpha=3), x + y * np.float32(3))
    limit = np.float32(1.1)  # between two bfloat16 numbers: rounded once, as the result
    check(a.clamp(-1.1, 1.1), np.clip(x, -limit, limit))


@pytest.mark.parametrize("n", [1, 7, 8, 15, 16, 17, 31, 33, 1 << 16])
def test_every_half_number_converts_exactly_and_back(n):
    """Runs of any length, at any alignment: float16 and bfloat16 to float32, and rounded to float16."""
    bits = EVERY[-n:].copy()
    halves = fb.from_numpy(bits.view(np.int16)).view(fb.float16)
    want = bits.view(np.float16)
    np.testing.assert_array_equal(halves.float().numpy(), want.astype(np.float32))
    np.testing.assert_array_equal(tensor(bits).float().numpy(), floats(bits))
    number = ~np.isnan(want)
    back = halves.float().half().view(fb.int16).numpy().view(np.uint16)
    np.testing.assert_array_equal(back[number], bits[number])
    assert np.isnan(back.view(np.float16)[~number]).all()
    with np.errstate(over="ignore", invalid="ignore"):
        between = np.nextafter(np.float32(1), np.float32(2)) * want.astype(np.float32)
        rounded = fb.from_numpy(between).half().numpy()
        np.testing.assert_array_equal(rounded, between.astype(np.float16))
