"""How names, types and literals are written in C++; the other spellings build on it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from codegen.language import dtypes
from codegen.model import (
    Argument,
    BaseType,
    ExprType,
    ListType,
    OptionalType,
    Return,
    Schema,
    TupleType,
    Type,
)
from codegen.model.enumerations import ENUM_INTS

# --- names ---------------------------------------------------------------------------------------


def enumerator(words: str) -> str:
    """Spell words_joined_so as an enumerator: WordsJoinedSo."""
    return "".join(word.capitalize() for word in words.split("_"))


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
    (
        "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept "
        "const consteval constexpr constinit continue decltype default delete do double else enum "
        "explicit export extern false float for friend goto if inline int long mutable namespace new "
        "noexcept not not_eq nullptr operator or or_eq private protected public register requires return "
        "short signed sizeof static struct switch template this throw true try typedef typeid typename "
        "union unsigned using virtual void volatile while xor xor_eq "
        "const_cast dynamic_cast reinterpret_cast static_cast"
    ).split()
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


def element_type(type_: Type) -> str:
    """What a list of these holds."""
    if type_ in (BaseType("Tensor"), OptionalType(BaseType("Tensor"))):
        return "Tensor"
    if isinstance(type_, BaseType):
        return {"Scalar": "Scalar"}.get(type_.name) or _BY_VALUE[type_.name]
    raise ValueError(f"no C++ spelling for a list of {type_}")


def _list_type(type_: ListType) -> str:
    element = element_type(type_.elem)
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
        return f"std::vector<{element_type(ret.type.elem)}>"
    if isinstance(ret.type, OptionalType):
        inner = ret.type.elem
        return "Tensor" if inner == BaseType("Tensor") else f"std::optional<{element_type(inner)}>"
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


_USER_TYPES = {
    "const Tensor&": "const flambeau::Tensor&",
    "Tensor&": "flambeau::Tensor&",
    "TensorList": "TensorArgs",
    "const std::optional<IntArrayRef>&": "MaybeInts",
    "GeneratorImpl*": "MaybeGenerator",
}
# Classes of flambeau::api that have the names of the library's, which they are made from.
_USER_CLASSES = re.compile(r"\b(ScalarType|Scalar|Device)\b")


def _user_parameter(arg: Argument) -> str:
    text, _, name = parameter(arg).rpartition(" ")
    text = "MaybeTensor" if arg.type == OptionalType(BaseType("Tensor")) else _USER_TYPES.get(text, text)
    qualified = _USER_CLASSES.sub(r"c10::\1", text)
    return f"{qualified} {name}"


def user_parameters(args: Sequence[Argument], options: Sequence[str] = ()) -> tuple[str, ...]:
    """Parameters in flambeau::api, where Tensor is another class, with their defaults.

    Args:
        args: the arguments.
        options: names that are joined into one TensorOptions. Where there are such arguments and they are not
            joined, those up to the last of them have no defaults, so that the two forms differ.
    """
    joined = [arg.name for arg in args if arg.name in options]
    texts: list[str] = []
    all_later = True
    for arg in reversed(args):
        if arg.name in joined:
            if arg.name == joined[-1]:
                texts.append("const TensorOptions& options" + (" = {}" if all_later else ""))
            continue
        default = default_value(arg) if all_later and not (arg.name == "pin_memory" and not joined) else None
        if default in ("Tensor()", "nullptr"):
            default = "{}"
        all_later = default is not None
        texts.append(_user_parameter(arg) + (f" = {default}" if default is not None else ""))
    return tuple(reversed(texts))


def user_return_type(returns: tuple[Return, ...], tensor: str = "Tensor") -> str:
    """The return type in flambeau::api, whose Tensor is made from the library's; references stay."""
    return re.sub(r"\bTensor\b(&?)", lambda m: "flambeau::Tensor&" if m[1] else tensor, return_type(returns))


def argument_names(schema: Schema) -> str:
    """All arguments, as they are passed on."""
    return ", ".join(local(arg.name) for arg in schema.args)


def default_value(arg: Argument) -> str | None:
    """A default in C++, None where there is none or where it has no constant spelling."""
    if arg.default is None:
        return None
    return _default(arg.type, arg.default)


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
    if text in ENUM_INTS:
        return str(ENUM_INTS[text])
    if type_.name == "float" and text in ("inf", "-inf"):
        return text.replace("inf", "__builtin_inf()")
    return text


_DTYPES = {row.name.lower(): row.name for row in dtypes.TABLE}
_ALIASES = {"long": "int64", "float": "float32", "double": "float64", "half": "float16", "int": "int32"}


def dtype(name: str) -> str:
    """``int64`` -> ``ScalarType::Int64``."""
    name = _ALIASES.get(name, name)
    return f"ScalarType::{_DTYPES[name.replace('_', '')]}"


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


# --- owned values --------------------------------------------------------------------------------


def owned(type_: ExprType) -> str:
    """The C++ type of a value that an expression owns."""
    if isinstance(type_, TupleType):
        return f"std::tuple<{', '.join(owned(t) for t in type_.items)}>"
    if isinstance(type_, OptionalType):
        inner = type_.elem
        return "Tensor" if inner == BaseType("Tensor") else f"std::optional<{owned(inner)}>"
    if isinstance(type_, ListType):
        element = element_type(type_.elem) if type_.elem != BaseType("None") else "int64_t"
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


def layout(name: str) -> str:
    """`sparse_coo` -> `Layout::SparseCoo`."""
    return "Layout::" + "".join(word.capitalize() for word in name.split("_"))


def memory_format(name: str) -> str:
    """`channels_last` -> `MemoryFormat::ChannelsLast`."""
    words = name.removesuffix("_format").split("_")
    return "MemoryFormat::" + "".join(word.capitalize() for word in words)
