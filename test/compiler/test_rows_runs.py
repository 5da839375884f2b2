"""Row groups at run time: writes, random numbers, memory, threads, errors, and the choice of slices."""

import threading
import time

import flambeau as fb
import flambeau.nn.functional as F
import pytest
from flambeau.compiler.emit import rows as emitted
from flambeau.compiler.passes import rows as grouped
from oracle import pytorch
from row_programs import ROWS, check, made, own_call, small_slices, t  # noqa: F401


def test_writes_keep_their_order():
    def f(x, y):
        z = F.softmax(x * 2, -1)
        x.add_(1)
        y.copy_(z)
        return F.softmax(x * 2, -1) + y

    compiled = fb.compile(f)
    x, y = fb.randn(40, 16), fb.zeros(40, 16)
    twin, other = x.clone(), y.clone()
    for _ in range(3):
        assert fb.equal(compiled(x, y), f(twin, other))
        assert fb.equal(x, twin) and fb.equal(y, other)


def test_results_have_memory_of_their_own():
    compiled = fb.compile(lambda x: (F.softmax(x * 2, -1), x.unsqueeze(0), F.softmax(x * 2, -1)))
    x = fb.randn(40, 16)
    for _ in range(2):
        one, view, two = compiled(x)
        kept = two.clone()
        one.fill_(7)
        assert fb.equal(two, kept) and fb.equal(view[0], x)
        view.zero_()
        assert not x.any()
        x = fb.randn(40, 16)
    assert made


def test_threads_share_one_group():
    compiled = fb.compile(lambda x: F.softmax(x * 2, -1) + x)
    inputs = [fb.randn(40, 16) for _ in range(8)]
    for x in inputs[:2]:
        compiled(x)
    failures = []

    def run(x):
        for _ in range(50):
            if not fb.equal(compiled(x), F.softmax(x * 2, -1) + x):
                failures.append(x)

    threads = [threading.Thread(target=run, args=(x,)) for x in inputs]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert made and not failures


def test_an_error_in_a_slice_is_the_operators_own():
    compiled = fb.compile(lambda x, i: (x * 2).gather(1, i) + 1)
    x, good = fb.randn(40, 16), fb.zeros(40, 16, dtype=fb.int64)
    for _ in range(2):
        compiled(x, good)
    bad = good.clone()
    bad[39, 3] = 16
    with pytest.raises((IndexError, RuntimeError), match="gather"):
        compiled(x, bad)
    assert made and fb.equal(compiled(x, good), (x * 2).gather(1, good) + 1)


@pytest.mark.parametrize("quick", ["run", "_whole"])
def test_the_quicker_way_stays(monkeypatch, quick):
    monkeypatch.setattr(emitted.Sliced, "__call__", own_call)
    clock = [0.0]

    def tick():
        clock[0] += 1
        return clock[0]

    monkeypatch.setattr(emitted.time, "perf_counter", tick)
    compiled, x = fb.compile(lambda x: F.softmax(x * 2, -1) + x), fb.randn(40, 16)
    expected = F.softmax(x * 2, -1) + x
    assert fb.equal(compiled(x), expected) and fb.equal(compiled(x), expected)
    (sliced,) = made
    slow = "run" if quick == "_whole" else "_whole"
    run = getattr(sliced, slow)

    def slowly(*inputs):
        tick()
        return run(*inputs)

    setattr(sliced, slow, slowly)
    for _ in range(6):
        assert fb.equal(compiled(x), expected)
    assert sliced._chosen == getattr(sliced, quick)


def test_threads_that_measure_at_once(monkeypatch):
    """The choice needs times of both ways, whichever threads took them."""
    monkeypatch.setattr(emitted.Sliced, "__call__", own_call)
    compiled, x = fb.compile(lambda x: F.softmax(x * 2, -1) + x), fb.randn(40, 16)
    expected = F.softmax(x * 2, -1) + x
    compiled(x)
    assert fb.equal(compiled(x), expected)
    (sliced,) = made
    run, barrier, failures = sliced.run, threading.Barrier(4), []

    def slowly(*inputs):
        time.sleep(0.002)
        return run(*inputs)

    sliced.run = slowly

    def call():
        barrier.wait()
        try:
            for _ in range(10):
                assert fb.equal(sliced(x)[0], sliced._whole(x)[0])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failures and sliced._chosen == sliced._whole
    assert [len(times) for times in sliced._times] == [3, 3]


def test_an_error_while_measuring_leaves_the_choice_open(monkeypatch):
    monkeypatch.setattr(emitted.Sliced, "__call__", own_call)
    compiled = fb.compile(lambda x, i: (x * 2).gather(1, i) + 1)
    x, good = fb.randn(40, 16), fb.zeros(40, 16, dtype=fb.int64)
    for _ in range(2):
        compiled(x, good)
    for _ in range(4):
        with pytest.raises((IndexError, RuntimeError), match="gather"):
            compiled(x, good + 16)
    (sliced,) = made
    assert sliced._chosen is None and not sliced._timing.locked()
    for _ in range(6):
        assert fb.equal(compiled(x, good), (x * 2).gather(1, good) + 1)
    assert sliced._chosen is not None


def test_deterministic_algorithms_run_whole(monkeypatch):
    monkeypatch.setattr(emitted.Sliced, "__call__", own_call)
    compiled, x = fb.compile(lambda x: F.softmax(x * 2, -1) + x), fb.randn(40, 16)
    compiled(x)
    compiled(x)
    (sliced,) = made

    def never(*inputs):
        raise AssertionError("slices")

    sliced.run = sliced._chosen = never
    fb.use_deterministic_algorithms(True)
    try:
        for _ in range(8):
            assert fb.equal(sliced(x)[0], F.softmax(x * 2, -1) + x)
    finally:
        fb.use_deterministic_algorithms(False)
    with pytest.raises(AssertionError, match="slices"):
        sliced(x)


BOTH_WAYS = ["softmax", "softmax in words", "log_softmax", "masked softmax", "layer_norm", "rms_norm",
             "without keepdim", "an odd tail", "two leading dimensions", "a middle dimension"]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("name", BOTH_WAYS)
def test_both_ways_give_equal_bits(name, threads):
    function, inputs = ROWS[name]
    compiled, plain = fb.compile(function), [x.detach() for x in inputs]
    for _ in range(2):
        compiled(*plain)
    before = fb.get_num_threads()
    fb.set_num_threads(threads)
    try:
        assert made
        for sliced in made:
            given = [fb.randn(n.meta["val"].size()).to(n.meta["val"].dtype) for n in sliced.group.inputs]
            for one, two in zip(sliced.run(*given), sliced._whole(*given), strict=True):
                assert one.stride() == two.stride() and one.dtype == two.dtype
                assert fb.equal(one.isnan(), two.isnan()) and fb.equal(one.nan_to_num(), two.nan_to_num())
    finally:
        fb.set_num_threads(before)


def test_both_ways_differ_by_rounding_alone(monkeypatch):
    """Long rows that threads share, and functions of the C library at the ends of loops."""
    monkeypatch.setattr(grouped, "_CACHE_BYTES", 1 << 20)
    monkeypatch.setattr(grouped, "_SLICE_BYTES", 1 << 19)
    before = fb.get_num_threads()
    fb.set_num_threads(4)
    try:
        x = fb.rand(3, 70001)
        for function in (lambda x: x.sin() / x.sum(-1, keepdim=True), lambda x: F.rms_norm(x * 2, (70001,))):
            compiled = fb.compile(function)
            for _ in range(2):
                assert fb.allclose(compiled(x), function(x), rtol=2e-6, atol=0)
        assert len(made) == 2
    finally:
        fb.set_num_threads(before)


def test_no_rows_and_one_row():
    function = lambda x, w: F.softmax(x * 2 + w, -1)  # noqa: E731
    for rows, width in ((0, 600), (1, 40), (2, 40), (40, 40)):
        x, w = fb.randn(rows, 3, width), fb.randn(width)
        check(function, x, w)
        check(function, x[..., :0], w[:0])
    assert made


def test_views_of_results_keep_their_memory():
    """A list of views with one element: the view has the memory order of a whole tensor."""
    compiled = fb.compile(lambda x: (x.split(16, -1)[0], F.softmax(x.split(16, -1)[0] * 2, -1) + x))
    x = fb.randn(40, 16)
    for _ in range(3):
        view, result = compiled(x)
        assert view.data_ptr() == x.data_ptr() and fb.equal(result, F.softmax(x * 2, -1) + x)
    check(lambda x: [part + 1 for part in F.softmax(x * 2, -1).chunk(2, -1)], t(40, 16))
    check(lambda x: [part + 1 for part in F.softmax(x * 2, -1).unbind(0)][:3], t(40, 16))
    assert made


def test_expanded_vectors_of_squares():
    def f(x):
        vector = F.softmax(x * 2, -1).sum(-1)
        return F.softmax(vector.expand(16, 16) * x, -1) + vector.unsqueeze(-1).expand(16, 16)

    check(f, t(16, 16), exact=False)
    assert made


def test_inputs_that_share_memory():
    def f(x, y):
        z = F.softmax(x * 2, -1)
        y.add_(z)
        return F.softmax(x * 3, -1) + y

    for pick in (lambda base: (base[:40], base[:40]), lambda base: (base[:40], base[3:43])):
        compiled, base = fb.compile(f), fb.randn(43, 16)
        for _ in range(3):
            twin = base.clone()
            assert fb.equal(compiled(*pick(base)), f(*pick(twin))) and fb.equal(base, twin)


def test_random_numbers_keep_their_order():
    def f(x):
        one = F.dropout(F.softmax(x * 2, -1), 0.5)
        two = fb.rand_like(x)
        return F.softmax(one + two, -1) + fb.rand_like(x), one

    compiled, x = fb.compile(f), t(40, 16)
    for seed in range(3):
        fb.manual_seed(seed)
        found = compiled(x)
        state = fb.get_rng_state()
        fb.manual_seed(seed)
        expected = f(x)
        assert fb.equal(state, fb.get_rng_state())
        assert all(map(fb.equal, found, expected))
    assert made


@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_that_change(dynamic):
    function = lambda x: F.softmax(x * 2, -1) + x  # noqa: E731
    compiled = fb.compile(function, dynamic=dynamic)
    for size in ((40, 16), (41, 16), (7, 33), (0, 16), (300, 2), (40, 16), (1, 400)):
        x = fb.randn(size)
        for _ in range(3):
            assert fb.equal(compiled(x), function(x))
    assert made


def test_a_first_size_that_fits_the_cache_is_no_verdict():
    compiled = fb.compile(lambda x: F.softmax(x * 2, -1), dynamic=False)
    small, large = fb.randn(2, 4), fb.randn(40, 16)
    for x in (small, small, small, large, large):
        assert fb.equal(compiled(x), F.softmax(x * 2, -1))
    assert made


@pytest.mark.parametrize("outside", [True, False])
def test_autocast(outside):
    weight = fb.randn(16, 16)

    def inner(x):
        y = fb.softmax((x @ weight) * 2, -1)
        return y * (x @ weight), y

    def f(x):
        with fb.autocast("cpu", dtype=fb.bfloat16):
            return inner(x)

    compiled = fb.compile(inner if outside else f)
    x = fb.randn(40, 16, requires_grad=True)
    for _ in range(3):
        with fb.autocast("cpu", dtype=fb.bfloat16, enabled=outside):
            found, expected = compiled(x), f(x)
        for one, two in zip(found, expected, strict=True):
            assert one.dtype == two.dtype and fb.equal(one, two)
        (one,) = fb.autograd.grad(found[0].float().sum() + found[1].float().square().sum(), x)
        (two,) = fb.autograd.grad(expected[0].float().sum() + expected[1].float().square().sum(), x)
        assert fb.allclose(one, two, rtol=2e-2, atol=2e-2)
    assert made


def test_the_default_device_does_not_matter():
    compiled, x = fb.compile(lambda x: F.softmax(x * 2, -1) + x), fb.randn(40, 16)
    for _ in range(2):
        compiled(x)
    (sliced,) = made
    with fb.device("meta"):
        (found,) = sliced(x)
    assert found.device.type == "cpu" and fb.equal(found, F.softmax(x * 2, -1) + x)


@pytest.mark.parametrize("grad", [False, True])
def test_a_graph_without_gain_runs_as_it_was_captured(grad):
    compiled, x = fb.compile(lambda x: F.softmax(x * 2, -1)), t(40, 16, grad=grad)
    for _ in range(2):
        compiled(x)
    assert made and not any(sliced.gains_nothing for sliced in made)
    calls = []
    for sliced in made:
        sliced.run = lambda *inputs, run=sliced.run: calls.append(0) or run(*inputs)
        sliced._chosen = sliced._whole
    one, two = compiled(x), F.softmax(x * 2, -1)
    assert fb.equal(one, two) and not calls and all(sliced.gains_nothing for sliced in made)
    if grad:
        weight = fb.randn(40, 16)
        assert fb.equal(*(fb.autograd.grad((y * weight).sum(), x)[0] for y in (one, two)))


def test_rules_say_how_calls_are_divided():
    assert fb._C._operator_slices("_softmax") == (("front", "dim"),)
    assert fb._C._operator_slices("add.Tensor") == (("operand", "operand", ""),)
    assert fb._C._operator_slices("cumsum") == fb._C._operator_slices("no_such") == ()
    with pytest.raises(TypeError, match="expected a str, got int"):
        fb._C._operator_slices(3)


@pytest.mark.parametrize("name", ["softmax", "softmax in words", "layer_norm", "rms_norm", "masked softmax"])
def test_results_are_those_of_pytorch(name):
    torch = pytorch()
    function, inputs = ROWS[name]
    inputs = [x.detach() for x in inputs]
    compiled = fb.compile(function)
    compiled(*inputs)
    found = compiled(*inputs)
    theirs = [torch.from_numpy(x.numpy()) for x in inputs]
    space = dict(vars(torch)) | {"F": torch.nn.functional, "float": float}
    copy = type(function)(function.__code__, space)
    expected = copy(*theirs) if name != "softmax in words" else copy(*theirs, -1)
    assert fb.allclose(found, fb.from_numpy(expected.numpy()), rtol=1e-5, atol=1e-6)
