"""Loops and checkpoints as one node: their functions are recorded once, as graphs, on the first values.

A step of a loop may have no effect beyond its results, like a branch of `cond`. Carried tensors keep their
dtype and shape. Their strides and gradient state may change in the first step; if the program reads them, the
graph ends. Any other violation ends the graph too; the program's own loop then runs and raises the errors.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau._operators import control_flow, higher_order
from flambeau.compiler.capture import calls
from flambeau.compiler.capture.base import Break
from flambeau.compiler.capture.branches import Branch, BranchRecorder, WithoutWrites, run
from flambeau.compiler.capture.state_calls import module_of
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node
from flambeau.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from flambeau.utils.checkpoint import checkpoint, noop_context_fn

_CONTAINERS = (tuple, list, dict)


def leaves_of(machine: Any, value: Any, what: str) -> tuple[list[Any], TreeSpec]:
    """Return the tensors of a tree that the graph knows, and their structure."""

    def visit(item: Any) -> None:
        if type(item) in _CONTAINERS or (isinstance(item, tuple) and hasattr(item, "_fields")):
            machine.tracker.expand(item)
            for part in item.values() if isinstance(item, dict) else item:
                visit(part)
        elif not isinstance(item, flambeau.Tensor) or item.layout is not flambeau.strided:
            raise Break(f"{what} of values other than tensors")
        elif machine.recorder.node_of(item) is None:
            raise Break(f"{what} of a tensor that was made outside the graph")

    visit(value)
    return tree_flatten(value)


def _stand_in(tensor: Any) -> Any:
    """Return an alias of a tensor, in the same memory, as the argument of a recorded function."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


@dataclass
class Recorded:
    """A recorded function: its result and its graph."""

    what: str
    result: Any
    recorder: BranchRecorder
    region: WithoutWrites

    def module(self, leaves: list[Any], operands: list[Node], name: str) -> GraphModule:
        """Return the graph as a function of its parameters and operands; these are nodes of the outer graph.

        Results that share memory with a parameter or with each other are copied.
        """
        recorder, graph, copies = self.recorder, Graph(), dict[Node, Node]()
        names = {outside.name for outside in operands}
        for i, node in enumerate(recorder.parameters):
            name_of = next(n for n in (f"arg_{i}{'_' * k}" for k in range(len(names) + 1)) if n not in names)
            copies[node] = graph.placeholder(name_of)
        for outside in operands:
            made = graph.placeholder(outside.name)
            if outside in recorder.operands:
                copies[recorder.operands[outside]] = made
        for node in recorder.graph.nodes:
            if node.op != "placeholder":
                copies[node] = graph.node_copy(node, copies.__getitem__)
        outputs, seen = [], list[Any]()
        for leaf in leaves:
            node = copies[recorder._nodes[id(leaf)][0]]
            is_new = self.region.has_made(leaf) and not any(higher_order.shares_memory(leaf, x) for x in seen)
            outputs.append(node if is_new else graph.call_method("clone", (node,)))
            seen.append(leaf)
        graph.output(tuple(outputs))
        return module_of(recorder.attributes, graph, name)

    def check(self, leaves: list[Any]) -> None:
        """Refuse results that are not tensors of the graph, or that share memory with outside tensors."""
        own = {node for node in self.recorder.graph.nodes if node.op != "placeholder"}
        own.update(self.recorder.parameters)
        held = [x for x in self.recorder.given.values() if x.layout is flambeau.strided]
        for leaf in leaves:
            if (
                not isinstance(leaf, flambeau.Tensor)
                or self.recorder._nodes.get(id(leaf), (None,))[0] not in own
            ):
                raise Break(f"{self.what} that returns values other than its tensors")
            if any(higher_order.shares_memory(leaf, x) for x in held):
                raise Break(f"{self.what} that returns a view of a tensor from outside")


def record_function(
    machine: Any, function: Any, arguments: Callable[[list[Any]], tuple[Any, ...]], values: list[Any],
    unsteady: Sequence[bool], what: str,
) -> Recorded:  # fmt: skip
    """Record a function on aliases of `values`."""
    inner = Branch(machine, what)
    stand_ins = [_stand_in(value) for value in values]
    machine.tracker.keep(stand_ins)
    for tensor, is_unsteady in zip(stand_ins, unsteady, strict=True):
        inner.branch.add_parameter(tensor, is_unsteady)
    given = machine.tracker.keep(arguments(stand_ins))
    state = flambeau.get_rng_state()
    try:
        region = run(inner, function, given)
    finally:
        flambeau.set_rng_state(state)  # the loop draws these random numbers when it runs
    machine.tracker.keep(inner.result)
    return Recorded(what, inner.result, inner.branch, region)


def _record_step(
    machine: Any,
    function: Any,
    arguments: Callable[[list[Any]], tuple[Any, ...]],
    values: list[Any],
    carried: int,
    returned: Callable[[Any], list[Any]],
    what: str,
) -> tuple[Recorded, list[Any], list[bool]]:
    """Record a function whose first results are the first arguments of the next step.

    Args:
        machine: the interpreter that calls the loop.
        function: the function.
        arguments: builds its arguments from tensors.
        values: the tensors of the first step.
        carried: the number of leading tensors that each step replaces by its results.
        returned: flattens its result to tensors.
        what: a description of the function, for messages.
    Returns: the record, its tensors, and for each carried value whether its strides or gradient state differ
        after a step.
    """
    unsteady = [False] * len(values)
    while True:
        made = record_function(machine, function, arguments, values, unsteady, what)
        leaves = returned(made.result)
        made.check(leaves)
        changed = [_is_changed(a, b, what) for a, b in zip(values[:carried], leaves, strict=False)]
        if not any(c and not u for c, u in zip(changed, unsteady, strict=False)):
            return made, leaves, [a or b for a, b in zip(changed, unsteady, strict=False)]
        unsteady = [a or b for a, b in zip(changed, unsteady, strict=False)] + unsteady[carried:]


def _is_changed(before: Any, after: Any, what: str) -> bool:
    if type(after) is not flambeau.Tensor or higher_order.facts(before) != higher_order.facts(after):
        raise Break(f"{what} that changes the class, dtype or shape of a carried tensor")
    return before.stride() != after.stride() or before.requires_grad != after.requires_grad


def _structured(structure: TreeSpec, what: str) -> Callable[[Any], list[Any]]:
    """Return a function that flattens results of one structure."""

    def flatten(value: Any) -> list[Any]:
        leaves, found = tree_flatten(value)
        if found != structure:
            raise Break(f"{what} that changes the structure of the carried values")
        return leaves

    return flatten


def finish(
    machine: Any,
    target: Any,
    parts: Sequence[tuple[Recorded, list[Any]] | None],
    groups: list[list[Any]],
    *more: Any,
) -> list[Any]:
    """Run a higher-order function on graphs, add its node, and return its tensors.

    Args:
        machine: the interpreter.
        target: the function. Its arguments are the graphs, with None for missing ones, `groups`, the operands
            of the graphs, and `more`.
        parts: the recorded functions.
        groups: tuples of tensors.
        more: numbers.
    """
    recorder = machine.recorder
    given: dict[Node, Any] = {}
    for part in parts:
        given.update(part[0].recorder.given if part else {})
    outside = list(given)
    keys = [f"{target.__name__}_body_{len(recorder.attributes) + i}" for i in range(len(parts))]
    pairs = list(zip(keys, parts, strict=True))
    modules = {key: part[0].module(part[1], outside, key) for key, part in pairs if part}
    try:
        results = target(*map(modules.get, keys), *groups, list(given.values()), *more)
    except Exception as error:
        raise Break(f"{target.__name__} that raises {type(error).__name__}") from None
    recorder.attributes.update(modules)
    nodes = [recorder.graph.get_attr(key) if key in modules else None for key in keys]
    tensors = [tuple(map(recorder.node_of, group)) for group in groups]
    recorder.record(
        "call_function",
        target,
        (*nodes, *tensors, tuple(outside), *more),
        {},
        tuple(results),
        machine.where(),
    )
    return list(results)


def _check_slices(leaves: list[Any], dim: int, what: str) -> int:
    """Return `dim` as a non-negative dimension of all tensors; `Break` if it does not fit."""
    if not leaves or type(dim) is not int or any(not -x.dim() <= dim < x.dim() for x in leaves):
        raise Break(f"{what} with wrong arguments")
    if 0 in (sizes := {x.shape[dim] for x in leaves}) or len(sizes) > 1:
        raise Break(f"{what} with wrong arguments")
    return dim


def _while_loop(machine: Any, cond_fn: Any, body_fn: Any, carried_inputs: Any) -> Any:
    if type(carried_inputs) not in (tuple, list):
        raise Break("while_loop with wrong arguments")
    values, structure = leaves_of(machine, tuple(carried_inputs), "while_loop")
    flatten = _structured(structure, "while_loop with a body")

    def arguments(tensors: list[Any]) -> tuple[Any, ...]:
        return tuple(tree_unflatten(tensors, structure))

    def returned(result: Any) -> list[Any]:
        return flatten(tuple(result) if isinstance(result, tuple | list) else (result,))

    body, leaves, unsteady = _record_step(
        machine, body_fn, arguments, values, len(values), returned, "while_loop with a body"
    )
    condition = record_function(machine, cond_fn, arguments, values, unsteady, "while_loop with a condition")
    condition.check([condition.result])
    if condition.result.numel() != 1:
        raise Break("while_loop with a condition of more than one element")
    parts = [(condition, [condition.result]), (body, leaves)]
    results = finish(machine, higher_order.while_loop, parts, [values])
    nodes = [machine.recorder.node_of(tensor) for tensor in results]
    machine.recorder.unsteady.update(n for n, changes in zip(nodes, unsteady, strict=True) if changes)
    return tree_unflatten(results, structure)


def _scan(machine: Any, combine_fn: Any, init: Any, xs: Any, dim: Any, reverse: Any) -> Any:
    first, state = leaves_of(machine, init, "scan")
    leaves, structure = leaves_of(machine, xs, "scan")
    if not first:
        raise Break("scan with wrong arguments")
    dim = _check_slices(leaves, dim, "scan")
    place = dim if dim >= 0 else dim + leaves[0].dim()
    flatten = _structured(state, "scan with a function")
    rows: list[TreeSpec] = []

    def arguments(tensors: list[Any]) -> tuple[Any, ...]:
        return tree_unflatten(tensors[: len(first)], state), tree_unflatten(tensors[len(first) :], structure)

    def returned(result: Any) -> list[Any]:
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Break("scan with a function that does not return a pair")
        row, shape = tree_flatten(result[1])
        rows[:] = [shape]
        return [*flatten(result[0]), *row]

    slices = [x.detach().requires_grad_(x.requires_grad).select(place, 0) for x in leaves]
    step, made, _ = _record_step(
        machine, combine_fn, arguments, [*first, *slices], len(first), returned, "scan with a function"
    )
    results = finish(machine, higher_order.scan, [(step, made)], [first, leaves], place, bool(reverse))
    carry, ys = results[: len(first)], results[len(first) :]
    return tree_unflatten(carry, state), tree_unflatten(ys, rows[0])


def _map(machine: Any, f: Any, xs: Any, args: tuple[Any, ...]) -> Any:
    leaves, structure = leaves_of(machine, xs, "map")
    _check_slices(leaves, 0, "map")
    slices = [x.detach().requires_grad_(x.requires_grad)[0] for x in leaves]

    def arguments(tensors: list[Any]) -> tuple[Any, ...]:
        return (tree_unflatten(tensors, structure), *args)

    step = record_function(machine, f, arguments, slices, [False] * len(slices), "map with a function")
    made, shape = tree_flatten(step.result)
    step.check(made)
    return tree_unflatten(finish(machine, higher_order.map_impl, [(step, made)], [leaves]), shape)


def _associative_scan(
    machine: Any, combine_fn: Any, xs: Any, dim: Any, reverse: Any, combine_mode: Any
) -> Any:
    if combine_mode not in ("pointwise", "generic"):
        raise Break("associative_scan with wrong arguments")
    leaves, structure = leaves_of(machine, xs, "associative_scan")
    dim = _check_slices(leaves, dim, "associative_scan")
    slices = [x.detach().requires_grad_(x.requires_grad).select(dim, 0) for x in leaves]
    count = len(leaves)

    def arguments(tensors: list[Any]) -> tuple[Any, ...]:
        return tree_unflatten(tensors[:count], structure), tree_unflatten(tensors[count:], structure)

    what = "associative_scan with a function"
    flatten = _structured(structure, what)
    step, made, _ = _record_step(machine, combine_fn, arguments, [*slices, *slices], count, flatten, what)
    target = higher_order.associative_scan
    return tree_unflatten(finish(machine, target, [(step, made)], [leaves], dim, bool(reverse)), structure)


def _checkpoint(
    machine: Any,
    function: Any,
    use_reentrant: Any,
    context_fn: Any,
    determinism_check: Any,
    debug: Any,
    early_stop: Any,
    preserve_rng_state: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if use_reentrant is not False or debug is not False:
        raise Break("checkpoint with use_reentrant=True or debug=True")
    if context_fn is not noop_context_fn or determinism_check != "default":
        raise Break("checkpoint with custom contexts or checks")
    what = "checkpoint of a function"
    step = record_function(machine, functools.partial(function, **kwargs), lambda _: args, [], [], what)
    leaves, structure = tree_flatten(step.result)
    if not leaves:
        raise Break(f"{what} that returns nothing")
    step.check(leaves)
    parts, preserve = [(step, leaves)], bool(preserve_rng_state)
    return tree_unflatten(finish(machine, higher_order.checkpointed, parts, [], preserve), structure)


_RECORDERS: dict[Any, Callable[..., Any]] = {
    control_flow.while_loop: _while_loop,
    control_flow.scan: _scan,
    control_flow.map: _map,
    control_flow.associative_scan: _associative_scan,
    checkpoint: _checkpoint,
}


def record_loop(machine: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Record a call of a loop as one node with graphs of its functions.

    Args:
        machine: the interpreter; the result is pushed.
        function: `while_loop`, `scan`, `map`, `associative_scan` or `checkpoint`.
        args, kwargs: its arguments.
    """
    values = bound(function, args, kwargs)
    if not callable(values[0]):
        raise Break(f"{function.__name__} with wrong arguments")
    record_with(machine, _RECORDERS[function], values)


def bound(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the values of a function's parameters, in their order."""
    try:
        return tuple(calls.bind(inspect.unwrap(function), args, kwargs))
    except TypeError:
        raise Break(f"{function.__name__} with wrong arguments") from None


def record_with(machine: Any, recorder: Callable[..., Any], values: tuple[Any, ...]) -> None:
    """Push the result of a recorder of one node; fix sizes, and restore the generator if it fails.

    Args:
        machine: the interpreter.
        recorder: takes the interpreter and the values.
        values: the arguments of the recorded call.
    """
    machine.recorder.fix_sizes()
    state = flambeau.get_rng_state()
    try:
        result = recorder(machine, *values)
    except BaseException:
        flambeau.set_rng_state(state)
        raise
    machine.push(machine.tracker.keep(result))
