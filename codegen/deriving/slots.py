"""The functions of each dispatcher entry and their names, which several targets use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codegen.deriving import batching
from codegen.model import (
    Argument,
    BaseType,
    Form,
    FormKind,
    Kernels,
    Kind,
    ListType,
    Model,
    Operator,
    OptionalType,
    Type,
)

TENSOR = BaseType("Tensor")
SPARSE_KEY = "PrivateUse3"  # c10::kSparseKey: a backend that no device has
# Backends that run composites and views as they are.
_BACKENDS = ("CPU", "CUDA", "Meta", "PrivateUse1")


def is_tensor_like(type_: Type) -> bool:
    """Tensor, Tensor?, Tensor[] or Tensor?[]."""
    while isinstance(type_, OptionalType | ListType):
        type_ = type_.elem
    return type_ == TENSOR


def layout_argument(form: Form) -> Argument | None:
    """The argument that asks for a layout."""
    wanted = OptionalType(BaseType("Layout"))
    return next((arg for arg in form.schema.args if arg.type == wanted), None)


def may_be_absent(type_: Type) -> bool:
    """Tensor? or Tensor?[]."""
    while isinstance(type_, ListType):
        type_ = type_.elem
    return isinstance(type_, OptionalType)


def families(model: Model) -> Iterator[tuple[str, tuple[Operator, ...]]]:
    """Yield families in alphabetical order, their operators in YAML order; of an extension its own."""
    table: dict[str, list[Operator]] = {}
    for op in own(model):
        table.setdefault(op.family, []).append(op)
    for family in sorted(table):
        yield family, tuple(table[family])


def own(model: Model) -> tuple[Operator, ...]:
    """Return the operators that outputs are made for: all, or those of the extension."""
    return tuple(op for op in model.operators if not model.library or op.family == model.library)


def forms(operators: Iterable[Operator]) -> Iterator[tuple[Operator, Form]]:
    """Yield every dispatcher entry."""
    for op in operators:
        for form in op.forms:
            yield op, form


def is_internal(op: Operator) -> bool:
    """Whether users never see the operator."""
    return op.internal or op.schema.name.base.startswith("_")


def takes_tensors(form: Form) -> bool:
    """Whether any argument can be a tensor."""
    return any(is_tensor_like(arg.type) for arg in form.schema.args)


def is_wrapped(op: Operator, form: Form) -> bool:
    """Whether the entry has an autograd wrapper.

    In-place and out= forms always have one, for the checks that only autograd can make; composites
    that are differentiated through their parts need one for out= alone. Nothing that returns nothing does.
    """
    if not takes_tensors(form):
        return False
    if not form.schema.returns:  # what writes to lists alone has no history, and out= lists refuse one
        return form.kind is FormKind.OUT
    if op.kind is Kind.COMPOSITE and op.derivative is None:
        return form.kind is FormKind.OUT
    if form.kind is not FormKind.FUNCTIONAL:
        return True
    if op.derivative is None:
        return False
    return any(f.body or f.not_implemented for f in op.derivative.formulas)


def backends(op: Operator, form: Form) -> dict[str, str]:
    """Map dispatch keys (and "autograd") to the suffix of the generated function behind them."""
    if op.kind is Kind.COMPOSITE:
        slots = dict.fromkeys(_BACKENDS, "composite")
        # Classes with __torch_dispatch__ meet a factory after a tensor, such as new_zeros, below autograd. Of
        # one that draws random numbers they meet the parts, which graphs know as random.
        is_fresh = batching.is_factory(op) and takes_tensors(form) and "random" not in op.tags
        if not is_wrapped(op, form) and not is_fresh:
            slots["Autograd"] = "composite"
    elif op.kind is Kind.VIEW:
        slots = dict.fromkeys(_BACKENDS, "view")
    elif isinstance(op.body, Kernels):
        slots = {"CPU": "cpu"}
        if op.body.dynamic is None or "Meta" in dict(op.body.by_backend):
            slots["Meta"] = "meta"
        if "any_device" in op.tags:
            slots["PrivateUse1"] = "cpu"
    else:
        slots = {"CPU": "cpu", "Meta": "meta"}
    if is_wrapped(op, form):
        slots["Autograd"] = "autograd"
    if sparse_rule(op, form) is not None:
        slots[SPARSE_KEY] = "sparse"
    return slots


def sparse_rule(op: Operator, form: Form) -> str | None:
    """Return the function behind a form's calls with a sparse tensor: its own, or the functional form's."""
    functions = dict(op.sparse)
    return functions.get(form.kind.value) or functions.get(FormKind.FUNCTIONAL.value)


def stores_sparse(op: Operator, form: Form) -> bool:
    """Whether a form writes what the functional form's function returns."""
    return form.kind is not FormKind.FUNCTIONAL and form.kind.value not in dict(op.sparse)


def functional_form(op: Operator, form: Form) -> Form:
    """The functional form from which an in-place or out= form was derived."""
    for candidate in op.forms:
        if candidate.kind is FormKind.FUNCTIONAL and candidate.numbers == form.numbers:
            return candidate
    return op.forms[0]


def is_declared_inplace(op: Operator) -> bool:
    """Whether the entry itself is written in-place: it has no functional form."""
    return op.forms[0].kind is FormKind.INPLACE
