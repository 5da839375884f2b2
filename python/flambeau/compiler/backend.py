"""The backend of `compile` that fuses: operators below autograd, in fused groups where that pays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau._dynamo.utils import counters
from flambeau._functorch import config as functorch
from flambeau.compiler import logs, trace
from flambeau.compiler.aot.examples import NotAhead
from flambeau.compiler.aot.function import differentiable, without_gradients
from flambeau.compiler.aot.joint import Joint, record
from flambeau.compiler.aot.loops import Body
from flambeau.compiler.aot.partition import Parts, divide
from flambeau.compiler.aot.state import ending_in
from flambeau.compiler.emit.background import deferred, tier, tier_of
from flambeau.compiler.emit.program import Part, Writer, program, rebound
from flambeau.compiler.emit.row_kernels import (
    RowKernel,
    row_kernels,
    use_resizable_row_kernels,
    use_row_kernels,
)
from flambeau.compiler.emit.rows import Sliced, could_slice, slice_rows, sliced_groups
from flambeau.compiler.ir import GAIN
from flambeau.compiler.ir.open_numbers import Number
from flambeau.compiler.passes.cleanup import merge_equal, remove_dead
from flambeau.compiler.passes.patterns import replace_patterns
from flambeau.compiler.passes.products import transpose_products
from flambeau.compiler.symbolic.templates import SERVED, TEMPLATES, Templates, record_of
from flambeau.fx.graph import Graph


def fuse(graph: Any, inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """Return a function that runs a captured graph with its pointwise operators in fused groups.

    Graphs that cannot be recorded ahead of time, or in which nothing can be fused, run as they were captured;
    ``_dynamo.utils.counters["fusion"]`` counts the reasons.

    Args:
        graph: a captured `fx.GraphModule`.
        inputs: its example inputs.
        options: accepted; ``options={"trace": directory}`` writes pages as FLAMBEAU_TRACE does, and
            ``options={"tier": 0}`` or 1 decides on kernels as FLAMBEAU_TIER does.
    """
    directory = trace.directory(functools.partial(fuse, **options))
    with tier_of(options.get("options")), deferred(), trace.page("graph for other sizes", "", directory):
        return _fused(graph, inputs)


def _fused(graph: Any, inputs: list[Any]) -> Callable[..., Any]:
    run: Callable[..., Any] = graph.forward
    graph.meta[GAIN] = False
    if any(isinstance(x, flambeau.Tensor) and x.is_meta for x in inputs):
        counters["fusion"]["an input on meta"] += 1
        return run
    try:
        with trace.timed("record below autograd"):
            joint = record(graph, inputs)
    except NotAhead as error:
        counters["fusion"][str(error)] += 1
        return run
    except Exception as error:  # an operator that needs elements, or an error that the program has
        counters["fusion"][f"{type(error).__name__} while the graph was recorded"] += 1
        return run
    templates = graph.meta.get(TEMPLATES)
    if templates is None or not tier():  # without kernels, slices of one size are quicker
        return _made(graph, joint, inputs, None)
    found = _served(graph, templates, joint, inputs)
    return found if found is not None else _made(graph, joint, inputs, templates)


def _served(graph: Any, templates: Templates, joint: Joint, inputs: list[Any]) -> Callable[..., Any] | None:
    """Return the program of other sizes with the numbers of these; None if there is none."""
    record_ = record_of(joint)
    found = None if record_ is None else templates.of(record_)
    if found is None:
        return None
    template, numbers = found
    counters["fusion"]["programs of other sizes"] += 1
    graph.meta[GAIN] = graph.meta[SERVED] = True
    return template.made.bound(numbers).assembled(joint, inputs)


def _made(graph: Any, joint: Joint, inputs: list[Any], templates: Templates | None) -> Callable[..., Any]:
    run: Callable[..., Any] = graph.forward
    record_ = record_of(joint) if templates is not None else None
    template = templates.wanted(record_) if templates is not None and record_ is not None else None
    if template is not None:
        template.open(joint)
    programs = _programs(joint, inputs, template is not None)
    writers, repeated = programs.writers, programs.repeated
    kernels = [kernel for writer in writers for kernel in row_kernels(writer.graph)]
    sliced = [group for writer in writers for group in sliced_groups(writer.graph)]
    sliced += [group for kernel in kernels for group in kernel.slices]
    rows = len(sliced) + len(kernels)
    groups = rows + sum(len(writer.groups) for writer in writers)
    graph.meta[GAIN] = repeated + rows > 0 or any(w.could_fuse or could_slice(w.graph) for w in writers)
    if repeated:
        counters["fusion"]["operators computed again"] += repeated
    if groups == 0 and repeated == 0:
        counters["fusion"]["nothing to fuse"] += 1
        return run
    _count(groups, len(sliced), len(kernels))
    if templates is not None and record_ is not None:
        templates.note(record_)
        if template is not None:
            template.made = programs
            templates.made.append(template)
    made = programs.assembled(joint, inputs)
    return made if groups > rows or repeated else _while_useful(made, run, [*sliced, *kernels])


def _count(groups: int, sliced: int, kernels: int) -> None:
    counters["fusion"]["groups"] += groups
    if sliced:
        counters["fusion"]["groups of rows"] += sliced
    if kernels:
        counters["fusion"]["groups of row kernels"] += kernels


def _while_useful(
    made: Callable[..., Any], run: Callable[..., Any], sliced: list[Sliced | RowKernel]
) -> Callable[..., Any]:
    """Return a function that runs a graph as it was captured once its row groups gain nothing."""

    def call(*inputs: Any) -> Any:
        return (run if all(group.gains_nothing for group in sliced) else made)(*inputs)

    return call


@dataclass
class Programs:
    """The programs of a recorded graph.

    Args:
        forward: the program of the forward graph.
        writers: what wrote the programs.
        backward: the program of the backward graph; None without gradients.
        parts: the division into both; None without gradients.
    """

    forward: Callable[..., list[Any]]
    writers: list[Writer]
    backward: Callable[..., list[Any]] | None = None
    parts: Parts | None = None

    @property
    def repeated(self) -> int:
        """The number of forward operators that backward computes again."""
        return 0 if self.parts is None else self.parts.repeated

    def bound(self, numbers: Mapping[str, Number]) -> Programs:
        """Return the programs at other sizes, at which these numbers replace open ones."""
        backward = None if self.backward is None else rebound(self.backward, numbers)
        return Programs(rebound(self.forward, numbers), self.writers, backward, self.parts)

    def assembled(self, joint: Joint, inputs: list[Any]) -> Callable[..., Any]:
        """Return the function of the captured graph's inputs that calls the programs."""
        if self.backward is None or self.parts is None:
            requires = any(isinstance(x, flambeau.Tensor) and x.requires_grad for x in inputs)
            made = without_gradients(self.forward, requires)
        else:
            made = differentiable(joint, self.parts, self.forward, self.backward)
        return made if joint.end is None else ending_in(made, joint.end)


def _replace_in_inference(graph: Graph) -> None:
    counters["fusion"].update(replace_patterns(graph, is_training=False))


def _replace_in_training(graph: Graph) -> None:
    counters["fusion"].update(replace_patterns(graph, is_training=True))


def _programs(joint: Joint, inputs: list[Any], serves_sizes: bool) -> Programs:
    for name, value in joint.constants.items():
        if isinstance(value, Body):
            body = _programs(value.joint, value.examples, False)
            run = body.assembled(value.joint, value.examples)
            joint.constants[name] = Part(value.adapted(run), body.writers)
    # Slices have fixed sizes, so programs for many sizes have none.
    rows = (use_resizable_row_kernels,) if serves_sizes else (use_row_kernels, slice_rows)
    if not joint.differentiable:
        joint.graph.output(joint.outputs)
        for change in (remove_dead, merge_equal, _replace_in_inference, remove_dead, *rows):
            trace.changed("Graph", joint.graph, change)
        with trace.timed("write the program"):
            forward, writer = program(joint.graph, joint.constants)
        logs.say("aot_graphs", lambda: f"Forward:\n{joint.graph}")
        return Programs(forward, [writer])
    logs.say("aot_joint_graph", lambda: f"Forward and backward before the division:\n{joint.graph}")
    with trace.timed("divide"):
        parts = divide(joint, functorch.activation_memory_budget)
    for change in (remove_dead, _replace_in_training):
        trace.changed("Forward", parts.forward, change)
    for change in (remove_dead, merge_equal, transpose_products, remove_dead):
        trace.changed("Backward", parts.backward, change)
    for graph, name in ((parts.forward, "Forward"), (parts.backward, "Backward")):
        for change in rows:
            trace.changed(name, graph, change)
    logs.say("aot_graphs", lambda: f"Forward:\n{parts.forward}\nBackward:\n{parts.backward}")
    with trace.timed("write the programs"):
        forward, first = program(parts.forward, joint.constants)
        backward, second = program(parts.backward, joint.constants, takes_list=True)
    return Programs(forward, [first, second], backward, parts)
