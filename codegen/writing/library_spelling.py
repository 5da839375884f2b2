"""Where the generated C++ of an extension differs from that of flambeau: headers, namespaces, names.

The operators of an extension lie in an inline namespace of their own, so that two extensions may have
operators of one name in one process, and code that calls an operator need not know whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from codegen.deriving.parts import header_of
from codegen.language import schema as schema_text
from codegen.model import Form, Model

_PUBLIC = ("api/generated.h",)
_PUBLIC_LOOPS = "api/generated_loops.h"


def folder(model: Model, family: str) -> str:
    """Return the folder of a family's generated code, as includes call it."""
    return model.library if model.library and family == model.library else "torchgen_out"


def operator_headers(model: Model, names: Iterable[str]) -> tuple[str, ...]:
    """Return the headers that declare the operators of some forms."""
    operators = {op.name: op for op, _ in map(model.form, names)}
    paths = {f"{folder(model, op.family)}/aten/{header_of(model, op)}.h" for op in operators.values()}
    return tuple(sorted(paths))


def scope(model: Model) -> str:
    """Return what follows a namespace of flambeau in the generated code of an extension."""
    return f"::inline {model.library}_library" if model.library else ""


def runtime_headers(model: Model, headers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the headers of the runtime: an extension includes public ones alone."""
    return _PUBLIC if model.library else headers


def loop_header(model: Model) -> str:
    """Return the header of the runtime that loops include."""
    return _PUBLIC_LOOPS if model.library else "aten/cpu/loop_support.h"


def entry_name(model: Model, form: Form) -> str:
    """Return the name of a form in the dispatcher."""
    return f"{model.library}::{form.name}" if is_own(model, form) else form.name


def entry_schema(model: Model, form: Form) -> str:
    """Return the schema of a form, as the dispatcher shows it."""
    text = schema_text.show_schema(form.schema)
    return f"{model.library}::{text}" if is_own(model, form) else text


def is_own(model: Model, form: Form) -> bool:
    """Whether a form is one of an extension's."""
    return bool(model.library) and model.form(form.name)[0].family == model.library
