"""The class Generator as an object: what it accepts, its copies, and misuse that must not crash."""

import copy
import gc
import pickle

import flambeau as fb
import pytest


def test_an_object_without_init_is_refused_and_does_not_crash():
    bare = fb.Generator.__new__(fb.Generator)
    for use in (
        lambda: bare.manual_seed(1),
        lambda: bare.get_state(),
        lambda: bare.device,
        lambda: fb.rand(2, generator=bare),
    ):
        with pytest.raises(TypeError, match="__init__"):
            use()


def test_methods_refuse_another_self():
    with pytest.raises(TypeError):
        fb.Generator.manual_seed(3, 1)
    with pytest.raises(TypeError):
        fb.Generator.get_state(fb.ones(2))


def test_it_keeps_its_stream_in_copies_and_pickles():
    generator = fb.Generator().manual_seed(3)
    fb.rand(5, generator=generator)
    expected = fb.rand(4, generator=copy.deepcopy(generator)).tolist()
    assert fb.rand(4, generator=pickle.loads(pickle.dumps(generator))).tolist() == expected
    assert fb.rand(4, generator=generator).tolist() == expected


def test_methods_return_the_generator_itself_and_leak_no_reference():
    generator = fb.Generator()
    import sys

    before = sys.getrefcount(generator)
    for _ in range(100):
        assert generator.manual_seed(1) is generator
        assert generator.set_state(generator.get_state()) is generator
    gc.collect()
    assert sys.getrefcount(generator) == before


@pytest.mark.parametrize("device", ["meta", "cuda:1", 3, "nowhere", [], 1.5])
def test_other_devices_are_refused(device):
    with pytest.raises((RuntimeError, TypeError)):
        fb.Generator(device)
    with pytest.raises((RuntimeError, TypeError)):
        fb.Generator(device=device)


def test_its_attributes_cannot_be_set():
    with pytest.raises(AttributeError):
        fb.Generator().device = "cpu"


def test_functions_bound_by_pybind_pickle_by_name():
    for function in (fb.promote_types, fb.can_cast, fb.get_default_dtype, fb.set_num_threads):
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.__doc__.endswith(".") and "(arg0" not in function.__doc__


@pytest.mark.parametrize("wrong", [None, 1, "float32", object()])
def test_a_dtype_is_asked_for(wrong):
    for call in (
        lambda: fb.promote_types(wrong, fb.int8),
        lambda: fb.can_cast(fb.int8, wrong),
        lambda: fb.set_default_dtype(wrong),
    ):
        with pytest.raises(TypeError, match="expected a dtype, got"):
            call()
