"""`doc:` of the entries: what is inherited, what is derived, and what is missing."""

from pathlib import Path

import pytest

from codegen.deriving.signatures import Callable, functions, methods
from codegen.load import load
from codegen.model import Model
from codegen.reading.files import read_files
from codegen.writing.describe import document, help_text

ENTRY = """# ==== arithmetic ====

- func: twice(Tensor self) -> Tensor
  family: arithmetic
  pointwise: self + self
"""


@pytest.fixture(scope="module")
def model() -> Model:
    found, mistakes = load()
    assert found is not None and not mistakes
    return found


def found(tmp_path: Path, doc: str, func: str = "twice(Tensor self) -> Tensor") -> list[tuple[str, str, int]]:
    path, derivatives = tmp_path / "native_functions.yaml", tmp_path / "derivatives.yaml"
    path.write_text(ENTRY.replace("twice(Tensor self) -> Tensor", func) + doc)
    derivatives.write_text("[]\n")
    read = read_files(path, derivatives, documented=True)
    return [(d.code, d.message, d.line) for d in read.found]


def test_a_public_operator_needs_an_example(tmp_path: Path):
    assert found(tmp_path, "  doc: Doubles.\n") == [("FB0114", "'twice' has no example", 3)]


def test_an_internal_operator_does_not(tmp_path: Path):
    assert found(tmp_path, "  doc: Doubles.\n", "_twice(Tensor self) -> Tensor") == []


def test_a_summary_and_an_example_suffice(tmp_path: Path):
    doc = "  doc:\n    summary: Doubles.\n    example: |\n      >>> 1\n      1\n"
    assert found(tmp_path, doc) == []


def test_an_undocumented_argument_is_reported(tmp_path: Path):
    doc = "  doc:\n    summary: Scales.\n    example: |\n      >>> 1\n      1\n"
    func = "twice(Tensor self, *, float wobble=1.0) -> Tensor"
    messages = [message for _, message, _ in found(tmp_path, doc, func)]
    assert "argument 'wobble' of 'twice' is not described" in messages


def test_a_description_of_a_strange_argument_is_a_mistake(tmp_path: Path):
    doc = (
        "  doc:\n    summary: Doubles.\n    args: {sefl: The input.}\n    example: |\n      >>> 1\n      1\n"
    )
    assert ("FB0305", "doc: 'sefl' is not an argument of 'twice'", 8) in found(tmp_path, doc)


@pytest.mark.parametrize("text", ["summary: ''", "examples: a", "notes: []"])
def test_empty_and_unknown_parts_are_mistakes(tmp_path: Path, text: str):
    assert found(tmp_path, f"  doc:\n    summary: Doubles.\n    {text}\n") != []


def called(model: Model, name: str, method: bool = False) -> Callable:
    every = methods(model) if method else functions(model)
    return next(c for c in every if c.name == name and (method or c.namespace == ""))


def titles(model: Model, name: str) -> list[str]:
    return [section.title for section in document(called(model, name), model).sections]


def test_what_follows_from_an_entry_is_derived(model: Model):
    text = help_text(called(model, "square"), model)
    assert "result = input * input" in text
    assert "native_functions.yaml, square." in text
    assert "input (Tensor): The input tensor." in text
    derived = {"Formula", "Arguments", "Shapes", "Dtypes", "Gradient", "Raises", "Source", "Example"}
    assert derived <= set(titles(model, "square"))


def test_arguments_inherit_from_the_glossary(model: Model):
    assert "keepdim (bool, default False): Whether the result keeps" in help_text(
        called(model, "amax"), model
    )


def test_methods_and_overloads_inherit_from_the_base_entry(model: Model):
    function = document(called(model, "cumsum"), model)
    method = document(called(model, "cumsum", method=True), model)
    assert function.summary == method.summary == "Cumulative sum along `dim`."
    assert function.sections[-1] == method.sections[-1]
    assert "rounding_mode" in help_text(called(model, "div"), model)


def test_every_public_operator_is_documented():
    read = read_files(documented=True)
    assert len(read.operators) > 1000
    assert read.found == []
