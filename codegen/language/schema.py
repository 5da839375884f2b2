"""PyTorch's schema language: text -> Schema -> the same text.

name.overload(Type(alias) arg=default, *, Type kwarg, Type(a!) out) -> (Type name, Type)
"""

from __future__ import annotations

import ast
import re
import unicodedata
from dataclasses import dataclass, replace

from codegen.model import (
    Alias,
    Argument,
    BaseType,
    ListType,
    OperatorName,
    OptionalType,
    Return,
    Schema,
    Type,
)
from codegen.model.enumerations import ENUM_INTS
from codegen.source.diagnostics import did_you_mean

BASE_TYPES = (
    "Tensor",
    "Scalar",
    "int",
    "SymInt",
    "float",
    "bool",
    "SymBool",
    "str",
    "ScalarType",
    "Layout",
    "Device",
    "DeviceIndex",
    "MemoryFormat",
    "Generator",
    "Dimname",
    "QScheme",
    "Storage",
    "Stream",
    "ConstQuantizerPtr",
)


# What other languages call the types.
FOREIGN_TYPES = {
    "double": "float",
    "float32": "float",
    "float64": "float",
    "int64_t": "int",
    "int64": "int",
    "long": "int",
    "boolean": "bool",
    "complex": "Scalar",
    "number": "Scalar",
    "string": "str",
    "dtype": "ScalarType",
    "tensor": "Tensor",
    "TensorList": "Tensor[]",
    "IntArrayRef": "int[]",
    "Size": "int[]",
    "List": "int[]",
    "tuple": "int[]",
    "Optional": "Type?",
}
FOREIGN_DTYPES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "bfloat": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "byte": "uint8",
    "char": "int8",
    "cfloat": "complex64",
    "cdouble": "complex128",
}


def shown_letter(char: str) -> str:
    """Return a letter with its number and name: it may look like another one."""
    return f"'{char}' (U+{ord(char):04X}, {unicodedata.name(char, 'without a name').lower()})"


@dataclass
class SchemaError(Exception):
    """One mistake in a schema's text; offset and length count its characters."""

    offset: int
    length: int
    code: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A schema with the text offset of each argument, for diagnostics."""

    schema: Schema
    offsets: dict[str, int]
    returns_offset: int
    problems: tuple[SchemaError, ...]  # those that leave a usable schema


_NAME = re.compile(r"[^\W\d]\w*")
_BLANK = re.compile(r"\s*")
_SUFFIX = re.compile(r"\?|\[(\d{0,3})\]")
_ALIAS = re.compile(r"\(([^()]*)\)")
_ALIAS_BODY = re.compile(r"(?P<before>[a-z*](\|[a-z*])*)(?P<write>!?)( -> (?P<after>[a-z*](\|[a-z*])*))?")
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.problems: list[SchemaError] = []
        self.offsets: dict[str, int] = {}

    def fail(self, message: str, hint: str, offset: int | None = None, length: int = 1) -> SchemaError:
        return SchemaError(self.at if offset is None else offset, length, "FB0201", message, hint)

    def skip(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        assert blank
        self.at = blank.end()

    def peek(self, token: str) -> bool:
        return self.text.startswith(token, self.at)

    def take(self, token: str) -> bool:
        if not self.peek(token):
            return False
        self.at += len(token)
        return True

    def expect(self, token: str, where: str, hint: str) -> None:
        if not self.take(token):
            got = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
            raise self.fail(f"expected '{token}' {where}, got {got}", hint)

    def name(self, what: str) -> str:
        match = _NAME.match(self.text, self.at)
        if not match:
            got = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
            raise self.fail(f"expected {what}, got {got}", "a schema is name(Type arg, ...) -> Type")
        name = match.group()
        foreign = next((i for i, char in enumerate(name) if not char.isascii()), None)
        if foreign is not None:
            message = f"'{name}' holds {shown_letter(name[foreign])}"
            hint = "names have the letters a to z and A to Z, digits and _"
            raise self.fail(message, hint, self.at + foreign)
        self.at = match.end()
        return name

    def operator_name(self) -> OperatorName:
        base = self.name("an operator name")
        overload = self.name("an overload name after '.'") if self.take(".") else ""
        inplace = base.endswith("_") and not base.endswith("__")
        return OperatorName(base[:-1] if inplace else base, overload, inplace)

    def type(self) -> tuple[Type, Alias | None]:
        offset = self.at
        base = self.name("a type")
        if base not in BASE_TYPES:
            hint = did_you_mean(base, BASE_TYPES, "types")
            if base in FOREIGN_TYPES:
                hint = f"did you mean '{FOREIGN_TYPES[base]}'?"
            message = f"unknown type '{base}'"
            self.problems.append(SchemaError(offset, len(base), "FB0202", message, hint))
        alias = self.alias() if self.peek("(") else None
        type_: Type = BaseType(base)
        while suffix := _SUFFIX.match(self.text, self.at):
            self.at = suffix.end()
            if suffix.group() == "?":
                type_ = OptionalType(type_)
            else:
                type_ = ListType(type_, int(suffix.group(1)) if suffix.group(1) else None)
        return type_, alias

    def alias(self) -> Alias | None:
        offset = self.at
        match = _ALIAS.match(self.text, self.at)
        if not match:
            raise self.fail("expected ')' after an alias annotation", "write Tensor(a) or Tensor(a!)")
        self.at = match.end()
        body = _ALIAS_BODY.fullmatch(match.group(1))
        if not body:
            message = f"wrong alias annotation '{match.group()}'"
            hint = "write (a) for a view, (a!) for an argument that is written to, (a -> *) for lists"
            self.problems.append(SchemaError(offset, len(match.group()), "FB0203", message, hint))
            return None
        after = body["after"]
        return Alias(
            tuple(body["before"].split("|")),
            tuple(after.split("|")) if after else (),
            bool(body["write"]),
        )

    def arguments(self) -> tuple[Argument, ...]:
        args: list[Argument] = []
        kwarg_only = False
        self.skip()
        if self.take(")"):
            return ()
        while True:
            self.skip()
            if self.take("*"):
                kwarg_only = self.star(kwarg_only)
            else:
                args.append(self.argument(kwarg_only))
            self.skip()
            if self.take(")"):
                return tuple(args)
            hint = "separate arguments by ', ' and close with ')'"
            if self.peek("="):
                hint = "write the default without spaces: int dim=-1"
            self.expect(",", "between arguments", hint)

    def star(self, seen: bool) -> bool:
        if seen:
            raise self.fail("second '*' in the argument list", "keep one '*'", self.at - 1)
        self.skip()
        if not self.peek(","):
            raise self.fail("expected keyword-only arguments after '*'", "remove '*' or add some")
        return True

    def argument(self, kwarg_only: bool) -> Argument:
        type_, alias = self.type()
        if not self.peek(" "):
            hint = "an argument is 'Type name', for example 'Tensor self'"
            if self.peek("["):
                hint = "a list is written Tensor[], int[] or int[2]"
            raise self.fail("expected an argument name after the type", hint)
        self.skip()
        offset = self.at
        name = self.name("an argument name")
        if name in self.offsets:
            message = f"duplicate argument '{name}'"
            hint = "give each argument its own name"
            self.problems.append(SchemaError(offset, len(name), "FB0206", message, hint))
        self.offsets[name] = offset
        default = self.default() if self.take("=") else None
        return Argument(name, type_, default, alias, kwarg_only)

    def default(self) -> str:
        """Take a literal as written: a number, a name, a string, or a list of those."""
        start = self.at
        if self.take("["):
            while not self.take("]"):
                self.skip()
                self.atom()
                self.skip()
                if not self.peek("]"):
                    self.expect(",", "in a list default", "close the list with ']'")
        else:
            self.atom()
        return self.text[start : self.at]

    def atom(self) -> None:
        if self.peek("'") or self.peek('"'):
            self.string()
            return
        match = _NUMBER.match(self.text, self.at) or _NAME.match(self.text, self.at)
        if not match:
            raise self.fail("expected a default value after '='", "for example =1, =None, =[], ='sum'")
        self.at = match.end()

    def string(self) -> None:
        quote = self.text[self.at]
        end = self.at + 1
        while end < len(self.text) and self.text[end] != quote:
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            raise self.fail("unterminated string default", f"close it with {quote}")
        self.at = end + 1

    def returns(self) -> tuple[Return, ...]:
        if not self.take("("):
            return (self.result(),)
        results: list[Return] = []
        self.skip()
        if self.take(")"):
            return ()
        while True:
            self.skip()
            results.append(self.result())
            self.skip()
            if self.take(")"):
                return tuple(results)
            self.expect(",", "between returns", "close the list of returns with ')'")

    def result(self) -> Return:
        type_, alias = self.type()
        name = None
        if self.peek(" ") and _NAME.match(self.text, self.at + 1):
            self.skip()
            name = self.name("a return name")
        return Return(name, type_, alias)


def parse(text: str) -> Parsed:
    """Parse one schema; raises SchemaError where the text cannot be understood any further."""
    p = _Parser(text)
    name = p.operator_name()
    p.expect("(", "after the operator's name", "a schema is name(Type arg, ...) -> Type")
    args = p.arguments()
    p.skip()
    p.expect("->", "after the arguments", "say what is returned: '-> Tensor', or '-> ()' for nothing")
    p.skip()
    returns_offset = p.at
    returns = p.returns()
    p.skip()
    if p.at != len(text):
        raise p.fail("text after the end of the schema", "remove it", length=len(text) - p.at)
    schema = Schema(name, _mark_out(args), returns)
    return Parsed(schema, p.offsets, returns_offset, tuple(p.problems))


def _mark_out(args: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """The trailing keyword-only arguments that are written to are the outputs."""
    marked = list(args)
    for i in reversed(range(len(marked))):
        alias = marked[i].alias
        if not (marked[i].kwarg_only and alias and alias.is_write):
            break
        marked[i] = replace(marked[i], is_out=True)
    return tuple(marked)


# --- printing --------------------------------------------------------------------------------


def show_type(type_: Type, alias: Alias | None = None) -> str:
    """Return a type's text; the alias stands directly after the base type."""
    match type_:
        case OptionalType(elem):
            return show_type(elem, alias) + "?"
        case ListType(elem, size):
            return f"{show_type(elem, alias)}[{'' if size is None else size}]"
        case BaseType(name):
            return name + (show_alias(alias) if alias else "")


def show_alias(alias: Alias) -> str:
    """Return ``(a!)`` and the like."""
    after = " -> " + "|".join(alias.after) if alias.after else ""
    return f"({'|'.join(alias.before)}{'!' if alias.is_write else ''}{after})"


def show_argument(arg: Argument) -> str:
    """Return ``Type name=default``."""
    default = "" if arg.default is None else f"={arg.default}"
    return f"{show_type(arg.type, arg.alias)} {arg.name}{default}"


def show_schema(schema: Schema) -> str:
    """Return the canonical text, which for a parsed schema is the text it came from."""
    parts: list[str] = []
    starred = False
    for arg in schema.args:
        if arg.kwarg_only and not starred:
            parts.append("*")
            starred = True
        parts.append(show_argument(arg))
    returns = [show_type(r.type, r.alias) + (f" {r.name}" if r.name else "") for r in schema.returns]
    shown = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    return f"{schema.name}({', '.join(parts)}) -> {shown}"


# --- defaults --------------------------------------------------------------------------------


def default_fits(type_: Type, text: str) -> bool:
    """Whether a default, as written, is a value of the type."""
    if isinstance(type_, OptionalType):
        return text == "None" or default_fits(type_.elem, text)
    if isinstance(type_, ListType):
        return _list_default_fits(type_, text)
    name = type_.name
    if name == "str":
        return text[:1] in "'\"" and isinstance(_literal(text), str)
    if name == "bool":
        return text in ("True", "False")
    if name in ("int", "SymInt", "DeviceIndex"):
        return _is_int64(text) or text in ENUM_INTS
    if name in ("float", "Scalar"):
        number = _NUMBER.fullmatch(text) is not None or text in ("inf", "nan")
        if number and text.lstrip("-").isdigit() and not _is_int64(text):
            return False
        return number or (name == "Scalar" and text in ("True", "False"))
    return name in ENUMERATORS and text in ENUMERATORS[name]


def _is_int64(text: str) -> bool:
    digits = text.lstrip("-")
    return re.fullmatch(r"-?\d+", text) is not None and len(digits) < 20 and int(digits) < 2**63


def _list_default_fits(type_: ListType, text: str) -> bool:
    if not text.startswith("["):
        return type_.size is not None and default_fits(type_.elem, text)
    items = [item.strip() for item in text[1:-1].split(",") if item.strip()]
    if (type_.size or 1) > 1 and items and len(items) not in (1, type_.size):
        return False  # elem[1]: one element may be given in place of a list of any length
    return all(default_fits(type_.elem, item) for item in items)


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


DTYPE_NAMES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 "
    "uint16 uint32 uint64 complex32 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz "
    "float8_e8m0fnu float4_e2m1fn_x2"
).split()
ENUMERATORS: dict[str, tuple[str, ...]] = {
    "ScalarType": (*DTYPE_NAMES, "long", "float", "double", "int", "half", "short"),
    "Layout": ("strided", "sparse_coo"),
    "MemoryFormat": (
        "contiguous_format",
        "preserve_format",
        "channels_last",
        "channels_last_3d",
    ),
    "Device": ("cpu", "cuda", "meta"),
}
