"""How things are written in C++ and Python: the only module that knows either language's spelling."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

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
    Prim,
    Primitive,
    Prop,
    Return,
    Schema,
    Seq,
    TupleType,
    Type,
    Var,
)
from codegen.pyexpr import children

# --- names ---------------------------------------------------------------------------------------


def struct_name(form_name: str) -> str:
    """``add_.Tensor`` -> ``add__Tensor``: the operator's struct in flambeau::ops."""
    name = form_name.replace(".", "_")
    return f"{name}_op" if name in CPP_KEYWORDS or name in _NAMESPACES else name


def local(name: str) -> str:
    """A schema argument's name in C++; keywords get an underscore."""
    return f"{name}_" if name in CPP_KEYWORDS else name


# A struct of this name would hide the namespace.
_NAMESPACES = frozenset(("std", "host", "ops", "shape", "view", "vec"))
CPP_KEYWORDS = frozenset(
    "default register union template typename operator new delete this and or not xor".split()
)

# --- types ---------------------------------------------------------------------------------------

_BY_VALUE = {
    "int": "int64_t",
    "SymInt": "int64_t",
    "DeviceIndex": "int64_t",
    "float": "double",
    "bool": "bool",
    "SymBool": "bool",
    "str": "std::string_view",
    "ScalarType": "ScalarType",
    "Layout": "Layout",
    "Device": "Device",
    "MemoryFormat": "MemoryFormat",
}


def _element_type(type_: Type) -> str:
    """What a list of these holds."""
    if type_ in (BaseType("Tensor"), OptionalType(BaseType("Tensor"))):
        return "Tensor"
    if isinstance(type_, BaseType):
        return {"Scalar": "Scalar"}.get(type_.name) or _BY_VALUE[type_.name]
    raise ValueError(f"no C++ spelling for a list of {type_}")


def _list_type(type_: ListType) -> str:
    element = _element_type(type_.elem)
    return {"Tensor": "TensorList", "int64_t": "IntArrayRef"}.get(element, f"ArrayRef<{element}>")


def argument_type(type_: Type, writes: bool = False) -> str:
    """The C++ parameter type of a schema argument."""
    if isinstance(type_, ListType):
        return _list_type(type_)
    if isinstance(type_, OptionalType):
        inner = type_.elem
        if inner == BaseType("Tensor"):
            return "const Tensor&"
        if inner == BaseType("Generator"):
            return "GeneratorImpl*"
        if isinstance(inner, ListType):
            return f"const std::optional<{_list_type(inner)}>&"
        if inner == BaseType("Scalar"):
            return "const std::optional<Scalar>&"
        assert isinstance(inner, BaseType)
        return f"std::optional<{_BY_VALUE[inner.name]}>"
    if type_.name == "Tensor":
        return "Tensor&" if writes else "const Tensor&"
    if type_.name == "Scalar":
        return "const Scalar&"
    if type_.name == "Generator":
        return "GeneratorImpl*"
    return _BY_VALUE[type_.name]


def parameter(arg: Argument) -> str:
    """``const Tensor& self``."""
    writes = arg.alias is not None and arg.alias.is_write
    return f"{argument_type(arg.type, writes)} {local(arg.name)}"


def return_element(ret: Return) -> str:
    """The C++ type of one result."""
    if isinstance(ret.type, ListType):
        return f"std::vector<{_element_type(ret.type.elem)}>"
    if isinstance(ret.type, OptionalType):
        inner = ret.type.elem
        return "Tensor" if inner == BaseType("Tensor") else f"std::optional<{_element_type(inner)}>"
    if ret.type.name == "Tensor":
        return "Tensor&" if ret.alias is not None and ret.alias.is_write else "Tensor"
    if ret.type.name == "Scalar":
        return "Scalar"
    return _BY_VALUE[ret.type.name]


def return_type(returns: tuple[Return, ...]) -> str:
    """The C++ return type of a schema."""
    if not returns:
        return "void"
    if len(returns) == 1:
        return return_element(returns[0])
    return f"std::tuple<{', '.join(return_element(r) for r in returns)}>"


def parameters(schema: Schema) -> str:
    """All parameters, without defaults."""
    return ", ".join(parameter(arg) for arg in schema.args)


def parameters_with_defaults(args: Sequence[Argument]) -> str:
    """Parameters; defaults only where every later one has a default too, as C++ wants it."""
    texts: list[str] = []
    all_later = True
    for arg in reversed(args):
        default = default_value(arg) if all_later else None
        all_later = default is not None
        texts.append(parameter(arg) + (f" = {default}" if default is not None else ""))
    return ", ".join(reversed(texts))


def user_parameters(args: Sequence[Argument]) -> str:
    """Parameters with defaults in flambeau::api, where Tensor is another class."""
    return parameters_with_defaults(args).replace("Tensor&", "flambeau::Tensor&")


def user_return_type(returns: tuple[Return, ...]) -> str:
    """The return type in flambeau::api, whose Tensor is made from the library's; references stay."""
    text = return_type(returns)
    for kept in ("Tensor&", "std::vector<Tensor>"):
        text = text.replace(kept, kept.replace("Tensor", "flambeau::Tensor"))
    return text


def argument_names(schema: Schema) -> str:
    """All arguments, as they are passed on."""
    return ", ".join(local(arg.name) for arg in schema.args)


def default_value(arg: Argument) -> str | None:
    """A default in C++, None where there is none or where it has no constant spelling."""
    if arg.default is None:
        return None
    return _default(arg.type, arg.default)


_REDUCTION_ENUM = {"Mean": "1", "Sum": "2", "None": "0"}


def _default(type_: Type, text: str) -> str:
    if text == "None":
        if type_ == OptionalType(BaseType("Tensor")):
            return "Tensor()"
        return "nullptr" if type_ == OptionalType(BaseType("Generator")) else "std::nullopt"
    if isinstance(type_, OptionalType):
        return _default(type_.elem, text)
    if isinstance(type_, ListType):
        if text.startswith("["):
            return "{" + text[1:-1] + "}"
        return "{" + ", ".join([_default(type_.elem, text)] * (type_.size or 1)) + "}"
    if text in ("True", "False"):
        return text.lower()
    if type_.name == "str":
        return '"' + text.strip("'\"") + '"'
    if type_.name == "MemoryFormat":
        return memory_format(text)
    if type_.name == "ScalarType":
        return dtype(text)
    if text in _REDUCTION_ENUM:
        return _REDUCTION_ENUM[text]
    if type_.name == "float" and text in ("inf", "-inf"):
        return text.replace("inf", "__builtin_inf()")
    return text


_DTYPES = {"complex64": "Complex64", "complex128": "Complex128", "bool": "Bool", "bfloat16": "BFloat16"}
_ALIASES = {"long": "int64", "float": "float32", "double": "float64", "half": "float16", "int": "int32"}


def dtype(name: str) -> str:
    """``int64`` -> ``ScalarType::Int64``."""
    name = _ALIASES.get(name, name)
    spelled = _DTYPES.get(name) or name.replace("uint", "UInt").replace("int", "Int").replace(
        "float", "Float"
    )
    return f"ScalarType::{spelled.replace('UIInt', 'UInt')}"


# --- numbers and strings ---------------------------------------------------------------------------


def quoted(text: str) -> str:
    """A C++ string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def number(value: bool | int | float | complex) -> str:
    """A C++ literal of the host types bool, int64_t, double and complex<double>."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"int64_t{{{value}}}"
    if isinstance(value, complex):
        return f"complex<double>({number(value.real)}, {number(value.imag)})"
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return "__builtin_inf()" if value > 0 else "-__builtin_inf()"
    return repr(value)


# --- scalar level -------------------------------------------------------------------------------------


class ScalarSpelling:
    """Writes scalar expressions as C++ over a compute type ``T``; equal parts are computed once.

    `names` maps variables to C++ text; those in `real` have the real type of ``T`` where T is complex.
    `lines` collects ``const auto`` definitions in order.
    """

    def __init__(
        self,
        primitives: Mapping[str, Primitive],
        names: Mapping[str, str],
        device: bool,
        real: Collection[str] = (),
    ) -> None:
        self.primitives = primitives
        self.names = names
        self.device = device
        self.real = real
        self.lines: list[str] = []
        self._uses: dict[Expr, int] = {}
        self._done: dict[Expr, str] = {}

    def write(self, expr: Expr) -> str:
        """Return C++ for `expr`, adding definitions of shared parts to `lines`."""
        self._count(expr)
        return self._text(expr, _COMPUTE)

    def _count(self, expr: Expr) -> None:
        self._uses[expr] = self._uses.get(expr, 0) + 1
        if isinstance(expr, Prim) and self._uses[expr] == 1:
            for arg in expr.args:
                self._count(arg)

    def _type(self, expr: Expr) -> str | None:
        """The C++ type of a value: compute, real or bool; None for a number, which takes any."""
        if isinstance(expr, Number):
            return _COMPUTE if isinstance(expr.value, complex) else None
        if isinstance(expr, Var):
            return _REAL if expr.name in self.real else _COMPUTE
        assert isinstance(expr, Prim)
        result = self.primitives[expr.name].result
        if result == "same":
            return self._common(expr)
        return _REAL if result == "real" else "bool"

    def _common(self, expr: Prim) -> str:
        """The type of the "same" arguments: real only where none is complex."""
        kinds = self.primitives[expr.name].args
        types = {self._type(arg) for arg, kind in zip(expr.args, kinds, strict=True) if kind == "same"}
        return _REAL if types - {None} == {_REAL} else _COMPUTE

    def _text(self, expr: Expr, wanted: str) -> str:
        if isinstance(expr, Number):
            return scalar_number(expr.value, wanted)
        if isinstance(expr, Var):
            return self.names[expr.name]
        assert isinstance(expr, Prim)
        if expr in self._done:
            return self._done[expr]
        row = self.primitives[expr.name]
        common = self._common(expr)
        args = []
        for arg, kind in zip(expr.args, row.args, strict=True):
            text = self._text(arg, common)
            promoted = kind == "same" and common == _COMPUTE and self._type(arg) == _REAL
            args.append(f"{_COMPUTE}({text})" if promoted else text)
        text = (row.cuda if self.device else row.cpp).format(*args)
        if row.result == "same":
            text = f"{common}({text})"  # small integers and bool compute as int
        if self._uses[expr] > 1:
            name = f"v{len(self.lines)}"
            self.lines.append(f"const auto {name} = {text};")
            text = name
        self._done[expr] = text
        return text


_COMPUTE = "T"
_REAL = "real_t<T>"


def scalar_number(value: bool | int | float | complex, type_: str = _COMPUTE) -> str:
    """A literal of the compute type, or of its real type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, complex):
        return f"T({value.real!r}, {value.imag!r})"
    return f"{type_}({value if isinstance(value, int) else number(value)})"


# --- tensor level -------------------------------------------------------------------------------------


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
            return f"host::{name}<{_element_type(type_.elem)}>({', '.join(texts)})"
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


def owned(type_: ExprType) -> str:
    """The C++ type of a value that an expression owns."""
    if isinstance(type_, TupleType):
        return f"std::tuple<{', '.join(owned(t) for t in type_.items)}>"
    if isinstance(type_, OptionalType):
        inner = type_.elem
        return "Tensor" if inner == BaseType("Tensor") else f"std::optional<{owned(inner)}>"
    if isinstance(type_, ListType):
        element = _element_type(type_.elem) if type_.elem != BaseType("None") else "int64_t"
        return {"Tensor": "std::vector<Tensor>", "int64_t": "DimVector"}.get(
            element, f"SmallVector<{element}, 5>"
        )
    return {"Tensor": "Tensor", "Scalar": "Scalar", "Generator": "Generator"}.get(type_.name) or _BY_VALUE[
        type_.name
    ]


def kept(type_: ExprType) -> str:
    """The C++ type of an argument's value that outlives the call."""
    if isinstance(type_, BaseType) and type_.name == "str":
        return "std::string"
    if isinstance(type_, BaseType) and type_.name == "Generator":
        return "GeneratorImpl*"
    if isinstance(type_, OptionalType):
        if type_.elem == BaseType("Generator"):
            return "GeneratorImpl*"
        return f"std::optional<{kept(type_.elem)}>"
    if isinstance(type_, ListType) and type_.elem == BaseType("Scalar"):
        return "std::vector<Scalar>"
    return owned(type_)


def memory_format(name: str) -> str:
    """`channels_last` -> `MemoryFormat::ChannelsLast`."""
    words = name.removesuffix("_format").split("_")
    return "MemoryFormat::" + "".join(word.capitalize() for word in words)


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
