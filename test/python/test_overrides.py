"""__torch_function__: who is asked, in which order, and what hostile overrides must not break."""

import contextlib
import copy
import gc
import inspect
import pickle
import threading
import warnings
import weakref

import flambeau as fb
import pytest
from flambeau.nn import functional as F
from flambeau.overrides import (
    BaseTorchFunctionMode,
    TorchFunctionMode,
    _get_current_function_mode,
    _get_current_function_mode_stack,
    _pop_mode_temporarily,
    get_default_nowrap_functions,
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    is_tensor_method_or_property,
    redispatch_function,
    resolve_name,
    wrap_torch_function,
)


class Answering:
    """Answers every call with what was asked."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, types, args, kwargs


class Refusing:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Log(TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(resolve_name(func))
        return func(*args, **(kwargs or {}))


# --- order ---------------------------------------------------------------------------------------


def ordered(*makers):
    """Classes that note in which order they are asked."""
    asked = []

    class Base:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(cls.__name__)
            return NotImplemented

    class Derived(Base):
        pass

    class Other(Base):
        pass

    return asked, Base, Derived, Other


def test_subclasses_are_asked_before_their_bases_and_each_class_once():
    asked, Base, Derived, Other = ordered()
    with pytest.raises(TypeError, match="no implementation found"):
        fb.cat([Base(), Derived(), Base(), Other()])
    assert asked == ["Derived", "Other", "Base"]


def test_types_holds_each_overriding_class_once():
    a, b = Answering(), Answering()
    func, types, args, kwargs = fb.add(a, b)
    assert (func, types, args, kwargs) == (fb.add, (Answering,), (a, b), None)


def test_the_next_class_is_asked_after_NotImplemented():
    assert fb.add(Refusing(), Answering())[0] is fb.add
    assert (fb.ones(2) + Answering())[0] is fb.Tensor.add


def test_refused_operators_ask_the_other_operand():
    class Reflected(Refusing):
        def __radd__(self, other):
            return "reflected"

    assert fb.ones(2) + Reflected() == "reflected"
    with pytest.raises(TypeError, match="unsupported operand"):
        fb.ones(2) - Reflected()
    assert (fb.ones(2) == Refusing()) is False


def test_the_instance_of_a_call_may_have_its_own_attribute():
    operand = type("Plain", (), {})()
    with pytest.raises(TypeError):
        fb.add(operand, 1)
    operand.__torch_function__ = lambda *args, **kwargs: 3
    assert fb.add(operand, 1) == 3


def test_metaclass_attributes_count_for_the_class_alone():
    class Meta(type):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "class"

    class Made(metaclass=Meta):
        pass

    assert fb.add(Made, 1) == "class"
    with pytest.raises(TypeError):
        fb.add(Made(), 1)


def test_getattr_that_raises_or_lies_does_not_break_calls():
    class Raising:
        def __getattr__(self, name):
            raise ZeroDivisionError(name)

    with pytest.raises(TypeError, match="Raising"):
        fb.add(Raising(), 1)
    with pytest.raises(TypeError, match="Raising"):
        F.relu(Raising())


def test_plain_methods_are_warned_about():
    class Plain:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return self

    operand = Plain()
    with pytest.warns(UserWarning, match="plain method"):
        assert fb.add(operand, 1) is operand
    with pytest.warns(DeprecationWarning, match="plain method"):
        assert F.relu(operand) is operand
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Plain.__torch_function__ = staticmethod(lambda func, types, args=(), kwargs=None: 1)
        assert fb.add(operand, 1) == 1


# --- hostile overrides ---------------------------------------------------------------------------


def test_an_exception_of_an_override_passes_and_leaves_the_state():
    class Failing:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with fb._C.DisableTorchFunctionSubclass():
                raise KeyError(func.__name__)

    for call in (lambda: fb.add(Failing(), 1), lambda: fb.ones(1) + Failing(), lambda: F.relu(Failing())):
        with pytest.raises(KeyError):
            call()
    assert fb._C._is_torch_function_enabled()
    assert fb.add(Answering(), 1)[0] is fb.add


def test_an_exception_of_a_mode_leaves_the_stack():
    class Failing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise KeyError("mode")

    with Failing() as mode:
        for _ in range(3):
            with pytest.raises(KeyError):
                fb.ones(2)
            assert _get_current_function_mode() is mode
    assert _get_current_function_mode() is None


def test_an_override_may_delete_what_it_was_given():
    held = [Answering(), Refusing()]

    class Deleting:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            items.clear()
            gc.collect()
            return NotImplemented

    items = [Deleting(), *held]
    assert fb.cat(items)[0] is fb.cat


def test_endless_recursion_is_an_error_and_not_a_crash():
    class Endless:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with pytest.raises(RecursionError):
        fb.add(Endless(), 1)
    with pytest.raises(RecursionError):
        F.relu(Endless())


def test_results_of_any_type_are_returned_but_protocols_check_theirs():
    class Odd(fb.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "odd"

    t = fb.ones(2).as_subclass(Odd)
    assert (t.shape, t[0], t + 1, t.sum(), F.relu(t)) == ("odd",) * 5
    assert bool(t) is True
    for call in (len, float, int):
        with pytest.raises(TypeError):
            call(t)


def test_threads_have_their_own_modes_and_switches():
    found = {}

    def other():
        found["mode"] = _get_current_function_mode()
        found["enabled"] = fb._C._is_torch_function_enabled()
        with Log() as log:
            for _ in range(200):
                fb.ones(1) + 1
        found["seen"] = len(log.seen)

    with Log() as log, fb._C.DisableTorchFunctionSubclass():
        threads = [threading.Thread(target=other) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == {"mode": None, "enabled": True, "seen": 400}
    assert log.seen == []


def test_a_thread_that_ends_within_a_mode_leaves_others_alone():
    thread = threading.Thread(target=lambda: Log().__enter__())
    thread.start()
    thread.join()
    assert fb.ones(2).sum().item() == 2


def test_subclasses_that_switch_it_off_are_plain():
    class Off(fb.Tensor):
        __torch_function__ = fb._C._disabled_torch_function_impl

    t = fb.ones(2).as_subclass(Off)
    assert type(t + 1) is fb.Tensor
    assert not has_torch_function_unary(t)


# --- modes ---------------------------------------------------------------------------------------


def test_modes_nest_and_each_sees_what_the_inner_one_calls():
    outer, inner = Log(), Log()
    with outer, inner:
        assert _get_current_function_mode_stack() == [outer, inner]
        fb.zeros(2)
    assert inner.seen == outer.seen == ["flambeau.zeros"]


def test_a_mode_can_be_entered_again():
    log = Log()
    with log, log:
        fb.zeros(2)
    assert log.seen == ["flambeau.zeros"] * 2
    with log:
        fb.ones(2)
    assert log.seen[2:] == ["flambeau.ones"]


def test_a_mode_comes_before_classes_and_may_pass_to_them():
    class Passing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            assert types == (Answering,)
            return NotImplemented

    with Passing():
        assert fb.add(Answering(), 1)[0] is fb.add


def test_a_mode_that_passes_without_anyone_else_is_an_error():
    class Passing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return NotImplemented

    with Passing(), pytest.raises(TypeError, match="no implementation found"):
        fb.zeros(2)


def test_modes_are_out_of_force_while_they_run_and_when_popped():
    class Nested(Log):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            fb.zeros(3)
            return super().__torch_function__(func, types, args, kwargs)

    with Nested() as log:
        fb.ones(2)
        with _pop_mode_temporarily() as mode:
            assert mode is log
            fb.ones(2)
        fb._C._len_torch_function_stack()
    assert log.seen == ["flambeau.ones"]


def test_disabling_switches():
    t = fb.ones(2).as_subclass(type("Sub", (fb.Tensor,), {}))
    with Log() as log:
        with fb._C.DisableTorchFunction():
            assert type(t + 1) is fb.Tensor
            assert fb._C._is_torch_function_all_disabled()
            with fb._C._EnableTorchFunction():
                assert type(t + 1) is type(t)
        assert len(log.seen) == 1
        with fb._C.DisableTorchFunctionSubclass():
            assert type(t + 1) is fb.Tensor
            assert not fb._C._is_torch_function_enabled()
    assert len(log.seen) == 2


def test_modes_see_modules_and_optimizers():
    model = fb.nn.Sequential(fb.nn.Linear(2, 2), fb.nn.ReLU())
    with Log() as log:
        model(fb.ones(1, 2))
    assert "flambeau.nn.functional.linear" in log.seen
    assert "flambeau.nn.functional.relu" in log.seen


def test_base_mode_calls_and_push_makes():
    with BaseTorchFunctionMode():
        assert fb.ones(2).sum().item() == 2
    assert isinstance(BaseTorchFunctionMode.push(), BaseTorchFunctionMode)


def test_a_mode_lives_no_longer_than_its_block():
    log = Log()
    reference = weakref.ref(log)
    with log:
        fb.ones(1)
    del log
    gc.collect()
    assert reference() is None


# --- functions written in Python -----------------------------------------------------------------


def test_python_functions_keep_their_looks():
    assert F.relu.__name__ == "relu"
    assert list(inspect.signature(F.relu).parameters) == ["input", "inplace"]
    assert pickle.loads(pickle.dumps(F.relu)) is F.relu
    assert copy.deepcopy(F.relu) is F.relu
    assert inspect.isroutine(F.relu)
    assert "def relu" in inspect.getsource(F.relu)
    assert resolve_name(F.relu) == "flambeau.nn.functional.relu"

    class Holder:
        act = F.relu

    with pytest.raises(TypeError):
        Holder().act(fb.ones(1))  # a function in a class is a method


def test_defaults_are_filled_in_for_functions_of_python():
    a = Answering()
    func, types, args, kwargs = F.relu(a)
    assert (func, types, args, kwargs) == (F.relu, (Answering,), (a,), {"inplace": False})
    with pytest.raises(TypeError):
        F.relu(a, 1, 2, 3, unknown=4)


# Overrides see these under the name that they repeat, as in PyTorch.
FORWARDED = {"ndimension": "dim", "nelement": "numel"}


@pytest.mark.parametrize("function", sorted(get_testing_overrides(), key=lambda f: resolve_name(f) or ""))
def test_every_overridable_function_asks_its_first_argument(function):
    """Of functions the first argument is an operand; methods and accessors have a subclass as self."""
    asked = []

    class Sub(fb.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func)
            return -1

    t = fb.ones(2).as_subclass(Sub)
    assert resolve_name(function)
    for count in range(1, 20):
        for first in (t, [t]):  # functions of lists ask the items
            with contextlib.suppress(TypeError):
                function(first, *[t] * (count - 1))
        if asked:
            break
    first = FORWARDED.get(resolve_name(function).rpartition(".")[2])
    same = [function] == asked[:1] or type(function).__name__ == "wrapper_descriptor"
    assert same or resolve_name(asked[0]) == f"flambeau.Tensor.{first}"
    assert resolve_name(asked[0])


# --- questions -----------------------------------------------------------------------------------


def test_questions():
    a, t = Answering(), fb.ones(2)
    assert has_torch_function((t, a)) and has_torch_function_unary(a)
    assert has_torch_function_variadic(t, a)
    assert not has_torch_function((t, 1)) and not has_torch_function_variadic(t, t)
    assert is_tensor_like(t) and is_tensor_like(a) and not is_tensor_like(2.0)
    assert is_tensor_method_or_property(fb.Tensor.shape.__get__)
    assert is_tensor_method_or_property(fb.Tensor.norm)
    assert not is_tensor_method_or_property(fb.norm)
    with Log():
        assert has_torch_function(())


def test_handle_and_wrap():
    @wrap_torch_function(lambda x, *, scale=1: (x,))
    def twice(x, *, scale=1):
        return x * 2 * scale

    a = Answering()
    assert twice(a, scale=3) == (twice, (Answering,), (a,), {"scale": 3})
    assert twice(2) == 4
    assert handle_torch_function(twice, (a,), a) == (twice, (Answering,), (a,), {})
    with pytest.raises(TypeError, match="no implementation found"):
        handle_torch_function(twice, (Refusing(),), 1)


def test_redispatch_passes_one_check():
    class Scaled(fb.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(getattr(func, "__name__", ""))
            return redispatch_function(func, types, args, kwargs)

    x = fb.ones(2).as_subclass(Scaled)
    assert F.softmin(x, 0).tolist() == [0.5, 0.5]
    assert Scaled.seen[0] == "softmin" and len(Scaled.seen) > 1
    assert (x + 1).tolist() == [2.0, 2.0]


def test_inventories():
    overridable = get_overridable_functions()
    assert fb.add in overridable[fb] and F.relu in overridable[F]
    assert fb.Tensor.shape.__get__ in overridable[fb.Tensor]
    ignored = get_ignored_functions()
    assert {fb.zeros, fb.manual_seed, fb.is_tensor, fb.tensor} <= ignored
    assert not ignored & set(get_testing_overrides())
    assert get_testing_overrides()[fb.Tensor.add](1, 2) == -1
    assert fb.Tensor.grad.__get__ in get_default_nowrap_functions()
    assert resolve_name(3) is None and resolve_name([]) is None


def test_results_of_tuples_get_the_class():
    Sub = type("Sub", (fb.Tensor,), {})
    t = fb.arange(4.0).reshape(2, 2).as_subclass(Sub)
    values, indices = t.max(0)
    assert type(values) is type(indices) is Sub
    assert type(t.max(0)).__name__ == "max"
    assert type(t.shape) is fb.Size
    t = t.detach().requires_grad_()
    (t * 2).sum().backward()
    assert type(t.grad) is fb.Tensor


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(2**40, 2**40), (True, 1), (-1, ValueError), (2**70, OverflowError), ("two", TypeError)],
    ids=str,
)
def test_lengths_that_overrides_give(answer, outcome):
    class Long(fb.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return answer

    x = fb.ones(3).as_subclass(Long)
    if isinstance(outcome, int):
        assert len(x) == outcome
    else:
        with pytest.raises(outcome):
            len(x)
