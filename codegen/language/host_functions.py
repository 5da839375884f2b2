"""Host functions of tensor expressions: the rows of codegen/host_functions.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from codegen.language.overloads import AnyType
from codegen.model import BaseType, ListType, OptionalType, TupleType

TABLE = Path(__file__).parents[1] / "host_functions.yaml"
_SETS = {"number": ("bool", "int", "float"), "real": ("int", "float")}
_HINT = "host functions compute on ints, floats and lists of ints"


@dataclass(frozen=True, slots=True)
class HostForm:
    """Types of arguments, and the type of the result; see the table."""

    takes: tuple[str, ...]
    gives: str

    @classmethod
    def of(cls, text: str) -> HostForm:
        """Read `int, int -> int`."""
        before, arrow, after = text.partition("->")
        if not arrow or not after.strip():
            raise ValueError(f"{TABLE.name}: expected 'types -> type', got '{text}'")
        return cls(tuple(part.strip() for part in before.split(",") if part.strip()), after.strip())

    @property
    def repeats(self) -> bool:
        """Whether the last argument may be given several times."""
        return bool(self.takes) and self.takes[-1].endswith("...")

    def result(self, types: Sequence[AnyType]) -> AnyType | None:
        """Return the type of the result, None if the arguments are of other types."""
        if len(types) != len(self.takes) and not (self.repeats and len(types) > len(self.takes)):
            return None
        variable: AnyType | None = None
        wants = (*self.takes, *[self.takes[-1]] * (len(types) - len(self.takes))) if types else ()
        for want, type_ in zip(wants, types, strict=True):
            core = _unwrapped(want.removesuffix("..."), type_)
            if core is None:
                return None
            variable = core
        if self.gives == "T":
            return variable
        base = BaseType(self.gives.removesuffix("[]"))
        return ListType(base) if self.gives.endswith("[]") else base


def _unwrapped(want: str, type_: AnyType) -> AnyType | None:
    """Return the part of a type that is compared last, None if the type is another one."""
    if want.endswith("[]"):
        inner = type_.elem if isinstance(type_, ListType) else None
        return None if inner is None else _unwrapped(want.removesuffix("[]"), inner)
    if want.endswith("?"):
        inner = type_.elem if isinstance(type_, OptionalType) else None
        return None if inner is None else _unwrapped(want.removesuffix("?"), inner)
    if want == "T":
        return type_
    if isinstance(type_, BaseType | TupleType):
        names = _SETS.get(want, (want,))
        return type_ if isinstance(type_, BaseType) and type_.name in names else None
    return None


@dataclass(frozen=True, slots=True)
class HostFunction:
    """One row of the table."""

    name: str
    forms: tuple[HostForm, ...]
    cpp: str
    of_tensors: bool = False
    in_python: bool = False
    hint: str = _HINT

    @property
    def least(self) -> int:
        """Return the smallest number of arguments."""
        return min(len(form.takes) for form in self.forms)

    @property
    def most(self) -> int | None:
        """Return the largest number of arguments, None if there is no limit."""
        return None if any(form.repeats for form in self.forms) else max(len(f.takes) for f in self.forms)

    def result(self, types: Sequence[AnyType]) -> AnyType | None:
        """Return the type that the first fitting form gives, None if none fits."""
        found = (form.result(types) for form in self.forms)
        return next((type_ for type_ in found if type_ is not None), None)


@cache
def host_functions() -> dict[str, HostFunction]:
    """Return the rows by name."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {row.name: row for row in _rows(yaml.load(TABLE.read_text(encoding="utf-8"), loader))}


def _rows(entries: list[dict[str, Any]]) -> Iterator[HostFunction]:
    for entry in entries:
        yield HostFunction(**{**entry, "forms": tuple(map(HostForm.of, entry["forms"]))})
