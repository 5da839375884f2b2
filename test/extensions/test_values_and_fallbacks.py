"""Tuples, dictionaries and operators without derivatives: one C++ source under flambeau and PyTorch."""

from pathlib import Path

import flambeau
import pytest
from flambeau.utils import cpp_extension

SOURCE = Path(__file__).with_name("values_and_fallbacks.cpp")
QUESTIONS = ["dictionaries", "generic_dictionaries", "tuples", "equality", "texts"]


def _load(extension, folder):
    folder.mkdir(exist_ok=True)
    flags = {"is_python_module": False, "extra_cflags": ["-O0", "-g0", "-std=c++20"]}
    return extension.load("values_and_fallbacks", [str(SOURCE)], build_directory=str(folder), **flags)


@pytest.fixture(scope="module")
def native(build_root):
    _load(cpp_extension, build_root / "values_and_fallbacks")
    return flambeau


@pytest.fixture(scope="module")
def both(native, build_root):
    """Return flambeau and PyTorch, each with the operators of the source."""
    torch = pytest.importorskip("torch")
    from torch.utils import cpp_extension as extension

    _load(extension, build_root / "values_and_fallbacks_pytorch")
    return native, torch


@pytest.mark.parametrize("question", QUESTIONS)
def test_values_answer_as_in_pytorch(both, question):
    ours, theirs = (getattr(torch.ops.composed, question)() for torch in both)
    assert ours == theirs and len(ours) > 8


def _plain(value):
    """Tensors as lists, so that results of both frameworks compare."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(_plain, value))
    return value.tolist() if hasattr(value, "tolist") else value


CALLS = {
    "total": lambda torch, op: op({"a": torch.ones(2), "b": torch.tensor(3.0)}),
    "total of nothing": lambda torch, op: op({}),
    "total by name": lambda torch, op: op(items={"a": torch.ones(2)}),
    "scaled": lambda torch, op: op({"z": torch.ones(2), "a": torch.tensor(3.0)}, 2),
    "grown": lambda torch, op: op({"a": 1}),
    "size_or": lambda torch, op: (op(), op(None), op({}), op({"a": torch.ones(1)})),
    "echoed": lambda torch, op: op({3: [1, 2.5], 1: []}),
    "times": lambda torch, op: (op((torch.ones(2), 3)), op([torch.ones(2), 3])),
    "swapped": lambda torch, op: op((torch.ones(2), 3)),
    "second_of": lambda torch, op: op({"k": (torch.ones(2), 7)}),
    "called_from_here": lambda torch, op: op(torch.ones(2, 2)),
}


@pytest.mark.parametrize("call", CALLS)
def test_operators_take_and_return_tuples_and_dictionaries(both, call):
    results = [_plain(CALLS[call](t, getattr(t.ops.composed, call.split()[0]))) for t in both]
    assert results[0] == results[1]
    if isinstance(results[0], dict):
        assert list(results[0]) == list(results[1])


def test_a_kernel_changes_a_copy_of_the_dictionary(native):
    counts = {"a": 1}
    assert native.ops.composed.grown(counts) == 2 and counts == {"a": 1}


def test_gradients_pass_through_dictionaries(native):
    x = native.ones(2, requires_grad=True)
    native.ops.composed.scaled({"x": x}, 3.0)["x"].sum().backward()
    assert x.grad.tolist() == [3, 3]


REFUSED = {
    "total": [({"a": 1},), ({1: 2},), ([3],), (None,), (3,), ()],
    "grown": [({"a": 1.5},), ({"a": None},), ({None: 1},)],
    "times": [((1,),), ((2, 3, 4),), (3,), ("ab",)],
    "second_of": [({"k": (1, "s")},), ({"k": 3},)],
}


@pytest.mark.parametrize(("name", "arguments"), [(n, a) for n in REFUSED for a in REFUSED[n]])
def test_values_that_do_not_fit_are_refused(both, name, arguments):
    for torch in both:
        with pytest.raises((RuntimeError, TypeError), match="Expected a value|missing value|arguments"):
            getattr(torch.ops.composed, name)(*arguments)


@pytest.mark.parametrize("name", [*(call for call in CALLS if " " not in call), "inferred"])
def test_schemas_have_the_types_of_pytorch(both, name):
    ours, theirs = (getattr(t.ops.composed, name).default._schema for t in both)
    assert str(ours).split("->")[0] == str(theirs).split("->")[0]
    for mine, other in ((ours.arguments, theirs.arguments), (ours.returns, theirs.returns)):
        assert [str(a.type) for a in mine] == [str(a.type) for a in other]


@pytest.mark.parametrize(
    "text",
    [
        "f(Dict(str, Tensor)[] d, Dict(int, (Tensor, str?))? e=None) -> ((Tensor, int), Dict(str, int) r)",
        "f((Tensor, (int, str))[] d, *, str by=',') -> ()",
        "f(Dict(Tensor[], int) d) -> ()",
        "f(Dict(str) d) -> ()",
        "f(Dict(str, Nothing) d) -> ()",
    ],
)
def test_schemas_are_read_as_in_pytorch(text):
    torch = pytest.importorskip("torch")

    def types(parse):
        try:
            schema = parse(f"ns::{text}")
        except RuntimeError:
            return "RuntimeError"
        return [(str(a.type), a.type.kind(), a.name) for a in (*schema.arguments, *schema.returns)]

    assert types(flambeau._C.parse_schema) == types(torch._C.parse_schema)


def test_operators_in_python_take_tuples_and_dictionaries():
    torch = pytest.importorskip("torch")
    results = []
    for framework in (flambeau, torch):
        library = framework.library.Library("composed_in_python", "DEF")
        library.define("f(Dict(str, Tensor) d, (Tensor, int) p) -> Dict(str, Tensor)")
        library.define("g(Tensor x, Dict(str, Tensor) d) -> Tensor")
        library.impl("f", lambda d, p: {"r": sum(d.values()) * p[1]}, "CompositeExplicitAutograd")
        library.impl("g", lambda x, d: x + d["a"], "CompositeImplicitAutograd")
        one = framework.ones(2, requires_grad=True)
        ops = framework.ops.composed_in_python
        ops.g(one, {"a": one}).sum().backward()
        results.append((_plain(ops.f({"a": framework.ones(2)}, (one, 3))), _plain(one.grad)))
        for arguments in [({"a": 1}, (one, 3)), ({1: one}, (one, 3)), ({}, (one, 3.5)), ({}, (one,))]:
            with pytest.raises(RuntimeError, match="Expected a value of type"):
                ops.f(*arguments)
        library._destroy()
    assert results[0] == results[1] == ({"r": [3.0, 3.0]}, [2.0, 2.0])


# --- operators without a derivative ---------------------------------------------------------------


def _history(torch, name, *arguments):
    """What the call records, and what a backward pass through each of its results raises."""
    result = getattr(torch.ops.underived, name)(*arguments)
    seen = []
    for item in result if isinstance(result, list | tuple) else [result]:
        text = ""
        if item.requires_grad:
            with pytest.raises(RuntimeError) as raised:
                item.sum().backward()
            text = str(raised.value).partition("\n")[0]
        name = type(item.grad_fn).__name__ if item.grad_fn is not None else None
        seen.append((item.requires_grad, name, item._is_view(), text, item.tolist()))
    return seen


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("name", ["doubled", "flat", "rounded", "both", "both swapped", "cloned"])
def test_backward_names_the_operator_without_a_derivative(both, name, recorded):
    seen = []
    for torch in both:
        x, y = torch.ones(2, 2, requires_grad=recorded), torch.ones(2, 2)
        pair = (y, x) if "swapped" in name else (x, y)
        base = name.split()[0]
        arguments = {"both": pair, "cloned": ([x, y],)}.get(base, (x,))
        seen.append(_history(torch, base, *arguments))
        assert x.grad is None
    assert seen[0] == seen[1]
    if recorded and name != "rounded":
        assert seen[0][0][3] == f"derivative for underived::{name.split()[0]} is not implemented"


@pytest.mark.parametrize("name", ["doubled_", "filled_"])
def test_writes_without_a_derivative(both, name):
    for torch in both:
        op = getattr(torch.ops.underived, name)
        z = torch.ones(2, requires_grad=True) * 1
        saved, version = z * z, z._version
        assert op(z) is z and z._version == version + 1
        for result in (z, saved):
            with pytest.raises(RuntimeError, match=f"derivative for underived::{name}|inplace operation"):
                result.sum().backward()
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            op(torch.ones(2, requires_grad=True))
        base = torch.ones(4, requires_grad=True) * 1
        op(base[:2])
        with pytest.raises(RuntimeError, match=f"derivative for underived::{name} is not implemented"):
            base.sum().backward()
        with torch.no_grad():
            leaf = torch.ones(2, requires_grad=True)
            assert op(leaf)._version == 1 and leaf.grad_fn is None


def test_a_write_to_the_view_of_an_operator_reaches_its_base(both):
    for torch in both:
        x = torch.ones(2, 2, requires_grad=True)
        z = x * 1
        torch.ops.underived.flat(z).mul_(2)
        assert z._version == 1
        z.sum().backward()
        assert x.grad.tolist() == [[2, 2], [2, 2]]
        with torch.no_grad():
            view = torch.ops.underived.flat(x * 1)
        assert view._is_view() and not view.requires_grad


def test_the_basic_fallback_warns_at_backward(both):
    for torch in both:
        x = torch.ones(2, requires_grad=True)
        result = torch.ops.underived.basic(x)
        assert result.requires_grad and not torch.ops.underived.basic(torch.ones(2)).requires_grad
        with pytest.warns(UserWarning, match="underived::basic: an autograd kernel was not registered"):
            result.sum().backward()
        assert x.grad is None
        z = x * 1
        assert torch.ops.underived.basic_(z) is z and "Mul" in type(z.grad_fn).__name__
        with pytest.warns(UserWarning, match="underived::basic_: an autograd kernel was not registered"):
            z.sum().backward()
        assert x.grad.tolist() == [1, 1]


def test_operators_without_a_derivative_refuse_tangents(both):
    for torch in both:
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(torch.ones(2, 2), torch.ones(2, 2))
            with pytest.raises(NotImplementedError, match="Trying to use forward AD with underived::doubled"):
                torch.ops.underived.doubled(dual)
