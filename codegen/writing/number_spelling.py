"""Calls of the functional form from a form in which numbers stand for some of the tensors."""

from __future__ import annotations

from codegen.deriving import slots
from codegen.language import spelling
from codegen.model import Form, Operator


def tensor_arguments(op: Operator, form: Form) -> str:
    """Return the functional form's arguments; numbers become tensors without dimensions."""
    names = ((spelling.local(arg.name), arg.name in form.numbers) for arg in op.forms[0].schema.args)
    return ", ".join(f"wrapped_number_tensor({name})" if is_number else name for name, is_number in names)


def operand_keys(op: Operator, form: Form) -> str:
    """Return the dispatch keys of all tensors that are read, and of the layout asked for."""
    layout = slots.layout_argument(form)
    read = [arg for arg in op.forms[0].schema.args if slots.is_tensor_like(arg.type)]
    read += [layout] if layout else []
    return " | ".join(f"keys_of({spelling.local(arg.name)})" for arg in read if arg.name not in form.numbers)
