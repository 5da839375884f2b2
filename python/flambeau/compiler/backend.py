"""The backend of `compile` that fuses: operators below autograd, in fused groups where that pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._dynamo.utils import counters
from flambeau.compiler import logs
from flambeau.compiler.aot.examples import NotAhead
from flambeau.compiler.aot.function import differentiable, without_gradients
from flambeau.compiler.aot.joint import Joint, record
from flambeau.compiler.aot.partition import divide
from flambeau.compiler.aot.state import ending_in
from flambeau.compiler.emit.program import Writer, program
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
        options: accepted.
    """
    run: Callable[..., Any] = graph.forward
    graph.meta[GAIN] = False
    try:
        joint = record(graph, inputs)
    except NotAhead as error:
        counters["fusion"][str(error)] += 1
        return run
    except Exception as error:  # an operator that needs elements, or an error that the program has
        counters["fusion"][f"{type(error).__name__} while the graph was recorded"] += 1
        return run
    made, writers = _programs(joint, inputs)
    groups = sum(len(writer.groups) for writer in writers)
    graph.meta[GAIN] = any(writer.could_fuse for writer in writers)
    if groups == 0:
        counters["fusion"]["nothing to fuse"] += 1
        return run
    counters["fusion"]["groups"] += groups
    return made if joint.end is None else ending_in(made, joint.end)


def _programs(joint: Joint, inputs: list[Any]) -> tuple[Callable[..., Any], list[Writer]]:
    if not joint.differentiable:
        joint.graph.output(joint.outputs)
        remove_dead(joint.graph)
        merge_equal(joint.graph)
        forward, writer = program(joint.graph, joint.constants)
        logs.say("aot_graphs", lambda: f"Forward:\n{joint.graph}")
        requires = any(isinstance(x, flambeau.Tensor) and x.requires_grad for x in inputs)
        return without_gradients(forward, requires), [writer]
    logs.say("aot_joint_graph", lambda: f"Forward and backward before the division:\n{joint.graph}")
    parts = divide(joint)
    remove_dead(parts.forward)
    remove_dead(parts.backward)
    merge_equal(parts.backward)
    transpose_products(parts.backward)
    remove_dead(parts.backward)
    logs.say("aot_graphs", lambda: f"Forward:\n{parts.forward}\nBackward:\n{parts.backward}")
    forward, first = program(parts.forward, joint.constants)
    backward, second = program(parts.backward, joint.constants)
    return differentiable(joint, parts, forward, backward), [first, second]
