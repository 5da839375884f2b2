"""How an operator computes: the expressions and rules of one entry, typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from codegen.language.forms import TENSOR
from codegen.language.overloads import plain
from codegen.language.pyexpr import names_in
from codegen.language.scalar_expr import DOMAINS, ScalarParser, domains, is_condition
from codegen.language.tensor_expr import TensorParser, unknown
from codegen.model import (
    BaseType,
    Body,
    Composite,
    DTypeRule,
    Expr,
    Kernels,
    Kind,
    Number,
    Pointwise,
    Position,
    Reduce,
    Rule,
    TupleType,
    Type,
    Var,
    View,
)
from codegen.reading import keys
from codegen.reading.block_parser import is_body
from codegen.reading.context import Context
from codegen.reading.entries import Draft
from codegen.reading.fields import Fields, check_keys, is_identifier
from codegen.reading.lets import parse_body, parse_with_lets
from codegen.source.diagnostics import did_you_mean
from codegen.source.nodes import Mapping as MapNode
from codegen.source.nodes import Text

NUMBERS = ("Scalar", "int", "SymInt", "float", "bool")
_CONDITION_RULES = ("compare", "logical")


def build_body(draft: Draft, context: Context) -> Body | None:
    """Read the entry's kind key; mistakes go to the collector and give None."""
    builders: dict[Kind, Callable[[Draft, Context], Body | None]] = {
        Kind.POINTWISE: _pointwise,
        Kind.REDUCE: _reduce,
        Kind.COMPOSITE: _composite,
        Kind.VIEW: _view,
        Kind.KERNELS: _kernels,
    }
    return builders[draft.kind](draft, context)


def _rule_name(draft: Draft) -> str | None:
    """Return the dtype rule; None for an unknown one."""
    name = draft.fields.text("dtype") or "promote"
    return name if name in keys.DTYPE_RULES else None


def operand_names(draft: Draft) -> tuple[str, ...]:
    """Return the Tensor arguments, in order."""
    return tuple(a.name for a in draft.schema.args if a.type == TENSOR)


def _number_args(draft: Draft) -> tuple[str, ...]:
    return tuple(a.name for a in draft.schema.args if isinstance(a.type, BaseType) and a.type.name in NUMBERS)


# --- pointwise -------------------------------------------------------------------------------


def _pointwise(draft: Draft, context: Context) -> Body | None:
    operands, numbers = operand_names(draft), _number_args(draft)
    switch, cases = _cases(draft, context)
    strings = _string_args(draft) if draft.fields.map("pointwise") is not None else ()
    if not _takes_elements(draft, context, (*operands, *numbers, *strings)):
        return None
    parser = _scalar_parser(draft, context, (*operands, *numbers))
    parsed: list[tuple[str, Expr]] = []
    for value, text in cases:
        expr = parser.parse(text)
        if expr is not None and _check_result(draft, context, expr, text, draft.name):
            parsed.append((value, expr))
    if len(parsed) != len(cases) or not cases:
        return None
    read = set().union(*(names_in(expr) for _, expr in parsed))
    _check_unused(draft, context, (*operands, *numbers), read)
    params = tuple(n for n in numbers if n in read)
    return Pointwise(switch, tuple(parsed), operands, params, _masks(draft, context, operands))


def _masks(draft: Draft, context: Context, operands: tuple[str, ...]) -> tuple[str, ...]:
    given = draft.fields.texts("masks")
    for text in given:
        if text.value not in operands:
            message = f"masks: '{text.value}' is not a Tensor argument"
            hint = did_you_mean(text.value, operands, "Tensor arguments")
            context.collector.add(text.position, "FB0104", message, hint, text.length)
    return tuple(text.value for text in given)


def _string_args(draft: Draft) -> tuple[str, ...]:
    return tuple(a.name for a in draft.schema.args if a.type == BaseType("str"))


def _cases(draft: Draft, context: Context) -> tuple[str | None, list[tuple[str, Text]]]:
    node = draft.fields.node.get("pointwise")
    if isinstance(node, Text):
        return None, [("", node)]
    if not isinstance(node, MapNode):
        return None, []
    fields = Fields(node, context.collector)
    check_keys(fields, keys.SWITCH)
    switch = fields.scalar("switch")
    cases = fields.map("cases")
    if switch is None or cases is None:
        return None, []
    found = [(k.value, v) for k, v in cases.node.items if isinstance(v, Text)]
    strings = {a.name: a for a in draft.schema.args if a.type == BaseType("str")}
    if switch.value not in strings:
        message = f"switch: '{switch.value}' is not a str argument"
        hint = did_you_mean(switch.value, strings, "str arguments")
        context.collector.add(switch.position, "FB0104", message, hint, switch.length)
        return None, found
    default = strings[switch.value].default
    if default is not None and default[1:-1] not in dict(found):
        message = f"cases: the default {default} is missing"
        context.collector.add(cases.node.position, "FB0104", message, "add a case for it")
    return switch.value, found


def _takes_elements(draft: Draft, context: Context, known: Iterable[str]) -> bool:
    """Only Tensors and numbers can be read per element."""
    allowed = set(known)
    good = True
    for arg in draft.schema.args:
        if arg.name not in allowed:
            message = f"argument '{arg.name}' cannot be an operand of a pointwise operator"
            hint = "operands are Tensors; parameters are Scalar, int, float or bool"
            at = draft.argument_position(arg.name)
            context.collector.add(at, "FB0306", message, hint, len(arg.name))
            good = False
    return good


def _scalar_parser(draft: Draft, context: Context, names: Iterable[str]) -> ScalarParser:
    types = {a.name: plain(a.type) for a in draft.schema.args if a.name in set(names)}
    return ScalarParser(context.table, types, context.collector, draft.name, draft.name)


def _check_result(
    draft: Draft, context: Context, expr: Expr, text: Text, what: str, condition: bool | None = None
) -> bool:
    """The dtype rule decides whether the expression must be a condition."""
    wanted = _rule_name(draft) in _CONDITION_RULES if condition is None else condition
    if is_condition(expr, context.primitives) == wanted or (condition is None and _rule_name(draft) is None):
        return True
    rule = f"dtype: {_rule_name(draft)}"
    if wanted:
        message = f"{what}: expected a condition ({rule}), got a number"
        hint = "compare it, for example != 0, or change the dtype rule"
    else:
        message = f"{what}: expected a number ({rule}), got a condition"
        hint = "write dtype: compare or logical, or (1 if condition else 0)"
    context.collector.add(text.at(0), "FB0306", message, hint, text.length)
    return False


def _check_unused(draft: Draft, context: Context, names: Iterable[str], read: Iterable[str]) -> None:
    for name in names:
        if name not in set(read):
            at = draft.argument_position(name)
            message = f"argument '{name}' is never read"
            context.collector.add(at, "FB0309", message, "use it, or remove it", len(name))


# --- reduce ----------------------------------------------------------------------------------


def _reduce(draft: Draft, context: Context) -> Body | None:
    fields = draft.fields.map("reduce")
    if fields is None:
        return None
    check_keys(fields, keys.REDUCE)
    let = _let(draft, context)
    if let is None:
        return None
    named = {key: _argument_name(draft, fields, key) for key in ("dim", "keepdim", "dtype")}
    operands = operand_names(draft)
    control = {name for name in named.values() if name}
    numbers = tuple(n for n in _number_args(draft) if n not in control)
    combine = fields.choice("combine", keys.COMBINES) or ""
    condition = combine in ("any", "all")
    types: dict[str, Type] = {
        a.name: plain(a.type) for a in draft.schema.args if a.name in (*operands, *numbers)
    }
    types |= {name: TENSOR for name, _ in let}
    map_expr = _part(draft, context, fields, "map", types, condition)
    types |= {"acc": BaseType("bool") if condition else TENSOR, "count": BaseType("int")}
    finish = _part(draft, context, fields, "finish", types, None)
    if map_expr is None or finish is None or not combine:
        return None
    read = names_in(map_expr) | names_in(finish)
    inner = set().union(*(names_in(expr) for _, expr in let), set())
    _check_unused(draft, context, (*operands, *numbers), read | inner)
    params = tuple(n for n in numbers if n in read)
    empty = fields.choice("empty", keys.EMPTY) or "identity"
    no_dims = fields.choice("no_dims", keys.NO_DIMS) or "all"
    return Reduce(
        let, map_expr, combine, finish, named["dim"], named["keepdim"], named["dtype"],
        empty, no_dims, operands, params,
    )  # fmt: skip


def _let(draft: Draft, context: Context) -> tuple[tuple[str, Expr], ...] | None:
    """Return the names of a reduction's `let`; None if one has a mistake."""
    fields = draft.fields.map("let")
    found: list[tuple[str, Expr]] = []
    variables = {a.name: plain(a.type) for a in draft.schema.args}
    for key, text in () if fields is None else fields.node.items:
        if not is_identifier(key.value) or key.value in (*variables, "acc", "count"):
            message = f"let: '{key.value}' cannot be a name here"
            hint = "choose an identifier that is not an argument, acc or count"
            context.collector.add(key.position, "FB0108", message, hint, len(key.value))
        elif isinstance(text, Text):
            scope = context.scope(variables, draft, f"let {key.value} of {draft.name}")
            expr = TensorParser(scope, context.collector).parse(text, TENSOR)
            if expr is not None:
                found.append((key.value, expr))
    return tuple(found) if fields is None or len(found) == len(fields.node.items) else None


def _argument_name(draft: Draft, fields: Fields, key: str) -> str | None:
    """The argument that `dim`, `keepdim` or `dtype` names; by default the one called so."""
    names = [a.name for a in draft.schema.args]
    text = fields.scalar(key)
    if text is None:
        return key if key in names else None
    return text.value if fields.known(key, text, names) else None


def _part(
    draft: Draft, context: Context, fields: Fields, key: str, types: Mapping[str, Type],
    condition: bool | None,
) -> Expr | None:  # fmt: skip
    text = fields.scalar(key)
    if text is None:
        return Var("acc", types["acc"], draft.position) if key == "finish" else None
    parser = ScalarParser(context.table, types, context.collector, f"{key} of {draft.name}", draft.name)
    expr = parser.parse(text)
    if expr is None or condition is None:
        return expr
    if condition and not isinstance(expr, Number):
        return parser.condition(expr)
    good = _check_result(draft, context, expr, text, f"{key} of {draft.name}", condition)
    return expr if good else None


# --- composite, view, kernels ------------------------------------------------------------------


def _composite(draft: Draft, context: Context) -> Body | None:
    text = draft.fields.scalar(draft.kind_key)
    if text is None:
        return None
    returns = tuple(plain(r.type) for r in draft.schema.returns)
    want = returns[0] if len(returns) == 1 else TupleType(returns)
    if is_body(text.value):
        block = parse_body(draft, context, text, want)
        return None if block is None else Composite(None, text.position, block=block)
    expr = parse_with_lets(draft, context, text, draft.name, want)
    return None if expr is None else Composite(expr, text.position)


_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", re.DOTALL)


def read_rule(draft: Draft, context: Context, key: str) -> Rule | None:
    """Read `rule(arg, ...)`."""
    text = draft.fields.scalar(key)
    if text is None:
        return None
    match = _CALL.fullmatch(text.value)
    if match is None:
        message = f"{key}: expected rule(argument, ...), got '{text.value}'"
        hint = "name the rule and the arguments that it reads: like(self)"
        context.collector.add(text.position, "FB0301", message, hint, text.length)
        return None
    names = [a.name for a in draft.schema.args]
    args: list[str] = []
    good = True
    offset = match.start(2) if match.group(2) else 0
    for part in (match.group(2) or "").split(","):
        name = part.strip()
        if name and name not in names:
            at = text.at(offset + part.index(name))
            hint = did_you_mean(name, names, "arguments")
            message = f"{key}: '{name}' is not an argument"
            group = unknown(draft.name, name)
            context.collector.add(at, "FB0302", message, hint, len(name), group=group)
            good = False
        if name:
            args.append(name)
        offset += len(part) + 1
    return Rule(match.group(1), tuple(args)) if good else None


def _view(draft: Draft, context: Context) -> Body | None:
    rule = read_rule(draft, context, "view")
    return None if rule is None else View(rule)


def _kernels(draft: Draft, context: Context) -> Body | None:
    fields = draft.fields.map("kernels")
    if fields is None:
        return None
    found: list[tuple[str, str]] = []
    for key, value in fields.node.items:
        if key.value not in keys.BACKENDS:
            hint = did_you_mean(key.value, keys.BACKENDS, "backends")
            message = f"unknown backend '{key.value}'"
            context.collector.add(key.position, "FB0109", message, hint, len(key.value))
        elif not isinstance(value, Text) or not is_identifier(value.value):
            message = f"kernels: expected the name of a function for {key.value}"
            hint = f"write {key.value}: {draft.schema.name.base}_{key.value.lower()}"
            context.collector.add(value.position, "FB0103", message, hint)
        else:
            found.append((key.value, value.value))
    if not found and not fields.node.items:
        at = draft.fields.key_position("kernels")
        context.collector.add(at, "FB0102", "kernels: no backend", "write {CPU: name_cpu}")
    shape, dynamic = _shape(draft, context)
    return Kernels(tuple(found), shape, dynamic) if found else None


def _shape(draft: Draft, context: Context) -> tuple[Rule | None, str | None]:
    text = draft.fields.scalar("shape")
    reason = draft.fields.text("reason")
    if text is not None and text.value == "dynamic":
        if not reason:
            hint = "add `reason:`; the shape of other operators is known before they run"
            message = "shape: dynamic without a reason"
            context.collector.add(text.position, "FB0102", message, hint, text.length)
        return None, reason or ""
    if text is None and not draft.schema.name.inplace:
        hint = "write `shape: rule(args)`, or `shape: dynamic` with a `reason:`"
        at = draft.fields.key_position("kernels")
        context.collector.add(at, "FB0102", "missing key 'shape' beside kernels", hint)
    if text is not None and draft.schema.name.inplace:
        at = draft.fields.key_position("shape")
        message = "'shape' does not belong to an in-place operator"
        context.collector.add(at, "FB0106", message, "its shape is self's: remove it", 5)
        return None, None
    return read_rule(draft, context, "shape"), None


# --- dtypes ----------------------------------------------------------------------------------


def read_dtype(draft: Draft, context: Context, body: Body | None) -> DTypeRule:
    """Return the promotion rule and the categories that it accepts.

    Without `dtypes:` the expression decides: those in which every primitive is defined.
    """
    rule = draft.fields.choice("dtype", keys.DTYPE_RULES) or "promote"
    allowed, excluded = _defined(body, context)
    if rule == "floating":  # integers are converted before the expression sees them
        allowed |= {"bool", "integral"}
    if rule == "number":
        allowed |= {"bool"}
    if rule == "integral":
        allowed -= {"floating", "complex"}
    given = draft.fields.choices("dtypes", keys.CATEGORIES)
    if given is None:
        return DTypeRule(rule, tuple(c for c in DOMAINS if c in allowed))
    for category, text in given:
        if category not in allowed and category in excluded:
            at = excluded[category]
            message = f"{draft.name}: not defined for {category}, which `dtypes` lists"
            hint = f"drop {category} from dtypes (line {text.position.line}), or use other primitives"
            context.collector.add(at, "FB0308", message, hint)
    values = {category for category, _ in given}
    return DTypeRule(rule, tuple(c for c in DOMAINS if c in values))


def _defined(body: Body | None, context: Context) -> tuple[set[str], dict[str, Position]]:
    exprs: list[Expr] = []
    if isinstance(body, Pointwise):
        exprs = [expr for _, expr in body.cases]
    elif isinstance(body, Reduce):
        exprs = [body.map, body.finish]
    bitwise = isinstance(body, Reduce) and body.combine == "xor"
    allowed = {"bool", "integral"} if bitwise else set(DOMAINS)
    excluded: dict[str, Position] = {}
    for expr in exprs:
        inner, why = domains(expr, context.primitives)
        allowed &= inner
        excluded |= why
    return allowed, excluded
