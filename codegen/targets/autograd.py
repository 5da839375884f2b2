"""Autograd: nodes and wrappers, torchgen_out/autograd/<family>[_<n>].h and .cpp.

A node holds what the formulas of one operator read; a wrapper records the call and runs the kernel
below. Gradients come out in the shape that the formula gives: the engine fits each to its argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from codegen.deriving import slots
from codegen.deriving.parts import parts
from codegen.deriving.saved import NodePlan, plan_node
from codegen.language.calls import body_calls
from codegen.model import Form, FormKind, Model
from codegen.writing import library_spelling
from codegen.writing.autograd_nodes import NodeDecl, NodeWriter, camel
from codegen.writing.autograd_wrappers import WrapperDecl, WrapperWriter
from codegen.writing.render import File, render

# The wrapped forms of an operator by the node that they make.
_Groups: TypeAlias = Sequence[tuple[NodePlan, list[Form]]]


def _plans(model: Model) -> dict[str, _Groups]:
    """Return the groups of each operator that has any, family by family."""
    plans: dict[str, _Groups] = {}
    for op in (op for _, operators in slots.families(model) for op in operators):
        groups: dict[tuple[str, ...], tuple[NodePlan, list[Form]]] = {}
        for form in op.forms:
            if not slots.is_wrapped(op, form):
                continue
            if form.numbers not in groups:
                groups[form.numbers] = (plan_node(model, op, slots.functional_form(op, form)), [])
            groups[form.numbers][1].append(form)
        if groups:
            plans[op.name] = tuple(groups.values())
    return plans


def _called(plans: Iterable[NodePlan]) -> set[str]:
    """The forms that the formulas of nodes call."""
    return {name for plan in plans for rule in plan.rules for name in body_calls(rule.body)}


# Wrapped forms in one file: they compile in about a second; the headers take 0.3 s of it.
_LIMIT = 24
_LIMIT_OF_EXTENSION = 96  # seldom edited, and built whole: fewer files take less time


def _labels(model: Model, plans: Mapping[str, _Groups]) -> dict[str, str]:
    """How Python calls the node of each operator that has one: overloads are counted in YAML order."""
    counts: dict[str, int] = {}
    labels: dict[str, str] = {}
    for _, operators in slots.families(model):
        for op in operators:
            if op.name not in plans:
                continue
            base = camel(op.schema.name.base)
            counts[base] = counts.get(base, -1) + any(_recorded(plans[op.name]))
            given = op.derivative.node if op.derivative is not None else None
            labels[op.name] = given or f"{base}Backward{counts[base]}"
    return labels


def _recorded(groups: _Groups) -> Iterator[NodePlan]:
    """The plans whose nodes calls make: out= forms make none."""
    for plan, forms in groups:
        if any(form.kind is not FormKind.OUT for form in forms):
            yield plan


def _forms_in(groups: _Groups) -> int:
    return sum(len(forms) for _, forms in groups)


def emit(model: Model) -> Iterator[File]:
    """Yield headers and sources per family."""
    planned = _plans(model)
    labels = _labels(model, planned)
    for family, operators in slots.families(model):
        wrapped_here = [op for op in operators if op.name in planned]
        limit = _LIMIT_OF_EXTENSION if model.library else _LIMIT
        for suffix, part in parts(model, wrapped_here, limit, lambda op: _forms_in(planned[op.name])):
            wrapped = [(labels[op.name], planned[op.name]) for op in part]
            yield from _file(model, f"{family}{suffix}", wrapped)


def _file(model: Model, stem: str, wrapped: Iterable[tuple[str, _Groups]]) -> Iterator[File]:
    """Yield the header and the source of some operators, each a label and its groups, if there are any."""
    nodes: list[NodeDecl] = []
    wrappers: list[WrapperDecl] = []
    plans: list[NodePlan] = []
    forward: set[str] = set()
    for label, groups in wrapped:
        recorded = list(_recorded(groups))
        nodes.extend(NodeWriter(model, plan).decl(label) for plan in recorded)
        plans.extend(recorded)
        for plan, forms in groups:
            for form in forms:
                writer = WrapperWriter(model, plan, form)
                wrappers.append(writer.decl())
                forward |= {*writer.forward.called, form.name}
    if wrappers:
        scope = library_spelling.scope(model)
        header, *_ = library_spelling.runtime_headers(model, ("aten/autograd/wrappers.h",))
        text, *_ = library_spelling.runtime_headers(model, ("aten/core/tensor_text.h",))
        yield render("autograd.h.j2", f"autograd/{stem}.h", header=header, scope=scope, nodes=tuple(nodes))
        yield render(
            "autograd.cpp.j2",
            f"autograd/{stem}.cpp",
            header=f"{model.library or 'torchgen_out'}/autograd/{stem}.h",
            headers=(text, *library_spelling.operator_headers(model, forward | _called(plans))),
            scope=scope,
            formulas=tuple(formula for node in nodes for formula in node.formulas),
            nodes=tuple(nodes),
            wrappers=tuple(wrappers),
        )
