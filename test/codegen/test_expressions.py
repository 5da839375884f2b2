"""Both levels of the expression language: what is accepted, what it means, and where it stands."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml

from codegen.language.overloads import BOOL, DTYPE, INT, INTS, SCALAR, TENSOR, Forms
from codegen.language.pyexpr import children
from codegen.language.scalar_expr import InfixTable, ScalarParser, domains
from codegen.language.show import Infix, show
from codegen.language.tensor_expr import Scope, TensorParser
from codegen.load import load
from codegen.model import BaseType, Call, Expr, ExprType, ListType, Model, OptionalType, Prim, Var
from codegen.reading.primitives import load_primitives
from codegen.source.diagnostics import Collector
from codegen.source.nodes import SourceFile, Text

FIXTURE = Path(__file__).parent / "fixture"
VARIABLES: dict[str, ExprType] = {
    "x": TENSOR,
    "y": TENSOR,
    "w": OptionalType(TENSOR),
    "list": ListType(TENSOR),
    "dim": INT,
    "dims": OptionalType(ListType(INT)),
    "p": SCALAR,
    "keep": BOOL,
    "mode": BaseType("str"),
}


@cache
def fixture() -> Model:
    model, found = load(FIXTURE / "native_functions.yaml", FIXTURE / "derivatives.yaml", FIXTURE)
    assert not found and model is not None
    return model


@cache
def primitives() -> InfixTable:
    collector = Collector()
    table = load_primitives(collector)
    assert not collector.sorted()
    return InfixTable(table)


def text_of(value: str) -> Text:
    value = f'"{value}"' if value.startswith("[") else value
    source = SourceFile("test.yaml", value)
    return Text(source, yaml.compose(value, Loader=yaml.SafeLoader))


def scalar(value: str) -> Expr:
    collector = Collector()
    variables = {"x": TENSOR, "y": TENSOR, "c": BOOL}
    expr = ScalarParser(primitives(), variables, collector, "test").parse(text_of(value))
    assert not collector.sorted()
    assert expr is not None
    return expr


def tensor(value: str) -> Expr:
    model, collector = fixture(), Collector()
    infix: dict[str, list[str]] = {}
    for op in model.operators:
        if op.infix:
            infix.setdefault(op.infix, []).append(op.schema.name.base)
    scope = Scope(Forms([f for op in model.operators for f in op.forms], infix), VARIABLES, "test")
    expr = TensorParser(scope, collector).parse(text_of(value))
    assert not collector.sorted(), collector.sorted()
    assert expr is not None
    return expr


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("x + y * 2", "add(x, mul(y, 2))"),
        ("-x ** 2", "neg(pow(x, 2))"),
        ("-1", "-1"),
        ("x if x > 0 else y", "where(gt(x, 0), x, y)"),
        ("0 < x < 1", "logical_and(lt(0, x), lt(x, 1))"),
        ("x and not y", "logical_and(ne(x, 0), logical_not(ne(y, 0)))"),
        ("x if c else y", "where(ne(c, 0), x, y)"),
        ("(x != 0) != (y != 0)", "ne(ne(x, 0), ne(y, 0))"),
        ("exp(x) / pi", "div(exp(x), 3.141592653589793)"),
        ("x // y % 2", "remainder(floor_divide(x, y), 2)"),
        ("+x", "x"),
    ],
)
def test_scalar_level(text: str, meaning: str):
    assert show(scalar(text)) == meaning


@pytest.mark.parametrize(
    "text",
    [
        "x - (y - 1) - 2",
        "(-x) ** 2 ** y",
        "-(x ** y)",
        "x ** (-y)",
        "x / (y * 2) * 3",
        "(exp(x) if x < y else 1) + 1",
        "x > 0 and (x < 1 or not y > 2)",
        "(x < 1) == (y < 1)",
    ],
)
def test_infix_text_means_the_same(text: str):
    table = load_primitives(Collector())
    written = Infix(table).show(scalar(text))
    assert show(scalar(written)) == show(scalar(text))
    assert len(written) <= len(text), "no superfluous parentheses"


def test_domains_are_those_of_every_part():
    allowed, excluded = domains(scalar("x * erf(y)"), primitives().primitives)
    assert allowed == {"floating"}
    assert set(excluded) == {"bool", "integral", "complex"}


@pytest.mark.parametrize(
    ("text", "meaning", "type_"),
    [
        ("x * y", "mul.Tensor(x, y)", TENSOR),
        ("x * 2", "mul.Scalar(x, 2)", TENSOR),
        ("2 * x", "mul.Scalar(x, 2)", TENSOR),
        ("-x + y", "add.Tensor(neg(x), y, 1)", TENSOR),
        ("x * p", "mul.Scalar(x, p)", TENSOR),
        ("sum(x, [0], True)", "sum.dim_IntList(x, [0], True, None)", TENSOR),
        ("sum(x, dim=0)", "sum.dim_IntList(x, [0], False, None)", TENSOR),
        ("sum(x, dims)", "sum.dim_IntList(x, dims, False, None)", TENSOR),
        ("sum(x, None, dtype=float32)", "sum.dim_IntList(x, None, False, float32)", TENSOR),
        ("sum(x.shape)", "sum(x.shape)", INT),
        ("expand(x, (1, dim))", "expand(x, [1, dim])", TENSOR),
        ("x.shape[0] // 2 + 1", "((x.shape[0] // 2) + 1)", INT),
        ("x.shape[1:] + [1] * x.ndim", "(x.shape[1:] + ([1] * x.ndim))", INTS),
        ("x.shape[:-1]", "x.shape[:-1]", INTS),
        ("wrap(dim, x.ndim)", "wrap(dim, x.ndim)", INT),
        ("x if w is None else x * w", "(x if (not w.defined) else mul.Tensor(x, w))", TENSOR),
        ("value(dims) if has_value(dims) else []", "(value(dims) if has_value(dims) else [])", INTS),
        ("x if dims is not None and len(value(dims)) == 0 else y",
         "(x if (has_value(dims) and (len(value(dims)) == 0)) else y)", TENSOR),
        ("topk(x, 3)[0]", "topk(x, 3, -1)[0]", TENSOR),
        ("x if mode == 'a' else y", "(x if (mode == 'a') else y)", TENSOR),
        ("min(1, 2.5)", "min(1, 2.5)", BaseType("float")),
        ("conj(p)", "conj(p)", SCALAR),
        ("default_dtype()", "default_dtype()", DTYPE),
        ("list[0]", "list[0]", TENSOR),
        ("[x, y]", "[x, y]", ListType(TENSOR)),
        ("[w, x]", "[w, x]", ListType(OptionalType(TENSOR))),
        ("0 < dim < x.ndim", "((0 < dim) and (dim < x.ndim))", BOOL),
        ("x.dtype == float64", "(x.dtype == float64)", BOOL),
    ],
)  # fmt: skip
def test_tensor_level(text: str, meaning: str, type_: ExprType):
    expr = tensor(text)
    assert show(expr) == meaning
    assert getattr(expr, "type", None) == type_


def test_a_number_on_the_left_needs_the_mirrored_operator():
    with pytest.raises(AssertionError, match="FB0306"):
        tensor("0.5 > x")  # x < 0.5, and the fixture has no <


def test_every_node_knows_its_column():
    text = "x + exp(x * y)"
    expr = tensor(text)
    found: dict[str, int] = {}

    def visit(node: Expr) -> None:
        name = node.name if isinstance(node, Var) else node.form if isinstance(node, Call) else ""
        if name:
            found.setdefault(name, node.position.column)
        for child in children(node):
            visit(child)

    visit(expr)
    assert found == {"add.Tensor": 1, "x": 1, "exp": 5, "mul.Tensor": 9, "y": 13}


@pytest.mark.parametrize(
    ("value", "character", "place"),
    [
        ("plain text", "t", (1, 7)),
        ("'it''s'", "s", (1, 6)),
        ('"a\\tb"', "b", (1, 5)),
        ("|\n  one\n  two", "w", (3, 4)),
        (">-\n  one\n  two", "w", (3, 4)),
        ("one\n  two", "w", (2, 4)),
        ('"one\n  two"', "w", (2, 4)),
        ("|\n  one\n\n    four", "f", (4, 5)),
    ],
)
def test_positions_inside_scalars(value: str, character: str, place: tuple[int, int]):
    text = text_of(value)
    position = text.at(text.value.index(character))
    assert (position.line, position.column) == place


def test_primitive_rows_are_complete():
    for name, row in primitives().primitives.items():
        assert row.name == name
        assert len(row.partials) == len(row.interval) == len(row.args) == row.arity
        assert row.result in ("same", "bool", "real")
        for i in range(row.arity):
            assert f"{{{i}}}" in row.cpp and f"x{i}" in row.oracle, name
        for partial in row.partials:
            assert partial is None or isinstance(partial, Expr.__args__), name


def test_infix_is_unique():
    seen: set[tuple[str, int]] = set()
    for row in primitives().primitives.values():
        if row.infix:
            assert (row.infix, row.arity) not in seen
            seen.add((row.infix, row.arity))
    assert ("if", 3) in seen and ("-", 1) in seen


def test_context_collects_infix_operators():
    model = fixture()
    assert {op.infix for op in model.operators if op.infix} == {"+", "*", "-", ">"}
    infix = {op.infix: [op.schema.name.base] for op in model.operators if op.infix}
    forms = Forms([form for op in model.operators for form in op.forms], infix)
    assert {form.schema.name.base for form in forms.written("+")} == {"add"}
    assert forms.asked == {"+", "add"}, "what an answer follows from is recorded"


def test_scalar_parser_yields_primitives_only():
    def visit(node: Expr) -> None:
        assert not isinstance(node, Call)
        for child in children(node):
            visit(child)

    expr = scalar("exp(x) if x > y else log(y)")
    visit(expr)
    assert isinstance(expr, Prim)
