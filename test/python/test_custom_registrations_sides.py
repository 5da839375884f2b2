"""Registrations of custom operators that are refused, cast or found wrong, beside PyTorch."""

import itertools
from importlib import import_module

import flambeau as fb
import pytest
from sides import Scenarios

scenario = Scenarios()
_numbers = itertools.count()


def outcome(call, *args, **options):
    try:
        call(*args, **options)
    except (ValueError, RuntimeError) as error:
        return type(error).__name__
    return "accepted"


def function(torch, arguments, body, result="Tensor"):
    names = {"torch": torch, "Tensor": torch.Tensor}
    exec(f"def function({arguments}) -> {result}: {body}", names)
    return names["function"]


def defined(torch, made, name="", **options):
    name = name or f"registrations::f{next(_numbers)}"
    return torch.library.custom_op(name, made, **{"mutates_args": (), **options})


@scenario
def schemas_that_write_to_other_arguments(torch):
    made = function(torch, "x: Tensor, n: int = 3", "return x * n")
    schemas = "(Tensor x, int n=3) -> Tensor", "(Tensor(a!) x, int n=3) -> Tensor"
    return [
        outcome(defined, torch, made, mutates_args=written, schema=schema)
        for schema in schemas
        for written in ((), "unknown", ("x",), ["x"], {"x"}, ("x", "x"), ("n",), ("absent",), ("x", "n"))
    ]


@scenario
def device_types_without_a_device(torch):
    found = []
    for arguments in (
        "n: int",
        "n: int, device: torch.device",
        "n: int, place: torch.device",
        "x: list[Tensor]",
    ):
        made = function(torch, arguments, "return torch.ones(2)")
        found += [outcome(defined, torch, made, device_types=kind) for kind in (None, "cpu", ["cpu"], ())]
        late = defined(torch, made)
        found += [outcome(late.register_kernel, kind, made) for kind in ("cpu", ("cpu", "cuda"))]
        found.append(outcome(late.register_kernel, None, made))
    return found


@scenario
def names_in_a_reserved_namespace(torch):
    made = function(torch, "x: Tensor", "return x + 1")
    return [
        outcome(defined, torch, made, "prim::custom"),
        outcome(torch.library.define, "prim::custom", "(Tensor x) -> Tensor"),
        *(outcome(torch.library.Library, "prim", kind) for kind in ("DEF", "FRAGMENT", "IMPL")),
    ]


@scenario
def tensors_that_autocast_casts(torch):
    dtypes = "float32 float64 float16 bfloat16 int64 bool complex64".split()
    made = function(torch, "xs: list[Tensor], y: Tensor | None = None", "return xs[0] * 1")
    found = []
    for wanted in ("bfloat16", "float16", "float32"):
        op = defined(torch, made)
        op.register_autocast("cpu", getattr(torch, wanted))
        for dtype in dtypes:
            x = torch.ones(2, dtype=getattr(torch, dtype))
            with torch.autocast("cpu"):
                inside = op([x, torch.ones(1, dtype=torch.float64)], x)
            found.append([str(r.dtype).split(".")[-1] for r in (inside, op([x]))])
    return found


KERNELS = {
    "contiguous": "x.clone()", "transposed": "x.t().clone()", "row": "x[:1].t().clone()",
    "expanded": "torch.ones(2).expand(3, 2)", "offset": "torch.ones(9).as_strided((3, 2), (2, 1), 1)",
    "empty": "x[:, :0].t().clone()", "number": "torch.ones(())",
}  # fmt: skip
FAKES = {
    "contiguous": "x.new_empty(3, 2)", "transposed": "x.new_empty(2, 3).t()", "row": "x.new_empty(3, 1)",
    "same": "torch.empty_like(x)", "empty": "x.new_empty(0, 2)", "number": "x.new_empty(())",
    "double": "x.new_empty(3, 2, dtype=torch.float64)",
    "offset": "x.new_empty(7).as_strided((3, 2), (2, 1), 1)",
}  # fmt: skip


@scenario
def strides_of_fake_kernels(torch):
    found = []
    for kernel, fake in itertools.product(KERNELS, FAKES):
        op = defined(torch, function(torch, "x: Tensor", f"return {KERNELS[kernel]}"))
        op.register_fake(function(torch, "x: Tensor", f"return {FAKES[fake]}"))
        sample = (torch.ones(2, 3),)
        result = torch.library.opcheck(op, sample, test_utils="test_faketensor", raise_exception=False)
        found.append((kernel, fake, result["test_faketensor"] == "SUCCESS"))
    return found


@scenario
def ranges_with_odd_texts(torch):
    record_function = import_module(f"{torch.__name__}.profiler").record_function
    return [outcome(record_function("range", text).__enter__) for text in (None, "text", "", 3)]


@scenario
def tables_sorted_by_a_device(torch):
    profiler = import_module(f"{torch.__name__}.profiler")
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as profile:
        torch.ones(2).add(1)
    names = [f"{own}{kind}_time_total" for own in ("", "self_") for kind in ("cpu", "cuda", "device", "xpu")]
    averages = profile.key_averages()
    return [outcome(averages.table, sort_by=name) for name in [*names, "cuda_memory_usage", "cuda_time"]]


@scenario
def names_that_are_none(torch):
    library = torch.library
    found = []
    for name in ("plain", "a::b::c", "::a::b", 3, None, b"a::b"):
        found += [
            outcome(library.define, name, "(Tensor x) -> Tensor"),
            outcome(library.register_autograd, name, lambda ctx, grad: grad),
            outcome(library.register_vmap, name, lambda *args: args),
            outcome(library.register_autocast, name, "cpu", torch.bfloat16),
            outcome(library.register_kernel, name, "cpu", lambda x: x),
            outcome(library.register_fake, name, lambda x: x),
        ]
    return found


@scenario
def derivatives_of_operators_that_are_not_functional(torch):
    found = []
    for schema in ("(Tensor x) -> Tensor", "(Tensor(a!) x) -> ()", "(Tensor(a) x) -> Tensor(a)",
                   "(Tensor(a!) x) -> Tensor(a!)", "(Tensor x) -> Tensor[]"):  # fmt: skip
        name = f"registrations::f{next(_numbers)}"
        torch.library.define(name, schema)
        found.append(outcome(torch.library.register_autograd, name, lambda ctx, grad: grad))
    return found


@scenario
def libraries_of_a_block(torch):
    space, found = f"block{next(_numbers)}", []
    for kind in ("FRAGMENT", "DEF", "DEF"):
        with torch.library._scoped_library(space, kind) as library:
            library.define("f(Tensor x) -> Tensor")
            library.impl("f", lambda x: x + 1, "CompositeExplicitAutograd")
            found.append(getattr(torch.ops, space).f(torch.ones(1)))
        found.append(hasattr(getattr(torch.ops, space), "f"))
    try:
        with torch.library._scoped_library(space, "DEF") as library:
            library.define("f(Tensor x) -> Tensor")
            raise KeyError("inside")
    except KeyError:
        found.append(hasattr(getattr(torch.ops, space), "f"))
    return found


test_scenarios = scenario.test()


def test_a_refused_definition_keeps_the_earlier_operator():
    name = "registrations::kept"
    defined(fb, function(fb, "x: Tensor", "return x + 1"), name)
    bad = function(fb, "n: int", "return torch.ones(n)")
    with pytest.raises(ValueError, match="without tensor inputs .* argument: expected one, got .*::kept"):
        defined(fb, bad, name, device_types="cpu")
    with pytest.raises(ValueError, match="mutates_args as in the schema, which mutates .'x'., got"):
        defined(fb, function(fb, "x: Tensor", "..."), name, schema="(Tensor(a!) x) -> Tensor")
    assert fb.ops.registrations.kept(fb.zeros(1)).item() == 1
