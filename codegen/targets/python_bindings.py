"""Python bindings: torchgen_out/python/<family>.cpp and tables.cpp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving.signatures import (
    COMMUTATIVE,
    Callable,
    Infix,
    Signature,
    call_name,
    functions,
    infixes,
    is_factory,
    methods,
    named_results,
    python_name,
)
from codegen.language import spelling
from codegen.language.overloads import TENSOR
from codegen.language.schema import ENUM_INTS, PYTHON_ENUM_DEFAULT
from codegen.model import (
    Argument,
    Form,
    FormKind,
    ListType,
    Model,
    Operator,
    OptionalType,
    Type,
)
from codegen.writing import python_spelling
from codegen.writing.describe import help_text
from codegen.writing.python_types import show_signature
from codegen.writing.render import File, render


@dataclass(frozen=True, slots=True)
class SignatureDecl:
    """One signature: its parameter table, its row in the table of signatures, and the call."""

    tables: tuple[str, ...]
    row: str
    call: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EntryDecl:
    """A name under which a function is called: its own or an alias, which overrides tell apart."""

    symbol: str
    name: str
    module: str  # the submodule of _C; "" for methods


@dataclass(frozen=True, slots=True)
class CallableDecl:
    """One function or method."""

    symbol: str
    entries: tuple[EntryDecl, ...]
    doc: str
    self: str
    count: int
    tables: tuple[str, ...]
    rows: tuple[str, ...]
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlotDecl:
    """A function behind the number protocol. id: the slot; "" for comparisons, which share one."""

    symbol: str
    id: str
    name: str
    operands: str
    parameters: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A row of a method table."""

    name: str
    symbol: str
    doc: str


@dataclass(frozen=True, slots=True)
class NamespaceDecl:
    """A submodule of _C."""

    row: str
    table: str
    functions: tuple[TableEntry, ...]


# --- parameters ----------------------------------------------------------------------------------


def _core(type_: Type) -> Type:
    return type_.elem if isinstance(type_, OptionalType) else type_


def _param(arg: Argument, method: bool, numbers: bool) -> str:
    """One row of a parameter table. numbers: a Python number may stand for a tensor."""
    core = _core(arg.type)
    size = (core.size or 0) if isinstance(core, ListType) else 0
    items = isinstance(core, ListType) and isinstance(core.elem, OptionalType)
    takes_none = isinstance(arg.type, OptionalType) or (isinstance(core, ListType) and arg.default == "[]")
    flags = (takes_none, arg.default is not None, arg.kwarg_only)
    cells = [
        spelling.quoted(python_name(arg, method)),
        f"ParamKind::{python_spelling.param_kind(arg.type)}",
        *(spelling.number(flag) for flag in flags),
        str(size),
        spelling.number(items),
    ]
    if numbers and not method and core == TENSOR:
        cells.append(spelling.number(True))
    return f"{{{', '.join(cells)}}}"


def _out_param(signature: Signature) -> str:
    """out=: a tensor for one result, a tuple for several."""
    kind = "Tensor" if [arg.type for arg in signature.out_args] == [TENSOR] else "TensorList"
    return f'{{"out", ParamKind::{kind}, true, true, true, 0, false}}'


def _accessor(arg: Argument, index: int) -> str:
    """The C++ expression that reads one parsed argument."""
    type_, given = arg.type, f"p.object({index})"
    writes = arg.alias is not None and arg.alias.is_write
    if type_ == TENSOR and writes:
        return f"p.mutable_tensor({index})"
    name = python_spelling.accessor(type_)
    default = PYTHON_ENUM_DEFAULT if arg.default in ENUM_INTS else spelling.default_value(arg)
    if arg.default in (None, "None") or default is None:
        return f"p.{name}({index})"
    if isinstance(type_, OptionalType) or name not in python_spelling.ACCESSORS_WITH_DEFAULT:
        inner = (
            f"{spelling.owned(type_)}({default})"
            if not default.startswith("{")
            else f"{spelling.owned(type_)}{default}"
        )
        return f"({given} ? p.{name}({index}) : {inner})"
    if default.startswith("{"):
        default = f"{spelling.owned(type_)}{default}"
    return f"p.{name}_or({index}, {default})"


# --- calls ---------------------------------------------------------------------------------------


def _measure(args: Iterable[Argument]) -> str:
    """The tensor whose size decides whether the GIL is released."""
    for arg in args:
        if arg.type == TENSOR:
            return f"a_{arg.name}"
    return "Tensor()"


def _call(form: Form, args: Iterable[Argument]) -> str:
    names = ", ".join(f"a_{arg.name}" for arg in form.schema.args)
    call = f"ops::{spelling.struct_name(form.name)}::call({names})"
    return f"run({_measure(args)}, [&]() -> decltype(auto) {{ return {call}; }})"


def _wrapped(op: Operator, form: Form, call: str) -> Iterator[str]:
    fields = named_results(op)
    if not form.schema.returns:
        yield f"{call};"
        yield "return Py_NewRef(p.object(0));" if form.kind is FormKind.INPLACE else "return wrap_none();"
    elif is_factory(form):
        yield f"return wrap(with_requires_grad({call}, requires_grad));"
    elif fields and len(form.schema.returns) > 1:
        texts = ", ".join(spelling.quoted(name) for name in fields)
        name = spelling.quoted(op.schema.name.base)
        yield f"static const char* const fields[] = {{{texts}}};"
        yield f"static PyTypeObject* const named = make_return_type({name}, fields, {len(fields)});"
        yield f"return wrap({call}, named);"
    else:
        yield f"return wrap({call});"


def _locals(signature: Signature) -> Iterator[str]:
    """Read all arguments while the GIL is held."""
    for i, arg in enumerate(signature.args):
        reference = _core(arg.type) == TENSOR
        writes = arg.alias is not None and arg.alias.is_write
        type_ = ("Tensor&" if writes else "const Tensor&") if reference else "const auto"
        yield f"{type_} a_{arg.name} = {_accessor(arg, i)};"


def _signature(callable_: Callable, signature: Signature, index: int, symbol: str) -> SignatureDecl:
    method = callable_.namespace is None
    params = [_param(arg, method, "numbers" in signature.op.tags) for arg in signature.args]
    table = f"{symbol}_params{index}"
    lines = list(_locals(signature))
    position = len(params)
    if signature.out is not None:
        params.append(_out_param(signature))
    if is_factory(signature.form):
        lines.append(f"const bool requires_grad = p.boolean_or({len(params)}, false);")
        params.append('{"requires_grad", ParamKind::Bool, false, true, true, 0, false}')
    if signature.out is not None:
        lines += _out_lines(signature, position)
    lines += _wrapped(signature.op, signature.form, _call(signature.form, signature.args))
    text = spelling.quoted(show_signature(callable_, signature))
    return SignatureDecl(
        tables=(f"static const Param {table}[] = {{", *(f"    {row}," for row in params), "};")
        if params
        else (),
        row=f"{{{text}, {table if params else 'nullptr'}, {len(params)}}}",
        call=(f"case {index}: {{", *(f"  {line}" for line in lines), "}"),
    )


def _out_lines(signature: Signature, position: int) -> Iterator[str]:
    assert signature.out is not None
    outs = signature.out_args
    yield f"if (p.has({position})) {{"
    if isinstance(outs[0].type, ListType):
        yield f"  const std::vector<Tensor> a_{outs[0].name} = p.tensor_list({position});"
    elif len(outs) == 1:
        yield f"  Tensor& a_{outs[0].name} = p.mutable_tensor({position});"
    else:
        yield f"  std::vector<Tensor> outs = p.tensor_list({position});"
        op = spelling.quoted(
            f"{signature.op.schema.name.base}(): expected {len(outs)} tensors in a tuple as out=, got "
        )
        yield f"  check_type(outs.size() == {len(outs)}, {op}, int64_t(outs.size()));"
        for i, arg in enumerate(outs):
            yield f"  Tensor& a_{arg.name} = outs[{i}];"
    call = _call(signature.out, signature.args)
    if is_factory(signature.form):  # without a dtype asked for, what is written to has the say
        place = next(i for i, arg in enumerate(signature.args) if arg.name == "dtype")
        out = f"a_{outs[0].name}"
        told = f'"{signature.op.schema.name.base}(): expected the dtype of out=, "'
        yield f"  const ScalarType dtype = p.has({place}) ? *a_dtype : {out}.dtype();"
        yield f'  check(dtype == {out}.dtype(), {told}, {out}.dtype(), ", got ", dtype);'
        call = call.replace("a_dtype", "dtype")
    if is_factory(signature.form):
        yield f"  return wrap(with_requires_grad({call}, requires_grad));"
    else:
        yield from (f"  {line}" for line in _wrapped(signature.op, signature.out, call))
    yield "}"


def _symbol(callable_: Callable) -> str:
    return _symbol_of(callable_.namespace, callable_.name)


def _symbol_of(namespace: str | None, name: str) -> str:
    return f"method_{name}" if namespace is None else f"function_{namespace or 'top'}_{name}"


def _entry(namespace: str | None, name: str) -> EntryDecl:
    module = "" if namespace is None else f"_{namespace or 'functions'}"
    return EntryDecl(_symbol_of(namespace, name), name, module)


def _entries(callable_: Callable) -> tuple[EntryDecl, ...]:
    aliases = (_entry(alias.namespace, alias.name) for alias in callable_.aliases)
    return (_entry(callable_.namespace, callable_.name), *aliases)


def _callable(callable_: Callable) -> CallableDecl:
    symbol = _symbol(callable_)
    doc = help_text(callable_, (show_signature(callable_, s) for s in callable_.signatures))
    signatures = [_signature(callable_, s, i, symbol) for i, s in enumerate(callable_.signatures)]
    return CallableDecl(
        symbol=symbol,
        entries=_entries(callable_),
        doc=spelling.quoted(doc),
        self="self" if callable_.namespace is None else "nullptr",
        count=len(callable_.signatures),
        tables=tuple(line for s in signatures for line in s.tables),
        rows=tuple(s.row for s in signatures),
        calls=tuple(line for s in signatures for line in s.call),
    )


# --- the number protocol -------------------------------------------------------------------------


def _form_call(form: Form, measure: str, names: Iterable[str]) -> str:
    call = f"ops::{spelling.struct_name(form.name)}::call({', '.join(names)})"
    return f"return wrap(run({measure}, [&]() -> decltype(auto) {{ return {call}; }}));"


def _operand(name: str, writes: bool = False) -> str:
    return f"mutable_tensor_of({name})" if writes else f"tensor_of({name})"


def _override(infix: Infix, arguments: str) -> str:
    """Leave the call to a mode, or to an operand whose class overrides operators."""
    names = python_spelling.overridden_names(infix.symbol, infix.arity, call_name(infix.both), infix.inplace)
    pair = ", ".join(map(spelling.quoted, names))
    return f"if (is_overridden({arguments})) return call_overridden({{{pair}}}, {arguments});"


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


def _slot(infix: Infix) -> SlotDecl:
    stem, comparison = python_spelling.number_slot(infix.symbol, infix.arity)
    name = stem.replace("nb_", "nb_inplace_") if infix.inplace else stem
    parameters = {1: "PyObject* a", 2: "PyObject* a, PyObject* b"}[infix.arity]
    if stem == "nb_power":
        parameters += ", PyObject*"
    if infix.arity == 1:
        lines: Iterable[str] = (
            _override(infix, "a"),
            "const Tensor& x = tensor_of(a);",
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


# --- files ---------------------------------------------------------------------------------------


def _used_families(callables: Iterable[Callable], symbols: Iterable[Infix], model: Model) -> tuple[str, ...]:
    found = {s.op.family for c in callables for s in c.signatures}
    for infix in symbols:
        found |= {model.form(infix.both.name)[0].family}
    return tuple(sorted(found))


def emit(model: Model) -> Iterator[File]:
    """Yield one file per family, and the tables."""
    found = (*functions(model), *methods(model))
    operators = [
        i for i in infixes(model) if not (i.inplace and python_spelling.number_slot(i.symbol, i.arity)[1])
    ]
    for family in sorted({c.family for c in found} | {i.family for i in operators}):
        own = [c for c in found if c.family == family]
        own_infix = [i for i in operators if i.family == family]
        yield render(
            "python.cpp.j2",
            f"python/{family}.cpp",
            families=_used_families(own, own_infix, model),
            callables=tuple(map(_callable, own)),
            slots=tuple(map(_slot, own_infix)),
        )
    yield _tables(found, [_slot(i) for i in operators])


def _tables(found: Iterable[Callable], number_slots: list[SlotDecl]) -> File:
    named = [
        (namespace, TableEntry(name, _symbol_of(namespace, name), _symbol(c)))
        for c in found
        for namespace, name in ((c.namespace, c.name), *((a.namespace, a.name) for a in c.aliases))
    ]
    names = sorted({namespace for namespace, _ in named if namespace is not None} | {""})
    known = {slot.symbol for slot in number_slots}
    wanted = [f"slot_{stem}" for stem in python_spelling.COMPARISON_ORDER]
    return render(
        "python_tables.cpp.j2",
        "python/tables.cpp",
        callables=tuple(entry for _, entry in named),
        documented=tuple(map(_symbol, found)),
        methods=tuple(entry for namespace, entry in named if namespace is None),
        namespaces=tuple(
            NamespaceDecl(
                f'{{"{name}", {name or "top"}_functions}}',
                f"{name or 'top'}_functions",
                tuple(e for namespace, e in named if namespace == name),
            )
            for name in names
        ),
        slots=tuple(number_slots),
        rows=tuple(
            f"{{{slot.id}, reinterpret_cast<void*>({slot.symbol})}}" for slot in number_slots if slot.id
        ),
        comparisons=", ".join(name if name in known else "nullptr" for name in wanted),
    )
