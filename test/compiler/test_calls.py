"""Arguments of compiled functions, and calls within calls."""

import itertools

import flambeau as fb
import pytest
from captured import Recorder, raised, same
from flambeau import _C
from flambeau.compiler.capture import binders, calls, frames

SIGNATURES = [
    lambda: 0, lambda a: 0, lambda a, b=2: 0, lambda a, /, b=2: 0, lambda a=1, /, *, c: 0, lambda *a: 0,
    lambda **k: 0, lambda a, *rest, c=3, **more: 0, lambda a, /, **more: 0, lambda *, c=1, d: 0,
    lambda a, b=None, /, c=4, *rest, d, e=5, **more: 0, lambda unbound, closure=3, *_unbound, **_closure: 0,
]  # fmt: skip
NAMES = ["a", "b", "c", "d", "unbound", "closure", "self", "args", "kwargs"]


@pytest.mark.parametrize("function", SIGNATURES, ids=range(len(SIGNATURES)))
def test_arguments_are_bound_as_python_does(function):
    bind = binders.binder(function)
    for count in range(4):
        for names in itertools.chain.from_iterable(itertools.combinations(NAMES, n) for n in range(4)):
            args, kwargs = tuple(range(count)), dict.fromkeys(names, "k")
            if raised(lambda a=args, k=kwargs: function(*a, **k)) is TypeError:
                with pytest.raises(TypeError):
                    bind(*args, **kwargs)
            else:
                expected = frames.variables(function, calls.bind(function, args, kwargs))
                assert bind(*args, **kwargs) == expected


def test_a_compiled_function_raises_the_errors_of_the_function():
    def function(x, /, y=1, *, z):
        return x + y + z

    made = fb.compile(function, backend=Recorder())
    x = fb.ones(1)
    for args, kwargs in [((), {}), ((x,), {}), ((x, 1, 2), {}), ((x,), {"x": x, "z": 1}), ((x,), {"q": 1})]:
        with pytest.raises(TypeError) as expected:
            function(*args, **kwargs)
        with pytest.raises(TypeError) as got:
            made(*args, **kwargs)
        assert str(got.value) == str(expected.value)
    assert made(x, z=2).item() == 4


def test_an_argument_may_be_called_self():
    made = fb.compile(lambda self, args=2, kwargs=3: self * args + kwargs, backend=Recorder())
    assert made(self=fb.ones(1), kwargs=1).item() == 3 and made(fb.ones(1), args=4).item() == 7


def test_replaced_defaults_and_code_are_seen():
    def function(x, n=2, *, m=1):
        return x * n + m

    made = fb.compile(function, backend=Recorder())
    x = fb.ones(1)
    for change in (
        lambda: None,
        lambda: setattr(function, "__defaults__", (5,)),
        lambda: function.__kwdefaults__.update(m=7),
        lambda: setattr(function, "__kwdefaults__", {"m": 9}),
        lambda: setattr(function, "__kwdefaults__", None),
        lambda: setattr(function, "__defaults__", None),
        lambda: setattr(function, "__code__", (lambda x, n=0, *, m=0: x - n - m).__code__),
        lambda: setattr(function, "__defaults__", (3,)),
    ):
        change()
        for args, kwargs in (((x,), {}), ((x,), {"m": 4}), ((x, 6), {"m": 4})):
            for _ in range(2):
                expected, got = (raised(lambda f=f, a=args, k=kwargs: f(*a, **k)) for f in (function, made))
                assert same(expected, got) or expected is got


def test_errors_leave_no_call_open():
    made = fb.compile(lambda x, n: x.reshape(n), backend=Recorder())
    for n in (2, 3, 2, 3):
        raised(made, fb.ones(2), n)
        assert not _C._is_in_compiled()
    with pytest.raises(TypeError):
        made()
    assert not _C._is_in_compiled()


def test_calls_inside_compiled_calls_run_uncompiled():
    inner_backend, inside = Recorder(), []

    @fb.compiler.disable
    def outside(x):
        inside.append(_C._is_in_compiled())
        return inner(x)

    inner = fb.compile(lambda x: x + 1, backend=inner_backend)
    made = fb.compile(lambda x: outside(x * 2) * 3, backend=Recorder())
    for _ in range(2):
        assert made(fb.ones(1)).item() == 9
    assert inside == [True, True] and inner_backend.graphs == []
    assert inner(fb.ones(1)).item() == 2 and len(inner_backend.graphs) == 1


def test_a_loop_that_jumps_to_the_first_instruction():
    def function(x):
        while True:
            x = x * 2
            if x.sum() > 100:
                return x

    made = fb.compile(function, backend=Recorder())
    for start in (1.0, 1.0, 3.0, 200.0):
        assert same(function(fb.full((2,), start)), made(fb.full((2,), start)))
