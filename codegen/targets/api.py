"""The C++ interface for users: aten/api.h, functions and a Tensor with methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.language import schema as schema_text
from codegen.language import spelling
from codegen.model import Argument, Form, FormKind, Model
from codegen.writing.render import File, render

_SELF = "self"


@dataclass(frozen=True, slots=True)
class CallDecl:
    """One function or method: it forwards to an operator's struct."""

    schema: str
    returns: str
    name: str
    declared: str  # parameters with defaults
    struct: str
    passed: str  # what the operator is called with
    qualifier: str  # " const" where the tensor stays as it is
    chained: bool  # an in-place method: gives the tensor itself

    @classmethod
    def of(cls, form: Form, method: bool) -> CallDecl:
        """Spell a form as a function, or as a method of its `self`."""
        schema = form.schema
        shown = tuple(arg for arg in schema.args if not (method and arg.name == _SELF))
        names = ("*this" if method and arg.name == _SELF else spelling.local(arg.name) for arg in schema.args)
        name = schema.name.base + ("_" if schema.name.inplace else "")
        chained = method and form.kind is FormKind.INPLACE and len(schema.returns) == 1
        return cls(
            schema=schema_text.show_schema(schema),
            returns="Tensor&" if chained else spelling.user_return_type(schema.returns),
            name=spelling.local(name + ("_out" if form.kind is FormKind.OUT else "")),
            declared=spelling.user_parameters(shown),
            struct=spelling.struct_name(form.name),
            passed=", ".join(names),
            qualifier="" if form.kind is FormKind.INPLACE else " const",
            chained=chained,
        )


def _types(args: Iterable[Argument]) -> tuple[str, ...]:
    return tuple(spelling.parameter(arg).rpartition(" ")[0] for arg in args)


def _distinct(forms: Iterable[Form], method: bool) -> Iterator[CallDecl]:
    """Yield calls in order; of overloads that C++ cannot tell apart, the first."""
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for form in forms:
        decl = CallDecl.of(form, method)
        shown = (arg for arg in form.schema.args if not (method and arg.name == _SELF))
        key = (decl.name, _types(shown))
        if key not in seen:
            seen.add(key)
            yield decl


def emit(model: Model) -> Iterator[File]:
    """Yield one header: the only one that includes every family's operators."""
    public = [form for op, form in slots.forms(model.operators) if not slots.is_internal(op)]
    functions = [f for f in public if f.is_function or f.kind is FormKind.OUT]
    yield render(
        "api.h.j2",
        "aten/api.h",
        families=tuple(family for family, _ in slots.families(model)),
        functions=tuple(_distinct(functions, method=False)),
        methods=tuple(_distinct((f for f in public if f.is_method), method=True)),
    )
