"""The restrictions on programs in files, which may only compute with tensors.

Source from a file is parsed and checked before any of it runs. It may not contain imports, names with two
underscores, or attributes that lead to files, frames or memory. It can use a few builtins, and packages
through windows that expose operators, layers and numbers. The restrictions prevent accidents and simple
attacks but are not a sandbox: load only files that you trust.
"""

from __future__ import annotations

import ast
import builtins
import collections
import functools
import importlib
import math
import operator
import types
import typing
import warnings
from typing import Any

from flambeau import _C
from flambeau.jit.frontend import UnsupportedNodeError

_NODES = (
    ast.Module, ast.FunctionDef, ast.ClassDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign,
    ast.For, ast.While, ast.If, ast.With, ast.withitem, ast.Raise, ast.Try, ast.ExceptHandler, ast.Assert,
    ast.Expr, ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Lambda, ast.IfExp,
    ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension,
    ast.Compare, ast.Call, ast.FormattedValue, ast.JoinedStr, ast.Constant, ast.Attribute, ast.Subscript,
    ast.Starred, ast.Name, ast.List, ast.Tuple, ast.Slice, ast.NamedExpr, ast.keyword, ast.Delete,
    ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop,
)  # fmt: skip
_DENIED_PREFIXES = ("__", "gi_", "cr_", "ag_", "f_", "tb_", "co_", "func_")
_DENIED = frozenset(
    "save save_to_buffer load from_file to_folder numpy tofile dump dumps ctypes storage untyped_storage "
    "typed_storage data_ptr share_memory share_memory_ register_hook format_map set_printoptions "
    "CompilationUnit script trace trace_module import_module compile hub UntypedStorage TypedStorage "
    "from_dlpack to_dlpack get_type_hints set_default_tensor_type".split()
)
_BUILTINS = (
    "abs all any bool complex dict divmod enumerate filter float frozenset int isinstance issubclass len "
    "list map max min pow print range repr reversed round set slice sorted str sum super tuple zip iter next "
    "ArithmeticError AssertionError AttributeError Exception IndexError KeyError NotImplementedError "
    "RuntimeError StopIteration TypeError ValueError ZeroDivisionError NotImplemented Ellipsis"
).split()
_TABLES = ("_functions", "_nn", "_linalg", "_special", "_fft")
# Module -> the names that its window exposes; None: all operators, layers and numbers.
_WINDOWS: dict[str, frozenset[str] | None] = {
    **{f"flambeau{path}": None for path in ("", ".nn", ".nn.functional", ".linalg", ".fft", ".special")},
    **{f"flambeau._C.{name}": None for name in _TABLES},
    "flambeau.jit": frozenset(
        "annotate is_scripting is_tracing isinstance fork wait Attribute Final".split()
    ),
    "math": None,
    "typing": frozenset("List Dict Tuple Optional Union Any Callable NamedTuple Final Sequence".split()),
    "operator": frozenset(
        "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul getitem setitem eq ne lt gt "
        "le ge pos neg invert abs not_ contains is_ is_not iadd isub imul itruediv ifloordiv".split()
    ),
    "warnings": frozenset(("warn",)),
    "collections": frozenset(("OrderedDict",)),
    "functools": frozenset(("reduce",)),
}
_MODULES = {"math": math, "typing": typing, "operator": operator, "warnings": warnings,
            "collections": collections, "functools": functools}  # fmt: skip
_VALUES = (int, float, complex, type(None), _C.dtype, _C.layout, _C.memory_format)


def is_allowed_name(name: Any) -> bool:
    """Whether a program in a file may use this name."""
    return isinstance(name, str) and not name.startswith(_DENIED_PREFIXES) and name not in _DENIED


def require_name(name: Any, what: str) -> str:
    """Return the name if a program in a file may use it.

    Raises: UnsupportedNodeError if it may not.
    """
    if not is_allowed_name(name):
        raise UnsupportedNodeError(f"jit: {what} cannot be called {str(name)[:80]!r} in a file")
    return str(name)


def require_path(path: Any) -> str:
    """Return a dotted path if each of its names is allowed."""
    for name in str(path).split("."):
        require_name(name, "an attribute")
        if not name.replace("-", "_").isalnum() and not name.replace("-", "_").replace("_", "a").isalnum():
            raise UnsupportedNodeError(f"jit: expected the name of an attribute, got {name[:80]!r}")
    return str(path)


class Window:
    """The restricted view of a module that programs in files use."""

    def __init__(self, path: str) -> None:
        if path not in _WINDOWS:
            raise UnsupportedNodeError(f"jit: a program in a file cannot use the module {path[:80]!r}")
        self._path = path

    def __getattr__(self, name: str) -> Any:
        shown = _WINDOWS[self._path]
        if not is_allowed_name(name) or (name.startswith("_") and name != "_assert"):
            raise AttributeError(f"{self._path} does not show {name!r} to programs in files")
        if shown is not None and name not in shown:
            raise AttributeError(f"{self._path} does not show {name!r} to programs in files")
        value = getattr(module_at(self._path), name)
        if isinstance(value, types.ModuleType):
            return Window(window_of(value) or value.__name__)
        if callable(value) or isinstance(value, _VALUES) or shown is not None:
            return value
        raise AttributeError(f"{self._path} does not show {name!r} to programs in files")


def module_at(path: str) -> Any:
    """The module behind a window."""
    if path in _MODULES:
        return _MODULES[path]
    if path.startswith("flambeau._C."):
        return getattr(_C, path.rpartition(".")[2])
    return importlib.import_module(path)


def window_of(module: types.ModuleType) -> str | None:
    """Return the path of a module that programs in files may use, or None."""
    return next((path for path in _WINDOWS if module_at(path) is module), None)


def resolve(path: str) -> Any:
    """Return the object at a dotted path; modules are returned as windows."""
    home, _, name = path.rpartition(".")
    if home == "builtins" and name in ("getattr", "float", "int", "bool", "len"):
        return {"getattr": getattr}.get(name, getattr(builtins, name))
    return getattr(Window(home), name)


@functools.cache
def _paths() -> dict[int, str]:
    """Return the path of each object that windows expose, by the object's id."""
    found: dict[int, str] = {}
    for path in _WINDOWS:
        for name, value in vars(module_at(path)).items():
            if not callable(value) or isinstance(value, types.ModuleType) or not is_allowed_name(name):
                continue
            shown = _WINDOWS[path]
            if (shown is None or name in shown) and (name[0] != "_" or name == "_assert"):
                found.setdefault(id(value), f"{path}.{name}")
    return found


def path_of(obj: Any) -> str | None:
    """Return the path under which windows expose an object, or None if they do not expose it."""
    if obj is getattr:
        return "builtins.getattr"
    return _paths().get(id(obj))


# --- source -------------------------------------------------------------------------------------------------


def check(tree: ast.AST) -> None:
    """Check that source uses nothing that is forbidden to programs in files.

    Raises: UnsupportedNodeError that names the line.
    """
    for node in ast.walk(tree):
        where = f"line {getattr(node, 'lineno', 1)}"
        if not isinstance(node, _NODES):
            raise UnsupportedNodeError(f"jit: {type(node).__name__} is not allowed in a file, {where}")
        if isinstance(node, ast.Attribute):
            require_name(node.attr, f"an attribute ({where})")
        elif isinstance(node, ast.Name):
            require_name(node.id, f"a variable ({where})")
        elif isinstance(node, ast.arg | ast.FunctionDef | ast.ClassDef | ast.keyword | ast.ExceptHandler):
            name = getattr(node, "arg", None) or getattr(node, "name", None)
            if name is not None:
                require_name(name, f"a parameter ({where})")


def run(source: str, names: dict[str, Any]) -> Any:
    """Check a definition, run it, and return the function or class that it defines.

    Raises: UnsupportedNodeError for source other than one function, or one class that has only functions.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnsupportedNodeError(f"jit: source in a file cannot be read: {error}") from error
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef | ast.ClassDef):
        raise UnsupportedNodeError(
            f"jit: expected one definition per source in a file, got {len(tree.body)} statements"
        )
    check(tree)
    definition = tree.body[0]
    inner = definition.body if isinstance(definition, ast.ClassDef) else [definition]
    for function in inner:
        if isinstance(function, ast.Pass):
            continue
        if not isinstance(function, ast.FunctionDef):
            raise UnsupportedNodeError("jit: a class in a file may contain only methods")
        _check_definition(function)
    names["__builtins__"] = safe_builtins()
    names["__name__"] = "__torch__"
    exec(compile(tree, "<jit.load>", "exec"), names)
    return names[definition.name]


def _check_definition(function: ast.FunctionDef) -> None:
    """Check that the definition of a function, with its defaults and decorators, runs no code."""
    for decorator in function.decorator_list:
        if not (
            isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod", "property")
        ):
            raise UnsupportedNodeError("jit: a function in a file cannot be decorated")
    defaults = [*function.args.defaults, *(d for d in function.args.kw_defaults if d is not None)]
    for default in defaults:
        if any(isinstance(node, ast.Call | ast.Lambda | ast.NamedExpr) for node in ast.walk(default)):
            raise UnsupportedNodeError("jit: a default in a file cannot call functions")


def safe_builtins() -> dict[str, Any]:
    """Return the builtins that programs in files can use."""
    table: dict[str, Any] = {name: getattr(builtins, name) for name in _BUILTINS}
    guarded = {"getattr": _getattr, "hasattr": _hasattr, "setattr": _setattr, "type": _type}
    plain = {"staticmethod": staticmethod, "classmethod": classmethod, "property": property}
    return {**table, **guarded, **plain, "__build_class__": builtins.__build_class__}


def _getattr(obj: Any, name: str, *default: Any) -> Any:
    return getattr(obj, require_name(name, "an attribute"), *default)


def _hasattr(obj: Any, name: str) -> bool:
    return hasattr(obj, require_name(name, "an attribute"))


def _setattr(obj: Any, name: str, value: Any) -> None:
    setattr(obj, require_name(name, "an attribute"), value)


def _type(obj: Any) -> type:
    return type(obj)
