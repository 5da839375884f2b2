"""Wrapper subclasses in files, and in modules that are converted, beside PyTorch."""

import copy
import io
import pickle
from importlib import import_module

import flambeau as fb
import pytest
from flambeau.serialization._allowed import wrapper
from sides import Scenarios, raised

scenario = Scenarios()
_made: dict[str, type] = {}


def pair(fw):
    """The class of a framework: a tensor whose values are those of two others, side by side."""
    if fw.__name__ in _made:
        return _made[fw.__name__]
    python_dispatch = import_module(f"{fw.__name__}.utils._python_dispatch")
    pytree = import_module(f"{fw.__name__}.utils._pytree")

    class Pair(fw.Tensor):
        @staticmethod
        def __new__(cls, a, b):
            kind = {"strides": a.stride(), "dtype": a.dtype, "device": a.device}
            return fw.Tensor._make_wrapper_subclass(cls, a.shape, **kind)

        def __init__(self, a, b):
            self.a, self.b = a, b

        def __tensor_flatten__(self):
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Pair(inner["a"], inner["b"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            both = []
            for name in ("a", "b"):
                given = pytree.tree_map_only(cls, lambda t, name=name: getattr(t, name), (args, kwargs or {}))
                both.append(func(*given[0], **given[1]))
            first, spec = pytree.tree_flatten(both[0])
            joined = [
                cls(x, y) if isinstance(x, fw.Tensor) else x
                for x, y in zip(first, pytree.tree_leaves(both[1]), strict=True)
            ]
            out = pytree.tree_unflatten(joined, spec)
            return python_dispatch.return_and_correct_aliasing(func, args, kwargs or {}, out)

    Pair.__qualname__ = Pair.__name__ = f"Pair_{fw.__name__}"
    globals()[Pair.__name__] = Pair  # so that pickles find it
    return _made.setdefault(fw.__name__, Pair)


def of(fw, *shape):
    return pair(fw)(fw.ones(*shape), fw.full(shape, 2.0))


def seen(fw, x):
    names = [str(t.dtype).rpartition(".")[2] for t in (x, x.a, x.b)]
    return [type(x) is pair(fw), isinstance(x, fw.nn.Parameter), x.requires_grad, x.stride(), names] + [
        t.tolist() for t in (x.a, x.b)
    ]


def read_again(fw, value, **options):
    file = io.BytesIO()
    fw.save(value, file)
    file.seek(0)
    return fw.load(file, **options)


@scenario
def files_of_wrappers(torch):
    x = of(torch, 2, 3)
    kinds = (x, x.t(), of(torch, 2).requires_grad_(), torch.nn.Parameter(of(torch, 2)), of(torch, 0))
    return [seen(torch, read_again(torch, kind, weights_only=False)) for kind in kinds]


@scenario
def attributes_are_kept(torch):
    x = of(torch, 2)
    x.note, x.same = {"k": [1]}, x.a
    y = read_again(torch, [x, x.a], weights_only=False)
    return y[0].note, y[0].same is y[0].a, y[0].a.data_ptr() == y[1].data_ptr()


@scenario
def files_that_are_not_trusted(torch):
    refused = raised("", read_again, torch, of(torch, 2), weights_only=True)[0]
    with torch.serialization.safe_globals([pair(torch)]):
        return refused, seen(torch, read_again(torch, of(torch, 2), weights_only=True))


@scenario
def files_in_the_older_format(torch):
    file = io.BytesIO()
    torch.save(of(torch, 2), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    return seen(torch, torch.load(file, weights_only=False))


@scenario
def operators_that_copies_call(torch):
    utils = import_module(f"{torch.__name__}.utils._python_dispatch")
    called = []

    class Logged(utils.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if any(t is pair(torch) for t in types):
                called.append(str(func))
            return func(*args, **(kwargs or {}))

    found = []
    for make in (copy.copy, copy.deepcopy):
        for x in (of(torch, 2, 3), of(torch, 2).requires_grad_()):
            x.note = ["kept"]
            called.clear()
            with Logged():
                y = make(x)
            state = [y.note, y.note is x.note, y.a is x.a, y.is_leaf]
            found.append([make.__name__, list(called), seen(torch, y), state])
    return found


@scenario
def devices_of_files(torch):
    locations = (None, "cpu", "meta", torch.device("meta"), {"cpu": "meta"}, {"cuda": "meta"})
    locations += ({torch.device("cpu"): "meta", "cpu": "meta"},)
    found = []
    for location in locations:
        for options in ({"weights_only": True}, {"weights_only": False}):
            with torch.serialization.safe_globals([pair(torch)]):
                y = read_again(torch, of(torch, 2), map_location=location, **options)
            found.append([str(y.device), str(y.a.device), type(y) is pair(torch)])
    return found


def test_a_function_does_not_map_tensors_without_memory():
    with pytest.raises(RuntimeError, match="Callable map_location not supported"):
        read_again(fb, of(fb, 2), map_location=lambda storage, name: storage, weights_only=False)
    assert seen(fb, read_again(fb, of(fb, 2), weights_only=False)) == seen(fb, of(fb, 2))
    plain = read_again(fb, fb.ones(2), map_location=lambda storage, name: storage)
    assert plain.tolist() == [1.0, 1.0]


def layer(torch):
    made = torch.nn.Linear(2, 2)
    made.weight = torch.nn.Parameter(of(torch, 2, 2))
    return made


@scenario
def modules_and_states(torch):
    made, other = layer(torch), layer(torch)
    whole = read_again(torch, made, weights_only=False)
    with torch.no_grad():
        made.weight.mul_(3)
    with torch.serialization.safe_globals([pair(torch)]):
        state = read_again(torch, made.state_dict(), weights_only=True)
    other.load_state_dict(state)
    return [seen(torch, one) for one in (whole.weight, state["weight"], other.weight)]


@scenario
def states_of_optimizers(torch):
    weight = torch.nn.Parameter(of(torch, 2))
    optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9)
    (weight * weight).sum().backward()
    optimizer.step()
    state = read_again(torch, optimizer.state_dict(), weights_only=False)
    return seen(torch, weight), seen(torch, state["state"][0]["momentum_buffer"])


@scenario
def modules_that_are_converted(torch):
    made = layer(torch)
    kept = made.weight
    made.weight.grad = of(torch, 2, 2)
    made.double()
    found = [made.weight is kept, seen(torch, made.weight), seen(torch, made.weight.grad)]
    made.to(torch.bfloat16)
    found += [made.weight is kept, seen(torch, made.weight), str(made.bias.dtype).rpartition(".")[2]]
    return [*found, seen(torch, copy.deepcopy(made).float().weight)]


@scenario
def buffers_that_are_converted(torch):
    made = torch.nn.Module()
    made.register_buffer("kept", of(torch, 2))
    return seen(torch, made.half().kept)


@scenario
def wrappers_in_inference_mode(torch):
    with torch.inference_mode():
        x = of(torch, 2)
        made = [x.is_inference(), (x + 1).is_inference()]
    return [*made, of(torch, 2).is_inference(), raised("Inference tensors", getattr, x, "_version")[0]]


@pytest.mark.parametrize(
    "change",
    [
        {"cls": int}, {"cls": fb.Tensor}, {"cls": "x"}, {"dtype": 3}, {"size": (2.0,)}, {"size": (-2,)},
        {"stride": (1, 1)}, {"offset": -1}, {"offset": "0"}, {"layout": None}, {"device": "cpu"},
        {"layout": fb.sparse_coo},
    ],
)  # fmt: skip
def test_parts_of_files_are_checked(change):
    parts = {
        "cls": pair(fb), "dtype": fb.float32, "size": (2,), "stride": (1,), "offset": 0,
        "layout": fb.strided, "device": fb.device("cpu"), "requires_grad": False,
    }  # fmt: skip
    with fb.serialization.safe_globals([pair(fb), int]):
        assert wrapper(**parts).shape == (2,)
        with pytest.raises((pickle.UnpicklingError, RuntimeError, TypeError)):
            wrapper(**{**parts, **change})


def test_a_class_that_is_not_allowed_is_not_made():
    kind = (fb.float32, (2,), (1,), 0, fb.strided, fb.device("cpu"), False)
    with pytest.raises(pickle.UnpicklingError, match="a class of tensors"):
        wrapper(pair(fb), *kind)


test_scenarios = scenario.test()
