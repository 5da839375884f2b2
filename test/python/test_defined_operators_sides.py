"""Calls of operators that a program defines, right and wrong: flambeau beside PyTorch."""

import itertools
import threading

import flambeau
import numpy as np
import pytest
from oracle import pytorch
from sides import plain, raised

_numbers = itertools.count()


def fresh():
    return f"defined{next(_numbers)}"


def outcome(call):
    """The type and value of a result, or the type of what is raised."""
    try:
        result = call()
    except Exception as error:
        return type(error).__name__
    return [type(result).__name__, plain(result)]


def defined(fw, schema, kernel, key="CPU"):
    library = fw.library.Library(fresh(), "DEF")
    library.define(f"f{schema}")
    library.impl("f", kernel, key)
    return library, getattr(fw.ops, library.ns).f


def agree(program):
    found = program(flambeau)
    assert found == program(pytorch())
    return found


# --- results -------------------------------------------------------------------------------------

RESULTS = [
    ("Tensor", lambda fw, x: None),
    ("Tensor", lambda fw, x: 3),
    ("Tensor", lambda fw, x: (x,)),
    ("Tensor?", lambda fw, x: None),
    ("()", lambda fw, x: x),
    ("(Tensor, int)", lambda fw, x: (x, 2)),
    ("(Tensor, Tensor)", lambda fw, x: x),
    ("Tensor[]", lambda fw, x: (x, x)),
    ("Tensor[]", lambda fw, x: None),
    ("Tensor[]", lambda fw, x: x),
    ("Tensor[]", lambda fw, x: [x, 3]),
    ("int", lambda fw, x: True),
    ("int", lambda fw, x: 3.5),
    ("int", lambda fw, x: fw.tensor(3)),
    ("int", lambda fw, x: np.int64(2)),
    ("int[]", lambda fw, x: (1, 2)),
    ("float", lambda fw, x: 3),
    ("float", lambda fw, x: fw.tensor(3.0)),
    ("float", lambda fw, x: np.float64(2)),
    ("bool", lambda fw, x: 1),
    ("bool", lambda fw, x: fw.tensor(True)),
    ("complex", lambda fw, x: 2),
    ("Scalar", lambda fw, x: 2.5),
    ("Scalar", lambda fw, x: fw.tensor(2)),
    ("str", lambda fw, x: "a"),
    ("str", lambda fw, x: 1),
]


@pytest.mark.parametrize("number", range(len(RESULTS)))
def test_results_are_converted_or_refused(number):
    returns, kernel = RESULTS[number]

    def program(fw):
        _kept, f = defined(fw, f"(Tensor x) -> {returns}", lambda x: kernel(fw, x))
        return outcome(lambda: f(fw.ones(2)))

    agree(program)


def test_a_wrong_number_of_results_is_an_error():
    _kept, f = defined(flambeau, "(Tensor x) -> (Tensor, Tensor)", lambda x: (x, x, x))
    with pytest.raises(RuntimeError, match="expected the kernel to return 2 results, got 3"):
        f(flambeau.ones(1))


# --- arguments -----------------------------------------------------------------------------------

FIRST = "(Tensor x, int[2] k=1, *, float a=2, str? s=None, bool b=False) -> Tensor"
LISTS = "(Tensor[] xs, Tensor? o=None, Tensor?[]? q=None) -> Tensor"
NUMBERS = "(Tensor x, Scalar s, int n, float f, Device? v=None, int[]? l=None, float[]? r=None) -> Tensor"
ARGUMENTS = [
    (FIRST, lambda fw, x: ((x,), {})),
    (FIRST, lambda fw, x: ((x, 3), {})),
    (FIRST, lambda fw, x: ((x, [1, 1]), {"a": 2.0})),
    (FIRST, lambda fw, x: ((x, (3, 4)), {"a": True})),
    (FIRST, lambda fw, x: ((x,), {"a": "q"})),
    (FIRST, lambda fw, x: ((x,), {"a": fw.tensor(2.5), "b": fw.tensor(True)})),
    (FIRST, lambda fw, x: ((x,), {"s": "q", "b": 1})),
    (FIRST, lambda fw, x: ((x,), {"s": 3})),
    (FIRST, lambda fw, x: ((x, 1, 2), {})),
    (FIRST, lambda fw, x: ((x,), {"unknown": 1})),
    (FIRST, lambda fw, x: ((x,), {"x": x})),
    (FIRST, lambda fw, x: ((), {"x": x})),
    (FIRST, lambda fw, x: ((), {})),
    (FIRST, lambda fw, x: ((3,), {})),
    (FIRST, lambda fw, x: (([1.0],), {})),
    (LISTS, lambda fw, x: (([x],), {})),
    (LISTS, lambda fw, x: (((x,), x), {})),
    (LISTS, lambda fw, x: ((x,), {})),
    (LISTS, lambda fw, x: (([x, 3],), {})),
    (LISTS, lambda fw, x: (([x, None],), {})),
    (LISTS, lambda fw, x: (([x], 2), {})),
    (LISTS, lambda fw, x: (([x], None, [None, x]), {})),
    (LISTS, lambda fw, x: ((None,), {})),
    (NUMBERS, lambda fw, x: ((x, 1.5, 2, 3), {})),
    (NUMBERS, lambda fw, x: ((x, fw.tensor(1.5), 2, 3.0), {})),
    (NUMBERS, lambda fw, x: ((x, 1, fw.tensor(2), 3.0), {})),
    (NUMBERS, lambda fw, x: ((x, 1, 2.0, 3.0), {})),
    (NUMBERS, lambda fw, x: ((x, True, True, 3.0), {})),
    (NUMBERS, lambda fw, x: ((x, 1j, 2, 3.0), {})),
    (NUMBERS, lambda fw, x: ((x, "a", 2, 3.0), {})),
    (NUMBERS, lambda fw, x: ((x, None, 2, 3.0), {})),
    (NUMBERS, lambda fw, x: ((x, 1, 2**70, 3.0), {})),
    (NUMBERS, lambda fw, x: ((x, 1, np.int64(2), np.float64(2)), {})),
    (NUMBERS, lambda fw, x: ((x, 1, 2, 3.0), {"l": (1, 2), "r": (1,)})),
    (NUMBERS, lambda fw, x: ((x, 1, 2, 3.0), {"l": 3})),
    (NUMBERS, lambda fw, x: ((x, 1, 2, 3.0, "cpu"), {})),
    (NUMBERS, lambda fw, x: ((x, 1, 2, 3.0, 3), {})),
]


def shown(value):
    if hasattr(value, "tolist"):
        return ["tensor", value.tolist()]
    if isinstance(value, list | tuple):
        return [type(value).__name__, [shown(item) for item in value]]
    return [type(value).__name__, str(value)]


@pytest.mark.parametrize("number", range(len(ARGUMENTS)))
def test_kernels_receive_converted_arguments_without_those_that_are_the_default(number):
    schema, given = ARGUMENTS[number]

    def program(fw):
        seen = []

        def kernel(*args, **kwargs):
            seen.append([[shown(v) for v in args], {n: shown(v) for n, v in kwargs.items()}])
            return fw.zeros(1)

        _kept, f = defined(fw, schema, kernel)
        args, kwargs = given(fw, fw.ones(2))
        return [outcome(lambda: f(*args, **kwargs)), seen]

    agree(program)


# --- memory and versions -------------------------------------------------------------------------


def custom(fw, function, written=()):
    return fw.library.custom_op(f"{fresh()}::f", function, mutates_args=written)


@pytest.mark.parametrize(
    "kernel", [lambda x: x, lambda x: x[1:], lambda x: x.view(2, 1), lambda x: x.detach(), lambda x: x + 1]
)
def test_a_custom_op_returns_new_memory(kernel):
    def program(fw):
        def f(x):
            return kernel(x)

        f.__annotations__ = {"x": fw.Tensor, "return": fw.Tensor}
        op = custom(fw, f)
        return outcome(lambda: op(fw.ones(2)))

    agree(program)


def test_written_arguments_count_a_version():
    def program(fw):
        def f(x):
            x.numpy()[:] = 5

        f.__annotations__ = {"x": fw.Tensor, "return": None}
        op, x = custom(fw, f, {"x"}), fw.ones(2)
        before = x._version
        op(x)
        return [x.tolist(), x._version - before]

    assert agree(program) == [[5, 5], 1]


# --- gradients -----------------------------------------------------------------------------------

BACKWARDS = {
    "right": lambda ctx, grad: (grad * 2, None),
    "none": lambda ctx, grad: (None, None),
    "too many": lambda ctx, grad: (grad, None, None),
    "too few": lambda ctx, grad: grad,
    "for a number": lambda ctx, grad: (grad, grad),
    "no tensor": lambda ctx, grad: (3, None),
    "a list": lambda ctx, grad: [grad, None],
    "of another shape": lambda ctx, grad: (grad[:1], None),
}


@pytest.mark.parametrize("name", BACKWARDS)
def test_gradients_of_a_registered_function(name):
    def program(fw):
        def f(x, n):
            return x * n

        f.__annotations__ = {"x": fw.Tensor, "n": int, "return": fw.Tensor}
        op = custom(fw, f)
        op.register_autograd(BACKWARDS[name])
        x = fw.ones(2, requires_grad=True)

        def run():
            op(x, 2).sum().backward()
            return x.grad

        return outcome(run)

    agree(program)


def test_a_kernel_without_a_derivative_is_recorded_inside():
    def program(fw):
        _kept, f = defined(fw, "(Tensor x) -> Tensor", lambda x: x * 3)
        x = fw.ones(2, requires_grad=True)
        f(x).sum().backward()
        return x.grad.tolist()

    assert agree(program) == [3, 3]


def test_a_raising_setup_and_a_raising_kernel_raise():
    def program(fw):
        def broken(*args, **kwargs):
            raise KeyError("broken")

        def f(x):
            return x + 1

        f.__annotations__ = {"x": fw.Tensor, "return": fw.Tensor}
        op = custom(fw, f)
        op.register_autograd(lambda ctx, grad: grad, setup_context=broken)
        _kept, g = defined(fw, "(Tensor x) -> Tensor", broken)
        x = fw.ones(2, requires_grad=True)
        return [raised("broken", op, x), raised("broken", g, x)]

    agree(program)


# --- life ----------------------------------------------------------------------------------------


def test_a_kernel_that_calls_its_operator_ends():
    library = flambeau.library.Library(fresh(), "DEF")
    library.define("f(Tensor x) -> Tensor")
    f = getattr(flambeau.ops, library.ns).f
    library.impl("f", lambda x: f(x), "CPU")
    with pytest.raises(RecursionError):
        f(flambeau.ones(1))


def test_a_kernel_may_remove_itself_while_it_runs():
    library, f = defined(flambeau, "(Tensor x) -> Tensor", lambda x: library._destroy() or x + 1)
    assert f(flambeau.ones(1)).item() == 2
    for removed in (f, f.default):
        with pytest.raises(RuntimeError, match="has been removed"):
            removed(flambeau.ones(1))


def test_a_held_overload_finds_the_next_definition():
    library, f = defined(flambeau, "(Tensor x) -> Tensor", lambda x: x + 1)
    held, x = f.default, flambeau.ones(1)
    assert held(x).item() == 2
    library._destroy()
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x + 2, "CPU")
    assert held(x).item() == f(x).item() == 3


def test_kernels_are_replaced_while_threads_call():
    library, f = defined(flambeau, "(Tensor x) -> Tensor", lambda x: x + 1)
    x, stop, failures = flambeau.ones(1), threading.Event(), []

    def call():
        while not stop.is_set():
            if (value := f(x).item()) not in (2, 3):
                failures.append(value)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(300):
        other = flambeau.library.Library(library.ns, "IMPL")
        other.impl("f", lambda x, n=number: x + 1 + n % 2, "CPU")
        f(x)
        other._destroy()
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


KINDS = ["counter", ["cpu", "nope"], 3, "cuda", "CPU", "cpu:0", "", [], ["cpu", "meta"]]


@pytest.mark.parametrize("kinds", KINDS, ids=str)
@pytest.mark.parametrize("by_name", [False, True], ids=["object", "name"])
def test_kernels_are_for_device_types_that_exist(kinds, by_name):
    def program(fw):
        def own(x):
            return x + 1

        own.__annotations__ = {"x": fw.Tensor, "return": fw.Tensor}
        name = f"{fresh()}::f"
        op = fw.library.custom_op(name, own, mutates_args=(), device_types="cuda")
        call = outcome(
            lambda: bool(fw.library.register_kernel(name if by_name else op, kinds, lambda x: x * 3))
        )
        if "nope" in str(kinds):  # PyTorch has registered the first of them by then
            return call
        return call, outcome(lambda: op(fw.ones(2)))

    agree(program)


def test_results_may_change_while_they_are_converted():
    """A number's own conversion empties the list of results that it is in."""
    results = []

    class Emptying(np.float64):
        def __float__(self):
            results.clear()
            return 2.5

    def kernel(x):
        results[:] = [Emptying(1), x.clone(), x.clone()]
        return results

    library, operator = defined(flambeau, "(Tensor x) -> (float, Tensor, Tensor)", kernel)
    for _ in range(100):
        number, first, second = operator(flambeau.ones(3))
        assert number in (1.0, 2.5) and first.tolist() == second.tolist() == [1, 1, 1]
    library._destroy()


@pytest.mark.parametrize("gradients", [lambda xs: [3 * x for x in xs], lambda xs: ([x + 1 for x in xs],)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_gradient_of_a_list_is_a_list(count, gradients):
    """As a list where it is the only argument, or within the tuple of all gradients."""

    def program(fw):
        library, f = defined(fw, "(Tensor[] xs) -> Tensor[]", lambda xs: [x.sin() for x in xs])
        fw.library.register_autograd(f"{library.ns}::f", lambda ctx, grads: gradients(grads), lib=library)
        xs = [fw.full((2,), i + 1.0, requires_grad=True) for i in range(count)]
        outputs = f(xs)
        fw.stack(outputs).sum().backward()
        return [type(outputs).__name__, plain([x.grad for x in xs])]

    agree(program)


@pytest.mark.parametrize("wrong", [lambda xs: [xs[0]], lambda xs: [*xs, xs[0]], lambda xs: xs[0]])
def test_gradients_of_a_list_must_be_as_many(wrong):
    library, f = defined(flambeau, "(Tensor[] xs) -> Tensor[]", lambda xs: [x.sin() for x in xs])
    flambeau.library.register_autograd(f"{library.ns}::f", lambda ctx, grads: wrong(grads), lib=library)
    outputs = f([flambeau.ones(2, requires_grad=True) for _ in range(2)])
    with pytest.raises(RuntimeError, match="expected a list of 2 gradients for xs"):
        flambeau.stack(outputs).sum().backward()


def test_lists_stay_lists_under_transforms():
    library, f = defined(
        flambeau, "(Tensor[] xs) -> (Tensor[], Tensor)", lambda xs: ([x + 1 for x in xs], xs[0] * 2)
    )
    flambeau.library.register_autograd(f"{library.ns}::f", lambda ctx, many, one: [one, many[1]], lib=library)
    x, y = flambeau.ones(2), flambeau.zeros(2)
    (many, one), pull = flambeau.func.vjp(lambda *xs: f(list(xs)), x, y)
    assert type(many) is list and one.tolist() == [2, 2]
    found = pull(([x * 3, x * 5], x * 7))
    assert [g.tolist() for g in found] == [[7, 7], [5, 5]]
