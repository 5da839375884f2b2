"""The documentation of a name: for `help()`, stubs, reference pages and `explain`, which all say the same.

What follows from the model is derived here; the rest is the `doc:` of the entry.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

from codegen.deriving.signatures import Callable, Signature, is_factory, named_results, python_name
from codegen.language.show import show
from codegen.model import Expr, FormKind, Host, Kernels, Kind, Model, Operator, Pointwise, View
from codegen.writing import formula
from codegen.writing.python_types import show_signature, shown_default, shown_type

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
_SELF = re.compile(r"\bself\b(?!-)")
_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Section:
    """A titled list of sentences; `verbatim`: lines of code."""

    title: str
    lines: tuple[str, ...]
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class Documentation:
    """The documentation of a name, in sections."""

    signatures: tuple[str, ...]
    summary: str
    sections: tuple[Section, ...]


# --- what follows from an entry --------------------------------------------------------------------


def dtypes(op: Operator) -> Iterator[str]:
    """Yield what dtypes are taken and given, where a rule of the generator decides."""
    if op.kind in (Kind.POINTWISE, Kind.REDUCE):
        yield f"Result: {_RULES[op.dtype.name]}."
        yield f"Accepts: {'; '.join(_CATEGORIES[c] for c in op.dtype.allowed)}."
    if op.doc.dtypes:
        yield op.doc.dtypes


def shapes(op: Operator) -> Iterator[str]:
    """Yield how the result's shape follows."""
    if op.doc.shapes:
        yield op.doc.shapes
        return
    names = {arg.name for arg in op.schema.args}
    body = op.body
    if isinstance(body, Pointwise):
        if len(body.operands) > 1:
            yield f"{', '.join(body.operands)} broadcast; the result has the broadcast shape."
        else:
            yield f"The result has the shape of {', '.join(body.operands)}."
    elif isinstance(body, View):
        yield "The result is a view: it shares the memory of self."
    elif {"dim", "keepdim"} <= names:
        yield "The result has the shape of self without dim; with keepdim, size 1 there."
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
    for check in (*op.checks, *op.out_checks):
        yield f"{check.error} unless {_bare(check.condition)}."
    yield from op.doc.raises


def _bare(condition: Expr) -> str:
    """The text of a condition, without the parentheses around all of it."""
    text = show(condition)
    return text[1:-1] if isinstance(condition, Host) and text.startswith("(") else text


def _gradients(op: Operator, model: Model) -> Iterator[str]:
    lines = formula.gradients(op, model)
    if (
        op.derivative is None
        and op.kind is Kind.COMPOSITE
        and any("Tensor" in str(a.type) for a in op.schema.args)
    ):
        yield "Through the operators that it is made of."
    yield from lines
    if op.doc.gradient:
        yield op.doc.gradient


def source(op: Operator, model: Model) -> Iterator[str]:
    """Yield the literature, and where the entry stands; of an author's file the name alone."""
    yield from op.doc.source
    file = Path(op.position.file).name if model.library else op.position.file
    yield f"{file}, {op.name}."


# --- what follows from a name's signatures -----------------------------------------------------------


def arguments(callable_: Callable) -> Iterator[str]:
    """Yield a line for each argument of any signature, with its types, default and meaning."""
    method = callable_.namespace is None
    types: dict[str, list[str]] = {}
    defaults: dict[str, str] = {}
    texts: dict[str, str] = {}
    for signature in callable_.signatures:
        described = dict(signature.op.doc.arguments)
        for arg in signature.args[1:] if method else signature.args:
            name = python_name(arg, method)
            types.setdefault(name, []).append(shown_type(arg.type))
            texts.setdefault(name, described.get(arg.name, ""))
            if arg.default is not None:
                defaults.setdefault(name, shown_default(arg))
        if signature.out is not None:
            several = len(signature.out_args) > 1
            types.setdefault("out", []).append("tuple of Tensors" if several else "Tensor")
            defaults["out"] = "None"
            texts["out"] = "Where the result is written. None makes a new tensor."
        if is_factory(signature.form):
            types.setdefault("requires_grad", []).append("bool")
            defaults["requires_grad"] = "False"
            texts["requires_grad"] = "Whether gradients are recorded."
    for name, found in types.items():
        default = f", default {defaults[name]}" if name in defaults else ""
        text = f": {texts[name]}" if texts[name] else ""
        yield f"{name} ({' or '.join(dict.fromkeys(found))}{default}){text}"


def _overloads(callable_: Callable, ops: Sequence[Operator]) -> Iterator[str]:
    """Yield what overloads with a summary of their own compute."""
    method = callable_.namespace is None
    told = {ops[0].doc.summary}
    for signature in callable_.signatures:
        doc = signature.op.doc
        if doc.summary in told:
            continue
        told.add(doc.summary)
        given = ", ".join(
            python_name(arg, method) for arg in (signature.args[1:] if method else signature.args)
        )
        yield f"({given}): {doc.summary}"
        yield from doc.notes


def _returns(callable_: Callable, ops: Sequence[Operator]) -> Iterator[str]:
    for op in ops:
        fields = named_results(op)
        if op.doc.returns:
            yield op.doc.returns
        elif fields:
            yield f"A named tuple ({', '.join(fields)})."


def _first(callable_: Callable) -> tuple[Operator, ...]:
    """Return the operators of a name, the one that the others inherit from first."""
    ops = list({s.op.name: s.op for s in callable_.signatures}.values())
    return tuple(sorted(ops, key=lambda op: not op.doc.example))


def document(callable_: Callable, model: Model, names: Iterable[str] = ()) -> Documentation:
    """Return the documentation of a function or method; `names`: further signatures of its forms."""
    ops = _first(callable_)
    base = ops[0]
    parts: tuple[tuple[str, Iterable[str]], ...] = (
        ("Overloads", _overloads(callable_, ops)),
        ("Formula", formula.formulas(base, model.primitives)),
        ("Arguments", arguments(callable_)),
        ("Returns", _returns(callable_, ops)),
        ("Shapes", (line for op in ops for line in shapes(op))),
        ("Dtypes", (line for op in ops for line in dtypes(op))),
        ("Gradient", (line for op in ops for line in _gradients(op, model))),
        ("Raises", (line for op in ops for line in errors(op))),
        ("Notes", base.doc.notes),
        ("See also", (", ".join(base.doc.see),) if base.doc.see else ()),
        ("Source", (line for op in ops for line in source(op, model))),
    )
    renamed = _renaming(callable_)
    sections = [
        Section(title, tuple(dict.fromkeys(renamed(line) for line in lines))) for title, lines in parts
    ]
    if base.doc.example:
        sections.append(Section("Example", tuple(base.doc.example.split("\n")), verbatim=True))
    signatures = [show_signature(callable_, s) for s in callable_.signatures]
    return Documentation(
        tuple(dict.fromkeys((*signatures, *names))),
        renamed(base.doc.summary),
        tuple(section for section in sections if section.lines),
    )


def _renaming(callable_: Callable) -> _Renaming:
    """Functions call the first tensor `input`, and so does their documentation."""
    args = [arg for signature in callable_.signatures for arg in signature.args]
    is_input = any(arg.name == "self" and python_name(arg, False) == "input" for arg in args)
    return _Renaming("input" if callable_.namespace is not None and is_input else "self")


@dataclass(frozen=True, slots=True)
class _Renaming:
    name: str

    def __call__(self, text: str) -> str:
        return text if self.name == "self" else _SELF.sub(self.name, text)


def help_text(callable_: Callable, model: Model) -> str:
    """Return what `help()` shows."""
    found = document(callable_, model)
    lines = [*found.signatures, "", *textwrap.wrap(found.summary, _WIDTH)]
    for section in found.sections:
        lines += ["", f"{section.title}:"]
        for line in section.lines:
            wrapped = [line] if section.verbatim else _wrapped(line)
            lines += [f"    {part}" if part else "" for part in wrapped]
    return "\n".join(lines)


@cache  # most lines stand in the documentation of several names
def _wrapped(text: str) -> tuple[str, ...]:
    lines = (
        textwrap.wrap(line, _WIDTH, subsequent_indent="    ", break_long_words=False) or ("",)
        for line in text.split("\n")
    )
    return tuple(chain.from_iterable(lines))


def documented_forms(callables: Iterable[Callable]) -> Iterator[tuple[Callable, tuple[Callable, ...]]]:
    """Yield each name that pages describe, with its in-place form and its methods."""
    groups: dict[tuple[str, str], list[Callable]] = {}
    for callable_ in callables:
        op = callable_.signatures[0].op
        groups.setdefault((op.namespace, op.schema.name.base), []).append(callable_)
    for group in groups.values():
        group.sort(key=lambda c: (c.namespace is None, _is_inplace(c.signatures[0])))
        yield group[0], tuple(group[1:])


def _is_inplace(signature: Signature) -> bool:
    return signature.form.kind is FormKind.INPLACE or signature.form.schema.name.inplace
