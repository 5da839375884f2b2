"""`dtypes:` of a composite or of a reduction with `let:` against the operators that it calls.

The categories of intermediate results are followed as far as the rules of pointwise operators and
reductions tell them. Only calls that are made in any case count, so that a claim is refused where no call
with that category of arguments could succeed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codegen.language.blocks import in_any_case
from codegen.language.overloads import is_tensor, type_of
from codegen.language.pyexpr import children
from codegen.model import Body, Call, Composite, DTypeRule, Expr, If, Kind, Number, Prop, Reduce, Var
from codegen.reading import keys
from codegen.reading.context import Context
from codegen.reading.entries import Draft
from codegen.reading.reader import Reading

_ORDER = ("bool", "integral", "floating", "complex")
_RULES = {"compare": "bool", "logical": "bool"}


@dataclass(frozen=True, slots=True)
class _Claim:
    """One category that an operator says it accepts."""

    owners: Mapping[str, Draft]  # by form
    dtypes: Mapping[str, DTypeRule]
    variables: Mapping[str, str]  # Tensor arguments of this category

    def category(self, expr: Expr) -> str | None:
        """Return the category of a tensor expression, None if it is not known."""
        if isinstance(expr, Var):
            return self.variables.get(expr.name)
        if isinstance(expr, If):
            known = {self.category(expr.then), self.category(expr.other)}
            return known.pop() if len(known) == 1 else None
        if not isinstance(expr, Call):
            return None
        owner = self.owners[expr.form]
        if owner.kind not in (Kind.POINTWISE, Kind.REDUCE):
            return None
        rule = self.dtypes[owner.name].name
        return _RULES.get(rule) or self._result(rule, self._operands(expr))

    def _result(self, rule: str, operands: list[str | None]) -> str | None:
        known = [c for c in operands if c is not None]
        if rule == "keep":
            return operands[0] if operands else None
        if len(known) != len(operands) or not known:
            return None
        common = max(known, key=_ORDER.index)
        if rule == "floating" and common in ("bool", "integral"):
            return "floating"
        if rule == "real" and common == "complex":
            return "floating"
        return "integral" if rule == "number" and common == "bool" else common

    def _operands(self, call: Call) -> list[str | None]:
        return [
            "bool" if isinstance(arg, Number) and isinstance(arg.value, bool) else self.category(arg)
            for arg in call.args
            if is_tensor(type_of(arg))
        ]

    def refused(self, expr: Expr) -> Iterator[tuple[Call, str]]:
        """Yield the calls, made in any case, of operators that do not take what they are given."""
        if isinstance(expr, If):
            yield from self.refused(expr.condition)
            chosen = self._chosen(expr)
            if chosen is not None:
                yield from self.refused(chosen)
            return
        for child in children(expr):
            yield from self.refused(child)
        if isinstance(expr, Call):
            owner = self.owners[expr.form]
            given = [c for c in self._operands(expr) if c is not None]
            common = max(given, key=_ORDER.index, default=None)
            if common is not None and _claims(owner) and common not in self.dtypes[owner.name].allowed:
                yield expr, common

    def _chosen(self, expr: If) -> Expr | None:
        """Return the branch that is taken for this category, if the category decides it."""
        condition = expr.condition
        if not isinstance(condition, Prop) or condition.name not in ("is_complex", "is_floating_point"):
            return None
        category = self.category(condition.of)
        if category is None:
            return None
        wanted = "complex" if condition.name == "is_complex" else "floating"
        return expr.then if category == wanted else expr.other


def _claims(draft: Draft) -> bool:
    """Whether the operator refuses other categories: its expression does, or its entry says so."""
    return draft.kind in (Kind.POINTWISE, Kind.REDUCE) or draft.fields.node.get("dtypes") is not None


def check_claims(drafts: Mapping[str, Draft], readings: Mapping[str, Reading], context: Context) -> None:
    """Report each category that an entry claims and one of its parts refuses."""
    owners = {form.name: draft for draft in drafts.values() for form in draft.forms}
    dtypes = {name: reading.dtype for name, reading in readings.items()}
    for draft in drafts.values():
        exprs = _parts(readings[draft.name].body)
        given = draft.fields.choices("dtypes", keys.CATEGORIES) or ()
        if not exprs or not given or draft.is_derived:
            continue
        names = _sampled(draft)
        for category, text in given:
            claim = _Claim(owners, dtypes, dict.fromkeys(names, category))
            call, common = next((found for expr in exprs for found in claim.refused(expr)), (None, ""))
            if call is None:
                continue
            taken = ", ".join(dtypes[owners[call.form].name].allowed)
            message = f"{draft.name}: {call.form} takes no {common} arguments, but `dtypes` lists {category}"
            hint = (
                f"it takes {taken}: drop {category} from dtypes (line {text.position.line}), or convert first"
            )
            about = (call.form.split(".")[0],)
            context.collector.add(call.position, "FB0311", message, hint, about=about)


def _parts(body: Body | None) -> list[Expr]:
    if isinstance(body, Composite):
        return list(in_any_case(body.statements))
    return [expr for _, expr in body.let] if isinstance(body, Reduce) else []


def _sampled(draft: Draft) -> set[str]:
    """Return the arguments that every sample call gives a tensor of the dtype under test."""
    positional = [a.name for a in draft.schema.args if not a.kwarg_only and not a.is_out]
    fields = draft.fields.map("test")
    names: set[str] | None = None
    for text in () if fields is None else fields.texts("samples"):
        try:
            call = ast.parse(f"f({text.value}\n)", mode="eval").body
        except SyntaxError:
            return set()
        if not isinstance(call, ast.Call):
            return set()
        values = dict(zip(positional, call.args, strict=False)) | {
            k.arg or "": k.value for k in call.keywords
        }
        made = {name for name, value in values.items() if _is_under_test(value)}
        names = made if names is None else names & made
    return names or set()


def _is_under_test(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in "t tp".split()
    )
