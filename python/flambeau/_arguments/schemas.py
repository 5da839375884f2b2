"""Arguments of operators, checked against and converted by the parameters of a schema."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flambeau import _C


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a schema."""

    name: str
    type: str  # without alias: "Tensor", "int[2]", "Scalar?"
    required: bool
    keyword_only: bool


def parameters_of(schema: str) -> tuple[Parameter, ...]:
    """Read the arguments of a schema.

    >>> [p.name for p in parameters_of("add.Scalar(Tensor self, Scalar other, *, Scalar alpha=1) -> Tensor")]
    ['self', 'other', 'alpha']
    """
    found: list[Parameter] = []
    keyword_only = False
    for part in _parts(schema):
        if part == "*":
            keyword_only = True
            continue
        declared, _, default = part.partition("=")
        type_, _, name = declared.rpartition(" ")
        found.append(Parameter(name, without_aliases(type_), not default, keyword_only))
    return tuple(found)


def _parts(schema: str) -> list[str]:
    return separated(schema[schema.index("(") + 1 : schema.rindex(") ->")])


def separated(text: str) -> list[str]:
    """Return the parts between the commas outside of brackets and quotes.

    >>> separated("Dict(str, Tensor) d, str by=','")
    ['Dict(str, Tensor) d', "str by=','"]
    """
    parts, depth, quote, begin = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([") - (letter in ")]")
            if letter == "," and depth == 0:
                parts.append(text[begin:at])
                begin = at + 1
    return [part.strip() for part in (*parts, text[begin:]) if part.strip()]


def without_aliases(type_: str) -> str:
    """Return a type without the sets of memory that it shares.

    >>> without_aliases("Tensor(a!)[]"), without_aliases("Dict(str, Tensor)")
    ('Tensor[]', 'Dict(str, Tensor)')
    """
    return re.sub(r"(?<=\w)(?<!\bDict)\([^)]*\)", "", type_)


def parts_of_type(type_: str) -> tuple[str, list[str]]:
    """Return "Dict" with the types of its keys and values, "Tuple" with its items', or "" and no types.

    >>> parts_of_type("Dict(str, (Tensor, int))")
    ('Dict', ['str', '(Tensor, int)'])
    """
    for kind, opening in (("Dict", "Dict("), ("Tuple", "(")):
        if type_.startswith(opening) and type_.endswith(")"):
            return kind, separated(type_[len(opening) : -1])
    return "", []


def declarations_of(schema: str) -> dict[str, str]:
    """Return each argument's type as the schema spells it, with its alias set.

    >>> declarations_of("add_(Tensor(a!) self, Scalar other) -> Tensor(a!)")
    {'self': 'Tensor(a!)', 'other': 'Scalar'}
    """
    split = (part.partition("=")[0].rpartition(" ") for part in _parts(schema) if part != "*")
    return {name: type_.strip() for type_, _, name in split}


def bind(
    name: str,
    parameters: tuple[Parameter, ...],
    defaults: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> dict[str, Any]:
    """Return the value of every parameter of a schema; RuntimeError for arguments that it does not take."""
    given = _given(f"{name}()", parameters, args, kwargs, _is_convertible)
    values = {name: list(value) if isinstance(value, list) else value for name, value in defaults.items()}
    values |= given
    return {p.name: converted(p.type, values.get(p.name)) for p in parameters}


def converted(type_: str, value: Any) -> Any:
    """Return the value as a kernel of Python receives it: ints as floats, tuples as lists."""
    if value is None:
        return None
    type_ = type_.removesuffix("?")
    kind, parts = parts_of_type(type_)
    if kind == "Dict" and isinstance(value, dict):
        return {converted(parts[0], key): converted(parts[1], item) for key, item in value.items()}
    if kind == "Tuple" and isinstance(value, list | tuple):
        return tuple(converted(part, item) for part, item in zip(parts, value, strict=True))
    if type_.endswith("]"):
        element, _, size = type_[:-1].rpartition("[")
        if isinstance(value, list | tuple):
            return [converted(element, item) for item in value]
        return [converted(element, value)] * int(size or 1)
    if type_ == "Device" and isinstance(value, str):
        return _C.device(value)
    number = {"float": float, "int": int, "SymInt": int, "bool": bool, "complex": complex}.get(type_)
    return value if number is None or type(value) is number else number(value)


def _fits_parts(type_: str, value: Any, takes: Callable[[str, Any], bool]) -> bool | None:
    """Whether a dict or tuple fits its type, item by item; None for another type."""
    kind, parts = parts_of_type(type_)
    if kind == "Dict":
        return isinstance(value, dict) and all(
            takes(parts[0], key) and takes(parts[1], item) for key, item in value.items()
        )
    if kind == "Tuple":
        is_sequence = isinstance(value, list | tuple) and len(value) == len(parts)
        return is_sequence and all(takes(part, item) for part, item in zip(parts, value, strict=True))
    return None


def _is_convertible(type_: str, value: Any) -> bool:
    """Whether a kernel of Python takes the value, as PyTorch converts numbers."""
    if type_.endswith("?"):
        return value is None or _is_convertible(type_[:-1], value)
    if (fits := _fits_parts(type_, value, _is_convertible)) is not None:
        return fits
    if type_.endswith("]"):
        element, _, size = type_[:-1].rpartition("[")
        if isinstance(value, list | tuple):
            return all(_is_convertible(element, item) for item in value)
        return bool(size) and _is_convertible(element, value)
    is_one = isinstance(value, _C.Tensor) and value.numel() == 1 and not value.requires_grad
    if type_ in ("int", "SymInt"):
        is_integer = is_one and not (value.is_floating_point() or value.is_complex())
        return is_integer or (hasattr(value, "__index__") and _fits_64_bits(value))
    if type_ == "float":
        return is_one or isinstance(value, bool | int | float)
    if type_ == "bool":
        return is_one or isinstance(value, bool | int)
    return isinstance(value, _C.Tensor) if type_ == "Tensor" else _takes(type_, value)


def _fits_64_bits(value: Any) -> bool:
    return not isinstance(value, _C.Tensor) and -(2**63) <= operator.index(value) < 2**63


def _given(
    who: str,
    parameters: tuple[Parameter, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    takes: Callable[[str, Any], bool] | None = None,
) -> dict[str, Any]:
    takes = takes or _takes
    places = [p for p in parameters if not p.keyword_only]
    if len(args) > len(places):
        raise RuntimeError(f"{who}: expected at most {len(places)} arguments, got {len(args)}")
    given = {p.name: value for p, value in zip(places, args, strict=False)}
    known = {p.name for p in parameters}
    for name in kwargs:
        if name not in known:
            raise RuntimeError(
                f"{who}: got an unknown keyword argument '{name}'; expected one of {sorted(known)}"
            )
        if name in given:
            raise RuntimeError(f"{who}: got two values for argument '{name}'; expected one")
    given |= kwargs
    for parameter in parameters:
        if parameter.name not in given:
            if parameter.required:
                raise RuntimeError(
                    f"{who}: missing value for argument '{parameter.name}': expected '{parameter.type}', "
                    "got none"
                )
        elif not takes(parameter.type, given[parameter.name]):
            raise RuntimeError(
                f"{who}: Expected a value of type '{parameter.type}' for argument '{parameter.name}', got "
                f"type '{type(given[parameter.name]).__name__}'"
            )
    return given


def _fits(
    parameters: tuple[Parameter, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    takes: Callable[[str, Any], bool] | None = None,
) -> bool:
    takes = takes or _takes
    places = [p for p in parameters if not p.keyword_only]
    given = {p.name: value for p, value in zip(places, args, strict=False)} | kwargs
    required = {p.name for p in parameters if p.required}
    return (
        len(args) <= len(places)
        and required <= given.keys() <= {p.name for p in parameters}
        and all(p.name not in given or takes(p.type, given[p.name]) for p in parameters)
    )


_NUMBER = (bool, int, float, complex)
_TAKES: dict[str, tuple[type, ...]] = {
    "Tensor": (_C.Tensor, *_NUMBER),  # a number stands for a tensor of no dimension
    "Scalar": _NUMBER,
    "int": (int,),
    "SymInt": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "ScalarType": (_C.dtype,),
    "Layout": (_C.layout,),
    "MemoryFormat": (_C.memory_format,),
    "Generator": (_C.Generator,),
    "Device": (_C.device, str),
    "complex": (int, float, complex),
}


def classes_of(type_: str) -> tuple[type, ...]:
    """Return the classes of the values of a type, or of the items of a list."""
    kind = parts_of_type(type_.removesuffix("?"))[0]
    if kind:
        return (dict,) if kind == "Dict" else (tuple, list)
    base = re.sub(r"\?|\[.*", "", type_)
    return (_C.device,) if base == "Device" else _TAKES.get(base, (object,))


def _takes(type_: str, value: Any) -> bool:
    if type_.endswith("?"):
        return value is None or _takes(type_[:-1], value)
    if (fits := _fits_parts(type_, value, _takes)) is not None:
        return fits
    if type_.endswith("]"):
        element, _, size = type_[:-1].rpartition("[")
        if isinstance(value, list | tuple):
            return all(_takes(element, item) for item in value)
        return bool(size) and _takes(element, value)
    if type_ in ("int", "SymInt", "float") and isinstance(value, bool):
        return False
    if type_.startswith("__torch__."):  # a class of C++
        return isinstance(value, _C._CustomObject) and _C._custom_class_name(value) == type_
    return isinstance(value, _TAKES.get(type_, object))
