"""`flops:` — floating-point operations of one call, over the sizes of its tensors.

    flops: 2 * self.numel * mat2.shape[1]
    flops: {counter: 2 * self.numel * result.shape[1], profiler: self.numel, as: mm}

An expression reads sizes, absence and arguments that are not tensors. It is evaluated where the tensors
themselves are gone: in the events of a profile, and in formulas of shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from codegen.language.forms import result_names
from codegen.language.host_functions import host_functions
from codegen.language.overloads import INT, STR, AnyType, plain
from codegen.language.pyexpr import children
from codegen.language.tensor_expr import TensorParser
from codegen.model import Call, Expr, Flops, Host, Literal, Position, Prop
from codegen.reading import keys
from codegen.reading.context import Context
from codegen.reading.entries import Draft
from codegen.reading.fields import check_keys
from codegen.source.diagnostics import Collector, did_you_mean
from codegen.source.nodes import Text

SIZES = ("shape", "ndim", "numel", "defined")


def read_flops(draft: Draft, context: Context) -> Flops | None:
    """Read the operations of an entry; each mistake is reported at its position."""
    given = draft.fields.scalar("flops")
    texts = {} if given is None else {"count": given}
    fields = draft.fields.map("flops")
    if fields is not None:
        check_keys(fields, keys.FLOPS)
        texts = {key: text for key in keys.FLOPS if (text := fields.scalar(key)) is not None}
        if not _fit(texts, draft.fields.key_position("flops"), context.collector):
            return None
    if not texts:
        return None
    operator = _operator(texts.get("as"), draft, context)
    arguments = {arg.name: plain(arg.type) for arg in draft.schema.args}
    results = zip(result_names(draft.schema.returns), draft.schema.returns, strict=True)
    both = _parse(texts.get("count"), "count", arguments, draft, context)
    every = arguments | {name: plain(result.type) for name, result in results}
    counter = both or _parse(texts.get("counter"), "counter", every, draft, context)
    profiler = both or _parse(texts.get("profiler"), "profiler", arguments, draft, context)
    return Flops(counter, profiler, operator)


def check_one_counter(drafts: Iterable[Draft], collector: Collector) -> None:
    """FlopCounterMode counts by name without overload, so only one overload states its operations."""
    first: dict[str, Draft] = {}
    for draft in drafts:
        fields = draft.fields.map("flops")
        text = draft.fields.scalar("flops")
        if fields is not None:
            text = fields.scalar("count") or fields.scalar("counter")
        if text is None or draft.is_derived or draft.broken:
            continue
        other = first.setdefault(draft.schema.name.base, draft)
        if other is not draft:
            message = f"flops: '{other.name}' has operations for '{draft.schema.name.base}' already"
            hint = f"FlopCounterMode knows no overloads; keep `profiler`, or see line {other.position.line}"
            collector.add(text.position, "FB0107", message, hint, text.length)


def _fit(texts: Mapping[str, Text], position: Position, collector: Collector) -> bool:
    """Whether the keys of a mapping go together."""
    if "count" in texts and ("counter" in texts or "profiler" in texts):
        extra = texts.get("counter") or texts["profiler"]
        message, hint = "flops: `count` stands for `counter` and `profiler`", "keep `count`, or give both"
        collector.add(extra.position, "FB0106", message, hint, extra.length)
        return False
    if "as" in texts and not {"count", "counter"} & set(texts):
        message = "flops: `as` without operations that are counted"
        collector.add(texts["as"].position, "FB0106", message, "give `count` or `counter`, or remove `as`")
        return False
    if not texts:
        collector.add(position, "FB0102", "flops: expected an expression", "write {count: 2 * self.numel}")
    return bool(texts)


def _operator(text: Text | None, draft: Draft, context: Context) -> str:
    """Return the operator under which the operations are counted."""
    if text is None or context.forms.named(text.value) or text.value in context.unusable.calls:
        return draft.schema.name.base if text is None else text.value
    hint = did_you_mean(text.value, context.forms.names(), "operators")
    context.collector.add(text.position, "FB0303", f"flops: no operator '{text.value}'", hint, text.length)
    return text.value


def _parse(
    text: Text | None, key: str, names: Mapping[str, AnyType], draft: Draft, context: Context
) -> Expr | None:
    if text is None:
        return None
    what = f"flops ({key}) of {draft.name}"
    expr = TensorParser(context.scope(names, draft, what), context.collector).parse(text, INT)
    fault = None if expr is None else next(_faults(expr), None)
    if fault is not None:
        position, does, hint = fault
        context.collector.add(position, "FB0307", f"{what} {does}", hint)
        return None
    return expr


def _faults(expr: Expr) -> Iterator[tuple[Position, str, str]]:
    """Yield what an expression needs beyond sizes: the position, what it does, and a remedy."""
    sizes = "read sizes and arguments that are not tensors"
    match expr:
        case Call(form=form):
            yield expr.position, f"calls {form}", sizes
        case Prop(name=name) if name not in SIZES:
            yield expr.position, f"reads {name}", f"tensors have {', '.join(SIZES)} here"
        case Host(op=op) if op in host_functions() and not host_functions()[op].in_python:
            known = (name for name, function in host_functions().items() if function.in_python)
            yield expr.position, f"calls {op}", f"call {', '.join(known)}"
        case Literal(value=value) if value is not None and expr.type != STR:
            yield expr.position, f"reads {value}", sizes
    for part in children(expr):
        yield from _faults(part)
