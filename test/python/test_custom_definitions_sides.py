"""Members of `CustomOpDef`, `opcheck` and `infer_schema` over unusual definitions, beside PyTorch."""

# ruff: noqa: UP007, UP045  (annotations in both forms are tested)
import itertools
import threading
import typing
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Literal, Optional, Union

import flambeau as fb
from oracle import pytorch
from sides import Scenarios, raised, warned

scenario = Scenarios()
_numbers = itertools.count()


def adding(torch, **options):
    """An operator that adds 1, on the CPU 2."""

    def add(x):
        return x + 1

    add.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    name = f"definitions::add{next(_numbers)}"
    made = torch.library.custom_op(name, add, mutates_args=(), **options)
    made.register_kernel("cpu")(lambda x: x + 2)
    return made


@scenario
def kernels_that_are_disabled(torch):
    op, x, found = adding(torch), torch.zeros(1), []
    with op.set_kernel_enabled("cpu", enabled=False):
        found.append(op(x))
        with op.set_kernel_enabled("cpu"):
            found.append(op(x))
        found.append(op(x))
        op.register_kernel("cpu")(lambda x: x + 7)
        found.append(op(x))
    found.append(op(x))
    with op.set_kernel_enabled("cpu", True), op.set_kernel_enabled("cpu", True):
        found.append(op(x))
    return found


@scenario
def a_region_that_raises_enables_the_kernel_again(torch):
    op = adding(torch)

    def leave():
        with op.set_kernel_enabled("cpu", False):
            raise KeyError("mine")

    return raised("mine", leave), op(torch.zeros(1))


@scenario
def gradients_with_a_disabled_kernel(torch):
    op = adding(torch)
    op.register_autograd(lambda ctx, grad: grad * 3)
    x = torch.zeros(2, requires_grad=True)
    with op.set_kernel_enabled("cpu", False):
        y = op(x)
    y.sum().backward()
    return y, x.grad


@scenario
def rules_of_classes(torch):
    op = adding(torch)
    mode = import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode

    class Sevens(mode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    @op.register_torch_dispatch(Sevens)
    def rule(mode, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {})) + 70

    with Sevens():
        inside = op(torch.zeros(1))
    return inside, op(torch.zeros(1))


@scenario
def tags(torch):
    tag = torch.Tag
    made = [adding(torch), adding(torch, tags=(tag.needs_fixed_stride_order,))]
    return [sorted(str(t).rpartition(".")[2] for t in op._opoverload.tags) for op in made]


def checked(torch, function, *arguments, mutates=(), fake=None):
    op = torch.library.custom_op(f"definitions::f{next(_numbers)}", function, mutates_args=mutates)
    if fake is not None:
        op.register_fake(fake)
    found = torch.library.opcheck(op, arguments, raise_exception=False)
    error = raised("test_", torch.library.opcheck, op, arguments)
    return [{name: isinstance(result, Exception) or result for name, result in found.items()}, error]


def annotated(torch, function, result):
    function.__annotations__ = {"x": torch.Tensor, "return": result}
    return function


@scenario
def checks_that_pass(torch):
    tensor, x = torch.Tensor, torch.ones(3)
    return [
        checked(torch, annotated(torch, lambda x: x * 2, tensor), x, fake=torch.empty_like),
        checked(torch, annotated(torch, lambda x: x.add_(1) is None or None, None), x.requires_grad_(),
                mutates=("x",), fake=lambda x: None),
    ]  # fmt: skip


@scenario
def checks_that_fail(torch):
    def writes(x):
        x.add_(1)
        return x * 2

    wrong = [
        (annotated(torch, writes, torch.Tensor), torch.empty_like),
        (annotated(torch, lambda x: x * 2, torch.Tensor), lambda x: x.new_empty(7)),
    ]
    return [
        [
            checked(torch, function, torch.ones(3), fake=fake)[0][name]
            for name in ("test_schema", "test_faketensor")
        ]
        + [checked(torch, function, torch.ones(3), fake=fake)[1]]
        for function, fake in wrong
    ]


@scenario
def wrong_uses_of_opcheck(torch):
    op, check = adding(torch), torch.library.opcheck
    return [
        raised("subset", check, op, (torch.ones(1),), test_utils="other"),
        raised("", check, op, ())[0],
        raised("", check, op, ("x",))[0],
        raised("", check, len, ())[0],
        check(op, (torch.ones(1),), test_utils="test_schema"),
        check(op, (), {"x": torch.ones(1)}, test_utils=("test_schema",)),
    ]


def test_kernels_that_are_not_there():
    for torch in (fb, pytorch()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with adding(torch).set_kernel_enabled("cuda", False):
                pass
    assert warned("found none", adding(fb).set_kernel_enabled("cuda", False).__enter__) == ["UserWarning"]


def test_threads_disable_one_operator():
    op, wrong = adding(fb), []

    def work():
        for _ in range(200):
            with op.set_kernel_enabled("cpu", False):
                if op(fb.zeros(1)).item() not in (1.0, 2.0):
                    wrong.append("other kernel")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


REFUSED = [
    dict[str, int],
    object,
    Any,
    Callable,
    Literal["a"],
    tuple[int, ...],
    typing.TypeVar("T"),
    "not_defined",
]


def accepted(T):
    """Arguments of functions, by the class of tensors."""
    return [
        {"x": "Tensor"}, {"x": Optional[T], "y": int}, {"x": list[T], "y": Sequence[int]}, {},
        {"x": T, "y": Union[int, float, bool]}, {"x": T | None, "y": int | None}, {"x": list[T | None]},
        {"x": T, "y": Sequence[bool], "z": Optional[Sequence[float]]},
    ]  # fmt: skip


def inferred(torch, arguments, result):
    space = {"Tensor": torch.Tensor}
    exec(f"def function({', '.join(arguments)}): ...", space)
    space["function"].__annotations__ = {**arguments, "return": result}
    return torch.library.infer_schema(space["function"], mutates_args=())


@scenario
def names_of_arguments_that_are_written(torch):
    def write(x):
        return None

    write.__annotations__ = {"x": torch.Tensor, "return": None}
    infer = torch.library.infer_schema
    return [
        infer(write, mutates_args=("x",)),
        infer(write, mutates_args="unknown"),
        *(raised("", infer, write, mutates_args=wrong)[0] for wrong in ("x", "all", ("y",))),
    ]


@scenario
def schemas_of_annotations(torch):
    return [inferred(torch, arguments, "Tensor") for arguments in accepted(torch.Tensor)]


@scenario
def schemas_of_results(torch):
    T = torch.Tensor
    results = [None, T, tuple[()], typing.Tuple[()], list[T], tuple[T, int, float], int, bool]  # noqa: UP006
    return [inferred(torch, {"x": T}, result) for result in results]


@scenario
def annotations_that_are_refused(torch):
    of_arguments = [raised("", inferred, torch, {"x": kind}, torch.Tensor)[0] for kind in REFUSED]
    results = (dict, tuple[torch.Tensor, ...], object, "not_defined")
    return of_arguments, [raised("", inferred, torch, {}, kind)[0] for kind in results]


test_scenarios = scenario.test()
