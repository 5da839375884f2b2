"""Wrappers inside wrappers and modes that fail: the same programs in flambeau and PyTorch."""

import copy
import gc
import importlib
import threading

import pytest
from sides import Scenarios, raised

scenario = Scenarios()


def python_dispatch(fw):
    return importlib.import_module(f"{fw.__name__}.utils._python_dispatch")


def wrapper(fw, log=None, name="Wrapper", is_traceable=False):
    """A class that holds a tensor of any class and answers every call by a call on it."""
    correct = python_dispatch(fw).return_and_correct_aliasing
    tree_map = importlib.import_module(f"{fw.__name__}.utils._pytree").tree_map

    class Wrapper(fw.Tensor):
        @staticmethod
        def __new__(cls, inner, requires_grad=False):
            geometry = {
                "strides": inner.stride(),
                "storage_offset": inner.storage_offset(),
                "dtype": inner.dtype,
            }
            make = fw.Tensor._make_wrapper_subclass
            self = make(cls, inner.size(), requires_grad=requires_grad, **geometry)
            self.held = inner
            return self

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if log is not None:
                log.append(str(func))
            open_ = lambda x: x.held if isinstance(x, cls) else x  # noqa: E731
            close = lambda x: cls(x) if isinstance(x, fw.Tensor) and not isinstance(x, cls) else x  # noqa: E731
            out = func(*tree_map(open_, args), **tree_map(open_, kwargs or {}))
            return correct(func, args, kwargs or {}, tree_map(close, out))

    if is_traceable:
        Wrapper.__tensor_flatten__ = lambda self: (["held"], None)
        Wrapper.__tensor_unflatten__ = staticmethod(lambda parts, _, size, stride: Wrapper(parts["held"]))
    Wrapper.__name__ = name
    return Wrapper


def mode(fw, log, name, error=None):
    class Mode(python_dispatch(fw).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(f"{name} {func}")
            if error is not None:
                raise error
            return func(*args, **(kwargs or {}))

    return Mode()


def chain(x):
    """The classes of a wrapper and of what it holds, and the numbers inside."""
    names = []
    while hasattr(x, "held"):
        names.append(type(x).__name__)
        x = x.held
    return [names, x.tolist()]


@scenario
def wrappers_inside_wrappers(fw):
    a, b = wrapper(fw, name="A"), wrapper(fw, name="B")
    x = a(b(a(fw.arange(4.0))))
    y = a(b(fw.arange(1.0, 3.0)), requires_grad=True)
    (y * y).sum().backward()
    return [chain((x * 2).sum()), chain(x.view(2, 2)[0]), chain(y.grad)]


@scenario
def two_classes_meet(fw):
    a, b = wrapper(fw, name="A"), wrapper(fw, name="B")
    x, y = a(fw.ones(2)), b(fw.ones(2))
    return [chain(x + y), chain(y + x), chain(fw.cat([fw.zeros(1), y, x]))]


@scenario
def modes_that_raise_are_left(fw):
    log = []
    with mode(fw, log, "outer"):
        failed = raised("mine", lambda: inside(fw, mode(fw, log, "inner", KeyError("mine"))))
        fw.zeros(1)
    fw.ones(1)
    return [failed, log]


def inside(fw, entered):
    with entered:
        return fw.ones(1) + 1


@scenario
def a_mode_enters_itself(fw):
    log, made = [], []

    class Mode(python_dispatch(fw).TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(str(func))
            if len(log) < 5:
                with self:
                    return func(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    entered = Mode()
    with entered, entered:
        made.append(fw.ones(2).tolist())
    return [log, made]


@scenario
def modes_do_not_reach_other_threads(fw):
    log = []
    with mode(fw, log, "here"):
        thread = threading.Thread(target=lambda: fw.ones(1))
        thread.start()
        thread.join()
    return log


@scenario
def a_mode_sees_what_a_wrapper_calls(fw):
    log, seen = [], []
    held = wrapper(fw, log)(fw.ones(2))
    with mode(fw, seen, "mode"):
        held + 1
    return [log, seen]


@scenario
def results_into_wrappers(fw):
    log = []
    cls = wrapper(fw, log)
    out, plain, grown = cls(fw.zeros(3)), fw.zeros(3), cls(fw.zeros(0))
    same = [
        fw.add(fw.ones(3), 1, out=out) is out,
        fw.exp(cls(fw.zeros(3)), out=plain) is plain,
        fw.exp(cls(fw.zeros(3)), out=grown) is grown,
    ]
    return [same, chain(out), plain.tolist(), chain(grown), list(grown.shape), log]


@scenario
def writes_to_views_of_wrappers(fw):
    cls = wrapper(fw)
    x = cls(fw.arange(6.0).view(2, 3))
    x.t()[1:].mul_(10)
    first, second = x.split([1, 2], 1)
    first.add_(1)
    with fw.no_grad():
        for row in x.unbind(0):
            row.sub_(1)
    return [chain(x), x._version, second._is_view(), first._base is x, chain(second)]


@scenario
def gradients_of_writes_to_views(fw):
    x = wrapper(fw)(fw.ones(2, 3), requires_grad=True)
    y = x * 2
    y[0].mul_(3)
    y.t()[1:].add_(1)
    y.sum().backward()
    leaf = raised("leaf", lambda: x[0].mul_(2))
    return [chain(x.grad), leaf]


@scenario
def copies_of_wrappers(fw):
    x = wrapper(fw)(fw.ones(2), requires_grad=True)
    x.notes = [1]
    (x * 2).sum().backward()
    deep, flat = copy.deepcopy(x), copy.copy(x)
    return [
        [
            chain(deep),
            deep.held is x.held,
            deep.notes,
            deep.notes is x.notes,
            deep.requires_grad,
            chain(deep.grad),
        ],
        [flat.notes is x.notes, flat.held is x.held],
        raised("deepcopy", copy.deepcopy, x * 2),
    ]


@scenario
def hooks_on_wrappers(fw):
    seen = []
    x = wrapper(fw)(fw.ones(2), requires_grad=True)
    x.register_hook(lambda g: [seen.append(type(g).__name__), g * 5][1])
    x.register_post_accumulate_grad_hook(lambda p: seen.append(chain(p.grad)))
    y = x * 2
    y.register_hook(lambda g: seen.append(type(g).__name__))
    y.retain_grad()
    y.sum().backward()
    return [seen, chain(y.grad)]


def optimized(fw, name, **options):
    p = fw.nn.Parameter(wrapper(fw)(fw.arange(1.0, 4.0)))
    optimizer = getattr(fw.optim, name)([p], lr=0.1, **options)
    for _ in range(3):
        optimizer.zero_grad()
        (p * p).sum().backward()
        norm = fw.nn.utils.clip_grad_norm_([p], 100.0)
        optimizer.step()
    kept = {k: type(v).__name__ for k, v in sorted(optimizer.state[p].items()) if isinstance(v, fw.Tensor)}
    return [isinstance(p, fw.nn.Parameter), [round(v, 5) for v in chain(p)[1]], type(norm).__name__, kept]


for _name, _options in (
    ("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {"foreach": True}), ("AdamW", {"foreach": False}),
    ("RMSprop", {}), ("Adagrad", {}), ("NAdam", {}), ("Adadelta", {}), ("Rprop", {}),
):  # fmt: skip

    def _optimizer(fw, name=_name, options=_options):
        return optimized(fw, name, **options)

    _optimizer.__name__ = f"optimizer_{_name}_{_options.get('foreach', '')}"
    scenario(_optimizer)


@scenario
def modules_with_wrapped_parameters(fw):
    cls = wrapper(fw)
    module = fw.nn.Linear(2, 2, bias=False)
    module.weight = fw.nn.Parameter(cls(fw.ones(2, 2)))
    module(fw.ones(3, 2)).sum().backward()
    grads = chain(module.weight.grad)
    module.load_state_dict({"weight": fw.full((2, 2), 3.0)})
    loaded = chain(module.weight)
    module.load_state_dict({"weight": cls(fw.zeros(2, 2))}, assign=True)
    return [grads, loaded, chain(module.weight), isinstance(module.weight, fw.nn.Parameter)]


@scenario
def a_wrapper_dies_and_its_view_lives(fw):
    x = wrapper(fw)(fw.ones(2), requires_grad=True)
    x.tag = 5
    view, node = x.detach()[0], (x * 2).grad_fn
    del x
    gc.collect()
    return [node.next_functions[0][0].variable.tag, chain(view), type(view._base).__name__]


ANSWERS = {
    "number": lambda fw: 7,
    "text": lambda fw: "text",
    "pair": lambda fw: (fw.ones(1), fw.ones(1)),
    "generator": lambda fw: (fw.ones(1) * i for i in range(2)),
    "rows": lambda fw: fw.ones(2, 1),
    "numbers": lambda fw: [1, 2],
}
CALLS = {
    "add": lambda x: x + 1,
    "split": lambda x: x.split(2),
    "item": lambda x: x.sum().item(),
    "write": lambda x: x.add_(1) is x,
    "equal": lambda x: x.equal(x),
}


def answered(fw, answer, call):
    class Answering(fw.Tensor):
        @staticmethod
        def __new__(cls, like):
            return fw.Tensor._make_wrapper_subclass(cls, like.shape)

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return ANSWERS[answer](fw)

    try:
        found = CALLS[call](Answering(fw.ones(4)))
    except Exception as error:
        return type(error).__name__
    return (
        [type(found).__name__, [x.tolist() for x in found]]
        if isinstance(found, tuple)
        else type(found).__name__
    )


for _answer in ANSWERS:
    for _call in CALLS:

        def _wrong(fw, answer=_answer, call=_call):
            return answered(fw, answer, call)

        _wrong.__name__ = f"{_call}_answered_by_{_answer}"
        scenario(_wrong)


def corrected(fw, name, args, out):
    func = getattr(getattr(fw.ops.aten, name[0]), name[1])
    return python_dispatch(fw).return_and_correct_aliasing(func, args, {}, out)


@scenario
def aliases_of_plain_tensors(fw):
    x = fw.zeros(2)
    view = corrected(fw, ("view", "default"), (x, [2]), fw.ones(2))
    parts = corrected(fw, ("split", "Tensor"), (x, 1), [fw.ones(1), fw.ones(1)])
    own = corrected(fw, ("view", "default"), (x, [2]), x.view(2))
    written = corrected(fw, ("add_", "Tensor"), (x, 1), fw.ones(2))
    return [t.data_ptr() == x.data_ptr() for t in (view, *parts, own, written)] + [
        view.tolist(),
        written is x,
    ]


@scenario
def aliases_of_other_classes_are_refused(fw):
    cls, x = wrapper(fw, is_traceable=True), fw.zeros(2)
    call = lambda source, out: corrected(fw, ("view", "default"), (source, [2]), out)  # noqa: E731
    return [
        raised("match", call, cls(x), fw.ones(2)),
        raised("match", call, x, cls(x)),
        raised("", call, x, None),
    ]


def test_memory_of_a_source_is_not_exceeded():
    import flambeau

    with pytest.raises(RuntimeError, match="at most 8 bytes"):
        corrected(flambeau, ("view", "default"), (flambeau.zeros(2), [2]), flambeau.ones(100))


test_as_in_pytorch = scenario.test()
