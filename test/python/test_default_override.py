"""The __torch_function__ that subclasses of Tensor inherit: which class results have, and hostile callers."""

import collections
import gc
import sys

import flambeau as fb
import pytest


class Plain(fb.Tensor):
    pass


class Deeper(Plain):
    pass


class Other(fb.Tensor):
    pass


def make(cls=Plain, *values):
    return fb.tensor(values or [1.0, 2.0]).as_subclass(cls)


def test_results_have_the_class():
    x = make()
    assert type(x + 1) is type(fb.sin(x)) is type(x[0]) is type(x.T) is Plain
    assert type(fb.add(x, make(Deeper))) is type(fb.add(make(Deeper), x)) is Deeper
    assert [type(part) for part in x.split(1)] == [Plain, Plain]
    found = x.max(0)
    assert type(found.values) is type(found.indices) is Plain and type(found).__name__ == "max"
    assert type(x.unbind()) is tuple and type(x.sum().item()) is float and type(x.shape) is fb.Size


def test_unrelated_classes_refuse_each_other():
    with pytest.raises(TypeError, match="returned NotImplemented"):
        fb.add(make(), make(Other))


def test_gradients_keep_their_class_and_history():
    x = make().requires_grad_()
    y = (x * 2).sum()
    assert type(y) is Plain and y.grad_fn is not None
    y.backward()
    assert x.grad.tolist() == [2, 2]


def test_calls_by_hand():
    default = Plain.__torch_function__
    x = make()
    assert type(default(fb.add, (Plain,), (x, x))) is Plain
    assert type(default(fb.add, (Plain,), [x, x], {"alpha": 2})) is Plain
    assert default(fb.add, (Other,), (x, x)) is NotImplemented
    assert default(lambda *a: "text", (), ()) == "text"
    assert type(fb.Tensor.__torch_function__(fb.add, (), (x, x))) is fb.Tensor
    nested = default(lambda: [(fb.ones(1), "a"), {"k": fb.ones(1)}, x], (Plain,), ())
    assert type(nested[0][0]) is Plain and type(nested[1]["k"]) is fb.Tensor and nested[2] is x
    pair = collections.namedtuple("pair", "a b")
    assert default(lambda: pair(fb.ones(1), 2), (Plain,), ()).b == 2


@pytest.mark.parametrize(
    "arguments",
    [
        (5, (Plain,), ()),
        (fb.add, 5, ()),
        (fb.add, (5,), ()),
        (fb.add, (Plain,), 5),
        (fb.add, (Plain,), (), 5),
        (fb.add, (Plain,), (), {1: 2}),
    ],
)
def test_wrong_arguments_are_type_errors(arguments):
    with pytest.raises(TypeError):
        Plain.__torch_function__(*arguments)


def test_errors_leave_the_state_as_it_was():
    def fail(*args):
        raise KeyError("inside")

    for _ in range(3):
        with pytest.raises(KeyError):
            Plain.__torch_function__(fail, (Plain,), ())
    assert type(make() + 1) is Plain


def test_an_own_method_goes_before_the_inherited_one():
    class Counted(Plain):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls += 1
            return super().__torch_function__(func, types, args, kwargs)

    x = make(Counted)
    assert type(fb.exp(x)) is Counted and Counted.calls == 1
    y = make()
    y.__torch_function__ = lambda *a, **k: "its own"
    assert fb.exp(y) == "its own"


def test_a_class_of_tensors_that_changes_itself_during_the_call():
    class Fickle(Plain):
        pass

    x = make(Fickle)

    def change(*args):
        del args
        Fickle.__torch_function__ = fb._C._disabled_torch_function_impl
        return fb.ones(1)

    assert type(Fickle.__torch_function__(change, (Fickle,), (x,))) is Fickle
    assert type(fb.exp(x)) is fb.Tensor


def test_no_references_are_lost_or_kept():
    x, argument = make(), fb.ones(3)
    for _ in range(3):
        fb.add(x[:1], argument)
    gc.collect()
    before = sys.getrefcount(Plain), sys.getrefcount(argument), sys.getrefcount(fb.add)
    for _ in range(1000):
        fb.add(x[:1], argument)
        fb.max(x, 0)
    gc.collect()
    after = sys.getrefcount(Plain), sys.getrefcount(argument), sys.getrefcount(fb.add)
    assert all(abs(a - b) < 10 for a, b in zip(before, after, strict=True)), (before, after)
