"""Tensor level, the part that runs on the host: arithmetic on ints, floats, bools, lists, options."""

from __future__ import annotations

import ast
from collections.abc import Callable

from codegen.language.host_functions import host_functions
from codegen.language.overloads import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    SCALAR,
    TENSOR,
    AnyType,
    is_tensor,
    rank,
    show,
    type_of,
)
from codegen.language.pyexpr import Source
from codegen.model import (
    BaseType,
    Expr,
    Host,
    ListType,
    Literal,
    Number,
    OptionalType,
    Position,
    Prop,
    TupleType,
)

Visit = Callable[[ast.expr], Expr | None]

_NUMBERS = (BOOL, INT, FLOAT)
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def infix(source: Source, node: ast.expr, symbol: str, args: list[Expr]) -> Expr | None:
    """Type an infix operation without Tensors."""
    types = [type_of(arg) for arg in args]
    type_ = _infix_type(symbol, types)
    if type_ is not None:
        folded = _negative(symbol, args, source.position(node))
        return folded or Host(symbol, tuple(args), type_, source.position(node))
    shown = f" {symbol} ".join(map(show, types)) if len(types) == 2 else f"{symbol} {show(types[0])}"
    hint = "host arithmetic is for int, float, bool and lists of int"
    if SCALAR in types:
        hint = "a Scalar may be complex: apply it to a Tensor, or declare the argument as float"
    elif any(isinstance(t, OptionalType) for t in types):
        hint = "take the value first: value(x), after testing has_value(x)"
    source.error(node, "FB0306", f"cannot compute {shown}", hint)
    return None


def _negative(symbol: str, args: list[Expr], position: Position) -> Expr | None:
    arg = args[0]
    if symbol != "-" or len(args) != 1 or not isinstance(arg, Number) or isinstance(arg.value, bool):
        return None
    return Number(-arg.value, arg.type, position)


def _infix_type(symbol: str, types: list[AnyType]) -> BaseType | ListType | None:
    if len(types) == 1:
        if symbol == "not":
            return BOOL if types[0] == BOOL else None
        numeric = types[0] in (INT, FLOAT) or (types[0] == SCALAR and symbol == "-")
        return types[0] if numeric and isinstance(types[0], BaseType) and symbol == "-" else None
    left, right = types
    if symbol in _COMPARISONS:
        return _comparison_type(symbol, left, right)
    if isinstance(left, ListType) or isinstance(right, ListType):
        return _list_type(symbol, left, right)
    if left not in _NUMBERS or right not in _NUMBERS or BOOL in (left, right):
        return None
    if symbol == "/":
        return FLOAT
    if symbol in ("+", "-", "*", "//", "%", "**"):
        return INT if left == right == INT and symbol != "**" else FLOAT
    return None


def _list_type(symbol: str, left: AnyType, right: AnyType) -> ListType | None:
    """`a + b` joins lists, `a * n` repeats."""
    if symbol == "+" and isinstance(left, ListType) and isinstance(right, ListType):
        joined = join(left, right)
        return ListType(joined.elem) if isinstance(joined, ListType) else None
    if symbol == "*" and isinstance(left, ListType) and right == INT:
        return ListType(left.elem)
    return None


def _comparison_type(symbol: str, left: AnyType, right: AnyType) -> BaseType | None:
    if left in _NUMBERS and right in _NUMBERS:
        return BOOL
    if symbol not in ("==", "!="):
        return None
    if SCALAR in (left, right):
        return BOOL if left in (*_NUMBERS, SCALAR) and right in (*_NUMBERS, SCALAR) else None
    if isinstance(left, ListType) and isinstance(right, ListType):
        return BOOL if left.elem == right.elem == INT else None
    return BOOL if left == right and isinstance(left, BaseType) and left != TENSOR else None


def logic(source: Source, node: ast.BoolOp, args: list[Expr]) -> Expr:
    """`a and b and c` of bools."""
    symbol = "and" if isinstance(node.op, ast.And) else "or"
    return _chain(symbol, args, source.position(node))


def logic_all(parts: list[Expr], position: Position) -> Expr:
    """Join the parts of a chained comparison."""
    return _chain("and", parts, position)


def _chain(symbol: str, parts: list[Expr], position: Position) -> Expr:
    result = parts[0]
    for part in parts[1:]:
        result = Host(symbol, (result, part), BOOL, position)
    return result


def is_none(source: Source, node: ast.Compare, left: Expr, right: Expr, positive: bool) -> Expr | None:
    """`x is None` and `x is not None` of an optional argument."""
    position = source.position(node)
    if not (isinstance(right, Literal) and right.value is None and right.type == NONE):
        source.error(node, "FB0307", "`is` compares with None only", "use == for values")
        return None
    if is_tensor(type_of(left)):
        present: Expr = Prop(left, "defined", BOOL, position)
    elif isinstance(type_of(left), OptionalType):
        present = Host("has_value", (left,), BOOL, position)
    else:
        message = f"{show(type_of(left))} is never None"
        source.error(node, "FB0306", message, "only optional arguments (Type?) can be None")
        return None
    return Host("not", (present,), BOOL, position) if positive else present


def contains(source: Source, node: ast.Compare, item: Expr, of: Expr, positive: bool) -> Expr | None:
    """`i in ints` and `i not in ints`."""
    position = source.position(node)
    if type_of(item) != INT or type_of(of) != ListType(INT):
        message = f"`in` looks for an int in ints, got {show(type_of(item))} in {show(type_of(of))}"
        source.error(node, "FB0306", message, "compare with ==")
        return None
    found = Host("in", (item, of), BOOL, position)
    return found if positive else Host("not", (found,), BOOL, position)


def join(a: AnyType, b: AnyType) -> AnyType | None:
    """Return the type that holds values of both."""
    if isinstance(a, TupleType) or isinstance(b, TupleType):
        return a if a == b else None
    if b == NONE and a != NONE:
        a, b = b, a
    if a == NONE:
        return b if isinstance(b, OptionalType) or b == NONE else OptionalType(b)
    if isinstance(a, OptionalType) or isinstance(b, OptionalType):
        inner = join(*(t.elem if isinstance(t, OptionalType) else t for t in (a, b)))
        return None if inner is None or isinstance(inner, TupleType) else OptionalType(inner)
    if rank(a, b) is not None:
        return b
    return a if rank(b, a) is not None else None


def item_type(of: AnyType, index: Expr) -> AnyType | None:
    """Return the type of an element of a list or tuple."""
    if isinstance(of, ListType):
        return of.elem
    if isinstance(of, TupleType) and isinstance(index, Number) and isinstance(index.value, int):
        return of.items[index.value] if -len(of.items) <= index.value < len(of.items) else None
    return None


def slice_of(source: Source, visit: Visit, node: ast.Subscript, of: Expr) -> Expr | None:
    """`list[a:b]`: Host("slice", (list, a or None, b or None))."""
    assert isinstance(node.slice, ast.Slice)
    position = source.position(node)
    bounds: list[Expr] = []
    for bound in (node.slice.lower, node.slice.upper):
        expr = Literal(None, OptionalType(INT), position) if bound is None else visit(bound)
        if expr is None:
            return None
        bounds.append(expr)
    fits = all(rank(type_of(b), OptionalType(INT)) is not None for b in bounds)
    type_ = type_of(of)
    if not isinstance(type_, ListType) or node.slice.step is not None or not fits:
        hint = "slice lists and shapes as x[a:b] with ints; for Tensors call narrow"
        source.error(node, "FB0306", f"cannot slice {show(type_)}", hint)
        return None
    return Host("slice", (of, *bounds), ListType(type_.elem), position)


def call(source: Source, node: ast.Call, name: str, args: list[Expr]) -> Expr | None:
    """Type a call of a host function."""
    function = host_functions()[name]
    least, most = function.least, function.most
    if len(args) < least or (most is not None and len(args) > most) or node.keywords:
        counts = str(least) if least == most else f"{least} or more"
        message = f"{name}: expected {counts} arguments, got {len(args)}"
        source.error(node, "FB0304", message, "host functions take positional arguments only")
        return None
    types = [type_of(arg) for arg in args]
    type_ = function.result(types)
    if type_ is not None:
        return Host(name, tuple(args), type_, source.position(node))
    shown = ", ".join(map(show, types))
    source.error(node, "FB0306", f"{name}: cannot take ({shown})", function.hint)
    return None
