"""Schemas of operators that programs define: read from text, or inferred from annotations."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Union

import flambeau
from flambeau._arguments.schemas import (
    Parameter,
    converted,
    declarations_of,
    parameters_of,
    separated,
    without_aliases,
)
from flambeau._C import Tensor
from flambeau._types.schema_types import Type, type_of

_NAME = re.compile(r"\s*(?:(?P<ns>\w+)::)?(?P<base>\w+)(?:\.(?P<overload>\w+))?\s*\((?P<rest>.*)\Z", re.S)

_TYPES: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    flambeau.device: "Device",
    flambeau.dtype: "ScalarType",
    Union[int, float, bool]: "Scalar",  # noqa: UP007  (annotations may be either form)
}
_LISTS = (list, collections.abc.Sequence)
# Which combinations of them the annotations of an argument and of a result may give. Text can declare more.
_ARGUMENTS = re.compile(
    r"(Tensor|SymInt|float|bool|str|Scalar|ScalarType|Device)\??"
    r"|(Tensor\??|SymInt|float|bool|Scalar)\[\]|(SymInt|float|bool)\[\]\?"
)
_RESULTS = re.compile(r"Tensor(\[\])?|SymInt|float|bool|Scalar")


@dataclass(frozen=True, slots=True)
class AliasInfo:
    """Which memory an argument or a result shares, and whether the operator writes to it."""

    is_write: bool
    before_set: frozenset[str]
    after_set: frozenset[str]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument or result of a schema."""

    name: str
    type: Type
    default_value: Any = None
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None
    N: int | None = None
    _has_default: bool = False

    def has_default_value(self) -> bool:
        """Whether calls may leave the argument out."""
        return self._has_default

    @property
    def is_write(self) -> bool:
        """Whether the operator writes to it."""
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether it is a tensor for a result, given by name."""
        return self.kwarg_only and self.is_write


_ALIAS = re.compile(r"\((\w|\*)([|\w]*)(!?)(?:\s*->\s*([\w|*]+))?\)")


def _alias_of(declared: str) -> AliasInfo | None:
    found = _ALIAS.search(declared)
    if found is None:
        return None
    if "[" in declared:  # the set is that of the elements
        return AliasInfo(bool(found[3]), frozenset(), frozenset())
    before = frozenset((found[1] + found[2]).split("|"))
    return AliasInfo(bool(found[3]), before, frozenset(found[4].split("|")) if found[4] else before)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSchema:
    """A schema, taken apart.

    ``mutates`` are the arguments that the operator writes to; ``results`` the texts of its results' types.

    Example:
        >>> schema = flambeau.ops.aten.add_.Tensor._schema
        >>> schema.name, schema.overload_name, schema.is_mutable
        ('aten::add_', 'Tensor', True)
        >>> [argument.name for argument in schema.arguments if argument.kwarg_only]
        ['alpha']
    """

    namespace: str
    base: str
    overload: str
    text: str
    parameters: tuple[Parameter, ...]
    defaults: dict[str, Any]
    mutates: frozenset[str]
    results: tuple[str, ...]

    @property
    def name(self) -> str:
        """``namespace::name``, without the overload."""
        return f"{self.namespace}::{self.base}" if self.namespace else self.base

    @property
    def overload_name(self) -> str:
        """The overload's name; empty for the default overload."""
        return self.overload

    def __str__(self) -> str:
        overload = f".{self.overload}" if self.overload else ""
        return f"{self.name}{overload}{self.text[self.text.index('(') :]}"

    __repr__ = __str__

    @property
    def is_mutable(self) -> bool:
        """Whether the operator writes to an argument."""
        return bool(self.mutates)

    @property
    def aliases(self) -> dict[str, str]:
        """The argument of each alias set: "a" -> "self"."""
        inside = self.text[self.text.index("(") + 1 : self.text.rindex(") ->")]
        return {
            letter: name for letter, name in re.findall(r"(?<=\w)(?<!Dict)\((\w)[^)]*\)\S*\s+(\w+)", inside)
        }

    @property
    def arguments(self) -> list[Argument]:
        """The arguments, in PyTorch's words."""
        return list(_arguments(self))

    @property
    def returns(self) -> list[Argument]:
        """The results, in PyTorch's words."""
        return [
            Argument(name, _type_named(without_aliases(type_)), alias_info=_alias_of(type_))
            for type_, name in zip(self.results, _names_of_results(self.text), strict=True)
        ]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


@functools.lru_cache(maxsize=4096)
def _arguments(schema: FunctionSchema) -> tuple[Argument, ...]:
    declared = declarations_of(schema.text)
    return tuple(
        Argument(
            p.name,
            _type_named(p.type),
            _default_of(p, schema.defaults),
            p.keyword_only,
            _alias_of(declared[p.name]),
            _length_of(p.type),
            not p.required,
        )
        for p in schema.parameters
    )


def _default_of(parameter: Parameter, defaults: dict[str, Any]) -> Any:
    """Return the default value, repeated for a list of a fixed length."""
    value, length = defaults.get(parameter.name), _length_of(parameter.type)
    return [value] * length if length and isinstance(value, int | float) else value


def _length_of(type_: str) -> int | None:
    found = re.search(r"\[(\d+)\]\??\Z", type_)
    return int(found[1]) if found else None


def _type_named(text: str) -> Type:
    found = type_of(text)
    if found is None:
        raise RuntimeError(
            f"library: unknown type specifier: expected a type such as Tensor, SymInt or int[], got {text}"
        )
    return found


def _parts_of_results(text: str) -> list[str]:
    results = text[text.rindex(") ->") + 4 :].strip()
    if results.startswith("(") and results.endswith(")"):
        results = results[1:-1]
    return separated(results)


def _type_and_name(result: str) -> tuple[str, str]:
    """Split ``Dict(str, int) counts``; a result may have no name."""
    found = re.match(r"(.*[^\w\s]|[^\s]+)(?:\s+(\w+))?\Z", result)
    return (found[1], found[2] or "") if found else (result, "")


def _names_of_results(text: str) -> list[str]:
    return [_type_and_name(part)[1] for part in _parts_of_results(text)]


def check_namespace(who: str, namespace: str) -> None:
    """Raise ValueError for a namespace in which programs define nothing."""
    if namespace == "prim":
        raise ValueError(f"{who}: 'prim' is a reserved namespace: expected another namespace, got 'prim'")


def read(text: str, namespace: str) -> FunctionSchema:
    """Read ``name.overload(Tensor x, int n=1) -> Tensor``; raise RuntimeError for another form."""
    found = _NAME.match(text)
    if found is None or ") ->" not in re.sub(r"\)\s*->", ") ->", text):
        raise RuntimeError(f"library: expected a schema such as 'name(Tensor x) -> Tensor', got {text!r}")
    text = re.sub(r"\)\s*->", ") ->", text)
    if found["ns"] not in (None, namespace):
        raise RuntimeError(f"library: expected a name in namespace {namespace!r}, got {text!r}")
    parameters = parameters_of(text)
    _check_parameters(parameters, text)
    returns = tuple(_type_and_name(part)[0] for part in _parts_of_results(text))
    for result in returns:
        _type_named(without_aliases(result))
    types = {p.name: p.type for p in parameters}
    defaults = {name: converted(types[name], value) for name, value in _defaults(text).items()}
    mutates = re.findall(r"\(\w+!(?:\s*->[^)]*)?\)\??(?:\[\d*\])?\??\s+(\w+)", text[: text.rindex(") ->")])
    return FunctionSchema(
        namespace,
        found["base"],
        found["overload"] or "",
        text,
        parameters,
        defaults,
        frozenset(mutates),
        returns,
    )


def _check_parameters(parameters: tuple[Parameter, ...], text: str) -> None:
    has_default = False
    for parameter in parameters:
        is_type = re.fullmatch(r"[\w.]+(\[\d*\])?\??(\[\d*\])?\??", parameter.type)
        is_composed = re.match(r"(Dict)?\(", parameter.type)
        if not (is_type or is_composed) or not parameter.name.isidentifier():
            raise RuntimeError(f"library: expected 'Type name' for each argument, got {text!r}")
        _type_named(parameter.type)
        if parameter.required and has_default and not parameter.keyword_only:
            raise RuntimeError(
                f"library: expected a default value of {parameter.name!r}, as of the one before, got {text!r}"
            )
        has_default |= not parameter.required


def parse_schema(schema: str) -> FunctionSchema:
    """Read a schema.

    Args:
        schema: the name with its namespace, the arguments and the results.
    Raises: RuntimeError for a text that is not a schema.

    Example:
        >>> flambeau._C.parse_schema("my::scale(Tensor x, float by=2.0) -> Tensor").arguments[1].default_value
        2.0
    """
    if not isinstance(schema, str):
        raise TypeError(f"parse_schema: expected a str (incompatible arguments), got {type(schema).__name__}")
    return read(schema, schema.partition("(")[0].rpartition("::")[0].strip())


def _defaults(text: str) -> dict[str, Any]:
    inside = text[text.index("(") + 1 : text.rindex(") ->")]
    found = {}
    for part in separated(inside):
        declared, given, default = part.partition("=")
        if given:
            found[declared.split()[-1]] = _value(default.strip())
    return found


def _value(text: str) -> Any:
    words = {"None": None, "True": True, "False": False, "Mean": 1}
    if text in words:
        return words[text]
    if text.startswith("[") and text.endswith("]"):
        return [_value(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    if text[:1] in ("'", '"'):
        return text[1:-1]
    for kind in (int, float, complex):
        try:
            return kind(text)
        except ValueError:
            continue
    if isinstance(getattr(flambeau, text, None), flambeau.dtype | flambeau.memory_format):
        return getattr(flambeau, text)
    raise RuntimeError(f"library: expected a number, string, list or None as a default value, got {text!r}")


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """Return the schema that the annotations of a function determine.

    Args:
        prototype_function: the function. Each argument is annotated with Tensor, int, float, bool, str,
            device, dtype, a number (``int | float | bool``) or an optional of these, with a list or Sequence
            of Tensors, optional Tensors, int, float, bool or numbers, or with an optional list of int, float
            or bool. The result is annotated with Tensor, int, float, bool, a number, a list of Tensors, a
            tuple of these, or None.
        mutates_args: the names of the tensors that it writes to, or "unknown" for all of them.
        op_name: the name before the arguments. None omits it.
        tags: no effect.
    Returns: the schema, a string.
    Raises: ValueError if an annotation is missing or is not a type of a schema, or for names that are no
        arguments.

    Example:
        >>> def scale(x: flambeau.Tensor, by: float = 2.0) -> flambeau.Tensor: ...
        >>> flambeau.library.infer_schema(scale, mutates_args=())
        '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    try:
        hints = typing.get_type_hints(prototype_function, include_extras=True)
    except NameError as error:
        raise ValueError(
            f"infer_schema: unsupported type annotation: expected names of types, got one where {error}"
        ) from error
    unknown = mutates_args == "unknown"
    if isinstance(mutates_args, str) and not unknown:
        raise ValueError(
            "infer_schema: expected names of arguments or 'unknown' (mutates_args must either be a sequence "
            f"of names or this string), got {mutates_args!r}"
        )
    written = set() if unknown else set(mutates_args)
    parts, keyword_only = [], False
    for index, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        parts.append(_argument(parameter, hints, index, parameter.name in written, unknown))
    absent = sorted(written - set(signature.parameters), key=str)
    if absent:
        raise ValueError(
            f"infer_schema: expected mutates_args to name arguments, got {absent}, which were not found"
        )
    results = _results(hints, signature)
    return f"{op_name or ''}({', '.join(parts)}) -> {results}"


def _argument(
    parameter: inspect.Parameter, hints: dict[str, Any], index: int, written: bool, unknown: bool
) -> str:
    who = f"infer_schema: argument {parameter.name!r}"
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise ValueError(
            f"{who}: expected no positional-only args, varargs, or varkwargs, got one that is "
            f"{parameter.kind.description}"
        )
    if parameter.name not in hints:
        raise ValueError(f"{who}: the argument must have a type annotation: expected one, got none")
    hint = hints[parameter.name]
    spelled = _type_of(hint)
    if spelled is None or not _ARGUMENTS.fullmatch(spelled):
        instead = "; a list takes the place of a tuple" if _is_tuple(hint) else ""
        raise ValueError(
            f"{who}: unsupported type: expected Tensor, int, float, bool, str, dtype, device, "
            f"int | float | bool, an optional or a list of some of these, got {hint}{instead}"
        )
    if written and not spelled.startswith("Tensor"):
        raise ValueError(
            f"{who}: only Tensors or collections of Tensors can be mutated: expected one in mutates_args, "
            f"got {spelled}"
        )
    if written or (unknown and spelled.startswith("Tensor")):
        spelled = spelled.replace("Tensor", f"Tensor(a{index}!)", 1)
    text = f"{spelled} {parameter.name}"
    if parameter.default is not parameter.empty:
        text += f"={_default_text(parameter.default, who)}"
    return text


def _default_text(value: Any, who: str) -> str:
    if isinstance(value, flambeau.dtype):
        return str(value).rpartition(".")[2]
    if isinstance(value, str | flambeau.device):
        return f'"{value}"'
    if value is None or isinstance(value, int | float | bool):
        return str(value)
    raise ValueError(
        f"{who}: unsupported default value type {type(value)}: expected a number, string, dtype, device or "
        f"None, got {value!r}"
    )


def _is_tuple(hint: Any) -> bool:
    return hint is tuple or typing.get_origin(hint) is tuple


def _type_of(hint: Any) -> str | None:
    """Return a type of schemas; None for an annotation that is none. Not each one is accepted everywhere."""
    if isinstance(hint, collections.abc.Hashable) and hint in _TYPES:
        return _TYPES[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType) and type(None) in inner:
        rest = [part for part in inner if part is not type(None)]
        suffix, element = "?", _type_of(functools.reduce(operator.or_, rest))
    elif origin in _LISTS and len(inner) == 1:
        suffix, element = "[]", _type_of(inner[0])
    else:
        return None
    return None if element is None else element + suffix


def _results(hints: dict[str, Any], signature: inspect.Signature) -> str:
    if "return" not in hints:
        if signature.return_annotation is None:
            return "()"
        raise ValueError(
            "infer_schema: no return type annotation was provided: expected one for the results, got none"
        )
    hint = hints["return"]
    if hint in (None, type(None)):
        return "()"
    if not _is_tuple(hint):
        return _result(hint)
    if hint in (typing.Tuple[()], tuple[()]):  # noqa: UP006  (the older form is another object)
        return "()"
    return f"({', '.join(map(_result, typing.get_args(hint) or (hint,)))})"


def _result(hint: Any) -> str:
    spelled = _type_of(hint)
    is_list = typing.get_origin(hint) is list
    if spelled is None or not _RESULTS.fullmatch(spelled) or (spelled.endswith("]") and not is_list):
        raise ValueError(
            "infer_schema: the return value has an unsupported type: expected Tensor, int, float, bool, "
            f"int | float | bool, a list of Tensors, or a tuple that names each of its members, got {hint}"
        )
    return spelled
