"""`library.infer_schema` over annotations of every kind, beside PyTorch."""

import re

import flambeau as fb
import pytest
from oracle import pytorch

NAMES = (
    "from typing import Annotated, Any, Callable, Dict, List, Literal, Optional, Sequence, Tuple, Union\n"
    "import collections.abc\nNumber = Union[int, float, bool]\n"
)
KEY_WORDS = re.compile(
    "unsupported type annotation|unsupported type|must have a type annotation|unsupported default value type"
    "|positional-only args, varargs, or varkwargs|no return type annotation was provided"
    "|only tensors or collections of tensors can be mutated"
    "|mutates_args must either be a sequence of|mutates_args|not iterable",
    re.I,
)


def inferred(torch, arguments, result="Tensor", lazy=False, **options):
    names = {"torch": torch, "Tensor": torch.Tensor}
    exec(NAMES, names)
    ending = "" if result is None else f" -> {result}"
    lines = ["from __future__ import annotations"] * lazy + [f"def function({arguments}){ending}: ..."]
    exec("\n".join(lines), names)
    try:
        return torch.library.infer_schema(names["function"], **{"mutates_args": (), **options})
    except (ValueError, TypeError) as error:
        found = KEY_WORDS.search(str(error))
        assert found, f"no key words: {error}"
        return type(error), found[0].lower()


def compare(*arguments, **options):
    assert inferred(fb, *arguments, **options) == inferred(pytorch(), *arguments, **options)


ELEMENTS = ("Tensor", "int", "float", "bool", "str", "complex", "torch.dtype", "torch.device", "Number")
FORMS = (
    "{}", "Optional[{}]", "{} | None", "Union[None, {}]", "List[{}]", "list[{}]", "Sequence[{}]",
    "collections.abc.Sequence[{}]", "Optional[List[{}]]", "Sequence[{}] | None", "List[Optional[{}]]",
    "list[{} | None]", "Optional[Sequence[Optional[{}]]]", "List[List[{}]]", "Tuple[{}, {}]",
    "tuple[{}, ...]", "Tuple[{}, ...]", "Annotated[{}, 3]",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_types(form, element):
    kind = form.format(element, element)
    compare(f"x: {kind}")
    compare("x: Tensor", kind)


OTHER = (
    "list", "List", "Sequence", "tuple", "dict", "Dict[str, int]", "set", "Any", "object", "None", "Callable",
    "bytes", "Literal[1]", "Union[int, float]", "int | float", "float | int | bool", "Union[Tensor, int]",
    "Union[int, str, None]", "torch.layout", "torch.memory_format", "torch.nn.Parameter", "torch.nn.Module",
    "torch.Size", "torch.SymInt", "collections.abc.Iterable[int]", '"Tensor"',
    '"Optional[Tensor]"', '"absent"',
)  # fmt: skip


@pytest.mark.parametrize("kind", OTHER)
def test_other_types(kind):
    compare(f"x: {kind}")
    compare("x: Tensor", kind)


@pytest.mark.parametrize(
    "kind",
    [
        None, "None", "tuple[()]", "Tuple[()]", "tuple[Tensor, int]", "Tuple[Tensor, float, bool]",
        "Tuple[List[Tensor], Tensor]", "tuple[Tensor | None, Tensor]", "Tuple[Tuple[Tensor, Tensor], Tensor]",
        "List[Tuple[Tensor, Tensor]]", "Tuple[List[int], Tensor]", "tuple[None]",
    ],
)  # fmt: skip
def test_results(kind):
    compare("x: Tensor", kind)


@pytest.mark.parametrize(
    "arguments",
    [
        "", "x", "x, y: int", "*args", "*args: int", "**kw", "x: Tensor, /", "x: Tensor, /, y: int",
        "*, x: int", "x: Tensor, *, y: int = 3",
        "x: Tensor, *, a: Tensor, b: float = 1.0, c: Optional[str] = None",
    ],
)  # fmt: skip
def test_kinds_of_arguments(arguments):
    compare(arguments)
    compare(arguments, mutates_args="unknown")


DEFAULTS = (
    "int = 3", "int = -1", "int = 2**40", "int = True", "int = 2.5", "int = None", 'int = "s"', "float = 3.0",
    "float = 3", "float = 1e-05", "float = 1e16", "float = 1e300", 'float = float("inf")',
    'float = float("-inf")', 'float = float("nan")', "bool = True", "bool = 1", 'str = "abc"', 'str = ""',
    "str = \"a'b\"", "str = 'a\"b'", "str = 3", "Optional[int] = None", "Tensor = None", "Tensor = 3",
    "Number = 2.5", "torch.dtype = torch.float32", "Optional[torch.dtype] = torch.int64",
    'torch.device = torch.device("cpu")', 'torch.device = torch.device("cuda:0")', 'torch.device = "cpu"',
    "List[int] = [1, 2]", "Sequence[int] = (1, 2)", "List[int] = ()", "Optional[List[int]] = None",
    "int = object()", "float = 1j", "int = torch.float32",
)  # fmt: skip


@pytest.mark.parametrize("argument", DEFAULTS)
def test_defaults(argument):
    compare(f"x: {argument}")


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    "written",
    ["unknown", ["x"], {"x"}, ("x", "x"), {"x": 1}, "x", "other", "", ["y"], ["x", "y"], [1], None, 3],
)
@pytest.mark.parametrize(
    "kind", ["Tensor", "Optional[Tensor]", "List[Tensor]", "Sequence[Optional[Tensor]]", "int", "List[int]"]
)
def test_written_arguments(kind, written, lazy):
    compare(f"x: {kind}, *, z: Tensor, n: int = 1", "None", lazy=lazy, mutates_args=written)


@pytest.mark.parametrize("name", [None, "", "foo", "ns::foo", "foo.bar"])
def test_names(name):
    compare("x: Tensor", op_name=name)


def test_lazy_annotations_that_are_not_defined():
    compare("x: absent", lazy=True)
    compare("x: Tensor", "absent", lazy=True)


def test_a_type_that_a_schema_cannot_have_names_what_it_can_have():
    def function(x: dict) -> fb.Tensor: ...

    with pytest.raises(ValueError, match="argument 'x': unsupported type: expected Tensor, int.* got .*dict"):
        fb.library.infer_schema(function, mutates_args=())
