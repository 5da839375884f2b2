"""The properties of tensors and threads that guards compare."""

import gc
import threading
import weakref

import flambeau as fb
import pytest
from captured import Recorder, program
from flambeau import _C, nn

# --- tensors ------------------------------------------------------------------------------------------


class Marked(fb.Tensor):
    """A subclass of Tensor."""


TENSOR_CHANGES = {
    "resized": lambda t: t.resize_(3, 3),
    "transposed": lambda t: t.t_(),
    "one more dimension": lambda t: t.unsqueeze_(0),
    "dtype through data": lambda t: setattr(t, "data", fb.ones(2, 3, dtype=fb.float64)),
    "sizes through data": lambda t: setattr(t, "data", fb.ones(2, 4)),
    "strides through data": lambda t: setattr(t, "data", fb.ones(3, 2).t()),
    "device through data": lambda t: setattr(t, "data", fb.ones(2, 3, device="meta")),
    "set_": lambda t: t.set_(fb.ones(7)),
    "gradient wanted": lambda t: t.requires_grad_(),
    "no leaf": lambda t: t.mul_(fb.ones(3, requires_grad=True)),
    "another class": lambda t: t.as_subclass(Marked),
    "a parameter": nn.Parameter,
    "double": lambda t: t.double(),
    "conjugate": lambda t: t.to(fb.complex64).conj(),
    "sparse": lambda t: t.to_sparse(),
    "a list": lambda t: t.tolist(),
    "nothing": lambda t: None,
    "its class": type,
}


IN_PLACE = [name for name in TENSOR_CHANGES if "through data" in name]  # setattr returns None


@pytest.mark.parametrize(("name", "change"), TENSOR_CHANGES.items(), ids=TENSOR_CHANGES)
def test_a_changed_tensor_fails_its_guard(name, change):
    tensor = fb.ones(2, 3)
    guard = _C._TensorGuard(tensor)
    assert guard(tensor) and guard(fb.zeros(2, 3))
    changed = change(tensor)
    assert not guard(tensor if name in IN_PLACE else changed)


@pytest.mark.parametrize("make", [lambda t: t.to(fb.complex64), lambda t: t.to(fb.complex64).conj().imag])
def test_conjugate_and_negative_views_are_distinguished(make):
    view = make(fb.ones(3))
    resolved = view.clone() if not view.is_neg() else view.resolve_neg()
    assert _C._TensorGuard(view)(view)
    assert _C._TensorGuard(view)(resolved) == (not view.is_neg() and view.stride() == resolved.stride())


def test_an_inference_tensor_is_distinguished():
    with fb.inference_mode():
        made = fb.ones(2)
    assert not _C._TensorGuard(made)(fb.ones(2)) and not _C._TensorGuard(fb.ones(2))(made)


def test_guards_hold_no_tensor():
    tensor = fb.ones(2)
    reference = weakref.ref(tensor)
    made = fb.compile(lambda x: x + 1, backend=lambda graph, inputs: graph.forward)
    made(tensor)
    segment = next(iter(program(made).segments.values()))[0]
    for node in segment.graph.graph.nodes:
        node.meta.clear()
    guard = _C._TensorGuard(tensor)
    del tensor
    gc.collect()
    assert reference() is None and guard(fb.ones(2))


@pytest.mark.parametrize("given", [(), (1,), (None,), (fb.Tensor,)])
def test_a_tensor_guard_needs_a_tensor(given):
    with pytest.raises(TypeError):
        _C._TensorGuard(*given)


# --- threads ------------------------------------------------------------------------------------------

SETTINGS = {
    "gradients": fb.no_grad,
    "inference": fb.inference_mode,
    "autocast": lambda: fb.autocast("cpu", dtype=fb.bfloat16),
    "device": lambda: fb.device("meta"),
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_the_state_of_the_thread_is_compared(setting):
    outside = _C._ThreadGuard()
    with setting():
        inside = _C._ThreadGuard()
        assert inside() and not outside()
    assert outside() and not inside()


def test_determinism_and_the_default_dtype_are_compared():
    guard = _C._ThreadGuard()
    kinds = (fb.float32, fb.float64)
    for set_to in (fb.use_deterministic_algorithms, lambda on: fb.set_default_dtype(kinds[on])):
        set_to(True)
        try:
            assert not guard()
        finally:
            set_to(False)
        assert guard()


def test_each_thread_has_its_own_state():
    made = fb.compile(lambda x: (x * 2).requires_grad, backend=Recorder())
    x = fb.ones(2, requires_grad=True)
    seen = []

    def work():
        seen.append(made(x))
        with fb.no_grad():
            seen.append(made(x))

    with fb.no_grad():
        assert made(x) is False
        for _ in range(2):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert made(x) is False
    assert seen == [True, False] * 2 and made(x) is True
