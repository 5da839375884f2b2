"""Python text of a graph: the writer behind `Graph.python_code`."""

from __future__ import annotations

import builtins
import enum
import inspect
import keyword
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau.fx import _pytree as fx_pytree
from flambeau.fx._names import Namespace, identifier, is_method, qualified_name, with_root
from flambeau.fx._types import type_expression
from flambeau.fx.node import Node
from flambeau.utils import _pytree as pytree

if TYPE_CHECKING:
    from flambeau.fx.graph import CodeGen

# Functions of the operator module whose calls are written as expressions.
OPERATORS = {
    **{name: f"{{}} {sign} {{}}" for name, sign in (
        ("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("truediv", "/"), ("div", "/"),
        ("mod", "%"), ("pow", "**"), ("lshift", "<<"), ("rshift", ">>"), ("and_", "&"), ("or_", "|"),
        ("xor", "^"), ("matmul", "@"), ("eq", "=="), ("ne", "!="), ("lt", "<"), ("gt", ">"), ("le", "<="),
        ("ge", ">="),
    )},
    "getitem": "{}[{}]",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
}  # fmt: skip
IN_PLACE = {
    "iadd": "+=", "isub": "-=", "imul": "*=", "ifloordiv": "//=", "itruediv": "/=", "imod": "%=",
    "ipow": "**=", "ilshift": "<<=", "irshift": ">>=", "iand": "&=", "ior": "|=", "ixor": "^=",
    "imatmul": "@=",
}  # fmt: skip
_ATOMS = (str, bytes, int, float, bool, complex, type(None), type(...), range)


@dataclass
class PythonCode:
    """Text of a function and the names that it needs.

    Attributes:
        src: the text, a definition of ``forward``.
        globals: the object of each global name.
        _lineno_map: line of the text -> the index of its node, or None for lines that belong to no node.
        _prologue_start: the line of the definition.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


@dataclass(frozen=True)
class Options:
    """Options of `Graph.python_code` that add information for readers."""

    verbose: bool = False
    include_stride: bool = False
    include_device: bool = False
    colored: bool = False
    expanded_def: bool = False
    additional_meta: tuple[str, ...] = ()


@dataclass
class Writer:
    """Writes one graph as a function."""

    codegen: CodeGen
    nodes: list[Node]
    root_module: str
    namespace: Namespace
    options: Options
    globals: dict[str, Any] = field(default_factory=dict)
    wrapped: dict[str, None] = field(default_factory=dict)
    free_vars: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    return_annotation: str = ""
    last_trace: str | None = None

    def write(self) -> PythonCode:
        """Return the text with its globals."""
        for name, obj in [*relied_upon().items(), *self.codegen.additional_globals()]:
            self.add_global(name, obj)
        doomed = self._last_uses()
        for place, node in enumerate(self.nodes):
            self.body.append(f"\0{place}\n")  # marks the beginning of the node's lines
            self._write_node(node, doomed.get(node, []))
        if not any(not piece.startswith("\0") for piece in self.body):
            self.body.append("pass\n")
        if self.codegen._body_transformer is not None:
            self.body = self.codegen._body_transformer([p for p in self.body if not p.startswith("\0")])
        define = self.codegen.gen_fn_def
        expanded = {"expanded_def": self.options.expanded_def}
        head = define(self.free_vars, self.return_annotation, **accepted(define, expanded))
        lines = "".join(self.body).split("\n")
        wraps = "\n".join(
            f'{with_root("flambeau.fx._symbolic_trace")}.wrap("{name}")' for name in self.wrapped
        )
        text = f"\n{wraps}\n\n{head}\n"
        start = text.count("\n")
        lineno_map: dict[int, int | None] = {}
        current: int | None = None
        kept = []
        for line in lines:
            if line.startswith("\0"):
                current = int(line[1:])
                continue
            kept.append(f"    {line}")
            lineno_map[len(kept)] = current
        return PythonCode(text + "\n".join(kept), self.globals, lineno_map, start)

    # --- names ------------------------------------------------------------------------------------

    def add_global(self, hint: str, obj: Any) -> str:
        """Add an object to the text's globals, and return its name."""
        if isinstance(obj, type) and getattr(builtins, hint, None) is obj:
            return hint
        root, dot, _ = hint.partition(".")
        if dot and root in ("flambeau", "torch") and reaches(hint, obj):
            self.globals[root] = flambeau
            return hint
        name = identifier(hint)
        if self.globals.get(name) is obj:
            return name
        if name not in self.globals and hint in relied_upon():
            self.globals[name] = obj
            return name
        name = self.namespace.create_name(name, obj)
        self.globals[name] = obj
        return name

    def _function(self, function: Any) -> str:
        """Return the name by which the text calls a function; note wrapped functions, to wrap them again."""
        from flambeau.fx._wrapping import is_wrapped

        plain = qualified_name(function) if hasattr(function, "__name__") else type(function).__name__
        if plain.startswith("operator."):  # the module in which operator's functions are defined
            plain = f"_{plain}"
        name = plain if plain in vars(builtins) else self.add_global(plain, function)
        if plain in vars(builtins):
            self.globals[name] = function
        if is_wrapped(function):
            self.wrapped.setdefault(name)
        return name

    # --- values -----------------------------------------------------------------------------------

    def value(self, arg: Any) -> str:
        """Write an argument as an expression."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, enum.Enum):
            return f"{self.add_global(type(arg).__name__, type(arg))}.{arg.name}"
        if isinstance(arg, tuple):
            if hasattr(arg, "_fields"):
                name = self.add_global(f"{type(arg).__module__}.{type(arg).__qualname__}", type(arg))
                return f"{name}({', '.join(map(self.value, arg))})"
            return f"({', '.join(map(self.value, arg))}{',' if len(arg) == 1 else ''})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{self.value(k)}: {self.value(v)}" for k, v in arg.items()) + "}"
        if isinstance(arg, slice):
            return f"slice({self.value(arg.start)}, {self.value(arg.stop)}, {self.value(arg.step)})"
        return self._leaf(arg)

    def _leaf(self, arg: Any) -> str:
        if isinstance(arg, flambeau.dtype | flambeau.layout | flambeau.memory_format):
            return with_root(repr(arg))
        if isinstance(arg, _ATOMS) or type(arg) is flambeau.device:
            return repr(arg)
        if isinstance(arg, type):
            return type_expression(arg, self.add_global)
        if callable(arg) and hasattr(arg, "__name__"):
            return self._function(arg)
        if type(arg).__module__ == "builtins":
            return repr(arg)
        return self.add_global(f"_{type(arg).__name__}_constant", arg)

    def call(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        """Write the arguments of a call."""
        keywords = [f"{key} = {self.value(arg)}" for key, arg in kwargs.items()]
        return ", ".join([*map(self.value, args), *keywords])

    # --- nodes ------------------------------------------------------------------------------------

    def _last_uses(self) -> dict[Node, list[Node]]:
        """Map each node to the values that no later node uses."""
        last: dict[Node, Node] = {}
        doomed: dict[Node, list[Node]] = {}
        for node in reversed(self.nodes):
            for used in node.all_input_nodes:
                if used not in last:
                    last[used] = node
                    doomed.setdefault(node, []).append(used)
        return doomed

    def _write_node(self, node: Node, doomed: list[Node]) -> None:
        if self.options.verbose:
            self._comment(node)
        if node.op == "placeholder":
            self._placeholder(node)
            return
        if node.op == "output":
            if node.type is not None:
                self.return_annotation = f" -> {type_expression(node.type, self.add_global)}"
            finish = self.codegen.generate_output
            self.body.append(f"{finish(node.args[0], **accepted(finish, {'repr_fn': self.value}))}\n")
            return
        annotation = self.annotation(node)
        statement = getattr(self, f"_{node.op}")(node, f"{node!r}{annotation}")
        ended = doomed if node.users else [*doomed, node]
        tail = f";  {' = '.join([*map(repr, ended), 'None'])}" if ended else ""
        self.body.append(f"{statement}{tail}\n")

    def annotation(self, node: Node) -> str:
        """Return the annotation of a value, with a colon, or an empty text."""
        if node.type is not None:
            return f" : {type_expression(node.type, self.add_global)}"
        return f": {found!r}" if self.options.verbose and (found := self._found(node)) else ""

    def _found(self, node: Node) -> str:
        """Return dtype and sizes, such as ``f32[2, 3]``, if a pass recorded them."""
        from flambeau.fx._abbreviations import of_tensor

        found = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
        return of_tensor(found, self.options.include_stride, self.options.include_device)

    def _placeholder(self, node: Node) -> None:
        target = str(node.target)
        default = f" = {self.value(node.args[0])}" if node.args else ""
        raw = target.replace("*", "")
        if raw in self.globals or raw == self.root_module:
            target, raw = target.replace(raw, node.name), node.name
        self.free_vars.append(f"{target}{self.annotation(node)}{default}")
        if raw != repr(node):
            self.body.append(f"{node!r} = {raw}\n")

    def _get_attr(self, node: Node, left: str) -> str:
        return f"{left} = {attribute(self.root_module, node.target)}"

    def _call_module(self, node: Node, left: str) -> str:
        function = attribute(self.root_module, node.target)
        return f"{left} = {function}({self.call(node.args, node.kwargs)})"

    def _call_method(self, node: Node, left: str) -> str:
        owner = attribute(self._receiver(node.args[0]), node.target)
        return f"{left} = {owner}({self.call(node.args[1:], node.kwargs)})"

    def _receiver(self, arg: Any) -> str:
        text = self.value(arg)
        return f"({text})" if isinstance(arg, int | float | complex) else text

    def _call_function(self, node: Node, left: str) -> str:
        target: Any = node.target
        name = getattr(target, "__name__", "")
        if getattr(target, "__module__", "") == "_operator" and not node.kwargs:
            args = [self._operand(arg) for arg in node.args]
            if name in IN_PLACE and len(args) == 2 and isinstance(node.args[0], Node):
                return f"{args[0]} {IN_PLACE[name]} {args[1]};  {left} = {args[0]}"
            if name == "setitem" and len(args) == 3:
                return f"{args[0]}[{self.value(node.args[1])}] = {args[2]};  {left} = {args[0]}"
            if name == "getitem" and len(args) == 2:
                return f"{left} = {args[0]}[{self.value(node.args[1])}]"
            if name in OPERATORS and len(args) == OPERATORS[name].count("{}"):
                return f"{left} = {OPERATORS[name].format(*args)}"
        if target is getattr and len(node.args) == 2 and _is_attribute(node.args[1]) and not node.kwargs:
            self.globals["getattr"] = getattr
            return f"{left} = {self._receiver(node.args[0])}.{node.args[1]}"
        return f"{left} = {self._function(target)}({self.call(node.args, node.kwargs)})"

    def _operand(self, arg: Any) -> str:
        """Put a negative or complex number in parentheses, as in ``(-1) ** x``."""
        text = self.value(arg)
        return f"({text})" if text.startswith("-") or (isinstance(arg, complex) and "(" not in text) else text

    def _comment(self, node: Node) -> None:
        """Write the source line that recorded the step, once for successive steps of the same line."""
        if node.op in ("placeholder", "output"):
            return
        for key in self.options.additional_meta:
            if key in node.meta:
                self.body.append(f"# {key}: {node.meta[key]!r}\n")
        trace = node.stack_trace
        if trace is None and self.last_trace != "":
            self.last_trace = ""
            self._remark("No stacktrace found for following nodes")
        elif trace and trace != self.last_trace:
            self.last_trace = trace
            where = [line.strip() for line in trace.strip().splitlines() if line.strip()]
            self._remark(", code: ".join(where[-2:]))

    def _remark(self, text: str) -> None:
        """Write a comment, after an empty line unless it comes first."""
        first = all(piece.startswith("\0") for piece in self.body)
        self.body.append(f"{'' if first else chr(10)}# {text}\n")


def accepted(function: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the function accepts; overrides in older programs accept fewer."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return options
    return {name: value for name, value in options.items() if name in parameters}


def _is_attribute(name: Any) -> bool:
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)


def attribute(root: str, path: str) -> str:
    """Write a dotted path as an expression, with getattr for names that are not identifiers.

    >>> attribute("self", "seq.0")
    'getattr(self.seq, "0")'
    """
    text = root
    for name in path.split("."):
        quoted = f'"{name}"' if name.isalnum() else repr(name)
        text = f"{text}.{name}" if _is_attribute(name) else f"getattr({text}, {quoted})"
    return text


def reaches(path: str, obj: Any) -> bool:
    """Whether a dotted name refers to this object in the package."""
    found: Any = flambeau
    for name in path.split(".")[1:]:
        found = getattr(found, name, None)
        if found is None:
            return False
    return found is obj or (is_method(obj) and found == obj) or repr(found) == repr(obj)


def relied_upon() -> dict[str, Any]:
    """The globals that every generated function can use."""
    return {
        "inf": math.inf,
        "nan": math.nan,
        "NoneType": type(None),
        "torch": flambeau,
        "flambeau": flambeau,
        "device": flambeau.device,
        "fx_pytree": fx_pytree,
        "pytree": pytree,
    }
