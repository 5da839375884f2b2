"""The C++ interface for users: methods, over which api/tensor.h puts Tensor, functions, and redispatch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.language import schema as schema_text
from codegen.language import spelling
from codegen.model import Argument, Form, FormKind, Model
from codegen.writing import library_spelling
from codegen.writing.render import File, render

_SELF = "self"
# Arguments that stand together in every factory: callers in C++ give them as one TensorOptions.
_OPTIONS = ("dtype", "layout", "device", "pin_memory")


@dataclass(frozen=True, slots=True)
class CallDecl:
    """One function or method: it forwards to an operator's struct."""

    schema: str
    returns: str
    name: str
    declared: str  # parameters with defaults
    types: tuple[str, ...]  # of the parameters
    call: str  # the operator's call, with what makes the user's types of its result

    @classmethod
    def of(cls, form: Form, kind: str, options: bool = False) -> CallDecl:
        """Spell a form as a kind of function, or as a method of its `self`; with TensorOptions if asked."""
        method = kind == "methods"
        schema = form.schema
        shown = tuple(arg for arg in _user_order(form) if not (method and arg.name == _SELF))
        names = (
            "unchanging(*this)" if method and arg.name == _SELF else _passed(arg, options)
            for arg in schema.args
        )
        name = schema.name.base + ("_" if schema.name.inplace else "")
        function, passed = ("redispatch", ("keys",)) if kind == "redispatch" else ("call", ())
        call = f"ops::{spelling.struct_name(form.name)}::{function}({', '.join((*passed, *names))})"
        chained = method and form.kind is FormKind.INPLACE and len(schema.returns) == 1
        tensor = "Self" if method else "Tensor"
        parameters = spelling.user_parameters(shown, options=_OPTIONS if options else ())
        return cls(
            schema=schema_text.show_schema(schema),
            returns="Self&" if chained else spelling.user_return_type(schema.returns, tensor),
            name=spelling.local(name + ("_out" if form.kind is FormKind.OUT else "")),
            declared=", ".join((*("PassedKeys keys" for _ in passed), *parameters)),
            types=tuple(text.partition(" = ")[0].rpartition(" ")[0] for text in parameters),
            call=_result(call, form, chained, options),
        )


def _result(call: str, form: Form, chained: bool, options: bool) -> str:
    if chained:
        return f"{call}, self()"
    if options:
        return f"as_asked({call}, options)"
    return f"lifted({call})" if form.schema.returns else call


def _passed(arg: Argument, options: bool) -> str:
    name = spelling.local(arg.name)
    return f"options.{name}_opt()" if options and arg.name in _OPTIONS else name


def _user_order(form: Form) -> tuple[Argument, ...]:
    """The arguments as callers give them: what is written by out= comes first."""
    args = form.schema.args
    if form.kind is not FormKind.OUT:
        return args
    written = tuple(arg for arg in args if arg.alias is not None and arg.alias.is_write)
    return written + tuple(arg for arg in args if arg not in written)


def _takes_options(form: Form) -> bool:
    return [arg.name for arg in form.schema.args if arg.name in _OPTIONS] == list(_OPTIONS)


def _spellings(form: Form, kind: str) -> Iterator[CallDecl]:
    if _takes_options(form):
        yield CallDecl.of(form, kind, options=True)
    yield CallDecl.of(form, kind)


def _distinct(forms: Iterable[Form], kind: str) -> Iterator[CallDecl]:
    """Yield calls in order; of overloads that C++ cannot tell apart, the first."""
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for form in forms:
        for decl in _spellings(form, kind):
            key = (decl.name, decl.types)
            if key not in seen:
                seen.add(key)
                yield decl


def emit(model: Model) -> Iterator[File]:
    """Yield the methods, the functions, and those that run the kernel for given keys."""
    public = [form for op, form in slots.forms(model.operators) if not slots.is_internal(op)]
    functions = [f for f in public if f.is_function or f.kind is FormKind.OUT]
    methods = [f for f in public if f.is_method]
    for kind, forms in (("methods", methods), ("functions", functions), ("redispatch", functions)):
        yield render(
            f"api_{kind}.h.j2",
            f"api/{kind}.h",
            headers=library_spelling.operator_headers(model, (form.name for form in forms)),
            calls=tuple(_distinct(forms, kind)),
        )
