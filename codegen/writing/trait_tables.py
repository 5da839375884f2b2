"""Tables of operator traits in C++: arguments, results, and where batching rules place them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.language import spelling
from codegen.language.forms import result_names
from codegen.model import Argument, BatchPlace, BatchRule, Form, ListType, Operator, OptionalType, Return
from codegen.model.enumerations import BatchRole


@dataclass(frozen=True, slots=True)
class TableDecl:
    """A constant array; rows are initialisers of its elements."""

    element: str
    name: str
    rows: tuple[str, ...]


class TablePool:
    """The tables of one file: equal ones are one array, which many entries share."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, tuple[str, ...]], str] = {}

    def span(self, element: str, stem: str, rows: Iterable[str]) -> str:
        """Return the array with these rows, as an initialiser of a span."""
        key = (element, tuple(rows))
        return self._names.setdefault(key, f"{stem}_{len(self._names)}") if key[1] else "{}"

    def tables(self) -> tuple[TableDecl, ...]:
        """Return all arrays; those that refer to others follow them."""
        return tuple(TableDecl(element, name, rows) for (element, rows), name in self._names.items())


def argument_row(arg: Argument) -> str:
    """Initialise an ArgumentTraits."""
    kind = "Other"
    if slots.is_tensor_like(arg.type):
        inner = arg.type.elem if isinstance(arg.type, OptionalType) else arg.type
        kind = "TensorList" if isinstance(inner, ListType) else "Tensor"
    writes = "true" if arg.alias is not None and arg.alias.is_write else "false"
    return f"{spelling.quoted(arg.name)}, ArgumentKind::{kind}, {writes}"


def result_row(result: Return, form: Form) -> str:
    """Initialise a ResultTraits: which argument it shares memory with, and whether it is that argument."""
    names = set(result.alias.before) if result.alias is not None else set()
    for index, arg in enumerate(form.schema.args):
        if arg.alias is not None and names & {*arg.alias.before, *arg.alias.after}:
            return f"{index}, {'true' if arg.alias.is_write else 'false'}"
    return "-1, false"


def place_spans(pool: TablePool, rule: BatchRule, form: Form, op: Operator) -> Iterator[str]:
    """Yield where a rule places the arguments and the results."""
    places = {place.name: place for place in rule.places}
    given = (places.get(arg.name, BatchPlace(arg.name, BatchRole.PLAIN)) for arg in form.schema.args)
    yield pool.span("constexpr BatchPlace", "places", map(_place, given))
    names = result_names(op.schema.returns)
    results = (places.get(result, BatchPlace(result, BatchRole.FRONT)) for result in names)
    yield pool.span("constexpr BatchPlace", "places", map(_place, results))


def _place(place: BatchPlace) -> str:
    at = str(place.at) if place.dims is None else f"k{spelling.enumerator(place.dims.value)}"
    return f"BatchRole::{spelling.enumerator(place.role.value)}, {at}"
