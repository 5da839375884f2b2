"""Autograd: nodes and wrappers, torchgen_out/autograd/<family>.h and .cpp.

A node holds what the formulas of one operator read; a wrapper records the call and runs the kernel
below. Gradients come out in the shape that the formula gives: the engine fits each to its argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from codegen.deriving import slots
from codegen.deriving.saved import NodePlan, plan_node
from codegen.language.calls import body_calls
from codegen.model import Form, FormKind, Model, Operator
from codegen.writing.autograd_nodes import NodeDecl, NodeWriter, camel
from codegen.writing.autograd_wrappers import WrapperDecl, WrapperWriter
from codegen.writing.render import File, render


def _plans(
    model: Model, operators: Iterable[Operator]
) -> Iterator[tuple[Operator, list[tuple[NodePlan, list[Form]]]]]:
    """Group the wrapped forms of each operator by the node that they make."""
    for op in operators:
        groups: dict[tuple[str, ...], tuple[NodePlan, list[Form]]] = {}
        for form in op.forms:
            if not slots.is_wrapped(op, form):
                continue
            if form.numbers not in groups:
                groups[form.numbers] = (plan_node(model, op, slots.functional_form(op, form)), [])
            groups[form.numbers][1].append(form)
        if groups:
            yield op, list(groups.values())


def _families(
    model: Model, family: str, plans: Iterable[NodePlan], forward: Iterable[str]
) -> tuple[str, ...]:
    names = set(forward)
    for plan in plans:
        for rule in plan.rules:
            names |= body_calls(rule.body)
    return tuple(sorted({model.form(name)[0].family for name in names} | {family}))


def emit(model: Model) -> Iterator[File]:
    """Yield a header and a source per family."""
    counts: dict[str, int] = {}
    for family, operators in slots.families(model):
        nodes: list[NodeDecl] = []
        wrappers: list[WrapperDecl] = []
        plans: list[NodePlan] = []
        forward: set[str] = set()
        for op, groups in _plans(model, operators):
            base = camel(op.schema.name.base)
            recorded = [plan for plan, forms in groups if any(f.kind is not FormKind.OUT for f in forms)]
            counts[base] = counts.get(base, -1) + bool(recorded)
            given = op.derivative.node if op.derivative is not None else None
            label = given or f"{base}Backward{counts[base]}"
            nodes.extend(NodeWriter(model, plan).decl(label) for plan in recorded)
            plans.extend(recorded)
            for plan, forms in groups:
                for form in forms:
                    writer = WrapperWriter(model, plan, form)
                    wrappers.append(writer.decl())
                    forward |= writer.forward.called
        if not wrappers:
            continue
        families = _families(model, family, plans, forward)
        yield render("autograd.h.j2", f"autograd/{family}.h", nodes=tuple(nodes))
        yield render(
            "autograd.cpp.j2",
            f"autograd/{family}.cpp",
            family=family,
            families=families,
            nodes=tuple(nodes),
            wrappers=tuple(wrappers),
        )
