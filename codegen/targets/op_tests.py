"""Data of the generated operator tests: torchgen_out/tests/<family>.json, read by test/ops/."""

from __future__ import annotations

import json
from collections.abc import Iterator

from codegen.deriving import slots
from codegen.deriving.batching import is_dynamic
from codegen.deriving.expectations import differentiable, has_forward, longest_chain
from codegen.deriving.signatures import call_name, named_results
from codegen.language.overloads import TENSOR
from codegen.language.schema import show_schema, show_type
from codegen.model import (
    Argument,
    Form,
    FormKind,
    Kind,
    ListType,
    Model,
    Operator,
    OptionalType,
    Pointwise,
    Type,
)
from codegen.writing.oracle import pointwise_text
from codegen.writing.render import File

Json = dict[str, object]


def _kind(type_: Type) -> str:
    """How the test engine makes a value: tensor, tensors or plain."""
    core = type_.elem if isinstance(type_, OptionalType) else type_
    if core == TENSOR:
        return "tensor"
    return "tensors" if isinstance(core, ListType) and slots.is_tensor_like(core) else "plain"


def _argument(arg: Argument) -> Json:
    return {
        "name": arg.name,
        "type": show_type(arg.type),
        "kind": _kind(arg.type),
        "default": arg.default,
        "keyword_only": arg.kwarg_only,
        "optional": isinstance(arg.type, OptionalType),
    }


def _samples(op: Operator) -> list[str]:
    """Return the given sample calls, or for pointwise operators the usual shapes."""
    if op.test.samples or not isinstance(op.body, Pointwise):
        return list(op.test.samples)
    count = len(op.body.operands)
    shapes = [["2, 3"] * count, [""] * count, ["0, 2"] * count]
    if count > 1:
        shapes.insert(1, ["3", *["2, 1"] * (count - 1)])
        shapes.insert(2, ["2, 2, 3", *["1, 3"] * (count - 1)])
    return [", ".join(f"t({shape})" for shape in row) for row in shapes]


def _reference(op: Operator, model: Model) -> str | None:
    if op.test.reference is not None:
        return op.test.reference
    return pointwise_text(op.body, model.primitives) if isinstance(op.body, Pointwise) else None


def _first(op: Operator, kind: FormKind, numbers: tuple[str, ...] = ()) -> Form | None:
    return next((f for f in op.forms if f.kind is kind and f.numbers == numbers), None)


def _inplace(form: Form | None, model: Model) -> str | None:
    """Return the name that users call: a method of Tensor, or a function of an extension."""
    is_there = form is not None and (form.is_method or (model.library and form.is_function))
    return call_name(form) if form is not None and is_there else None


def _record(op: Operator, model: Model, parts: dict[str, int]) -> Json:
    wanted, refused = differentiable(op)
    form = op.forms[0]
    inplace = None if slots.is_declared_inplace(op) else _first(op, FormKind.INPLACE)
    out = _first(op, FormKind.OUT)
    record: Json = {
        "name": op.name,
        "schema": show_schema(op.schema),
        "call": call_name(form),
        "namespace": op.namespace,
        "kind": op.kind.value,
        "arguments": [_argument(a) for a in op.schema.args if not a.is_out],
        "returns": [show_type(r.type) for r in op.schema.returns],
        "fields": list(named_results(op)),
        "is_function": form.is_function,
        "is_method": form.is_method,
        "declared_inplace": slots.is_declared_inplace(op),
        "inplace": _inplace(inplace, model),
        "out": [a.name for a in out.schema.args if a.is_out] if out is not None and out.is_function else [],
        "numbers": [list(f.numbers) for f in op.forms if f.numbers and f.kind is FormKind.FUNCTIONAL],
        "dtype_rule": op.dtype.name,
        "dtypes": list(op.dtype.allowed),
        "differentiable": wanted,
        "not_implemented": refused,
        "forward": has_forward(op, model),
        "dynamic": is_dynamic(op),
        "tags": list(op.tags),
        "samples": _samples(op),
        "intervals": {name: list(bounds) for name, bounds in op.test.intervals},
        "reference": _reference(op, model),
        "tolerance": op.test.tolerance,
        "no_gradient": op.test.no_gradient,
        "errors": [list(error) for error in op.test.errors],
    }
    if op.kind is Kind.COMPOSITE:
        record["parts"] = longest_chain(op, model, parts)
    return record


def emit(model: Model) -> Iterator[File]:
    """Yield one table per family; operators that users cannot call are tested through others."""
    parts: dict[str, int] = {}
    for family, operators in slots.families(model):
        records = [
            _record(op, model, parts)
            for op in operators
            if not op.internal and (op.forms[0].is_function or op.forms[0].is_method)
        ]
        if records:
            yield File(f"tests/{family}.json", json.dumps(records, indent=1) + "\n")
