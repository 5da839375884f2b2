"""Types of arguments and results in schemas, under PyTorch's names: `TensorType`, `ListType` and others."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from typing import Any, ClassVar

__all__ = [
    "AnyType", "BoolType", "ComplexType", "DeviceObjType", "DictType", "FloatType", "IntType", "ListType",
    "NoneType", "NumberType", "OptionalType", "StreamObjType", "StringType", "SymBoolType", "SymIntType",
    "TensorType", "TupleType", "Type",
]  # fmt: skip


class Type:
    """The type of an argument or a result of a schema; types of one structure are equal.

    Example:
        >>> schema = flambeau.ops.aten.sum.dim_IntList._schema
        >>> [str(argument.type) for argument in schema.arguments]
        ['Tensor', 'Optional[List[int]]', 'bool', 'Optional[int]']
        >>> flambeau.IntType.get().isSubtypeOf(flambeau.NumberType.get())
        True
    """

    _text: ClassVar[builtins.str] = ""  # in schemas
    _annotation: ClassVar[builtins.str] = ""  # in annotations of Python
    _parts: tuple[Type, ...] = ()

    def __init__(self) -> None:
        raise TypeError(f"{self.kind()}: expected a call of get(), got one of the class (No constructor)")

    @classmethod
    def get(cls) -> Any:
        """Return the type."""
        return cls.__new__(cls)

    @property
    def annotation_str(self) -> builtins.str:
        """The type as an annotation of Python, such as ``List[int]``."""
        return self._annotation

    def str(self) -> builtins.str:
        """Return the type as schemas spell it, such as ``int[]``."""
        return self._text

    def kind(self) -> builtins.str:
        """Return the name of the class."""
        return type(self).__name__

    def containedTypes(self) -> list[Type]:
        """Return the types of elements; none for a type without elements."""
        return list(self._parts)

    def isSubtypeOf(self, other: Type) -> bool:
        """Whether every value of this type is a value of the other.

        Args:
            other: the wider type.
        """
        _check(other, f"{self.kind()}.isSubtypeOf")
        if self == other or isinstance(other, AnyType):
            return True
        if isinstance(other, OptionalType):
            inner = self._parts[0] if isinstance(self, OptionalType) else self
            return isinstance(self, NoneType) or inner.isSubtypeOf(other._parts[0])
        return isinstance(other, NumberType) and isinstance(self, IntType | FloatType | ComplexType)

    def __eq__(self, other: object) -> bool:
        known = _check(other, f"{self.kind()}.__eq__")
        return (self.kind(), self.str()) == (known.kind(), known.str())

    def __hash__(self) -> int:
        return hash((self.kind(), self.str()))

    def __repr__(self) -> builtins.str:
        return self.annotation_str


def _check(value: object, who: str) -> Type:
    if not isinstance(value, Type):
        raise TypeError(f"{who}: expected a Type (incompatible arguments), got {type(value).__name__}")
    return value


class TensorType(Type):
    """The type of tensors."""

    _text = _annotation = "Tensor"


class NumberType(Type):
    """The type of numbers in Python: `Scalar` in schemas."""

    _text, _annotation = "Scalar", "number"


class IntType(Type):
    """The type of integers, and of dtypes, layouts and memory formats."""

    _text = _annotation = "int"


class SymIntType(Type):
    """The type of integers that may be symbolic."""

    _text, _annotation = "SymInt", "int"


class BoolType(Type):
    """The type of bools."""

    _text = _annotation = "bool"


class SymBoolType(Type):
    """The type of bools that may be symbolic."""

    _text, _annotation = "SymBool", "bool"


class FloatType(Type):
    """The type of floating-point numbers."""

    _text = _annotation = "float"


class ComplexType(Type):
    """The type of complex numbers."""

    _text = _annotation = "complex"


class StringType(Type):
    """The type of strings."""

    _text = _annotation = "str"


class DeviceObjType(Type):
    """The type of devices."""

    _text = _annotation = "Device"


class StreamObjType(Type):
    """The type of streams."""

    _text = _annotation = "Stream"


class NoneType(Type):
    """The type of None."""

    _text = _annotation = "NoneType"


class AnyType(Type):
    """The type of all values."""

    _text = _annotation = "Any"


class _Named(Type):
    """A type that has no class of its own in PyTorch: `Generator`, and variables such as ``t``."""

    def __init__(self, name: builtins.str) -> None:
        self._name = name

    @property
    def annotation_str(self) -> builtins.str:
        return self._name

    def str(self) -> builtins.str:
        return self._name

    def kind(self) -> builtins.str:
        return "VarType" if len(self._name) == 1 else f"{self._name}Type"


class ListType(Type):
    """The type of lists.

    Args:
        a: the type of the elements.
    """

    def __init__(self, a: Type) -> None:
        self._parts = (_check(a, "ListType"),)

    def getElementType(self) -> Type:
        """Return the type of the elements."""
        return self._parts[0]

    @property
    def annotation_str(self) -> builtins.str:
        return f"List[{self._parts[0]}]"

    def str(self) -> builtins.str:
        return f"{self._parts[0].str()}[]"

    @staticmethod
    def ofInts() -> ListType:
        """Return the type of lists of ints."""
        return ListType(IntType.get())

    @staticmethod
    def ofFloats() -> ListType:
        """Return the type of lists of floats."""
        return ListType(FloatType.get())

    @staticmethod
    def ofBools() -> ListType:
        """Return the type of lists of bools."""
        return ListType(BoolType.get())

    @staticmethod
    def ofComplexDoubles() -> ListType:
        """Return the type of lists of complex numbers."""
        return ListType(ComplexType.get())

    @staticmethod
    def ofStrings() -> ListType:
        """Return the type of lists of strings."""
        return ListType(StringType.get())

    @staticmethod
    def ofTensors() -> ListType:
        """Return the type of lists of tensors."""
        return ListType(TensorType.get())


class OptionalType(Type):
    """The type of values that may be None; an optional of an optional is the same type.

    Args:
        a: the type of other values.
    """

    def __init__(self, a: Type) -> None:
        _check(a, "OptionalType")
        self._parts = a._parts if isinstance(a, OptionalType) else (a,)

    def getElementType(self) -> Type:
        """Return the type of values other than None."""
        return self._parts[0]

    @property
    def annotation_str(self) -> builtins.str:
        return f"Optional[{self._parts[0]}]"

    def str(self) -> builtins.str:
        return f"{self._parts[0].str()}?"

    @staticmethod
    def ofTensor() -> OptionalType:
        """Return the type of tensors that may be None."""
        return OptionalType(TensorType.get())


class TupleType(Type):
    """The type of tuples of a length.

    Args:
        a: the types of the elements.
    """

    def __init__(self, a: Sequence[Type]) -> None:
        if not isinstance(a, list | tuple):
            raise TypeError(f"TupleType: expected a list of Types (incompatible), got {type(a).__name__}")
        self._parts = tuple(_check(part, "TupleType") for part in a)

    def elements(self) -> list[Type]:
        """Return the types of the elements."""
        return list(self._parts)

    @property
    def annotation_str(self) -> builtins.str:
        return f"Tuple[{', '.join(map(repr, self._parts)) or '()'}]"

    def str(self) -> builtins.str:
        return f"({', '.join(part.str() for part in self._parts)})"


_KEYS = ("int", "float", "complex", "Tensor", "Device", "str", "bool")


class DictType(Type):
    """The type of dictionaries.

    Args:
        a: the type of the keys: numbers, bools, strings, devices or tensors.
        b: the type of the values.
    """

    def __init__(self, a: Type, b: Type) -> None:
        if _check(a, "DictType").str() not in _KEYS:
            raise RuntimeError(f"DictType: expected keys of type {', '.join(_KEYS)}, got {a.str()}")
        self._parts = (a, _check(b, "DictType"))

    def getKeyType(self) -> Type:
        """Return the type of the keys."""
        return self._parts[0]

    def getValueType(self) -> Type:
        """Return the type of the values."""
        return self._parts[1]

    @property
    def annotation_str(self) -> builtins.str:
        return f"Dict[{self._parts[0]}, {self._parts[1]}]"

    def str(self) -> builtins.str:
        return f"Dict({self._parts[0].str()}, {self._parts[1].str()})"


_CLASSES: dict[str, type[Type]] = {
    **{kind._text: kind for kind in (
        TensorType, NumberType, IntType, BoolType, FloatType, ComplexType, StringType, DeviceObjType,
        StreamObjType, NoneType, AnyType,
    )},
    # Dtypes, layouts and formats are numbers in PyTorch's lists of arguments, and symbolic sizes are ints.
    **dict.fromkeys(("SymInt", "ScalarType", "Layout", "MemoryFormat", "QScheme"), IntType),
    "Dimname": StringType,
    "SymBool": BoolType,
    "SymFloat": FloatType,
}  # fmt: skip
_NAMED = ("Generator", "Storage", "AnyEnumType")


def type_of(text: str) -> Type | None:
    """Return the type that a schema spells, as PyTorch shows it; None if there is no such type.

    Args:
        text: the type without sets of aliases, such as ``Tensor?[]`` or ``int[2]``.
    """
    if text.endswith("?"):
        inner = type_of(text[:-1])
        return inner and OptionalType(inner)
    if listed := re.fullmatch(r"(.+)\[\d*\]", text):
        inner = type_of(listed[1])
        return inner and ListType(inner)
    if text in _CLASSES:
        return _CLASSES[text].get()
    if composed := re.fullmatch(r"(Dict)?\((.*)\)", text):
        return _composed(composed[1], composed[2])
    is_class = text.startswith("__torch__.")
    return _Named(text) if text in _NAMED or is_class or re.fullmatch(r"[a-z]", text) else None


def _composed(kind: str | None, inside: str) -> Type | None:
    """Return the type of a dictionary or tuple with these types, which commas separate."""
    texts, depth = [""], 0
    for letter in inside:
        depth += (letter == "(") - (letter == ")")
        texts = [*texts, ""] if letter == "," and depth == 0 else [*texts[:-1], texts[-1] + letter]
    parts = [type_of(text.strip()) for text in texts]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if kind is None:
        return TupleType(known)
    if len(known) != 2:
        raise RuntimeError(f"library: expected the types of keys and of values, got 'Dict({inside})'")
    return DictType(*known)
