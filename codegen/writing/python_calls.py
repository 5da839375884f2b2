"""Calls of operators from Python in C++: parameter tables, parsed arguments, the call, its wrapped result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving.signatures import Callable, Signature, is_factory, named_results, python_name
from codegen.language import spelling
from codegen.language.overloads import TENSOR
from codegen.model import Argument, Form, FormKind, ListType, Operator, OptionalType, Type
from codegen.model.enumerations import ENUM_INTS, PYTHON_ENUM_DEFAULT
from codegen.writing import python_spelling
from codegen.writing.python_types import show_signature


@dataclass(frozen=True, slots=True)
class SignatureDecl:
    """One signature: its parameter table, its row in the table of signatures, and the call."""

    tables: tuple[str, ...]
    row: str
    call: tuple[str, ...]


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
    call = f"ops::{spelling.struct_name(form.name)}::call_inline({names})"
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


def signature_decl(callable_: Callable, signature: Signature, index: int, symbol: str) -> SignatureDecl:
    """Write one signature of a function or method."""
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
    if is_factory(signature.form):  # without `dtype`, the output determines it
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
