"""Modes, contexts, versions, data and profiles of programs that extend the library: PyTorch's answers."""

from importlib import import_module

import pytest
from sides import Scenarios

scenario = Scenarios()


def kind(function):
    """Return the name of the exception, or what the function returns."""
    try:
        return function()
    except Exception as error:
        return type(error).__name__


def module(lib, name):
    return import_module(f"{lib.__name__}.{name}")


@scenario
def mode_that_exits_without_entering(lib):
    dispatch = type("D", (module(lib, "utils._python_dispatch").TorchDispatchMode,), {})
    function = type("F", (module(lib, "overrides").TorchFunctionMode,), {})
    entered = dispatch()
    with entered, entered:
        pass
    return [
        kind(lambda: dispatch().__exit__(None, None, None)),
        kind(lambda: function().__exit__(None, None, None)),
        kind(lambda: entered.__exit__(None, None, None)),
        (lib.ones(2) + 1).tolist(),
    ]


@scenario
def get_ctx(lib):
    def size(x):
        return x.new_empty([lib.library.get_ctx().new_dynamic_size(), 1])

    operator = lib.library.custom_op(
        "open_sides::rows", lambda x: x.nonzero(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    operator.register_fake(size)
    return lib.library.get_ctx() is None, kind(lambda: operator(lib.ones(3, device="meta")))


@scenario
def versions_of_mutated_arguments(lib):
    def fill(x):
        x.numpy()[:] = 3

    def fill_all(xs, y):
        for x in xs:
            x.numpy()[:] = 3

    define = lib.library.custom_op
    one = define("open_sides::fill", fill, mutates_args=("x",), schema="(Tensor(a0!) x) -> ()")
    several = define(
        "open_sides::fill_all", fill_all, mutates_args=("xs",), schema="(Tensor(a0!)[] xs, Tensor y) -> ()"
    )
    base, item, other, called = lib.zeros(3), lib.zeros(3), lib.zeros(2), lib.zeros(3)
    view = base[:2]
    one(view)
    several([item], other)
    lib.ops.open_sides.fill(called)
    x = lib.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    one(y.detach())
    return (
        [t._version for t in (base, view, item, other, called)],
        base.tolist(),
        kind(lambda: z.sum().backward()),
    )


@scenario
def data_of_a_wrapper_subclass(lib):
    class Wrapped(lib.Tensor):
        @staticmethod
        def __new__(cls, x):
            return lib.Tensor._make_wrapper_subclass(cls, x.size(), dtype=x.dtype)

        def __init__(self, x):
            self.x = x

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*[a.x if isinstance(a, cls) else a for a in args], **(kwargs or {}))

    seen = []
    w = Wrapped(lib.ones(2))
    w.data = lib.full((3,), 7.0)
    shape, values, bytes_ = tuple(w.shape), (w + 1).tolist(), w.untyped_storage().nbytes()
    w.data = Wrapped(lib.ones(4))
    after = tuple(w.shape)
    w.data = lib.zeros(2, dtype=lib.int64)
    return type(w).__name__, shape, values, bytes_, seen, after, str(w.dtype).partition(".")[2]


@scenario
def record_function_fast(lib):
    profiler = module(lib, "profiler")
    made = lib._C._profiler._RecordFunctionFast
    events = []
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], record_shapes=True) as p:
        fast = made("fast", [lib.ones(2), 3], {"a": 1})
        for _ in range(2):
            with fast:
                lib.ones(3)
        with made("plain"):
            pass
        with profiler.record_function("range", "a text"):
            pass
        fast.__enter__()
        events.append(kind(fast.__enter__))
        fast.__exit__(None, None, None)
        events.append(kind(lambda: fast.__exit__(None, None, None)))
        events.append(kind(lambda: made("raises").__exit__(None, None, None)))
    with fast:
        pass
    names = [(e.name, e.input_shapes) for e in p.events() if e.name in ("fast", "plain")]
    names += [e.name for e in p.events() if e.name == "range"]
    record = profiler.record_function
    events += [kind(lambda: record("x", 4).__enter__()), kind(lambda: record(3).__enter__())]
    return names, events, record("x", args="q").args


@scenario
def profile_to_an_absent_folder(lib):
    profiler = module(lib, "profiler")
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as p:
        lib.ones(2)
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], with_stack=True) as q:
        lib.ones(2)
    return (
        kind(lambda: p.export_chrome_trace("/nonexistent/trace.json.gz")),
        kind(lambda: q.export_stacks("/nonexistent/stacks.txt", "self_cpu_time_total")),
    )


def test_range_of_wrong_types():
    import flambeau

    made = flambeau._C._profiler._RecordFunctionFast  # PyTorch ends the process for these
    for arguments in ((3,), ("a", 3), ("a", [], 4)):
        with pytest.raises(RuntimeError, match="record_function: expected"):
            made(*arguments)


def test_plain_data_of_a_plain_tensor_only():
    import flambeau as fb

    class Wrapped(fb.Tensor):
        @staticmethod
        def __new__(cls, x):
            return fb.Tensor._make_wrapper_subclass(cls, x.size(), dtype=x.dtype)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise AssertionError

    plain = fb.zeros(2)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        plain.data = Wrapped(fb.ones(3))  # PyTorch ends the process at the next use
    assert plain.tolist() == [0, 0]


test_as_in_pytorch = scenario.test()
