"""Loops and checkpoints in graphs that are recorded ahead of time: their functions become programs.

A function is recorded once, on tensors without memory that represent the arguments of any step. The forward
pass is one node, which runs the loop. The backward pass is another node: it runs the loop again with
gradients and then backward through its steps, so only the operands of the loop are saved. If the functions
draw random numbers, forward also returns the state of the generator, and backward draws the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau._operators import higher_order
from flambeau.compiler.aot.examples import NotAhead
from flambeau.compiler.ir.dependences import is_random, written
from flambeau.fx.experimental._operator_trace import OperatorTracer
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.nn.attention._of_graph import flex_attention_of_graph
from flambeau.utils._python_dispatch import TorchDispatchModeKey, _pop_mode_temporarily

if TYPE_CHECKING:
    from flambeau.compiler.aot.joint import Joint

Record = Callable[[Any, list[Any]], "Joint"]


@dataclass
class Body:
    """A recorded function of a loop, for the backend to compile.

    Args:
        joint: its operators.
        examples: its inputs.
        carried: the number of leading inputs whose strides may differ in the first step.
    """

    joint: Joint
    examples: list[Any]
    carried: int

    def adapted(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return a program of the body for arguments of any strides.

        Args:
            run: the program for the recorded strides.
        """
        strides = [x.stride() for x in self.examples[: self.carried]]
        if not strides:
            return run

        def adapt(*inputs: Any) -> Any:
            pairs = zip(inputs, strides, strict=False)
            given = [x if x.stride() == s else _with_strides(x, s) for x, s in pairs]
            return run(*given, *inputs[len(given) :])

        return adapt


def _with_strides(value: Any, strides: tuple[int, ...]) -> Any:
    made = flambeau.empty_strided(value.size(), strides, dtype=value.dtype, device=value.device)
    return made.copy_(value)


def _step_while(groups: list[list[Any]], _: Any) -> tuple[list[Any], int]:
    return [*groups[0], *groups[1]], len(groups[0])


def _step_scan(groups: list[list[Any]], dim: int) -> tuple[list[Any], int]:
    return [*groups[0], *(x.select(dim, 0) for x in groups[1]), *groups[2]], len(groups[0])


def _step_map(groups: list[list[Any]], _: Any) -> tuple[list[Any], int]:
    return [*(x.select(0, 0) for x in groups[0]), *groups[1]], 0


def _step_associative(groups: list[list[Any]], dim: int) -> tuple[list[Any], int]:
    slices = [x.select(dim, 0) for x in groups[0]]
    return [*slices, *slices, *groups[1]], len(slices)


def _step_checkpointed(groups: list[list[Any]], _: Any) -> tuple[list[Any], int]:
    return groups[0], 0


# For each loop, a function that returns the arguments of its first step and how many of them steps replace.
LOOPS: dict[Any, Callable[[list[list[Any]], Any], tuple[list[Any], int]]] = {
    higher_order.while_loop: _step_while,
    higher_order.scan: _step_scan,
    higher_order.map_impl: _step_map,
    higher_order.associative_scan: _step_associative,
    higher_order.checkpointed: _step_checkpointed,
}


def record_loop(tracer: OperatorTracer, record: Record, target: Any, args: tuple[Any, ...]) -> list[Any]:
    """Record a call of a loop; return its results, which have no memory.

    Args:
        tracer: receives the nodes.
        record: records a graph ahead of time.
        target: a key of `LOOPS`.
        args: graphs, tuples of tensors, then numbers.
    Raises: `NotAhead` for functions with effects, and for steps that change strides.
    """
    modules = [a for a in args if isinstance(a, GraphModule)]
    groups = [list(a) for a in args if isinstance(a, tuple | list)]
    more = args[len(modules) + len(groups) :]
    step = LOOPS[target]
    if target is higher_order.checkpointed:
        target, more = higher_order.called, ()  # backward runs every function again, with the same numbers
    with _pop_mode_temporarily(TorchDispatchModeKey.PROXY):
        shapes = [[x if x.is_meta else _like(x) for x in group] for group in groups]  # constants have memory
        examples, carried = step(shapes, more[0] if more else None)
        bodies = _bodies(record, target, modules, examples, carried)
        made = _results(target, bodies, shapes, more)
    nodes = [_attribute(tracer, body) for body in bodies]
    draws = any(is_random(node) for body in bodies for node in body.joint.graph.nodes)
    return _call(tracer, target, (nodes, groups, more), made, draws)


def record_attention(tracer: OperatorTracer, args: tuple[Any, ...]) -> list[Any]:
    """Record a call of `flex_attention_of_graph`; return its results, which have no memory.

    Its functions run as they were captured, on all positions at once.

    Args:
        tracer: receives the nodes.
        args: two graphs or None, three tuples of tensors, then numbers.
    """
    modules, groups, more = args[:2], [list(a) for a in args[2:5]], args[5:]
    with _pop_mode_temporarily(TorchDispatchModeKey.PROXY):
        shapes = [[x if x.is_meta else _like(x) for x in group] for group in groups]
        made = flex_attention_of_graph(*modules, *shapes, *more)
    nodes: list[Node | None] = []
    for module in modules:
        name = f"attention_{len(vars(tracer.root))}"
        if module is not None:
            setattr(tracer.root, name, module.forward)
        nodes.append(None if module is None else tracer.graph.create_node("get_attr", name, (), {}))
    return _call(tracer, flex_attention_of_graph, (nodes, groups, more), made, draws=False)


def _attribute(tracer: OperatorTracer, body: Body) -> Node:
    name = f"loop_{sum(isinstance(value, Body) for value in vars(tracer.root).values())}"
    setattr(tracer.root, name, body)
    return tracer.graph.create_node("get_attr", name, (), {})


def _bodies(record: Record, target: Any, modules: list[Any], examples: list[Any], carried: int) -> list[Body]:
    """Record the functions for arguments whose strides and gradient state hold in every step."""
    for _ in range(2 + carried):
        bodies = [Body(record(module, examples), examples, carried) for module in modules]
        joint = bodies[-1].joint
        for body in bodies:
            _check(body.joint)
        ends = [node.meta["val"] for node in joint.outputs[:carried]]
        wanted = [(e.stride(), x.requires_grad or i in joint.differentiable)
                  for i, (e, x) in enumerate(zip(ends, examples, strict=False))]  # fmt: skip
        if all((x.stride(), x.requires_grad) == w for x, w in zip(examples, wanted, strict=False)):
            return bodies
        if target is higher_order.while_loop and any(
            x.stride() != strides for x, (strides, _) in zip(examples, wanted, strict=False)
        ):
            break  # a loop without iterations returns its inputs
        made = [
            flambeau.empty_strided(x.size(), strides, dtype=x.dtype, device="meta").requires_grad_(is_wanted)
            for x, (strides, is_wanted) in zip(examples, wanted, strict=False)
        ]
        examples = [*made, *examples[carried:]]
    raise NotAhead("a loop that changes the strides of a carried tensor")


def _check(joint: Joint) -> None:
    if joint.end is not None or any(n in joint.inputs for node in joint.graph.nodes for n in written(node)):
        raise NotAhead("a loop with effects")
    if any(node.meta.get("val") is None for node in joint.outputs):
        raise NotAhead("a loop with results of unknown sizes")


def _like(value: Any) -> Any:
    """Make a tensor on "meta" with another one's geometry, without its autograd history."""
    with flambeau.no_grad():
        return flambeau.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="meta")


def _results(target: Any, bodies: list[Body], groups: list[list[Any]], more: tuple[Any, ...]) -> list[Any]:
    """Return a loop's results as tensors without memory, computed from its recorded steps."""
    answers = iter([True, False])
    functions: list[Callable[..., Any]] = [_step_of(body) for body in bodies]
    if target is higher_order.while_loop:
        functions[0] = lambda *_: next(answers)
    return list(target(*functions, *groups, *more))


def _step_of(body: Body) -> Callable[..., list[Any]]:
    joint = body.joint

    def step(*given: Any) -> list[Any]:
        made = [_like(node.meta["val"]) for node in joint.outputs]
        return [m.requires_grad_(i in joint.differentiable) for i, m in enumerate(made)]

    return step


def _call(
    tracer: OperatorTracer, target: Any, arguments: tuple[Any, ...], made: list[Any], draws: bool
) -> list[Any]:
    """Add the nodes of a loop, and return its results."""
    nodes, groups, more = arguments
    flat = [x for group in groups for x in group]
    if target is higher_order.while_loop:  # a loop without iterations returns its inputs
        differs = [m.requires_grad or x.requires_grad for m, x in zip(made, groups[0], strict=True)]
    else:
        differs = [m.requires_grad for m in made]
    places = [i for i, differentiable in enumerate(differs) if differentiable]
    taken = (*nodes, *(tuple(tracer.node_of(x) for x in group) for group in groups), *more)
    wanted = [x.requires_grad for x in flat]

    class LoopBackward(flambeau.autograd.Function):
        """The two nodes of one loop."""

        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            results = tuple(map(_unrecorded, made))
            if draws:
                ctx.state = _unrecorded(flambeau.get_rng_state())
                _add(tracer, higher_order.drawn, (target, taken), (*results, ctx.state))
            else:
                _add(tracer, target, taken, results)
            ctx.save_for_backward(*given)
            ctx.mark_non_differentiable(*[t for i, t in enumerate(results) if i not in places])
            return results

        @staticmethod
        def backward(ctx: Any, *slopes: Any) -> Any:
            _ = ctx.saved_tensors  # raises an error if one was changed after the forward pass
            tangents = tuple(tracer.node_of(slopes[i]) for i in places)
            with _pop_mode_temporarily(TorchDispatchModeKey.PROXY), flambeau.no_grad():
                found = [flambeau.empty_like(x) if w else None for x, w in zip(flat, wanted, strict=True)]
            state = (tracer.node_of(ctx.state),) if draws else ()
            given = (target, taken, tangents, tuple(places), tuple(wanted), *state)
            _add(tracer, higher_order.gradients, given, [g for g in found if g is not None])
            return tuple(found)

    return list(LoopBackward.apply(*flat))


def _unrecorded(value: Any) -> Any:
    with _pop_mode_temporarily(TorchDispatchModeKey.PROXY):
        return _like(value)


def _add(tracer: OperatorTracer, target: Any, args: tuple[Any, ...], results: Sequence[Any]) -> None:
    node = tracer.graph.create_node("call_function", target, args, {})
    tracer.assign(tuple(results), node)
