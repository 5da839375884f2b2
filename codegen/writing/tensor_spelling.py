"""How tensor expressions are written in C++: calls of operators and host values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from codegen.language.host_functions import host_functions
from codegen.language.overloads import has_tensor, type_of
from codegen.language.pyexpr import children
from codegen.language.spelling import (
    dtype,
    element_type,
    layout,
    local,
    memory_format,
    number,
    owned,
    quoted,
    struct_name,
)
from codegen.model import (
    Argument,
    BaseType,
    Call,
    Check,
    Each,
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


class TensorSpelling:
    """Writes tensor expressions as C++ over host values; variables are spelled by `name_of`.

    An operator call or a list that occurs several times is made once, provided that at least one of the
    occurrences is unconditional.
    """

    def __init__(self, model: Model, owner: str, name_of: Callable[[str], str] = local) -> None:
        self.model = model
        self.owner = owner
        self.name_of = name_of
        self._walks = 0
        self._names: dict[Expr, str] = {}
        self._uses: dict[Expr, int] = {}

    def write(self, expr: Expr) -> str:
        """Return a C++ expression."""
        lines: list[str] = []
        with self._scope(expr):
            text = self._text(expr, lines)
        if not lines:
            return text
        return f"[&] {{ {' '.join(lines)} return {text}; }}()"

    def statements(self, expr: Expr) -> Iterator[str]:
        """Yield the statements of a function that returns the value: a choice is one of them."""
        lines: list[str] = []
        with self._scope(expr):
            if not isinstance(expr, If) or expr in self._names:  # what has a name is not made again
                text = self._text(expr, lines)
                yield from lines
                yield f"return {text};"
                return
            self._hoist(expr, lines)
            condition = self._text(expr.condition, lines)
            yield from lines
            yield f"if ({condition}) {{"
            yield from self.statements(expr.then)
            yield "}"
            yield from self.statements(expr.other)

    @contextmanager
    def _scope(self, expr: Expr) -> Iterator[None]:
        """Count what `expr` makes; names that it is given inside end with it."""
        outer, self._uses = self._uses, {}
        names, self._names = self._names, dict(self._names)
        self._count(expr)
        self._count_choices(expr)
        yield
        self._uses, self._names = outer, names

    def check(self, check: Check) -> str:
        """Return the statement that raises unless the condition holds."""
        return (
            f"if (!({self.write(check.condition)})) [[unlikely]] {self.failure(check.error, check.message)}"
        )

    def failure(self, error: str, message: Sequence[str | Expr]) -> str:
        """Return the statement that raises an exception."""
        kind = f"ErrorKind::{error.removesuffix('Error')}"
        parts = (quoted(part) if isinstance(part, str) else self.write(part) for part in message)
        return f"fail({', '.join((kind, *parts))});"

    def held(self, expr: Expr, type_: ExprType | None = None) -> str:
        """Return a C++ expression that owns its value, which may be converted to another type."""
        want = type_of(expr) if type_ is None else type_
        convert = "host::held<{}>" if isinstance(want, ListType) else "{}"
        return f"{convert.format(owned(want))}({self.write(expr)})"

    def walk(
        self, names: Sequence[str], lists: Sequence[Expr], assigned: Collection[str] = ()
    ) -> Iterator[str]:
        """Yield the head of a loop over lists; variables that its body assigns are copied."""
        self._walks += 1
        held = [f"list{self._walks}_{i}" for i in range(len(lists))]
        for name, expr in zip(held, lists, strict=True):
            if isinstance(expr, Var) and expr.name not in assigned:
                yield f"const auto& {name} = {self.name_of(expr.name)};"
            elif isinstance(expr, Seq) and expr.items:
                yield self._array(name, expr)
            else:
                yield f"const auto {name} = {self.held(expr)};"
        if len(names) == 1:
            yield f"for ([[maybe_unused]] auto {self.name_of(names[0])} : {held[0]}) {{"
            return
        at = f"at{self._walks}"
        ends = " && ".join(f"{at} < {name}.size()" for name in held)
        yield f"for (size_t {at} = 0; {ends}; ++{at}) {{"
        for name, given in zip(names, held, strict=True):
            if name != "_":
                yield f"[[maybe_unused]] auto {self.name_of(name)} = {given}[{at}];"

    def _array(self, name: str, display: Seq) -> str:
        """Return the declaration of an array, which unlike a vector allocates nothing."""
        assert isinstance(display.type, ListType)
        item = element_type(display.type.elem)
        items = ", ".join(f"{item}({self.write(part)})" for part in display.items)
        return f"const std::array<{item}, {len(display.items)}> {name}{{{items}}};"

    def _count(self, expr: Expr) -> None:
        """Count the calls that are made whenever `expr` is evaluated."""
        if expr in self._names or (isinstance(expr, Host) and expr.op in ("and", "or")):
            return
        if isinstance(expr, Call | If) or _makes_list(expr):
            self._uses[expr] = self._uses.get(expr, 0) + 1
            if self._uses[expr] > 1:
                return
        for part in _made_first(expr):
            self._count(part)

    def _count_choices(self, expr: Expr, chosen: bool = False) -> None:
        """Add the uses in branches of those calls that are made in any case."""
        if chosen and expr in self._uses:
            self._uses[expr] += 1
            return
        lazy = isinstance(expr, If | Each) or (isinstance(expr, Host) and expr.op in ("and", "or"))
        first = _made_first(expr) if isinstance(expr, If | Each) else ()
        for part in children(expr):
            taken = lazy and not any(part is other for other in first)
            self._count_choices(part, chosen or taken)

    def _is_shared(self, expr: Expr) -> bool:
        if isinstance(expr, Call):
            return self._uses.get(expr, 0) > 1 and self._is_pure(expr)
        worth = _makes_list(expr) or (isinstance(expr, If) and has_tensor(expr.type))
        return worth and self._uses.get(expr, 0) > 1 and all(map(self._is_pure, _calls(expr)))

    def _is_pure(self, call: Call) -> bool:
        op, form = self.model.form(call.form)
        writes = any(arg.alias is not None and arg.alias.is_write for arg in form.schema.args)
        pure = not writes and not set(op.tags) & {"random", "uninitialized"}
        returns = form.schema.returns
        tensors = (BaseType("Tensor"), ListType(BaseType("Tensor")))
        return pure and all(r.type in tensors for r in returns)

    def _text(self, expr: Expr, lines: list[str]) -> str:
        if expr in self._names:
            return self._names[expr]
        self._hoist(expr, lines)
        text = self._plain(expr, lines)
        if self._is_shared(expr):
            name = f"shared{len(self._names)}"
            lines.append(f"const {owned(type_of(expr))} {name} = {text};")
            self._names[expr] = name
            return name
        return text

    def _hoist(self, expr: Expr, lines: list[str]) -> None:
        """Before a choice is written: name what its branches share with what is computed in any case."""
        if isinstance(expr, If):
            branches: tuple[Expr, ...] = (expr.then, expr.other)
        elif isinstance(expr, Each):
            branches = children(expr)[len(expr.lists) :]
        elif isinstance(expr, Host) and expr.op in ("and", "or"):
            branches = expr.args
        else:
            return
        for branch in branches:
            for part in _inner_first(branch):
                if part not in self._names and self._is_shared(part):
                    self._text(part, lines)

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
                test = self._text(condition, lines)
                sides = [f"{owned(type_)}({self.write(side)})" for side in (then, other)]
                if any(map(_displays_tensors, (then, other))):
                    return f"[&] {{ if ({test}) return {sides[0]}; return {sides[1]}; }}()"
                return f"({test} ? {sides[0]} : {sides[1]})"
            case Seq(items=items, type=type_):
                inner = ", ".join(self._text(item, lines) for item in items)
                if isinstance(type_, TupleType):
                    return f"{owned(type_)}({inner})"
                return f"{owned(type_)}{{{inner}}}"
            case Item(of=of, index=index):
                if isinstance(type_of(of), TupleType):
                    assert isinstance(index, Number)
                    return f"std::get<{index.value}>({self._text(of, lines)})"
                return f"host::at({self._text(of, lines)}, {self._text(index, lines)})"
            case Each():
                return self._each(expr)
        raise TypeError(f"not a tensor-level expression: {expr}")

    def _each(self, expr: Each) -> str:
        """A comprehension: a function that is called at once."""
        item = f"made.push_back({self.write(expr.item)});"
        if expr.condition is not None:
            item = f"if ({self.write(expr.condition)}) {item}"
        head = " ".join(self.walk(expr.names, expr.lists))
        return f"[&] {{ {owned(expr.type)} made; {head} {item} }} return made; }}()"

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
        if op in ("==", "!=") and any(type_of(a) == scalar for a in args):
            return f"({'!' if op == '!=' else ''}Scalar({texts[0]}).equals({texts[1]}))"
        if op == "tensor":
            return f"wrapped_number_tensor({texts[0]})"
        if op == "value":
            assert isinstance(args[0], Var)
            return f"host::value({texts[0]}, {quoted(self.owner)}, {quoted(args[0].name)})"
        if isinstance(type_, ListType) and op in _LIST_FUNCTIONS:
            name = _LIST_FUNCTIONS[op]
            return f"host::{name}<{element_type(type_.elem)}>({', '.join(texts)})"
        if op in ("min", "max") and len(args) > 1 and type_ == BaseType("float"):
            texts = [f"double({text})" for text in texts]
        if type_ == BaseType("int") and op in ("+", "-", "*"):
            return self._checked(op, texts)
        if op in _UNARY and len(args) == 1:
            return f"({_UNARY[op]}{texts[0]})"
        if op in _BINARY:
            return _BINARY[op].format(*texts)
        return f"host::{host_functions()[op].cpp}({', '.join(texts)})"

    def _checked(self, op: str, texts: list[str]) -> str:
        """Arithmetic of ints, which raises where an int64 cannot hold the result."""
        owner = quoted(self.owner)
        if op == "*":
            return f"product_of({owner}, {texts[0]}, {texts[1]})"
        if op == "+":
            return f"sum_of({owner}, {texts[0]}, {texts[1]})"
        negative = f"product_of({owner}, -1, {texts[-1]})"
        return negative if len(texts) == 1 else f"sum_of({owner}, {texts[0]}, {negative})"


def _makes_list(expr: Expr) -> bool:
    return isinstance(expr, Each) or (isinstance(expr, Host) and isinstance(expr.type, ListType))


def _made_first(expr: Expr) -> tuple[Expr, ...]:
    """Return the parts that are evaluated once, whenever the expression is."""
    if isinstance(expr, If):
        return (expr.condition,)
    return expr.lists if isinstance(expr, Each) else children(expr)


def _displays_tensors(expr: Expr) -> bool:
    """Whether a list of tensors is written out in it.

    AddressSanitizer takes such a list in a conditional expression for one that outlived its scope when an
    element raises (GCC 12); in a statement it does not.
    """
    if isinstance(expr, Seq) and isinstance(expr.type, ListType) and has_tensor(expr.type):
        return True
    return any(map(_displays_tensors, children(expr)))


def _calls(expr: Expr) -> Iterator[Call]:
    if isinstance(expr, Call):
        yield expr
    for part in children(expr):
        yield from _calls(part)


def _inner_first(expr: Expr) -> Iterator[Expr]:
    for part in children(expr):
        yield from _inner_first(part)
    yield expr


_UNARY = {"-": "-", "not": "!"}
_LIST_FUNCTIONS = {"+": "join", "*": "repeat", "slice": "slice"}
_BINARY = {
    **{op: f"({{0}} {op} {{1}})" for op in ("+", "-", "*", "==", "!=", "<", "<=", ">", ">=")},
    "and": "({0} && {1})",
    "or": "({0} || {1})",
    "/": "(double({0}) / double({1}))",
    "//": "host::floor_divide({0}, {1})",
    "%": "host::modulo({0}, {1})",
    "**": "host::power({0}, {1})",
    "in": "host::contains({1}, {0})",
}
PROPERTIES = {
    "shape": "{0}.sizes()",
    "strides": "{0}.strides()",
    "storage_offset": "{0}.storage_offset()",
    "memory_format": "memory_format_of({0})",
    "ndim": "{0}.dim()",
    "numel": "{0}.numel()",
    "dtype": "{0}.dtype()",
    "device": "{0}.device()",
    "layout": "{0}.layout()",
    "is_complex": "{0}.is_complex()",
    "is_cpu": "{0}.is_cpu()",
    "is_meta": "{0}.is_meta()",
    "is_conj": "{0}.is_conj()",
    "is_neg": "{0}.is_neg()",
    "is_floating_point": "{0}.is_floating_point()",
    "defined": "{0}.defined()",
    # Function transforms may ask for the gradient of what they wrap.
    "requires_grad": "({0}.requires_grad() || {0}.impl()->wrapper())",
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
    if base == BaseType("Layout"):
        return layout(value)
    return f"std::string_view({quoted(value)})"
