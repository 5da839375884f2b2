"""How the functions behind dispatcher entries are written: their bodies follow from the operator's kind.

The runtime's drivers do the work; a body passes them the arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codegen.deriving import slots
from codegen.language import spelling
from codegen.language.forms import is_tensor
from codegen.language.inplace_views import changes_geometry, is_view, view_chain
from codegen.model import (
    Argument,
    BatchRule,
    Composite,
    Form,
    FormKind,
    Kernels,
    Kind,
    ListType,
    Model,
    Operator,
    OptionalType,
    Pointwise,
    Reduce,
    Type,
    View,
)
from codegen.writing import number_spelling, tensor_spelling
from codegen.writing.block_spelling import BlockSpelling
from codegen.writing.loop_spelling import loop_name


@dataclass(frozen=True, slots=True)
class FunctionDecl:
    """One generated function."""

    name: str
    attribute: str
    returns: str
    parameters: str
    lines: tuple[str, ...]


def _shown_name(op: Operator) -> str:
    return spelling.quoted(op.schema.name.base)


def _signature(
    form: Form, suffix: str, lines: Iterable[str], *, keeps_elements: bool = False
) -> FunctionDecl:
    """Spell one function behind a form; it begins by taking memory of its own for what it writes (ADR 6)."""
    parameters = "".join(f", [[maybe_unused]] {spelling.parameter(arg)}" for arg in form.schema.args)
    written = (arg for arg in form.schema.args if arg.alias is not None and arg.alias.is_write)
    owning = () if keeps_elements else (f"make_writable({spelling.local(arg.name)});" for arg in written)
    return FunctionDecl(
        name=f"{spelling.struct_name(form.name)}_{suffix}",
        # What they call takes more time than they do, so the compiler makes them small.
        attribute="[[gnu::cold]] " if suffix in ("composite", "meta", "sparse") else "",
        returns=spelling.return_type(form.schema.returns),
        parameters="[[maybe_unused]] DispatchKeySet keys" + parameters,
        lines=(*owning, *lines),
    )


def _outs(form: Form) -> list[str]:
    """The names of the tensors that a form writes: out arguments, or self."""
    return [spelling.local(arg.name) for arg in _written(form)]


def _written(form: Form) -> list[Argument]:
    """The arguments that are the form's results. Others that it writes to are written by its operator."""
    outs = [arg for arg in form.schema.args if arg.is_out]
    return outs or [arg for arg in form.schema.args if arg.alias is not None and arg.alias.is_write]


def _return_outs(form: Form) -> str:
    outs = _outs(form)
    if not form.schema.returns:
        return ""
    if len(form.schema.returns) == 1:
        return f"return {outs[0]};"
    return f"return {spelling.return_type(form.schema.returns)}({', '.join(outs)});"


def _bump(form: Form) -> list[str]:
    return [
        f"for (const Tensor& item : {spelling.local(arg.name)}) item.impl()->bump_version();"
        if isinstance(arg.type, ListType)
        else f"{spelling.local(arg.name)}.impl()->bump_version();"
        for arg in _written(form)
    ]


def _exact_outs(op: Operator, form: Form, results: Iterable[str]) -> Iterator[str]:
    """Refuse out= arguments of dtypes to which the operator's tags say that results are not cast."""
    if form.kind is not FormKind.OUT:
        return
    for out, result in zip(_outs(form), results, strict=True):
        if "exact_out" in op.tags:
            yield f"require_dtype({_shown_name(op)}, {out}, {result});"
        elif "type_error_out" in op.tags:
            yield f"require_castable({_shown_name(op)}, {out}, {result});"


def _inputs(form: Form) -> str:
    """All tensors that a form reads, also those in lists, as an ArrayRef of pointers."""
    outs = _written(form) if form.kind is FormKind.OUT else []
    read = [arg for arg in form.schema.args if slots.is_tensor_like(arg.type) and arg not in outs]
    read = [arg for arg in read if not _holds_lists(arg.type)]
    single = ", ".join(f"&{spelling.local(a.name)}" for a in read if not isinstance(a.type, ListType))
    lists = ", ".join(spelling.local(a.name) for a in read if isinstance(a.type, ListType))
    if lists:
        single = f"tensors_of({{{single}}}, {{{lists}}})"
        return f"ArrayRef<const Tensor*>({single})"
    return f"ArrayRef<const Tensor*>({{{single}}})"


def _holds_lists(type_: Type) -> bool:
    return isinstance(type_, OptionalType | ListType) and isinstance(type_.elem, ListType)


def _apart(op: Operator, form: Form) -> Iterator[str]:
    """Refuse results that share memory: as they are given, and once more when they have their sizes."""
    outs = _outs(form)
    if form.kind is FormKind.OUT and len(outs) > 1:
        pointers = ", ".join(f"&{out}" for out in outs)
        yield f"check_apart({_shown_name(op)}, ArrayRef<const Tensor*>({{{pointers}}}));"


def _sharing(op: Operator, form: Form) -> Iterator[str]:
    """Refuse what shares memory with what is written, where the operator says so."""
    derived = form.kind is FormKind.OUT or (form.kind is FormKind.INPLACE and not isinstance(op.body, View))
    if not derived:
        return
    outs = _outs(form)
    yield from _apart(op, form)
    allowed = next((t for t in ("aligned_out", "apart_out") if t in op.tags), None)
    if allowed is None or not form.schema.returns:
        return
    sharing = (
        "Sharing::Aligned" if form.kind is FormKind.INPLACE or allowed == "aligned_out" else "Sharing::None"
    )
    if slots.is_declared_inplace(op):
        yield f"check_written_once({_shown_name(op)}, {outs[0]});"
    for out in outs:
        yield f"check_sharing({_shown_name(op)}, {out}, {_inputs(form)}, {sharing});"


def _pointwise(op: Operator, form: Form, body: Pointwise, meta: bool) -> Iterator[str]:
    operands = ", ".join(f"Operand({spelling.local(name)})" for name in body.operands)
    params = ", ".join(f"Scalar({spelling.local(name)})" for name in body.params)
    values = f"ArrayRef<Scalar>({{{params}}})" if params else "ArrayRef<Scalar>()"
    operands = f"ArrayRef<Operand>({{{operands}}})"
    descriptor = f"{loop_name(op, '')}_op"
    if body.switch:
        choices = ", ".join(
            f"{{{spelling.quoted(case)}, &{loop_name(op, case)}_op}}" for case, _ in body.cases
        )
        switch = spelling.local(body.switch)
        named = f"{_shown_name(op)}, {spelling.quoted(body.switch)}, {switch}"
        yield f"const PointwiseOp& op = choose_case({named}, {{{choices}}});"
        descriptor = "op"
    yield from _exact_outs(op, form, [f"pointwise_dtypes({descriptor}, {operands}).result"])
    if not meta:
        match form.kind:
            case FormKind.FUNCTIONAL:
                yield f"return pointwise({descriptor}, {operands}, {values});"
            case FormKind.INPLACE:
                yield f"pointwise_inplace({descriptor}, self, {operands}, {values});"
            case FormKind.OUT:
                yield f"pointwise_out({descriptor}, out, {operands}, {values});"
        if form.kind is not FormKind.FUNCTIONAL:
            yield from (*_bump(form), _return_outs(form))
        return
    yield f"const OutSpec spec = pointwise_spec({descriptor}, {operands});"
    yield from _meta_result(op, form)


def _meta_result(op: Operator, form: Form) -> Iterator[str]:
    """What to do with a single `spec` where there is no data."""
    match form.kind:
        case FormKind.FUNCTIONAL:
            yield "return allocate(spec);"
        case FormKind.INPLACE:
            yield f"check_inplace({_shown_name(op)}, self, spec);"
            yield from (*_bump(form), _return_outs(form))
        case FormKind.OUT:
            yield f"OutTarget {_free('target', form)}({_shown_name(op)}, out, spec, {{}});"
            yield from (*_bump(form), _return_outs(form))


def _free(name: str, form: Form) -> str:
    """Return a name for a local variable that no argument has."""
    taken = {spelling.local(arg.name) for arg in form.schema.args}
    while name in taken:
        name += "_"
    return name


def _reduce(model: Model, op: Operator, form: Form, body: Reduce, meta: bool) -> Iterator[str]:
    writer = tensor_spelling.TensorSpelling(model, op.schema.name.base)
    for name, expr in body.let:
        yield f"const Tensor {spelling.local(name)} = {writer.write(expr)};"
    tensors = [*body.operands, *(name for name, _ in body.let)]
    pointers = ", ".join(f"&{spelling.local(name)}" for name in tensors)
    params = ", ".join(f"Scalar({spelling.local(name)})" for name in body.params)
    given = ", ".join(
        (
            f"ArrayRef<const Tensor*>({{{pointers}}})",
            _dims(op, body),
            spelling.local(body.keepdim) if body.keepdim else "false",
            spelling.local(body.dtype) if body.dtype else "std::nullopt",
            f"ArrayRef<Scalar>({{{params}}})" if params else "ArrayRef<Scalar>()",
        )
    )
    descriptor = f"{loop_name(op, '')}_op"
    yield from _exact_outs(op, form, [f"reduce_spec({descriptor}, {given}).dtype"])
    answers = op.dtype.name == "logical" and form.kind is FormKind.OUT
    if answers:  # whichever of the two the result is, as uint8 stood for bool once
        byte = "ScalarType::UInt8"
        yield f"require_dtype({_shown_name(op)}, out, out.dtype() == {byte} ? {byte} : ScalarType::Bool);"
    if meta:
        yield f"OutSpec spec = reduce_spec({descriptor}, {given});"
        yield from ["spec.dtype = out.dtype();"] * answers
        yield from _meta_result(op, form)
    elif form.kind is FormKind.FUNCTIONAL:
        yield f"return reduce({descriptor}, {given});"
    else:
        yield f"reduce_out({descriptor}, out, {given});"
        yield from (*_bump(form), _return_outs(form))


def _dims(op: Operator, body: Reduce) -> str:
    """The dims argument as an optional list."""
    if body.dim is None:
        return "std::nullopt"
    type_ = next(arg.type for arg in op.schema.args if arg.name == body.dim)
    name = spelling.local(body.dim)
    if isinstance(type_, ListType) or (isinstance(type_, OptionalType) and isinstance(type_.elem, ListType)):
        return name if isinstance(type_, OptionalType) else f"std::optional<IntArrayRef>({name})"
    if isinstance(type_, OptionalType):
        return f"({name} ? std::optional<IntArrayRef>(IntArrayRef(*{name})) : std::nullopt)"
    return f"std::optional<IntArrayRef>(IntArrayRef({name}))"


def _kernels(op: Operator, form: Form, body: Kernels, meta: bool) -> Iterator[str]:
    kernel = dict(body.by_backend).get("Meta" if meta else "CPU")
    function = slots.functional_form(op, form).schema
    inputs = [spelling.local(arg.name) for arg in function.args]
    tensors = [arg.type for arg in function.args if slots.is_tensor_like(arg.type)]
    mixes = len(tensors) > 1 or any(isinstance(type_, ListType) for type_ in tensors)
    if slots.is_declared_inplace(op):
        if kernel is not None:
            yield f"ops::{kernel}({', '.join(inputs)});"
        elif mixes:
            yield f"require_meta({_shown_name(op)}, {_outs(form)[0]});"
        yield from (*_bump(form), _return_outs(form))
        return
    if body.dynamic is not None:
        yield from _dynamic(op, form, f"ops::{kernel}({', '.join(inputs)})")
        return
    assert body.shape is not None
    count = len(function.returns)
    rule = ", ".join([*map(spelling.local, body.shape.args), "spec"])
    yield f"OutSpec spec[{count}];"
    yield f"shape::{body.shape.name}({rule});"
    if meta and mixes:
        yield f"require_meta({_shown_name(op)}, ArrayRef<OutSpec>(spec, {count}));"
        # Indices in lists may stay on the CPU, as those of x[i] do.
        single = (arg.name for arg in function.args if is_tensor(arg.type))
        read = ", ".join(f"&{spelling.local(name)}" for name in single)
        yield f"require_meta({_shown_name(op)}, ArrayRef<const Tensor*>({{{read}}}));"
    results = [f"result{i}" for i in range(count)]
    calls = "" if meta else f"ops::{kernel}({{}});"
    if form.kind is not FormKind.FUNCTIONAL:
        yield from _into_outs(op, form, calls)
        return
    for i, result in enumerate(results):
        yield f"Tensor {result} = allocate(spec[{i}]);"
    if calls:
        yield calls.format(", ".join([*inputs, *results]))
    moved = ", ".join(f"std::move({result})" for result in results)
    many = f"return {spelling.return_type(function.returns)}({moved});"
    yield many if count > 1 else f"return {results[0]};"


def _into_outs(op: Operator, form: Form, calls: str) -> Iterator[str]:
    """Fill tensors that exist, through `calls`, a call with a gap for its arguments, or nothing for Meta."""
    function = slots.functional_form(op, form).schema
    inputs = [spelling.local(arg.name) for arg in function.args]
    outs = _outs(form)
    yield from _exact_outs(op, form, (f"spec[{i}].dtype" for i in range(len(outs))))
    sources = _inputs(form) if calls else "{}"  # without data nothing is read
    for i, out in enumerate(outs):
        if form.kind is FormKind.INPLACE:
            yield f"check_inplace({_shown_name(op)}, {out}, spec[{i}]);"
        yield (f"OutTarget target{i}({_shown_name(op)}, {out}, spec[{i}], {sources});")
    yield from _apart(op, form)
    if calls:
        yield calls.format(", ".join([*inputs, *(f"target{i}.target()" for i in range(len(outs)))]))
        yield from (f"target{i}.commit();" for i in range(len(outs)))
    yield from (*_bump(form), _return_outs(form))


def _dynamic(op: Operator, form: Form, call: str) -> Iterator[str]:
    if form.kind is FormKind.FUNCTIONAL:
        yield f"return {call};"
        return
    yield f"auto result = {call};"
    yield from _assign(op, form, "result")


def _assign(op: Operator, form: Form, result: str) -> Iterator[str]:
    """Hand a computed result to out arguments, or to self."""
    outs = _outs(form)
    if form.kind is FormKind.OUT and not form.schema.returns:
        yield from _exact_outs(op, form, [result])
        yield f"assign_outs({_shown_name(op)}, {outs[0]}, {result});"
        return
    if form.kind is FormKind.INPLACE:
        # Only rules of transforms compute a view form in place by other operators.
        function = "become_view" if isinstance(op.body, View) else "assign_inplace"
        yield f"{function}({outs[0]}, {result});"
        yield _return_outs(form)
        return
    sources = [f"std::get<{i}>({result})" if len(outs) > 1 else result for i in range(len(outs))]
    yield from _exact_outs(op, form, (f"{source}.dtype()" for source in sources))
    if len(outs) > 1:
        given, made = (", ".join(f"&{name}" for name in names) for names in (outs, sources))
        yield f"keep_results(ArrayRef<const Tensor*>({{{given}}}), ArrayRef<Tensor*>({{{made}}}));"
    for out, source in zip(outs, sources, strict=True):
        yield f"assign_out({_shown_name(op)}, {out}, {source});"
    yield from (*_apart(op, form), *_bump(form), _return_outs(form))


def _cuts_graph(op: Operator) -> bool:
    """Whether a view has no history: its argument's gradient is `none`."""
    formulas = op.derivative.formulas if op.derivative else ()
    return bool(formulas) and not any(f.body or f.not_implemented for f in formulas)


def _view(op: Operator, form: Form, body: View) -> Iterator[str]:
    args = ", ".join(map(spelling.local, body.rule.args))
    base = next(spelling.local(arg.name) for arg in form.schema.args if arg.alias is not None)
    geometry = f"view::{body.rule.name}({args})"
    if form.kind is FormKind.FUNCTIONAL:
        several = isinstance(op.schema.returns[0].type, ListType)
        maker = "as_views" if several else "detached_view" if _cuts_graph(op) else "as_view"
        yield f"return {maker}({base}, {geometry});"
    elif form.kind is FormKind.INPLACE:
        yield f"set_view({base}, {geometry});"
        yield from (*_bump(form), _return_outs(form))
    else:
        yield f"assign_out({_shown_name(op)}, out, as_view({base}, {geometry}));"
        yield from (*_bump(form), _return_outs(form))


def _read(form: Form, arg: Argument) -> str:
    """An argument of the functional form that computes what another form writes."""
    name = spelling.local(arg.name)
    written = form.kind is FormKind.INPLACE and name in _outs(form)
    return f"unwritten({name}, keys)" if written else name


def _composite(model: Model, op: Operator, form: Form, body: Composite) -> Iterator[str]:
    function = slots.functional_form(op, form)
    if changes_geometry(op, form):
        yield from _view_in_place(model, op, body)
        return
    if form is not function:
        args = ", ".join(_read(form, arg) for arg in function.schema.args)
        computed = "computed" if "result" in _outs(form) else "result"  # an output may be called so
        yield f"auto {computed} = ops::{spelling.struct_name(function.name)}::call({args});"
        yield from _assign(op, form, computed)
        return
    writer = tensor_spelling.TensorSpelling(model, op.schema.name.base)
    written = [arg.name for arg in form.schema.args if arg.alias is not None and arg.alias.is_write]
    in_place = len(written) == 1 and len(form.schema.returns) == 1  # what is written is returned
    yield from BlockSpelling(writer, written[0] if in_place else None).lines(body.statements)


def _view_in_place(model: Model, op: Operator, body: Composite) -> Iterator[str]:
    """Call the in-place form of each view that the composite is made of."""
    chain = view_chain(body.expr, model.find)
    assert chain is not None, f"{op.name}: reported by check_inplace_view"
    writer = tensor_spelling.TensorSpelling(model, op.schema.name.base)
    for name, call in chain:
        given = ", ".join(["self", *map(writer.write, call.args[1:])])
        yield f"ops::{spelling.struct_name(name)}::call({given});"
    yield "return self;"


def batched_parts(model: Model, op: Operator, form: Form, rule: BatchRule, index: int) -> FunctionDecl:
    """Spell the function of a batching rule that says how to compute."""
    lines = _composite(model, op, form, Composite(None, op.position, rule.body))
    return _signature(form, f"batched{index}", lines)


def _sparse(op: Operator, form: Form) -> Iterator[str]:
    """Call the function for sparse tensors, and store what it returns in the form's own results."""
    call = f"ops::{slots.sparse_rule(op, form)}({number_spelling.tensor_arguments(op, form)})"
    if form.kind is FormKind.FUNCTIONAL:
        yield f"return {call};"
        return
    if form.kind is FormKind.OUT:
        yield f"require_sparse({_shown_name(op)}, {number_spelling.operand_keys(op, form)});"
    if slots.stores_sparse(op, form):
        call = f"store_result({_shown_name(op)}, {_outs(form)[0]}, {call})"
    yield f"{call};"
    yield from (*_bump(form), _return_outs(form))


def _as_tensors(op: Operator, form: Form) -> Iterator[str]:
    """A number overload of anything but a pointwise operator calls the tensor overload."""
    function = op.forms[0]
    if form.kind is not function.kind:
        numbers = slots.functional_form(op, form)
        args = ", ".join(_read(form, arg) for arg in numbers.schema.args)
        yield f"auto result = ops::{spelling.struct_name(numbers.name)}::call({args});"
        yield from _assign(op, form, "result")
        return
    args = number_spelling.tensor_arguments(op, form)
    yield f"return ops::{spelling.struct_name(function.name)}::call({args});"


def _lines(model: Model, op: Operator, form: Form, suffix: str) -> Iterator[str]:
    meta = suffix == "meta"
    if suffix == "sparse":
        return _sparse(op, form)
    if form.numbers and op.kind is not Kind.POINTWISE:
        return _as_tensors(op, form)
    match op.body:
        case Pointwise() as body:
            return _pointwise(op, form, body, meta)
        case Reduce() as body:
            return _reduce(model, op, form, body, meta)
        case Kernels() as body:
            return _kernels(op, form, body, meta)
        case View() as body:
            return _view(op, form, body)
        case Composite() as body:
            return _composite(model, op, form, body)


def body_of(model: Model, op: Operator, form: Form, suffix: str) -> FunctionDecl:
    """Spell the function with this suffix (slots.backends) behind a dispatcher entry."""
    sharing = () if suffix in ("meta", "sparse") else _sharing(op, form)
    lines = (*_checks(model, op, form), *sharing, *_lines(model, op, form, suffix))
    keeps_elements = form.kind is FormKind.INPLACE and is_view(op.schema)
    return _signature(form, suffix, lines, keeps_elements=keeps_elements)


def _checks(model: Model, op: Operator, form: Form) -> Iterator[str]:
    """What must hold; forms that call the functional one, or another overload, leave it to that.

    A number form of a pointwise operator computes by itself: its Scalars have a dtype as Tensors do.
    """
    calls_another = form.numbers and op.kind is not Kind.POINTWISE
    if calls_another:
        return
    writer = tensor_spelling.TensorSpelling(model, op.schema.name.base)
    if form.kind is FormKind.OUT:
        yield from map(writer.check, op.out_checks)
    if op.kind is not Kind.COMPOSITE or form is op.forms[0]:
        yield from map(writer.check, op.checks)
