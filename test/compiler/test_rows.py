"""Row groups: operators that run slice by slice, against the same programs run as they are."""

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau._dynamo.utils import counters
from row_programs import ROWS, check, made, small_slices, softmax_in_words, t, without_keepdim  # noqa: F401


@pytest.mark.parametrize("name", ROWS)
def test_programs(name):
    fb.manual_seed(0)
    function, inputs = ROWS[name]
    found = check(function, *inputs, exact=name != "cross entropy")
    assert found and counters["fusion"]["groups of rows"] == len(found)
    assert all(len(sliced._parts) > 1 for sliced in found)


@pytest.mark.parametrize("dtype", [fb.bfloat16, fb.float16, fb.float64])
@pytest.mark.parametrize("name", ["softmax", "softmax in words", "layer_norm", "rms_norm", "without keepdim"])
def test_dtypes(name, dtype):
    function, inputs = ROWS[name]
    assert check(function, *(x.detach().to(dtype).requires_grad_(x.requires_grad) for x in inputs))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["softmax", "softmax in words", "log_softmax", "layer_norm", "rms_norm"])
def test_rows_that_are_not_finite_stay_apart(name, value):
    function, (x, *rest) = ROWS[name]
    given = x.detach().clone()
    given[7, 3] = value
    given[11] = value
    plain = [y.detach() for y in rest]
    assert check(function, given, *plain)
    compiled = fb.compile(function)
    compiled(given, *plain)
    others = [i for i in range(40) if i not in (7, 11)]
    assert fb.equal(compiled(given, *plain)[others], function(x.detach(), *plain)[others])


LAYOUTS = {
    "transposed": lambda: t(16, 40).t(),
    "stepped": lambda: t(80, 32)[::2, ::2],
    "expanded rows": lambda: t(1, 16).expand(40, 16),
    "expanded columns": lambda: t(40, 1).expand(40, 16),
    "offset": lambda: t(41, 17)[1:, 1:],
    "reversed": lambda: t(40, 16).flip(0),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_memory_orders(name):
    x = LAYOUTS[name]().detach()
    ramp = fb.arange(16.0)  # equal elements have no variance but for rounding
    functions = softmax_in_words, lambda x: F.softmax(x * 2, -1) + x, lambda x: without_keepdim(x + ramp)
    for function in functions:
        compiled = fb.compile(function)
        for _ in range(2):
            one, two = compiled(x), function(x)
            assert one.stride() == two.stride() and fb.allclose(one, two, rtol=1e-5, atol=1e-6)
    assert made


ALONG_COLUMNS = {
    "softmax": lambda x: F.softmax(x * 2, 0) + x,
    "negative dimension": lambda x: F.softmax(x * 2, -2) + x,
    "sum": lambda x: (x * 2 - (x * 2).sum(0)) * 3,
    "all": lambda x: x * 2 - (x * 2).amax(),
    "no dimensions are all": lambda x: x * 2 - (x * 2).amax(()),
    "cumulative": lambda x: (x * 2).cumsum(0) + 1,
    "triangle": lambda x: (x * 2).tril() + 1,
    "transposed": lambda x: (x * 2) + (x * 2).t(),
    "flipped": lambda x: (x * 2).flip(0) + 1,
    "sorted": lambda x: (x * 2).sort(0)[0] + 1,
    "rolled flat": lambda x: (x * 2).roll(3) + 1,
    "product": lambda x: (x * 2) @ (x * 2) + 1,
    "determinant": lambda x: fb.linalg.det(x * 2) + x,
    "inverse": lambda x: fb.linalg.inv(x * 2 + 20 * fb.eye(16)) + 1,
    "distances": lambda x: fb.cdist(x * 2, x * 2) + 1,
    "gathered": lambda x: (x * 2).gather(0, fb.arange(16).flip(0).expand(16, 16)) + 1,
    "as one vector": lambda x: F.softmax((x * 2).view(-1), 0).view(16, 16) + x,
    "normalised over all": lambda x: F.layer_norm(x * 2, (16, 16)) + 1,
}  # fmt: skip


@pytest.mark.parametrize("name", ALONG_COLUMNS)
def test_what_is_no_row_is_not_divided(name):
    """Squares, where a wrong slice has a size that fits."""
    fb.manual_seed(1)
    check(ALONG_COLUMNS[name], t(16, 16), exact=False)


def test_reductions_of_both_kinds_in_one_program():
    def f(x):
        rows = F.softmax(x * 2, -1)
        columns = F.softmax(rows + x, 0)
        return F.softmax(columns * rows, -1), rows.sum(0), columns.sum()

    check(f, t(16, 16), exact=False)
    assert made


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    """Operators along rows and columns of squares, whose results are read in any order."""
    pick = fb.Generator().manual_seed(seed)

    def number(most):
        return int(fb.randint(0, most, (), generator=pick))

    steps = [(number(9), number(i + 2), number(i + 2)) for i in range(10)]
    kinds = [
        lambda x, y: F.softmax(x, -1),
        lambda x, y: F.softmax(x, 0),
        lambda x, y: x - y.mean(-1, keepdim=True),
        lambda x, y: x + y.mean(0),
        lambda x, y: (x * y).tanh(),
        lambda x, y: x.sigmoid() + y,
        lambda x, y: F.layer_norm(x, (12,)) * y,
        lambda x, y: x + y.amax(-1).unsqueeze(-1),
        lambda x, y: x.t().contiguous() + y,
    ]

    def f(x, z):
        values = [x, z]
        for kind, one, two in steps:
            values.append(kinds[kind](values[one], values[two]))
        return values[-1], values[-2], values[-4]

    check(f, t(12, 12, grad=seed % 2 == 0), t(12, 12, grad=seed % 4 == 0), exact=False)


def test_what_fits_the_cache_is_not_divided():
    check(lambda x: F.softmax(x * 2, -1), t(4, 4), groups=0)
    check(lambda x: F.softmax(x * 2, -1), t(0, 4), groups=0)
    check(lambda x: F.softmax(x * 2, -1), t(0), groups=0)
    check(lambda x: F.softmax(x * 2, 0) + x, t(), groups=0)
    check(lambda x: F.softmax(x * 2, -1), t(3, 4000), groups=0)  # no row fits the cache
