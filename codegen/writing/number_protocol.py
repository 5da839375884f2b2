"""Functions behind Python's operators on tensors, in C++."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving.signatures import COMMUTATIVE, Infix, call_name
from codegen.language import spelling
from codegen.model import Form
from codegen.writing import python_spelling


@dataclass(frozen=True, slots=True)
class SlotDecl:
    """A function behind the number protocol. id: the slot; "" for comparisons, which share one."""

    symbol: str
    id: str
    name: str
    operands: str
    parameters: str
    lines: tuple[str, ...]


def _form_call(form: Form, measure: str, names: Iterable[str]) -> str:
    call = f"ops::{spelling.struct_name(form.name)}::call_inline({', '.join(names)})"
    return f"return wrap(run({measure}, [&]() -> decltype(auto) {{ return {call}; }}));"


def _operand(name: str, writes: bool = False) -> str:
    return f"mutable_tensor_of({name})" if writes else f"tensor_of({name})"


def _override(infix: Infix, arguments: str) -> str:
    """Leave the call to a mode, or to an operand whose class overrides operators."""
    names = python_spelling.overridden_names(infix.symbol, infix.arity, call_name(infix.both), infix.inplace)
    pair = ", ".join(map(spelling.quoted, names))
    return f"if (is_overridden({arguments})) return call_overridden({{{pair}}}, {arguments});"


def _operand_check(infix: Infix) -> Iterator[str]:
    """Raise TypeError where the operator of one operand is undefined, as Python does for ``~1.0``."""
    if infix.rule == "integral":
        known = "!x.is_floating_point() && !x.is_complex()"
        message = f'"operator {infix.symbol}: expected an integer or bool tensor, got ", x.dtype()'
        yield f"check_type({known}, {message});"


def _binary(infix: Infix) -> Iterator[str]:
    yield _override(infix, "a, b")
    left = "Tensor& x" if infix.inplace else "const Tensor& x"
    yield "if (is_tensor(a)) {"
    yield f"  {left} = {_operand('a', infix.inplace)};"
    yield f"  if (is_tensor(b)) {_form_call(infix.both, 'x', ('x', 'tensor_of(b)'))}"
    yield "  if (is_number(b)) {"
    if infix.right_number is not None:
        yield "    const Scalar y = scalar_from(b);"
        yield f"    {_form_call(infix.right_number, 'x', 'xy')}"
    else:
        yield "    const Tensor y = wrapped_number_tensor(scalar_from(b));"
        yield f"    {_form_call(infix.both, 'x', 'xy')}"
    yield "  }"
    if not infix.inplace:
        yield "} else if (is_number(a)) {"
        yield "  const Tensor& y = tensor_of(b);"
        yield from (f"  {line}" for line in _reflected(infix))
    yield "}"
    yield "return Py_NewRef(Py_NotImplemented);"


def _reflected(infix: Infix) -> Iterator[str]:
    if infix.left_number is not None:
        yield "const Scalar x = scalar_from(a);"
        yield _form_call(infix.left_number, "y", "xy")
    elif infix.right_number is not None and infix.symbol in COMMUTATIVE:
        yield "const Scalar x = scalar_from(a);"
        yield _form_call(infix.right_number, "y", "yx")
    else:
        yield "const Tensor x = wrapped_number_tensor(scalar_from(a));"
        yield _form_call(infix.both, "y", "xy")


def slot_decl(infix: Infix) -> SlotDecl:
    """Write the function behind a Python operator."""
    stem = python_spelling.number_slot(infix.symbol, infix.arity)
    comparison = python_spelling.is_comparison(infix.symbol, infix.arity)
    name = stem.replace("nb_", "nb_inplace_") if infix.inplace else stem
    parameters = {1: "PyObject* a", 2: "PyObject* a, PyObject* b"}[infix.arity]
    if stem == "nb_power":
        parameters += ", PyObject*"
    if infix.arity == 1:
        lines: Iterable[str] = (
            _override(infix, "a"),
            "const Tensor& x = tensor_of(a);",
            *_operand_check(infix),
            _form_call(infix.both, "x", "x"),
        )
    else:
        lines = _binary(infix)
    return SlotDecl(
        symbol=f"slot_{name}",
        id="" if comparison else f"Py_{name}",
        name=spelling.quoted(call_name(infix.both)),
        operands={1: "a, nullptr", 2: "a, b"}[infix.arity],
        parameters=parameters,
        lines=tuple(lines),
    )
