"""Function bodies at the tensor level: text -> typed statements.

A body is written as in Python: assignments, `if`, `for` over lists, calls of in-place operators, `raise` and
`return`. Each variable has one type, that of its first value; what only one side of an `if`, or a `for`,
assigns first is unknown after it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from codegen.language import iteration, messages
from codegen.language.overloads import BOOL, NONE, AnyType, coerce, show, type_of
from codegen.language.pyexpr import Source, names_in
from codegen.language.scope import Scope
from codegen.language.tensor_expr import NAMED_VALUES, TensorParser
from codegen.model import (
    Assign,
    BaseType,
    Branch,
    Call,
    Effect,
    Expr,
    FormKind,
    ListType,
    Loop,
    OptionalType,
    Raise,
    Result,
    Statement,
    TupleType,
    Type,
)
from codegen.reading import keys
from codegen.source.diagnostics import Collector, did_you_mean
from codegen.source.nodes import Text

_RETURNS = re.compile(r"^[ ]*(return|raise)\b", re.MULTILINE)
_NAMED_TYPES = ("Tensor", "Scalar", "int", "float", "bool", "str")


def is_body(text: str) -> bool:
    """Whether a text is a function body: an expression has no `return` at the beginning of a line."""
    return _RETURNS.search(text) is not None


def parse_function(
    text: Text, scope: Scope, collector: Collector, want: AnyType
) -> tuple[Statement, ...] | None:
    """Parse a text that is an expression or a function body."""
    if is_body(text.value):
        return BlockParser(scope, collector, want, lambda expr: expr).parse(text)
    expr = TensorParser(scope, collector).parse(text, want)
    return None if expr is None else (Result(expr),)


@dataclass(slots=True)
class BlockParser:
    """One body. `finished` is applied to each expression that it is made of."""

    scope: Scope
    collector: Collector
    want: AnyType
    finished: Callable[[Expr], Expr]
    read: set[str] = field(default_factory=set)  # variables that some expression reads
    _parser: TensorParser = field(init=False)
    _text: Text = field(init=False)
    _behind: dict[str, str] = field(init=False)  # the texts that a name's value is made of
    _good: bool = True

    def __post_init__(self) -> None:
        self._behind = dict(self.scope.lets)

    def parse(self, text: Text) -> tuple[Statement, ...] | None:
        """Parse a whole body; mistakes go to the collector, and the result is then None."""
        self.scope = replace(self.scope, lets=self._behind)
        self._parser, self._text = TensorParser(self.scope, self.collector), text
        self._parser.source = Source(text, self.collector, lets=self._behind)
        nodes = self._parser.source.statements()
        if nodes is None:
            return None
        names: dict[str, AnyType] = {}
        body, ended = self._block(nodes, names)
        if self._good and not ended and self.want != TupleType(()):
            message, hint = "not every path ends with `return`", "return the result"
            self._error(nodes[-1], "FB0312", message, hint)
        self._report_unread(nodes)
        return body if self._good else None

    def _error(self, node: ast.expr | ast.stmt, code: str, message: str, hint: str) -> None:
        self._good = False
        self._parser.source.error(node, code, message, hint)

    def _block(
        self, nodes: Sequence[ast.stmt], names: dict[str, AnyType]
    ) -> tuple[tuple[Statement, ...], bool]:
        """Translate statements in order; whether all paths through them end the function."""
        made: list[Statement] = []
        for i, node in enumerate(nodes):
            self._parser.scope = replace(self.scope, variables={**self.scope.variables, **names})
            statement, ended = self._statement(node, names)
            if statement is None:
                self._good = False
                self._forgive(node)
            else:
                made.append(statement)
            if ended and i + 1 < len(nodes):
                self._error(nodes[i + 1], "FB0312", "unreachable statement", "remove it")
            if ended:
                return tuple(made), True
        return tuple(made), False

    def _forgive(self, node: ast.stmt) -> None:
        """Names that a mistaken statement would have assigned are not reported as unknown."""
        stored = {
            part.id
            for part in ast.walk(node)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        self.scope = replace(self.scope, failed=self.scope.failed | stored)

    def _statement(self, node: ast.stmt, names: dict[str, AnyType]) -> tuple[Statement | None, bool]:
        match node:
            case ast.Return():
                return self._result(node), True
            case ast.Raise():
                return self._raise(node), True
            case ast.If():
                return self._branch(node, names)
            case ast.For():
                return self._loop(node, names), False
            case ast.Assign(targets=[target]):
                return self._assign(target, node.value, None, names), False
            case ast.AnnAssign(target=target, value=value) if value is not None:
                return self._assign(target, value, node.annotation, names), False
            case ast.AugAssign(target=ast.Name(id=name)):
                left = ast.copy_location(ast.Name(name, ast.Load()), node.target)
                sum_ = ast.copy_location(ast.BinOp(left, node.op, node.value), node.value)
                return self._assign(node.target, sum_, None, names), False
            case ast.Expr():
                return self._effect(node), False
        hint = "a body has assignments, `if`, `for`, `raise`, `return` and calls of in-place operators"
        self._error(node, "FB0307", f"not part of a body: {type(node).__name__}", hint)
        return None, False

    def _value(self, node: ast.expr, want: AnyType | None = None) -> Expr | None:
        expr = self._parser.typed(node, want)
        if expr is None:
            self._good = False
            return None
        self.read |= names_in(expr)
        return self.finished(expr)

    def _remember(self, names: Iterable[str], value: ast.expr) -> None:
        """Note what a name's value is made of, so that a mistake in an operator is not reported again."""
        read = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
        texts = [self._parser.source.shown(value), *(self._behind.get(name, "") for name in sorted(read))]
        for name in names:
            self._behind[name] = " ".join([self._behind.get(name, ""), *texts])

    # --- the end of the function --------------------------------------------------------------------

    def _result(self, node: ast.Return) -> Statement | None:
        if node.value is None:
            self._error(node, "FB0306", "`return` without a value", f"return {show(self.want)}")
            return None
        value = self._value(node.value, self.want)
        return None if value is None else Result(value)

    def _raise(self, node: ast.Raise) -> Statement | None:
        call = node.exc
        hint = 'write raise ValueError(f"name: expected ..., got {x}")'
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or len(call.args) != 1:
            self._error(node, "FB0307", "`raise` takes an exception with its message", hint)
            return None
        if call.func.id not in keys.ERRORS:
            guess = did_you_mean(call.func.id, keys.ERRORS, "exceptions")
            self._error(call.func, "FB0113", f"'{call.func.id}' is not an exception here", guess)
            return None
        message = self._message(call.args[0], hint)
        return None if message is None else Raise(call.func.id, message)

    def _message(self, node: ast.expr, hint: str) -> tuple[str | Expr, ...] | None:
        """Read the parts of a message: in Python 3.11 the tree of an f-string has no positions."""
        source = self._parser.source
        found = messages.literals(source.shown(node))
        if found is None:
            self._error(node, "FB0307", "the message is a string or an f-string", hint)
            return None
        parts: list[str | Expr] = []
        for part in found:
            if isinstance(part, str):
                parts.append(part)
                continue
            begin, end = (source.offset(node) + at for at in part)
            inner = TensorParser(self._parser.scope, self.collector)
            expr = inner.parse(self._text, None, (begin, end))
            if expr is None or not messages.can_show(expr, self._text, begin, self.collector):
                self._good = False
                return None
            self.read |= names_in(expr)
            parts.append(self.finished(expr))
        return tuple(parts)

    # --- choices and loops ------------------------------------------------------------------------------

    def _branch(self, node: ast.If, names: dict[str, AnyType]) -> tuple[Statement | None, bool]:
        condition = self._value(node.test, BOOL)
        sides = [dict(names), dict(names)]
        (then, then_ends), (other, other_ends) = (
            self._block(nodes, side) for nodes, side in zip((node.body, node.orelse), sides, strict=True)
        )
        going = [s for s, ends in zip(sides, (then_ends, other_ends), strict=True) if not ends]
        declares: list[tuple[str, AnyType]] = []
        for name, type_ in going[0].items() if going else ():
            if name not in names and all(side.get(name) == type_ for side in going):
                declares.append((name, type_))
                names[name] = type_
        if condition is None:
            return None, not going
        return Branch(condition, then, other, tuple(declares)), not going

    def _loop(self, node: ast.For, names: dict[str, AnyType]) -> Statement | None:
        if node.orelse:
            self._error(node.orelse[0], "FB0307", "`else` of a `for`", "write it behind the loop")
            return None
        found = iteration.walk(self._parser, node.target, node.iter)
        if found is None:
            return None
        self.read |= set().union(*map(names_in, found.lists))
        self._remember(found.names, node.iter)
        inner = names | dict(zip(found.names, found.types, strict=True))
        body, _ = self._block(node.body, inner)
        return Loop(found.names, tuple(map(self.finished, found.lists)), body)

    # --- values -------------------------------------------------------------------------------------------

    def _assign(
        self, target: ast.expr, value: ast.expr, annotation: ast.expr | None, names: dict[str, AnyType]
    ) -> Statement | None:
        targets = list(target.elts) if isinstance(target, ast.Tuple) else [target]
        assigned = [node.id for node in targets if isinstance(node, ast.Name) and self._may_assign(node)]
        given = None if annotation is None else self._annotated(annotation)
        if len(assigned) != len(targets) or (annotation is not None and given is None):
            self._error_unless_known(target, len(assigned) == len(targets))
            return None
        want = given or (names.get(assigned[0]) if len(targets) == 1 else None)
        self._remember(assigned, value)
        expr = self._value(value, want)
        types = None if expr is None else self._types(targets, value, want or type_of(expr))
        if expr is None or types is None:
            return None
        for node, name, type_ in zip(targets, assigned, types, strict=True):
            have = names.setdefault(name, type_)
            if name != "_" and have != type_:
                message = f"'{name}' is {show(have)}, and here {show(type_)}"
                self._error(node, "FB0306", message, "use another name")
                return None
        names.pop("_", None)
        if want is not None and not isinstance(want, TupleType):
            expr = coerce(expr, want)
        return Assign(tuple(assigned), types, expr)

    def _error_unless_known(self, target: ast.expr, known: bool) -> None:
        """Report a target that is not a name; other mistakes of an assignment have been reported."""
        targets = list(target.elts) if isinstance(target, ast.Tuple) else [target]
        other = next((node for node in targets if not isinstance(node, ast.Name)), None)
        if other is not None and not known:
            self._error(other, "FB0307", "only names can be assigned", "assign to names")

    def _may_assign(self, node: ast.Name) -> bool:
        if node.id not in self.scope.variables and node.id not in NAMED_VALUES:
            return True
        self._error(node, "FB0108", f"'{node.id}' is already defined here", "choose a new name")
        return False

    def _types(
        self, targets: Sequence[ast.expr], value: ast.expr, have: AnyType
    ) -> tuple[AnyType, ...] | None:
        if len(targets) > 1:
            if isinstance(have, TupleType) and len(have.items) == len(targets):
                return have.items
            message = f"expected {len(targets)} values, got {show(have)}"
            self._error(value, "FB0304", message, "give each of the values a name")
            return None
        if have == NONE or have == ListType(NONE):
            hint = "write x: Tensor | None = None, or x: list[int] = []"
            self._error(value, "FB0306", "the type does not follow from the value", hint)
            return None
        return (have,)

    def _annotated(self, node: ast.expr) -> Type | None:
        match node:
            case ast.Name(id=name) if name in _NAMED_TYPES:
                return BaseType(name)
            case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
                inner = self._annotated(left)
                return None if inner is None else OptionalType(inner)
            case ast.Subscript(value=ast.Name(id="list"), slice=elem):
                inner = self._annotated(elem)
                return None if inner is None else ListType(inner)
        hint = f"use {', '.join(_NAMED_TYPES)}, list[...] and `... | None`"
        self._error(node, "FB0202", "unknown type", hint)
        return None

    def _effect(self, node: ast.Expr) -> Statement | None:
        expr = self._value(node.value)
        if expr is None:
            return None
        form = self.scope.forms.find(expr.form) if isinstance(expr, Call) else None
        if form is None or form.kind is not FormKind.INPLACE:
            self._error(node, "FB0309", "unused value", "assign it, return it, or remove it")
            return None
        return Effect(expr)

    def _report_unread(self, nodes: Sequence[ast.stmt]) -> None:
        """Report each variable that no expression reads, at its first assignment."""
        seen = {*self.read, "_"}
        waiting: list[ast.AST] = [*reversed(nodes)]
        while waiting and self._good:
            node = waiting.pop()
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in seen:
                self._error(node, "FB0309", f"'{node.id}' is never used", "use it, or call it `_`")
            if not isinstance(node, ast.ListComp):  # its names end with it
                waiting += reversed(list(ast.iter_child_nodes(node)))
