"""Source of functions and classes, and the global names that it uses, for files."""

from __future__ import annotations

import ast
import builtins
import inspect
import symtable
import textwrap
import types
from collections.abc import Iterator
from typing import Any

from flambeau.fx._names import home_of
from flambeau.jit._restricted import check, safe_builtins
from flambeau.jit.frontend import NotSupportedError
from flambeau.nn import Module


class _Plain(ast.NodeTransformer):
    """Removes annotations, docstrings and flambeau's decorators."""

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        kept = ("staticmethod", "classmethod", "property")
        node.decorator_list = [d for d in node.decorator_list if isinstance(d, ast.Name) and d.id in kept]
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.Pass()
        return ast.Assign([node.target], node.value, lineno=node.lineno)


def definition_of(obj: Any) -> ast.FunctionDef:
    """Return the parsed source of a function.

    Raises: NotSupportedError if the source is not available, or the function is a lambda.
    """
    function = inspect.unwrap(obj)
    known = getattr(function, "_jit_definition", None)
    try:
        text = known or textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError) as error:
        raise NotSupportedError(f"jit.save: the source of {function!r} is not available: {error}") from error
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        raise NotSupportedError(f"jit.save: {function!r} must be defined with def to be saved")
    return _Plain().visit(found)


def methods_of(cls: type, wanted: set[str]) -> dict[str, Any]:
    """Return the `wanted` methods that a class defines itself, and the methods and properties they use."""
    own = {name: found for name, found in vars(cls).items() if _function(found) is not None}
    chosen: dict[str, Any] = {}
    waiting = [name for name in own if name in wanted]
    while waiting:
        name = waiting.pop()
        if name in chosen:
            continue
        chosen[name] = own[name]
        waiting += [n for n in attributes_in(definition_of(_function(own[name]))) if n in own]
    return {name: chosen[name] for name in own if name in chosen}


def _function(member: Any) -> Any:
    """Return the function of a method or property, or None."""
    if isinstance(member, property):
        member = member.fget
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    return inspect.unwrap(member) if isinstance(member, types.FunctionType) else None


def attributes_in(tree: ast.AST) -> set[str]:
    """Return the names of all attributes in a source."""
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def class_source(cls: type, wanted: set[str], bases: list[str]) -> tuple[str, list[Any]]:
    """Return the source of a class, reduced to the members that `wanted` methods use, and its functions."""
    members = methods_of(cls, wanted)
    functions = [_function(member) for member in members.values()]
    body: list[Any] = [definition_of(function) for function in functions]
    made = ast.ClassDef(
        name=cls.__name__,
        bases=[ast.Name(base, ast.Load()) for base in bases],
        keywords=[],
        body=body or [ast.Pass()],
        decorator_list=[],
    )
    if "type_params" in ast.ClassDef._fields:  # Python 3.12 and later
        made.__dict__["type_params"] = []
    return _checked(made), functions


def function_source(function: Any) -> str:
    """Return the source of a function."""
    return _checked(definition_of(function))


def _checked(definition: Any) -> str:
    tree = ast.fix_missing_locations(ast.Module([definition], []))
    try:
        check(tree)
    except NotSupportedError as error:
        raise NotSupportedError(f"jit.save: {definition.name} cannot be saved: {error}") from error
    return ast.unparse(tree)


def free_names(source: str, function: Any) -> Iterator[tuple[str, Any]]:
    """Yield the global names that a source uses, each with its value in the scope of the function."""
    scope = {**getattr(function, "__globals__", {}), **_closure(function)}
    known = safe_builtins()
    for name in sorted(_globals_in(symtable.symtable(source, "<jit.save>", "exec"))):
        if name in scope:
            yield name, scope[name]
        elif name not in known and hasattr(builtins, name):
            raise NotSupportedError(f"jit.save: a program in a file cannot use {name}()")


def _globals_in(table: symtable.SymbolTable) -> set[str]:
    found = {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    if table.get_type() == "module":
        found |= {s.get_name() for s in table.get_symbols() if s.is_referenced()}
    for child in table.get_children():
        found |= _globals_in(child)
    return found


def _closure(function: Any) -> dict[str, Any]:
    code = getattr(function, "__code__", None)
    if code is None or not function.__closure__:
        return {}
    cells = zip(code.co_freevars, function.__closure__, strict=True)
    return {name: cell.cell_contents for name, cell in cells if name != "__class__"}


def is_own_class(cls: type) -> bool:
    """Whether a class of modules belongs to the program, not to the package."""
    return issubclass(cls, Module) and not home_of(cls).startswith("flambeau.")
