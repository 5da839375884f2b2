"""Views of wrapper subclasses: autograd knows them, whatever the class says of where they begin."""

import flambeau as fb
import pytest

FRAMEWORKS = ("flambeau", "torch")

WRITES = {
    "row": lambda y: y[1].fill_(0.5),
    "item": lambda y: y.__setitem__((2, 0), 4.0),
    "diagonal": lambda y: y.diagonal().mul_(2),
    "transposed": lambda y: y.t()[0].neg_(),
    "flat": lambda y: y.view(9)[2:5].zero_(),
    "view of a view": lambda y: y[1:][1][1:].exp_(),
    "twice": lambda y: (y[0].mul_(3), y[:, 0].add_(1)),
}


def wrapper(fw, tells_offset):
    """A class over a plain tensor; without `tells_offset`, its tensors do not say where their views begin."""
    from importlib import import_module

    correct = import_module(f"{fw.__name__}.utils._python_dispatch").return_and_correct_aliasing

    class Wrapper(fw.Tensor):
        @staticmethod
        def __new__(cls, inner):
            place = {"storage_offset": inner.storage_offset()} if tells_offset else {}
            made = fw.Tensor._make_wrapper_subclass(
                cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, **place
            )
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            given = [a.inner if isinstance(a, cls) else a for a in args]
            out = func(*given, **(kwargs or {}))
            made = cls(out) if isinstance(out, fw.Tensor) else out
            return correct(func, args, kwargs or {}, made)

    return Wrapper


def gradient(fw, made, write):
    x = made(fw.arange(9.0).reshape(3, 3) / 4).requires_grad_()
    y = x * 1
    write(y)
    (y * y * 1.5).sum().backward()
    return x.grad


@pytest.mark.parametrize("tells_offset", [False, True])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_gradients_of_writes_to_views(framework, write, tells_offset):
    fw = pytest.importorskip(framework)
    cls = wrapper(fw, tells_offset)
    found = gradient(fw, cls, WRITES[write])
    assert type(found) is cls
    assert fw.allclose(found.inner, gradient(fw, lambda t: t, WRITES[write]))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_views_and_new_tensors_have_the_class(framework):
    fw = pytest.importorskip(framework)
    cls = wrapper(fw, True)
    y = cls(fw.arange(9.0).reshape(3, 3)).requires_grad_() * 1
    view = y[1]
    assert view._is_view() and view._base is y and view.storage_offset() == 3
    view.add_(1)
    assert y._version == view._version == 1
    new = [
        y.new_zeros(2),
        y.new_ones(2),
        y.new_empty((2,)),
        y.new_full((2,), 3.0),
        y.new_empty_strided((2,), (1,)),
    ]
    assert [type(t) for t in new] == [cls] * len(new)
    assert new[3].inner.tolist() == [3.0, 3.0]


def test_a_wrapper_without_recording_is_no_view_of_a_graph():
    cls = wrapper(fb, False)
    x = cls(fb.ones(3, 3))
    x[0].zero_()
    assert x.inner.sum().item() == 6 and not x.requires_grad
