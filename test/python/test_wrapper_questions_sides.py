"""Members of wrapper subclasses that their class answers by __torch_dispatch__, beside PyTorch."""

import contextlib
import gc
from importlib import import_module

import flambeau as fb
import numpy as np
import pytest
from sides import Scenarios

scenario = Scenarios()

MEMBERS = {
    "size": lambda x, fw: x.size(),
    "size(0)": lambda x, fw: x.size(0),
    "size(-1)": lambda x, fw: x.size(-1),
    "size(2)": lambda x, fw: x.size(2),
    "shape": lambda x, fw: x.shape,
    "stride": lambda x, fw: x.stride(),
    "stride(-1)": lambda x, fw: x.stride(-1),
    "stride(2)": lambda x, fw: x.stride(2),
    "is_contiguous": lambda x, fw: x.is_contiguous(),
    "contiguous_format": lambda x, fw: x.is_contiguous(memory_format=fw.contiguous_format),
    "channels_last": lambda x, fw: x.is_contiguous(memory_format=fw.channels_last),
    "dim": lambda x, fw: x.dim(),
    "ndim": lambda x, fw: x.ndim,
    "ndimension": lambda x, fw: x.ndimension(),
    "numel": lambda x, fw: x.numel(),
    "nelement": lambda x, fw: x.nelement(),
    "storage_offset": lambda x, fw: x.storage_offset(),
    "len": lambda x, fw: len(x),
    "nbytes": lambda x, fw: x.nbytes,
    "itemsize": lambda x, fw: x.itemsize,
    "dtype": lambda x, fw: x.dtype,
    "device": lambda x, fw: x.device,
    "layout": lambda x, fw: x.layout,
    "is_cpu": lambda x, fw: x.is_cpu,
    "is_cuda": lambda x, fw: x.is_cuda,
    "is_meta": lambda x, fw: x.is_meta,
    "is_sparse": lambda x, fw: x.is_sparse,
    "get_device": lambda x, fw: x.get_device(),
}


def answers(fw):
    return {
        "aten.sym_size.default": (4, 5),
        "aten.sym_stride.default": [5, 1],
        "aten.is_contiguous.default": False,
        "aten.is_contiguous.memory_format": True,
        "aten.dim.default": 2,
        "aten.sym_numel.default": 20,
        "aten.numel.default": 20,
        "aten.sym_storage_offset.default": 7,
        "prim.device.default": fw.device("meta"),
        "prim.layout.default": fw.strided,
    }


def asked_class(fw, answered, log):
    class Asked(fw.Tensor):
        __torch_function__ = fw._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            named = [str(func), [t is cls for t in types], len(args), [text(a) for a in args[1:]], kwargs]
            log.append(str(named).replace(fw.__name__, "torch"))
            return answered.get(str(func), NotImplemented)

    return Asked


def text(value):
    name = str(tuple(value) if isinstance(value, tuple) else value)
    return name.replace("flambeau", "torch")


def observe(fw, answered, **options):
    """The value, or the type of error, of each member and the questions that the class was asked."""
    found = []
    for name, member in MEMBERS.items():
        log = []
        x = fw.Tensor._make_wrapper_subclass(asked_class(fw, answered, log), (2, 3), **options)
        try:
            value = text(member(x, fw))
        except Exception as error:
            value = type(error).__name__
        found.append([name, value, log])
    return found


OPTIONS = (
    {},
    {"dispatch_sizes_strides_policy": "sizes"},
    {"dispatch_sizes_strides_policy": "strides"},
    {"dispatch_device": True},
    {"dispatch_layout": True},
    {"dispatch_sizes_strides_policy": "sizes", "dispatch_device": True, "dispatch_layout": True},
)


def all_options(fw, answered):
    return [observe(fw, answered, **options) for options in OPTIONS]


@scenario
def answered_by_the_class(torch):
    return all_options(torch, answers(torch))


@scenario
def not_answered(torch):
    return all_options(torch, {})


@scenario
def answered_by_none(torch):
    return all_options(torch, dict.fromkeys(answers(torch)))


@scenario
def answered_by_text(torch):
    return all_options(torch, dict.fromkeys(answers(torch), "wrong"))


@scenario
def answered_by_other_types(torch):
    wrong = {"aten.sym_stride.default": ["a", 2], "aten.sym_numel.default": 2.5, "aten.dim.default": True}
    others = {"aten.is_contiguous.default": 1, "aten.sym_size.default": [4, 5], "prim.device.default": "meta"}
    return all_options(torch, {**answers(torch), **wrong, **others})


@scenario
def answered_by_negative_numbers(torch):
    numbers = {"aten.sym_size.default": [-4, 5], "aten.sym_numel.default": -1, "aten.dim.default": -1}
    return all_options(torch, {**answers(torch), **numbers})


@scenario
def without_dimensions(torch):
    numbers = {"aten.sym_size.default": (), "aten.sym_stride.default": (), "aten.dim.default": 0}
    return all_options(torch, {**answers(torch), **numbers})


@scenario
def policies_that_do_not_exist(torch):
    found = []
    for policy in ("x", "", "SIZES"):
        try:
            torch.Tensor._make_wrapper_subclass(
                asked_class(torch, {}, []), (2,), dispatch_sizes_strides_policy=policy
            )
        except ValueError as error:
            found.append("Unknown sizes_strides_policy" in str(error))
    return found


@scenario
def the_operators_on_other_tensors(torch):
    x = torch.zeros(2, 3).t()[1:]
    aten, prim = torch.ops.aten, torch.ops.prim
    values = [
        aten.sym_size.default(x),
        aten.sym_size.int(x, 1),
        aten.sym_stride.default(x),
        aten.sym_stride.int(x, -1),
        aten.sym_numel.default(x),
        aten.sym_storage_offset.default(x),
        aten.is_contiguous.default(x),
        aten.is_contiguous.memory_format(torch.zeros(1, 2, 3, 4), torch.channels_last),
        str(prim.device.default(x)),
    ]
    packets = (aten.sym_size, aten.sym_stride, aten.sym_numel, aten.is_contiguous, prim.device)
    return values, [sorted(packet.overloads()) for packet in packets]


@scenario
def modes_are_asked_first(torch):
    dispatch_mode = import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode
    log, seen = [], []

    class Logged(dispatch_mode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.Tensor._make_wrapper_subclass(
        asked_class(torch, answers(torch), log), (2, 3), dispatch_sizes_strides_policy="sizes"
    )
    with Logged():
        value = list(x.shape)
    return value, seen, len(log)


@scenario
def a_class_that_raises(torch):
    class Raising(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise KeyError(str(func))

    x = torch.Tensor._make_wrapper_subclass(
        Raising, (2,), dispatch_sizes_strides_policy="sizes", dispatch_device=True, dispatch_layout=True
    )
    found = []
    for name, member in MEMBERS.items():
        try:
            found.append([name, text(member(x, torch))])
        except Exception as error:
            found.append([name, type(error).__name__])
    return found


@scenario
def subclasses_over_data(torch):
    found = []
    for options in (
        {"dispatch_sizes_strides_policy": "strides"},
        {"dispatch_device": True},
        {"dispatch_layout": True},
    ):
        for name in ("stride", "is_contiguous", "device", "is_meta", "shape"):
            log = []
            cls = asked_class(torch, answers(torch), log)
            x = torch.Tensor._make_subclass(cls, torch.zeros(2, 3), **options)
            found.append([name, text(MEMBERS[name](x, torch)), log])
    return found


test_as_in_pytorch = scenario.test()


def test_an_answer_whose_items_change_the_list_is_read_safely():
    class Shrinking:
        def __index__(self):
            sizes.clear()
            gc.collect()
            return 3

    sizes = [Shrinking(), 4, 5]
    answered = {**answers(fb), "aten.sym_size.default": sizes}
    x = fb.Tensor._make_wrapper_subclass(
        asked_class(fb, answered, []), (2, 3), dispatch_sizes_strides_policy="sizes"
    )
    assert tuple(x.shape) == (3,)
    sizes[:] = [np.int64(2), 2**70]
    with pytest.raises(ValueError, match="64 bits"):
        x.size()


def test_a_question_that_asks_itself_ends():
    class Endless(fb.Tensor):
        __torch_function__ = fb._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return args[0].size()

    x = fb.Tensor._make_wrapper_subclass(Endless, (2,), dispatch_sizes_strides_policy="sizes")
    with pytest.raises(RecursionError):
        x.size()
    with contextlib.suppress(RecursionError):
        repr(x)


def test_results_of_operators_ask_nothing():
    log = []
    cls = asked_class(fb, answers(fb), log)
    x = fb.Tensor._make_wrapper_subclass(cls, (2, 3), dispatch_sizes_strides_policy="sizes")
    plain = fb.zeros(2, 3)
    assert (plain.shape, plain.stride(), plain.device.type) == ((2, 3), (3, 1), "cpu")
    assert log == []
    assert x.numel() == 20
    assert len(log) == 1
