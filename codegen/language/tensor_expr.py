"""The tensor level: calls of operators, chosen by the types of their arguments."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from codegen.language import host_expr, iteration
from codegen.language.host_functions import host_functions
from codegen.language.overloads import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    STR,
    AnyType,
    Bound,
    call,
    coerce,
    has_tensor,
    is_tensor,
    rank,
    resolve,
    show,
    type_of,
)
from codegen.language.pyexpr import BINARY, COMPARE, CONSTANTS, UNARY, Source
from codegen.language.schema import DTYPE_NAMES, ENUMERATORS, FOREIGN_DTYPES, show_schema
from codegen.language.scope import Scope
from codegen.model import (
    Argument,
    BaseType,
    Expr,
    FormKind,
    If,
    Item,
    ListType,
    Literal,
    Number,
    OptionalType,
    Position,
    Prop,
    Seq,
    TupleType,
    Var,
)
from codegen.source.diagnostics import Collector, did_you_mean
from codegen.source.nodes import Text

PROPERTIES: dict[str, AnyType] = {
    "shape": ListType(INT),
    "strides": ListType(INT),
    "storage_offset": INT,
    "memory_format": BaseType("MemoryFormat"),
    "ndim": INT,
    "numel": INT,
    "dtype": BaseType("ScalarType"),
    "device": BaseType("Device"),
    "layout": BaseType("Layout"),
    "is_complex": BOOL,
    "is_cpu": BOOL,
    "is_meta": BOOL,
    "is_conj": BOOL,
    "is_neg": BOOL,
    "is_floating_point": BOOL,
    "defined": BOOL,
    "requires_grad": BOOL,
}
# a + b may be read as b + a, so that a number may stand on the left.
_COMMUTES = ("+", "*", "==", "!=", "&", "|", "^")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _enumerators() -> dict[str, BaseType]:
    found = {name: BaseType("ScalarType") for name in DTYPE_NAMES}
    for type_ in ("MemoryFormat", "Layout"):
        found |= {name: BaseType(type_) for name in ENUMERATORS[type_]}
    return found


NAMED_VALUES = _enumerators()


class TensorParser:
    """Text -> typed Expr. Mistakes go to the collector; the result is then None."""

    def __init__(self, scope: Scope, collector: Collector) -> None:
        self.scope = scope
        self.collector = collector
        self.source: Source

    def parse(
        self, text: Text, want: AnyType | None = None, span: tuple[int, int | None] = (0, None)
    ) -> Expr | None:
        """Parse one expression, of the type `want` if that is given; `span`: a part of the text."""
        self.source = Source(text, self.collector, *span, lets=self.scope.lets)
        tree = self.source.tree()
        return None if tree is None else self.typed(tree, want)

    def typed(self, node: ast.expr, want: AnyType | None = None) -> Expr | None:
        """Translate a node, to the type `want` if that is given."""
        expr = self.visit(node)
        return expr if expr is None or want is None else self.fit(node, expr, want)

    def fit(self, node: ast.expr, expr: Expr, want: AnyType) -> Expr | None:
        """Convert the finished expression to the type that is asked for."""
        have = type_of(expr)
        if isinstance(want, TupleType):
            if isinstance(have, TupleType) and _tuple_fits(have, want):
                return expr
        elif rank(have, want) is not None:
            return coerce(expr, want)
        message = f"{self.scope.reader}: expected {show(want)}, got {show(have)}"
        self.source.error(node, "FB0306", message, "make the expression yield that type")
        return None

    def visit(self, node: ast.expr) -> Expr | None:
        """Translate one node."""
        match node:
            case ast.Name():
                return self.name(node)
            case ast.Constant():
                return self.constant(node)
            case ast.BinOp():
                return self.infix(node, BINARY[type(node.op)], (node.left, node.right))
            case ast.UnaryOp(op=ast.UAdd()):
                return self.visit(node.operand)
            case ast.UnaryOp():
                return self.infix(node, UNARY[type(node.op)], (node.operand,))
            case ast.BoolOp():
                return self.logic(node)
            case ast.Compare():
                return self.comparison(node)
            case ast.IfExp():
                return self.choice(node)
            case ast.Attribute():
                return self.property(node)
            case ast.Subscript():
                return self.subscript(node)
            case ast.List() | ast.Tuple():
                return self.display(node)
            case ast.ListComp():
                return iteration.comprehension(self, node)
            case ast.Call():
                return self.call(node)
        hint = "use names, literals, calls, operators, `a if c else b`, lists and indexing of lists"
        self.source.error(node, "FB0307", f"not part of tensor expressions: {type(node).__name__}", hint)
        return None

    def name(self, node: ast.Name) -> Expr | None:
        """Translate a variable, a constant or an enumerator."""
        position = self.source.position(node)
        type_ = self.scope.variables.get(node.id)
        if type_ is not None:
            return Var(node.id, type_, position)
        if node.id in self.scope.failed:
            return None
        if node.id in CONSTANTS:
            return Number(CONSTANTS[node.id], FLOAT, position)
        if node.id in NAMED_VALUES:
            return Literal(node.id, NAMED_VALUES[node.id], position)
        hint = did_you_mean(node.id, self.scope.variables, "in scope")
        if node.id in FOREIGN_DTYPES:
            hint = f"did you mean '{FOREIGN_DTYPES[node.id]}'?"
        message = f"unknown name '{node.id}' in {self.scope.reader}"
        self.source.error(node, "FB0302", message, hint, group=unknown(self.scope.operator, node.id))
        return None

    def constant(self, node: ast.Constant) -> Expr | None:
        """Translate a literal."""
        position = self.source.position(node)
        value = node.value
        if value is None:
            return Literal(None, NONE, position)
        if isinstance(value, str):
            return Literal(value, STR, position)
        if isinstance(value, bool | int | float | complex):
            if not self.source.fits(node):
                return None
            types = {bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX}
            return Number(value, types[type(value)], position)
        self.source.error(node, "FB0307", "not part of tensor expressions", "use numbers and strings")
        return None

    def visit_all(self, nodes: Sequence[ast.expr]) -> list[Expr] | None:
        """Translate all, so that each one's mistakes are reported."""
        found = [self.visit(node) for node in nodes]
        known = [expr for expr in found if expr is not None]
        return known if len(known) == len(found) else None

    # --- operators ---------------------------------------------------------------------------

    def infix(self, node: ast.expr, symbol: str, operands: Sequence[ast.expr]) -> Expr | None:
        """Translate operands and apply the symbol to them."""
        args = self.visit_all(operands)
        return None if args is None else self.apply_infix(node, symbol, args)

    def apply_infix(self, node: ast.expr, symbol: str, args: list[Expr]) -> Expr | None:
        """Apply the operator, or the host operation, that a symbol means."""
        if not any(is_tensor(type_of(arg)) for arg in args):
            return host_expr.infix(self.source, node, symbol, args)
        if symbol == "not":
            hint = "call logical_not(x), or test x.defined"
            self.source.error(node, "FB0307", "`not` of a Tensor is not known when expressions run", hint)
            return None
        position = self.source.position(node)
        forms = self.scope.forms.written(symbol)
        forms = [f for f in forms if f.kind is FormKind.FUNCTIONAL and _arity(f.schema.args) == len(args)]
        silent = symbol in self.scope.unusable.infix
        if not forms and not silent:
            hint = "give an operator this `infix`, or call an operator by name"
            message = f"no operator is written '{symbol}'"
            self.source.error(node, "FB0303", message, hint, group=f"symbol {symbol}")
            return None
        result = resolve(forms, args, {}, position)
        if isinstance(result, list) and len(args) == 2:
            result = self._swapped(symbol, args, position) or result
        if isinstance(result, Bound):
            return call(result, position)
        if silent:
            return None
        shown = f" {symbol} ".join(show(type_of(arg)) for arg in args)
        if len(args) == 1:
            shown = f"{symbol}{show(type_of(args[0]))}"
        hint = "declare a number overload with `scalars:` on the operator, or convert the operand"
        self.source.error(node, "FB0306", f"no operator takes {shown}", hint)
        return None

    def _swapped(self, symbol: str, args: list[Expr], position: Position) -> Bound | None:
        mirrored = symbol if symbol in _COMMUTES else _MIRRORED.get(symbol)
        if mirrored is None:
            return None
        forms = self.scope.forms.written(mirrored)
        result = resolve(forms, args[::-1], {}, position)
        return result if isinstance(result, Bound) else None

    def logic(self, node: ast.BoolOp) -> Expr | None:
        """Translate `a and b` of bools."""
        args = self.visit_all(node.values)
        if args is None:
            return None
        for operand, arg in zip(node.values, args, strict=True):
            if type_of(arg) != BOOL:
                self._not_bool(operand, type_of(arg), "`and` and `or` join")
                return None
        return host_expr.logic(self.source, node, args)

    def _not_bool(self, node: ast.expr, have: AnyType, who: str) -> None:
        if is_tensor(have):
            hint = "use where(c, a, b) and logical_and/logical_or for Tensors; x.defined for None"
        elif isinstance(have, OptionalType):
            hint = "test has_value(x), or `x is not None`"
        else:
            hint = "compare it, for example != 0"
        self.source.error(node, "FB0306", f"{who} bool, got {show(have)}", hint)

    def comparison(self, node: ast.Compare) -> Expr | None:
        """Translate comparisons, chains of them, and `x is None`."""
        terms = [node.left, *node.comparators]
        args = self.visit_all(terms)
        if args is None:
            return None
        parts: list[Expr] = []
        for i, op in enumerate(node.ops):
            if isinstance(op, ast.Is | ast.IsNot):
                part = host_expr.is_none(self.source, node, args[i], args[i + 1], isinstance(op, ast.Is))
            elif type(op) in COMPARE:
                part = self.apply_infix(node, COMPARE[type(op)], args[i : i + 2])
            else:
                part = host_expr.contains(self.source, node, args[i], args[i + 1], isinstance(op, ast.In))
            if part is None:
                return None
            parts.append(part)
        if len(parts) > 1 and any(is_tensor(type_of(part)) for part in parts):
            hint = "join comparisons of Tensors by &"
            self.source.error(node, "FB0307", "chained comparison of Tensors", hint)
            return None
        return host_expr.logic_all(parts, self.source.position(node))

    def choice(self, node: ast.IfExp) -> Expr | None:
        """Translate `a if c else b`."""
        args = self.visit_all((node.test, node.body, node.orelse))
        if args is None:
            return None
        condition, then, other = args
        if type_of(condition) != BOOL:
            self._not_bool(node.test, type_of(condition), "the condition of `if` is")
            return None
        type_ = host_expr.join(type_of(then), type_of(other))
        if type_ is None:
            message = f"branches of different types: {show(type_of(then))} and {show(type_of(other))}"
            self.source.error(node, "FB0306", message, "make both branches yield the same type")
            return None
        if not isinstance(type_, TupleType):
            then, other = coerce(then, type_), coerce(other, type_)
        return If(condition, then, other, type_, self.source.position(node))

    # --- parts -------------------------------------------------------------------------------

    def property(self, node: ast.Attribute) -> Expr | None:
        """Translate `x.shape` and its like."""
        of = self.visit(node.value)
        if of is None:
            return None
        if not is_tensor(type_of(of)) or node.attr not in PROPERTIES:
            hint = did_you_mean(node.attr, PROPERTIES, "properties of Tensors")
            if is_tensor(type_of(of)) and self.scope.forms.named(node.attr):
                hint = f"call operators as functions: {node.attr}(x, ...)"
            message = f"{show(type_of(of))} has no property '{node.attr}'"
            self.source.error(node, "FB0302", message, hint)
            return None
        return Prop(of, node.attr, PROPERTIES[node.attr], self.source.position(node))

    def subscript(self, node: ast.Subscript) -> Expr | None:
        """Translate an element or a slice of a list."""
        of = self.visit(node.value)
        if of is None:
            return None
        if isinstance(node.slice, ast.Slice):
            return host_expr.slice_of(self.source, self.visit, node, of)
        index = self.visit(node.slice)
        if index is None:
            return None
        type_ = host_expr.item_type(type_of(of), index)
        if type_ is None or type_of(index) != INT:
            hint = "index lists, shapes and tuples by ints; for Tensors call select or narrow"
            message = f"cannot index {show(type_of(of))} by {show(type_of(index))}"
            self.source.error(node, "FB0306", message, hint)
            return None
        return Item(of, index, type_, self.source.position(node))

    def display(self, node: ast.List | ast.Tuple) -> Expr | None:
        """Translate a list or tuple display."""
        items = self.visit_all(node.elts)
        if items is None:
            return None
        position = self.source.position(node)
        types = [type_of(item) for item in items]
        if isinstance(node, ast.Tuple):
            return Seq(tuple(items), TupleType(tuple(types)), position)
        elem: AnyType | None = types[0] if types else NONE
        for type_ in types[1:]:
            elem = None if elem is None else host_expr.join(elem, type_)
        if elem is None or isinstance(elem, TupleType):
            self.source.error(node, "FB0306", "list of mixed types", "make all items one type")
            return None
        type_of_list = ListType(elem)
        return coerce(Seq(tuple(items), type_of_list, position), type_of_list)

    # --- calls -------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Expr | None:
        """Translate a call of an operator or host function."""
        if not isinstance(node.func, ast.Name):
            hint = "call operators as functions: sum(x, 0), not x.sum(0)"
            self.source.error(node.func, "FB0307", "only names can be called", hint)
            return None
        args = self.visit_all(node.args)
        values = self.visit_all([k.value for k in node.keywords])
        name = node.func.id
        forms = self.scope.forms.named(name)
        of_tensor = args is not None and any(has_tensor(type_of(a)) for a in args)
        function = host_functions().get(name)
        known = function is not None and (not of_tensor or function.of_tensors)
        if not forms and not known:
            self._unknown_call(node.func)
            return None
        if args is None or values is None:
            return None
        if any(k.arg is None for k in node.keywords):
            self.source.error(node, "FB0307", "`**` is not part of expressions", "name each argument")
            return None
        kwargs = {k.arg: v for k, v in zip(node.keywords, values, strict=True) if k.arg}
        if (known and not kwargs) or not forms:
            return host_expr.call(self.source, node, name, args)
        return self._resolve(node, name, args, kwargs)

    def _unknown_call(self, func: ast.Name) -> None:
        if func.id in self.scope.unusable.calls:
            return
        candidates = [*self.scope.forms.names(), *host_functions()]
        hint = did_you_mean(func.id, candidates) or "declare the operator in native_functions.yaml"
        message = f"unknown operator '{func.id}' in {self.scope.reader}"
        whole = ast.Call(func, [], [])
        self.source.error(func, "FB0303", message, hint, within=whole, group=f"operator {func.id}")

    def _resolve(self, node: ast.Call, name: str, args: list[Expr], kwargs: dict[str, Expr]) -> Expr | None:
        position = self.source.position(node)
        result = resolve(self.scope.forms.named(name), args, kwargs, position)
        if isinstance(result, Bound):
            if result.form.kind is FormKind.INPLACE and not self.scope.inplace_allowed:
                hint = f"call {name.rstrip('_')}: formulas must be differentiable themselves"
                self.source.error(node, "FB0408", f"{name} writes to its argument", hint)
                return None
            return call(result, position)
        if name in self.scope.unusable.calls:
            return None
        form, mismatch = min(result, key=lambda pair: pair[1].penalty)
        where: ast.expr | ast.keyword = node
        if isinstance(mismatch.index, int) and mismatch.index < len(node.args):
            where = node.args[mismatch.index]
        elif isinstance(mismatch.index, str):
            where = next(k for k in node.keywords if k.arg == mismatch.index)
        hint = f"the schema is {show_schema(form.schema)}"
        if mismatch.code == "FB0305" and isinstance(mismatch.index, str):
            guess = did_you_mean(mismatch.index, [a.name for a in form.schema.args])
            hint = f"{guess} {hint}".strip()
        if len(result) > 1 and mismatch.code == "FB0306":
            shown = ", ".join(show(type_of(a)) for a in args)
            hint = f"no overload of {name} takes ({shown}); the closest is {show_schema(form.schema)}"
        self.source.error(where, mismatch.code, f"{name}: {mismatch.message}", hint, within=node)
        return None


def unknown(operator: str, name: str) -> str:
    """Return the group of the diagnostics about one unknown name in the entries of one operator."""
    return f"name {operator} {name}" if operator else ""


def _arity(args: Sequence[object]) -> int:
    """Arguments that must be given."""
    return sum(isinstance(a, Argument) and a.default is None for a in args)


def _tuple_fits(have: TupleType, want: TupleType) -> bool:
    if len(have.items) != len(want.items):
        return False
    pairs = zip(have.items, want.items, strict=True)
    return all(not isinstance(w, TupleType) and rank(h, w) is not None for h, w in pairs)
