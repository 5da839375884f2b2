"""How tensor expressions are written in C++: calls of operators and host values."""

from __future__ import annotations

from collections.abc import Callable

from codegen.model import (
    Argument,
    BaseType,
    Call,
    Expr,
    ExprType,
    Host,
    If,
    Item,
    ListType,
    Literal,
    Model,
    Number,
    OptionalType,
    Prop,
    Seq,
    TupleType,
    Var,
)
from codegen.pyexpr import children
from codegen.spelling import dtype, element_type, local, memory_format, number, owned, quoted, struct_name


class TensorSpelling:
    """Writes tensor expressions as C++ over host values; variables are spelled by `name_of`.

    Operator calls that occur several times are made once, as long as one branch holds them all.
    """

    def __init__(self, model: Model, owner: str, name_of: Callable[[str], str] = local) -> None:
        self.model = model
        self.owner = owner
        self.name_of = name_of
        self._names: dict[Expr, str] = {}
        self._uses: dict[Expr, int] = {}

    def write(self, expr: Expr) -> str:
        """Return a C++ expression."""
        outer, self._uses = self._uses, {}
        names, self._names = self._names, dict(self._names)
        self._count(expr)
        lines: list[str] = []
        text = self._text(expr, lines)
        self._uses, self._names = outer, names
        if not lines:
            return text
        return f"[&] {{ {' '.join(lines)} return {text}; }}()"

    def _count(self, expr: Expr) -> None:
        """Count the calls that are made whenever `expr` is evaluated."""
        if expr in self._names or (isinstance(expr, Host) and expr.op in ("and", "or")):
            return
        if isinstance(expr, Call):
            self._uses[expr] = self._uses.get(expr, 0) + 1
            if self._uses[expr] > 1:
                return
        for part in (expr.condition,) if isinstance(expr, If) else children(expr):
            self._count(part)

    def _is_shared(self, call: Call) -> bool:
        op, form = self.model.form(call.form)
        writes = any(arg.alias is not None and arg.alias.is_write for arg in form.schema.args)
        pure = not writes and not set(op.tags) & {"random", "uninitialized"}
        returns = form.schema.returns
        return (
            pure
            and self._uses.get(call, 0) > 1
            and len(returns) == 1
            and returns[0].type == BaseType("Tensor")
        )

    def _text(self, expr: Expr, lines: list[str]) -> str:
        if expr in self._names:
            return self._names[expr]
        text = self._plain(expr, lines)
        if isinstance(expr, Call) and self._is_shared(expr):
            name = f"shared{len(self._names)}"
            lines.append(f"const Tensor {name} = {text};")
            self._names[expr] = name
            return name
        return text

    def _plain(self, expr: Expr, lines: list[str]) -> str:
        match expr:
            case Var(name=name):
                return self.name_of(name)
            case Number(value=value, type=type_):
                return _typed_number(value, type_)
            case Literal(value=value, type=type_):
                return _literal(value, type_)
            case Call(form=form, args=args):
                schema = self.model.form(form)[1].schema
                given = (self.converted(a, p, lines) for a, p in zip(args, schema.args, strict=True))
                return f"ops::{struct_name(form)}::call({', '.join(given)})"
            case Prop(of=of, name=name):
                return PROPERTIES[name].format(self._text(of, lines))
            case Host(op=op, args=args, type=type_):
                return self._host(op, args, type_, lines)
            case If(condition=condition, then=then, other=other, type=type_):
                sides = (f"{owned(type_)}({self.write(side)})" for side in (then, other))
                return f"({self._text(condition, lines)} ? " + " : ".join(sides) + ")"
            case Seq(items=items, type=type_):
                inner = ", ".join(self._text(item, lines) for item in items)
                if isinstance(type_, TupleType):
                    return f"{owned(type_)}({inner})"
                return f"{owned(type_)}{{{inner}}}"
            case Item(of=of, index=index):
                if isinstance(getattr(of, "type", None), TupleType):
                    assert isinstance(index, Number)
                    return f"std::get<{index.value}>({self._text(of, lines)})"
                return f"host::at({self._text(of, lines)}, {self._text(index, lines)})"
        raise TypeError(f"not a tensor-level expression: {expr}")

    def converted(self, expr: Expr, arg: Argument, lines: list[str]) -> str:
        """An argument; displays get the list type that the parameter wants."""
        text = self._text(expr, lines)
        if isinstance(expr, Literal) and expr.value is None:
            return _literal(None, arg.type)
        if isinstance(expr, Call) and arg.alias is not None and arg.alias.is_write:
            return f"host::lvalue({text})"
        return text

    def _host(self, op: str, args: tuple[Expr, ...], type_: ExprType, lines: list[str]) -> str:
        lazy = op in ("and", "or")
        texts = [self.write(arg) if lazy else self._text(arg, lines) for arg in args]
        scalar = BaseType("Scalar")
        if op in ("==", "!=") and any(getattr(a, "type", None) == scalar for a in args):
            return f"({'!' if op == '!=' else ''}Scalar({texts[0]}).equals({texts[1]}))"
        if op == "tensor":
            return f"wrapped_number_tensor({texts[0]})"
        if op == "value":
            assert isinstance(args[0], Var)
            return f"host::value({texts[0]}, {quoted(self.owner)}, {quoted(args[0].name)})"
        if isinstance(type_, ListType) and op in ("+", "*"):
            name = {"+": "join", "*": "repeat"}[op]
            return f"host::{name}<{element_type(type_.elem)}>({', '.join(texts)})"
        if op in ("min", "max") and len(args) > 1 and type_ == BaseType("float"):
            texts = [f"double({text})" for text in texts]
        if op in _UNARY and len(args) == 1:
            return f"({_UNARY[op]}{texts[0]})"
        if op in _BINARY:
            return _BINARY[op].format(*texts)
        return f"host::{_HOST[op]}({', '.join(texts)})"


_UNARY = {"-": "-", "not": "!"}
_BINARY = {
    **{op: f"({{0}} {op} {{1}})" for op in ("+", "-", "*", "==", "!=", "<", "<=", ">", ">=")},
    "and": "({0} && {1})",
    "or": "({0} || {1})",
    "/": "(double({0}) / double({1}))",
    "//": "host::floor_divide({0}, {1})",
    "%": "host::modulo({0}, {1})",
    "**": "host::power({0}, {1})",
}
_HOST = {
    "len": "length",
    "min": "minimum",
    "max": "maximum",
    "abs": "absolute",
    "sum": "sum",
    "prod": "product",
    "range": "range",
    "wrap": "wrap",
    "has_value": "has_value",
    "conj": "conj",
    "float": "to_float",
    "int": "to_int",
    "default_dtype": "default_dtype",
    "slice": "slice",
}
PROPERTIES = {
    "shape": "{0}.sizes()",
    "strides": "{0}.strides()",
    "storage_offset": "{0}.storage_offset()",
    "ndim": "{0}.dim()",
    "numel": "{0}.numel()",
    "dtype": "{0}.dtype()",
    "device": "{0}.device()",
    "is_complex": "{0}.is_complex()",
    "is_floating_point": "{0}.is_floating_point()",
    "defined": "{0}.defined()",
}


def _typed_number(value: bool | int | float | complex, type_: ExprType) -> str:
    if type_ == BaseType("float") and not isinstance(value, complex):
        return number(float(value))
    return f"Scalar({number(value)})" if type_ == BaseType("Scalar") else number(value)


def _literal(value: str | None, type_: ExprType) -> str:
    if value is None:
        if type_ == OptionalType(BaseType("Tensor")):
            return "Tensor()"
        return "nullptr" if type_ == OptionalType(BaseType("Generator")) else "std::nullopt"
    base = type_.elem if isinstance(type_, OptionalType) else type_
    if base == BaseType("ScalarType"):
        return dtype(value)
    if base == BaseType("MemoryFormat"):
        return memory_format(value)
    return f"std::string_view({quoted(value)})"
