"""What can be said about any operator from its entry: for `help()` and the reference pages.

Facts come from the model alone: how shapes follow is known of bodies whose shape rule is the generator's own,
and of reductions, which all call their arguments alike; the text of the entry says the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codegen.deriving.signatures import Callable, is_factory, python_name
from codegen.language.show import show
from codegen.model import Expr, Host, Kernels, Kind, Operator, Pointwise, View
from codegen.writing.python_types import shown_default, shown_type

_CATEGORIES = {
    "bool": "bool",
    "integral": "signed and unsigned integers of 8, 16, 32 and 64 bits",
    "floating": "float16, bfloat16, float32, float64",
    "complex": "complex32, complex64, complex128",
}
_RULES = {
    "promote": "the promoted dtype of the operands",
    "floating": "the promoted dtype; integers give the default floating dtype",
    "compare": "bool",
    "logical": "bool",
    "real": "the promoted dtype; complex gives its real dtype",
    "number": "the promoted dtype; int64 for bool",
    "integral": "the promoted dtype; no floating dtypes",
    "keep": "the dtype of the first operand",
}


def dtypes(op: Operator) -> Iterator[str]:
    """Yield what dtypes are taken and given, where a rule of the generator decides."""
    if op.kind in (Kind.POINTWISE, Kind.REDUCE):
        yield f"Result dtype: {_RULES[op.dtype.name]}."
        yield f"Accepts: {'; '.join(_CATEGORIES[c] for c in op.dtype.allowed)}."


def shapes(op: Operator) -> Iterator[str]:
    """Yield how the result's shape follows."""
    names = {arg.name for arg in op.schema.args}
    body = op.body
    if isinstance(body, Pointwise):
        if len(body.operands) > 1:
            yield f"{', '.join(body.operands)} broadcast; the result has the shape that they have in common."
        else:
            yield f"The result has the shape of {', '.join(body.operands)}."
    elif isinstance(body, View):
        yield "The result is a view: it shares the memory of self."
    elif {"dim", "keepdim"} <= names:
        yield "The result has self's shape without dim; with keepdim, size 1 there."
    elif isinstance(body, Kernels) and body.shape is not None and body.shape.name == "like":
        yield f"The result has the shape of {body.shape.args[0]}."


def errors(op: Operator) -> Iterator[str]:
    """Yield the exceptions that bad arguments raise before anything is computed."""
    if op.kind in (Kind.POINTWISE, Kind.REDUCE):
        yield "NotImplementedError for tensors of other dtypes."
    if isinstance(op.body, Pointwise) and len(op.body.operands) > 1:
        yield "RuntimeError if the shapes do not broadcast."
    if "dim" in {arg.name for arg in op.schema.args}:
        yield "IndexError if a dimension does not exist."
    for check in op.checks:
        yield f"{check.error} unless {_bare(check.condition)}."


def _bare(condition: Expr) -> str:
    """The text of a condition, without the parentheses around all of it."""
    text = show(condition)
    return text[1:-1] if isinstance(condition, Host) and text.startswith("(") else text


def source(op: Operator) -> str:
    """Return where the operator and its gradient are said."""
    gradient = "through the operators that it is made of" if op.kind is Kind.COMPOSITE else "none"
    if op.derivative is not None:
        origins = {f.origin for f in op.derivative.formulas if f.expr is not None}
        named = {"given": "derivatives.yaml", "derived": "derived from the expression"}
        gradient = " and ".join(named[origin] for origin in sorted(origins)) or "none"
    return f"native_functions.yaml, {op.name}; gradient: {gradient}."


def arguments(callable_: Callable) -> Iterator[str]:
    """Yield a line for each argument of any signature, with its types and default."""
    method = callable_.namespace is None
    types: dict[str, list[str]] = {}
    notes: dict[str, str] = {}
    for signature in callable_.signatures:
        for arg in signature.args[1:] if method else signature.args:
            name = python_name(arg, method)
            types.setdefault(name, []).append(shown_type(arg.type))
            if arg.default is not None:
                notes.setdefault(name, f": {shown_default(arg)} unless given")
            elif name != arg.name:
                notes.setdefault(name, f": `{arg.name}` in this text")
        if signature.out is not None:
            several = len(signature.out_args) > 1
            types.setdefault("out", []).append("tuple of Tensors" if several else "Tensor")
            notes["out"] = ": written to, in place of a new tensor"
        if is_factory(signature.form):
            types.setdefault("requires_grad", []).append("bool")
            notes["requires_grad"] = ": whether gradients are recorded; False unless given"
    for name, found in types.items():
        yield f"{name} ({' or '.join(dict.fromkeys(found))}){notes.get(name, '')}"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(dict.fromkeys(lines))
    if found:
        yield ""
        yield f"{title}:"
        yield from (f"    {line}" for line in found)


def help_text(callable_: Callable, signatures: Iterable[str]) -> str:
    """Return what `help()` shows: signatures, the entries' texts, arguments, shapes, errors, sources."""
    ops = list({s.op.name: s.op for s in callable_.signatures}.values())
    lines = [*signatures]
    for text in dict.fromkeys(op.doc.strip() for op in ops):
        lines += ["", text]
    lines += _section("Arguments", arguments(callable_))
    lines += _section("Shapes", (line for op in ops for line in shapes(op)))
    lines += _section("Dtypes", (line for op in ops for line in dtypes(op)))
    lines += _section("Errors", (line for op in ops for line in errors(op)))
    lines += _section("Source", map(source, ops))
    return "\n".join(lines)
