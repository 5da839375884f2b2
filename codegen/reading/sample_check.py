"""`test:` read as Python: sample calls bound to the schema, and names in references resolved.

The generated tests would find these mistakes as well, after a build. Samples are bound as Python binds
arguments; of a value only the kind is known here. Attributes of NumPy and SciPy are looked up in the
installed packages, where there are any, and functions of `references` in the sources of the tests.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from codegen.language.overloads import INT, TENSOR, plain
from codegen.language.schema import DTYPE_NAMES, ENUMERATORS, show_schema, show_type
from codegen.model import Argument, BaseType, ListType, OptionalType, Schema, Type
from codegen.reading.oracle_names import Functions, Oracles
from codegen.source.diagnostics import did_you_mean

MAKERS = tuple("t tp ti tb tc".split())
METHODS = tuple("t definite factor sorted".split())
_NAMES = (*MAKERS, "fb", "bool", "int", "float", "inf", "nan", *DTYPE_NAMES, *ENUMERATORS["MemoryFormat"])
_NUMBERS = ("Scalar", "float", "int", "SymInt", "bool")
# What a Python number may be given for.
_TAKES = {
    "bool": ("bool", "Scalar", "int", "float"),
    "int": ("int", "Scalar", "float"),
    "float": ("float", "Scalar"),
    "complex": ("Scalar",),
    "str": ("str",),
}


@dataclass(frozen=True, slots=True)
class Found:
    """A mistake at an offset of the text; `name`: the unknown name."""

    offset: int
    message: str
    hint: str
    name: str = ""


# --- sample calls ------------------------------------------------------------------------------


def check_sample(
    tree: ast.Call, schema: Schema, scalars: Sequence[Sequence[str]], strict: bool
) -> Iterator[Found]:
    """Bind `f(...)` to the schema; `strict`: the call must succeed, so kinds and presence count."""
    yield from _vocabulary(tree)
    parameters = [a for a in schema.args if not a.is_out]
    positional = [a for a in parameters if not a.kwarg_only]
    given: dict[str, ast.expr] = {}
    if len(tree.args) > len(positional):
        extra = tree.args[len(positional)]
        message = f"expected at most {len(positional)} positional arguments, got {len(tree.args)}"
        yield Found(_offset(extra), message, f"the schema is {show_schema(schema)}")
    for parameter, value in zip(positional, tree.args, strict=False):
        given[parameter.name] = value
    names = [a.name for a in parameters]
    for keyword in tree.keywords:
        name = "self" if keyword.arg == "input" and "self" in names else keyword.arg or "**"
        if name not in names:
            hint = did_you_mean(name, names, "arguments")
            yield Found(_offset(keyword), f"no argument is called '{name}'", hint, name)
        elif name in given:
            yield Found(_offset(keyword), f"argument '{name}' is given twice", "remove one")
        else:
            given[name] = keyword.value
    if strict:
        numbers = {name for group in scalars for name in group}
        yield from _kinds(parameters, given, numbers, schema)


def _kinds(
    parameters: Sequence[Argument], given: Mapping[str, ast.expr], numbers: set[str], schema: Schema
) -> Iterator[Found]:
    for parameter in parameters:
        value = given.get(parameter.name)
        if value is None:
            if parameter.default is None:
                message = f"argument '{parameter.name}' is missing"
                yield Found(0, message, f"the schema is {show_schema(schema)}")
        elif not _fits(value, plain(parameter.type), parameter.name in numbers):
            want = show_type(parameter.type)
            message = f"argument '{parameter.name}': expected {want}, got {ast.unparse(value)}"
            yield Found(_offset(value), message, f"the schema is {show_schema(schema)}")


def _vocabulary(tree: ast.Call) -> Iterator[Found]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node is not tree.func and node.id not in _NAMES:
            hint = did_you_mean(node.id, _NAMES) or f"samples know {', '.join(MAKERS)} and fb, the package"
            yield Found(_offset(node), f"unknown name '{node.id}'", hint)
        elif isinstance(node, ast.Attribute) and _is_made(node.value) and node.attr not in METHODS:
            hint = did_you_mean(node.attr, METHODS, "they have")
            yield Found(_offset(node), f"sample tensors have no '{node.attr}'", hint)


def _is_made(node: ast.expr) -> bool:
    """Whether the expression is a sample tensor."""
    if isinstance(node, ast.BinOp):
        return _is_made(node.left) or _is_made(node.right)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        return _is_made(node.func.value)
    return isinstance(node.func, ast.Name) and node.func.id in MAKERS


def _fits(value: ast.expr, want: Type, may_be_number: bool) -> bool:
    """Whether a value can be meant for an argument; what is not known fits."""
    if isinstance(want, OptionalType):
        return _constant(value) == "None" or _fits(value, want.elem, may_be_number)
    if isinstance(want, ListType):
        return _fits_list(value, want)
    kind = _constant(value)
    if want == TENSOR:
        number = may_be_number and kind in _TAKES and kind != "str"
        return number or (kind == "" and not isinstance(value, ast.Tuple | ast.List))
    if _is_made(value):
        return want.name in _NUMBERS  # a 0-dim tensor
    if isinstance(value, ast.Tuple | ast.List):
        return False
    known = want.name in (*_NUMBERS, "str")
    return not known or kind == "" or want.name in _TAKES.get(kind, ())


def _fits_list(value: ast.expr, want: ListType) -> bool:
    if isinstance(value, ast.Tuple | ast.List):
        return all(isinstance(v, ast.Starred) or _fits(v, want.elem, False) for v in value.elts)
    kind = _constant(value)
    if kind:
        return want.size is not None and isinstance(want.elem, BaseType) and _fits(value, want.elem, False)
    return not (_is_made(value) and want.elem == INT)


def _constant(value: ast.expr) -> str:
    """Return the type of a literal, '' for what is none."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        value = value.operand
    if isinstance(value, ast.Name) and value.id in ("inf", "nan"):
        return "float"
    if not isinstance(value, ast.Constant):
        return ""
    return "None" if value.value is None else type(value.value).__name__


# --- references ----------------------------------------------------------------------------------


def check_reference(tree: ast.expr, names: Sequence[str], oracles: Oracles) -> Iterator[Found]:
    """Resolve what a reference reads: arguments, its own variables, and the modules' attributes."""
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    known = {*names, *bound, "np", "sp", "references", "fb"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known and not hasattr(builtins, node.id):
            hint = did_you_mean(node.id, sorted(known), "known")
            yield Found(_offset(node), f"unknown name '{node.id}' in the reference", hint, node.id)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node, oracles)
        elif isinstance(node, ast.Call) and _chain(node.func)[:1] == ["references"]:
            yield from _call(node, oracles.functions)


def _attribute(node: ast.Attribute, oracles: Oracles) -> Iterator[Found]:
    chain = _chain(node)
    if chain[:1] in (["np"], ["sp"]):
        missing = oracles.missing(chain)
        if missing is not None and len(chain) == missing.depth + 1:
            shown = ".".join(chain[: missing.depth])
            yield Found(_end(node), f"{shown} has no attribute '{chain[-1]}'", missing.hint)
    elif chain[:1] == ["references"] and len(chain) == 2 and oracles.functions is not None:
        if chain[1] not in oracles.functions:
            hint = did_you_mean(chain[1], oracles.functions) or "define it in test/ops/references.py"
            yield Found(_end(node), f"references has no '{chain[1]}'", hint)


def _call(node: ast.Call, functions: Functions | None) -> Iterator[Found]:
    name = _chain(node.func)[-1]
    signature = None if functions is None else functions.get(name)
    if signature is None or any(isinstance(a, ast.Starred) for a in node.args):
        return
    names, takes_any, takes_keywords = signature
    if len(node.args) > len(names) and not takes_any:
        message = f"{name}: expected at most {len(names)} arguments, got {len(node.args)}"
        yield Found(_offset(node.args[len(names)]), message, f"it takes {', '.join(names)}")
    for keyword in node.keywords:
        if keyword.arg is not None and keyword.arg not in names and not takes_keywords:
            hint = did_you_mean(keyword.arg, names, "arguments")
            yield Found(_offset(keyword), f"{name}: no argument is called '{keyword.arg}'", hint)


def _chain(node: ast.expr) -> list[str]:
    """`np.linalg.norm` -> ["np", "linalg", "norm"]; [] for what does not begin with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []


def _end(node: ast.Attribute) -> int:
    """Return where the attribute's own name begins."""
    return (node.end_col_offset or 0) - len(node.attr)


def _offset(node: ast.expr | ast.keyword) -> int:
    """Texts of the specification stand in one line once they are folded."""
    return node.col_offset
