"""What Python users can call: all forms of one name in one table, shared by bindings, stubs and docs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from codegen.deriving import slots
from codegen.language.overloads import SCALAR, TENSOR
from codegen.model import Argument, BaseType, Form, FormKind, ListType, Model, Operator, OptionalType


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a name. `out`: the form that writes to out= arguments, if there is one."""

    op: Operator
    form: Form
    out: Form | None
    args: tuple[Argument, ...]  # in Python's order: for methods, self first

    @property
    def out_args(self) -> tuple[Argument, ...]:
        """The out= arguments."""
        return tuple(a for a in self.out.schema.args if a.is_out) if self.out is not None else ()


@dataclass(frozen=True, slots=True)
class Callable:
    """A name with its signatures. namespace: "" is the top level; None for methods."""

    name: str
    family: str
    namespace: str | None
    signatures: tuple[Signature, ...]
    aliases: tuple[Alias, ...] = ()


@dataclass(frozen=True, slots=True)
class Alias:
    """A further name of a callable. namespace: as Callable's."""

    name: str
    namespace: str | None


def call_name(form: Form) -> str:
    """Return the name in Python: with the underscore of in-place forms."""
    return form.schema.name.base + "_" * form.schema.name.inplace


# Where the package puts a namespace of the specification, if not under its own name.
_MODULES = {"nn": "nn.functional"}
_PACKAGE = "flambeau"


def function_path(op: Operator, form: Form, library: str = "") -> str:
    """Return where users find a function; a name that repeats its namespace is there without it."""
    name = call_name(form)
    if library and op.family == library:
        return f"{library}.{name}"
    if not op.namespace:
        return f"{_PACKAGE}._C._functions.{name}" if name.startswith("_") else f"{_PACKAGE}.{name}"
    module = _MODULES.get(op.namespace, op.namespace)
    return f"{_PACKAGE}.{module}.{name.removeprefix(f'{op.namespace}_')}"


def python_paths(op: Operator, form: Form, library: str = "") -> tuple[str, ...]:
    """Return how Python calls a form: as a function, as a method, with out=; `library`: an extension."""
    if form.kind is FormKind.OUT:
        names = ", ".join(f"{arg.name}=" for arg in form.schema.args if arg.is_out)
        names = "out=" if names.count("=") > 1 else names
        return (f"{function_path(op, form, library)}(..., {names})",) if form.is_function else ()
    paths = [function_path(op, form, library)] if form.is_function else []
    return (*paths, *([f"{_PACKAGE}.Tensor.{call_name(form)}"] if form.is_method else []))


def _weight(signature: Signature) -> tuple[int, int]:
    """Tensors are tried before numbers, so that a 0-dim tensor keeps its history and is not an index."""
    required = [a.type for a in signature.args if a.default is None]
    return required.count(SCALAR), -required.count(TENSOR)


def _out_form(op: Operator, form: Form) -> Form | None:
    for candidate in op.forms:
        if candidate.kind is FormKind.OUT and candidate.numbers == form.numbers:
            return candidate
    return None


def _method_args(form: Form) -> tuple[Argument, ...]:
    own = next(a for a in form.schema.args if a.name == "self")
    return (own, *(a for a in form.schema.args if a is not own))


def _collect(model: Model, methods: bool) -> Iterator[Callable]:
    found: dict[tuple[str, str], list[Signature]] = {}
    families: dict[tuple[str, str], str] = {}
    aliases: dict[tuple[str, str], list[Alias]] = {}
    for op, form in slots.forms(slots.own(model)):
        if op.internal or form.kind is FormKind.OUT:
            continue
        if not (form.is_method if methods else form.is_function):
            continue
        key = (call_name(form), "" if methods else op.namespace)
        families.setdefault(key, op.family)
        aliases.setdefault(key, []).extend(_aliases(op, form, methods))
        args = _method_args(form) if methods else form.schema.args
        out = None if methods or form.kind is not FormKind.FUNCTIONAL else _out_form(op, form)
        found.setdefault(key, []).append(Signature(op, form, out, args))
    for key, signatures in found.items():
        name, namespace = key
        ordered = tuple(sorted(signatures, key=_weight))
        ordered += tuple(other for signature in ordered for other in _reordered(signature, methods))
        own = None if methods else namespace
        yield Callable(name, families[key], own, ordered, tuple(dict.fromkeys(aliases[key])))


def _reordered(signature: Signature, methods: bool) -> Iterator[Signature]:
    """Yield the signature with its arguments in the operator's further orders: the others are keywords."""
    for order in signature.op.orders:
        own = tuple(name for name in order if name == "self") if methods else ()
        names = (*own, *(name for name in order if name not in own))
        by_name = {arg.name: arg for arg in signature.args}
        given = tuple(replace(by_name[name], default=None, kwarg_only=False) for name in names)
        rest = tuple(replace(arg, kwarg_only=True) for arg in signature.args if arg.name not in names)
        yield replace(signature, args=(*given, *rest))


def _aliases(op: Operator, form: Form, methods: bool) -> Iterator[Alias]:
    """Names without a namespace are for functions and methods, the others for functions alone."""
    for text in op.aliases:
        namespace, _, name = text.rpartition(".")
        name += "_" * form.schema.name.inplace
        if methods and not namespace:
            yield Alias(name, None)
        elif not methods and not (namespace and form.kind is FormKind.INPLACE):
            yield Alias(name, namespace)


def functions(model: Model) -> tuple[Callable, ...]:
    """Return all functions, in YAML order."""
    return tuple(_collect(model, methods=False))


def methods(model: Model) -> tuple[Callable, ...]:
    """Return all methods of Tensor, in YAML order."""
    return tuple(_collect(model, methods=True))


# --- infix operators -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Infix:
    """A Python operator on tensors: the forms for tensors and numbers on either side."""

    symbol: str
    arity: int
    family: str
    inplace: bool
    both: Form  # Tensor op Tensor, or op Tensor
    rule: str  # how the operator promotes dtypes
    right_number: Form | None
    left_number: Form | None


COMMUTATIVE = ("+", "*", "&", "|", "^", "==", "!=")


def _written_for_number(model: Model, op: Operator, kind: FormKind) -> Form | None:
    """Return the form of an overload of its own for a number on the right."""
    for other in model.operators:
        types = [a.type for a in other.schema.args]
        if other.schema.name.base == op.schema.name.base and types == [TENSOR, BaseType("Scalar")]:
            return next((f for f in other.forms if f.kind is kind and not f.numbers), None)
    return None


def infixes(model: Model) -> Iterator[Infix]:
    """Yield every operator that the `infix` keys give."""
    seen: set[tuple[str, int]] = set()
    for op in model.operators:
        operands = [a.name for a in op.schema.args if a.type == TENSOR and a.default is None]
        arity = sum(a.default is None for a in op.schema.args)
        if op.infix is None or (op.infix, arity) in seen or len(operands) != arity or arity > 2:
            continue
        seen.add((op.infix, arity))
        for kind in (FormKind.FUNCTIONAL, FormKind.INPLACE):
            of_kind = {f.numbers: f for f in op.forms if f.kind is kind}
            if () not in of_kind or (kind is FormKind.INPLACE and arity == 1):
                continue
            right = (
                of_kind.get((operands[1],)) or _written_for_number(model, op, kind) if arity == 2 else None
            )
            left = of_kind.get((operands[0],)) if arity == 2 else None
            yield Infix(
                op.infix, arity, op.family, kind is FormKind.INPLACE, of_kind[()], op.dtype.name, right, left
            )


# --- types ---------------------------------------------------------------------------------------


def python_name(arg: Argument, method: bool) -> str:
    """Return the keyword of an argument: functions call the first tensor `input`, but a list `self`."""
    return "input" if arg.name == "self" and not method and not isinstance(arg.type, ListType) else arg.name


def is_factory(form: Form) -> bool:
    """Whether a call makes a tensor of a dtype and device asked for: Python adds requires_grad."""
    wanted = {"dtype": BaseType("ScalarType"), "device": BaseType("Device")}
    given = {a.name: a.type for a in form.schema.args if a.kwarg_only}
    own = form.kind is FormKind.FUNCTIONAL and not form.schema.name.base.startswith("_")
    return own and all(given.get(name) == OptionalType(type_) for name, type_ in wanted.items())


def named_results(op: Operator) -> tuple[str, ...]:
    """Return the field names of a result that is a named tuple."""
    names = tuple(r.name for r in op.schema.returns if r.name is not None)
    return names if len(names) == len(op.schema.returns) > 1 else ()
