"""Switches of recording."""

import threading

import flambeau as fb
import pytest


def leaf(*values):
    return fb.tensor(list(values), dtype=fb.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("manager", "enabled"),
    [
        (lambda: fb.no_grad(), False),
        (lambda: fb.enable_grad(), True),
        (lambda: fb.set_grad_enabled(False), False),
        (lambda: fb.set_grad_enabled(True), True),
        (lambda: fb.inference_mode(), False),
        (lambda: fb.inference_mode(False), True),
    ],
)
@pytest.mark.parametrize("outer", [True, False])
def test_block_sets_and_restores(manager, enabled, outer):
    with fb.set_grad_enabled(outer):
        with manager():
            assert fb.is_grad_enabled() is enabled
            assert (leaf(1) * 2).requires_grad is enabled
        assert fb.is_grad_enabled() is outer
    assert fb.is_grad_enabled()


def test_block_restores_after_an_exception():
    with pytest.raises(KeyError), fb.no_grad():
        raise KeyError
    assert fb.is_grad_enabled()


def test_blocks_nest():
    with fb.no_grad():
        with fb.enable_grad():
            with fb.no_grad():
                assert not fb.is_grad_enabled()
            assert fb.is_grad_enabled()
        assert not fb.is_grad_enabled()


@pytest.mark.parametrize(
    "decorate",
    [
        lambda f: fb.no_grad(f),
        lambda f: fb.no_grad()(f),
        lambda f: fb.set_grad_enabled(False)(f),
        lambda f: fb.inference_mode(f),
        lambda f: fb.inference_mode()(f),
    ],
)
def test_decorated_function(decorate):
    @decorate
    def inside(a, *, b):
        """Documented."""
        return fb.is_grad_enabled(), a, b

    assert inside(1, b=2) == (False, 1, 2)
    assert inside.__doc__ == "Documented."
    assert fb.is_grad_enabled()


def test_decorated_recursive_function():
    @fb.no_grad()
    def count(n):
        return 0 if n == 0 else 1 + count(n - 1)

    assert count(5) == 5
    assert fb.is_grad_enabled()


def test_decorated_generator_switches_within_its_steps_only():
    closed = []

    @fb.no_grad()
    def steps():
        try:
            sent = yield fb.is_grad_enabled()
            try:
                yield sent, fb.is_grad_enabled()
            except ValueError:
                yield "caught", fb.is_grad_enabled()
        finally:
            closed.append(fb.is_grad_enabled())
        return "end"

    generator = steps()
    assert next(generator) is False
    assert fb.is_grad_enabled()
    assert generator.send(7) == (7, False)
    assert generator.throw(ValueError()) == ("caught", False)
    with pytest.raises(StopIteration) as end:
        next(generator)
    assert end.value.value == "end"
    unfinished = steps()
    next(unfinished)
    unfinished.close()
    assert closed == [False, False]
    assert fb.is_grad_enabled()


def test_set_grad_enabled_as_a_function():
    fb.set_grad_enabled(False)
    assert not fb.is_grad_enabled()
    fb.set_grad_enabled(True)
    assert fb.is_grad_enabled()


def test_objects_of_a_decorated_class_are_made_within_the_mode():
    with pytest.warns(FutureWarning, match="Decorating the class"):

        @fb.no_grad()
        class Something:
            def __init__(self):
                self.recording = fb.is_grad_enabled()

    assert not Something().recording
    assert fb.is_grad_enabled()


def test_each_thread_has_its_own_mode():
    seen = []
    with fb.no_grad():
        thread = threading.Thread(target=lambda: seen.append(fb.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_factories_may_ask_for_gradients_in_no_grad():
    with fb.no_grad():
        assert fb.ones(1, requires_grad=True).requires_grad


def test_inference_mode():
    assert not fb.is_inference_mode_enabled()
    with fb.inference_mode():
        assert fb.is_inference_mode_enabled()
        t = fb.ones(2)
        assert (t + 1).is_inference()
        t.add_(1)
        with fb.inference_mode(False):
            assert not fb.is_inference_mode_enabled()
            assert not fb.ones(1).is_inference()
    assert t.is_inference()
    assert not fb.ones(1).is_inference()


def test_inference_tensors_outside_of_the_mode():
    with fb.inference_mode():
        t = fb.ones(2, dtype=fb.float64)
    with pytest.raises(RuntimeError, match="Inference tensors do not"):
        _ = t._version
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        t.add_(1)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        leaf(1, 2) * t
    with pytest.raises(RuntimeError, match="requires_grad=True on"):
        t.requires_grad_()
    x = leaf(1, 2)
    (x * t.clone()).sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_normal_tensors_in_inference_mode():
    x = leaf(1, 2)
    y = x * 1
    with fb.inference_mode():
        assert not (y * 2).requires_grad
        assert not y[0].is_inference()
        y.add_(1)
    assert y._version == 1
