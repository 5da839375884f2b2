"""The backend of `compile` that fuses: operators below autograd, in fused groups where that pays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._dynamo.utils import counters
from flambeau._functorch import config as functorch
from flambeau.compiler import logs, trace
from flambeau.compiler.aot.examples import NotAhead
from flambeau.compiler.aot.function import differentiable, without_gradients
from flambeau.compiler.aot.joint import Joint, record
from flambeau.compiler.aot.loops import Body
from flambeau.compiler.aot.partition import divide
from flambeau.compiler.aot.state import ending_in
from flambeau.compiler.emit.background import tier_of
from flambeau.compiler.emit.program import Part, Writer, program
from flambeau.compiler.emit.row_kernels import RowKernel, row_kernels, use_row_kernels
from flambeau.compiler.emit.rows import Sliced, could_slice, slice_rows, sliced_groups
from flambeau.compiler.ir import GAIN
from flambeau.compiler.passes.cleanup import merge_equal, remove_dead
from flambeau.compiler.passes.products import transpose_products


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
    with tier_of(options.get("options")), trace.page("graph for other sizes", "", directory):
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
    made, writers, repeated = _programs(joint, inputs)
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
    counters["fusion"]["groups"] += groups
    if sliced:
        counters["fusion"]["groups of rows"] += len(sliced)
    if kernels:
        counters["fusion"]["groups of row kernels"] += len(kernels)
    made = made if joint.end is None else ending_in(made, joint.end)
    return made if groups > rows or repeated else _while_useful(made, run, [*sliced, *kernels])


def _while_useful(
    made: Callable[..., Any], run: Callable[..., Any], sliced: list[Sliced | RowKernel]
) -> Callable[..., Any]:
    """Return a function that runs a graph as it was captured once its row groups gain nothing."""

    def call(*inputs: Any) -> Any:
        return (run if all(group.gains_nothing for group in sliced) else made)(*inputs)

    return call


def _programs(joint: Joint, inputs: list[Any]) -> tuple[Callable[..., Any], list[Writer], int]:
    for name, value in joint.constants.items():
        if isinstance(value, Body):
            run, writers, _ = _programs(value.joint, value.examples)
            joint.constants[name] = Part(value.adapted(run), writers)
    if not joint.differentiable:
        joint.graph.output(joint.outputs)
        trace.changed("Graph", joint.graph, remove_dead)
        trace.changed("Graph", joint.graph, merge_equal)
        trace.changed("Graph", joint.graph, use_row_kernels)
        trace.changed("Graph", joint.graph, slice_rows)
        with trace.timed("write the program"):
            forward, writer = program(joint.graph, joint.constants)
        logs.say("aot_graphs", lambda: f"Forward:\n{joint.graph}")
        requires = any(isinstance(x, flambeau.Tensor) and x.requires_grad for x in inputs)
        return without_gradients(forward, requires), [writer], 0
    logs.say("aot_joint_graph", lambda: f"Forward and backward before the division:\n{joint.graph}")
    with trace.timed("divide"):
        parts = divide(joint, functorch.activation_memory_budget)
    trace.changed("Forward", parts.forward, remove_dead)
    for change in (remove_dead, merge_equal, transpose_products, remove_dead):
        trace.changed("Backward", parts.backward, change)
    for graph, name in ((parts.forward, "Forward"), (parts.backward, "Backward")):
        trace.changed(name, graph, use_row_kernels)
        trace.changed(name, graph, slice_rows)
    logs.say("aot_graphs", lambda: f"Forward:\n{parts.forward}\nBackward:\n{parts.backward}")
    with trace.timed("write the programs"):
        forward, first = program(parts.forward, joint.constants)
        backward, second = program(parts.backward, joint.constants, takes_list=True)
    return differentiable(joint, parts, forward, backward), [first, second], parts.repeated
