"""Tables of operator traits in C++: arguments, results, and where batching rules place them."""

from __future__ import annotations

from collections.abc import Iterator
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


def place_tables(name: str, rule: BatchRule, form: Form, op: Operator) -> Iterator[TableDecl]:
    """Yield where a rule places the arguments and the results."""
    places = {place.name: place for place in rule.places}
    given = (places.get(arg.name, BatchPlace(arg.name, BatchRole.PLAIN)) for arg in form.schema.args)
    yield TableDecl("constexpr BatchPlace", name, tuple(map(_place, given)))
    names = result_names(op.schema.returns)
    results = (places.get(result, BatchPlace(result, BatchRole.FRONT)) for result in names)
    yield TableDecl("constexpr BatchPlace", f"{name}_of_results", tuple(map(_place, results)))


def _place(place: BatchPlace) -> str:
    at = str(place.at) if place.dims is None else f"k{spelling.enumerator(place.dims.value)}"
    return f"BatchRole::{spelling.enumerator(place.role.value)}, {at}"
