"""`minifier`: the smallest graph that still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from flambeau import Tensor
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

__all__ = ["minifier"]

Fails = Callable[[GraphModule, list[Any]], bool]


@dataclass
class _Failing:
    """A graph that fails with its inputs, one for each placeholder."""

    graph: Graph
    inputs: list[Any]


class _Values(Interpreter):
    """Runs a graph and keeps what each node computed, as it was before later nodes wrote to it."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.found: dict[str, Any] = {}

    def run_node(self, n: Node) -> Any:
        """Run a node; a tensor that it gives is copied."""
        value = super().run_node(n)
        if isinstance(value, Tensor):
            self.found[n.name] = _copy(value)
        return value


def _copy(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


class _Minifier:
    def __init__(self, root: Any, fails: Fails, dump: Callable[..., Any] | None) -> None:
        self.root, self.fails, self.dump = root, fails, dump

    def module(self, graph: Graph) -> GraphModule:
        return GraphModule(self.root, graph)

    def is_failing(self, one: _Failing) -> bool:
        """Whether a graph fails; an exception of the question is none of the failure that is sought."""
        try:
            one.graph.lint()
            return bool(self.fails(self.module(one.graph), [_copy(value) for value in one.inputs]))
        except Exception:
            return False

    def kept(self, given: _Failing, candidates: Iterator[_Failing | None]) -> _Failing | None:
        """Return the first candidate that is smaller and fails."""
        for candidate in candidates:
            if candidate is None or not _calls(candidate.graph) or _size(candidate) >= _size(given):
                continue
            if self.is_failing(candidate):
                if self.dump is not None:
                    self.dump(self.module(candidate.graph), candidate.inputs)
                return candidate
        return None

    def values(self, given: _Failing) -> dict[str, Any]:
        """Return the tensors that the nodes compute; those before the first error if there is one."""
        runner = _Values(self.module(given.graph))
        try:
            runner.run(*[_copy(value) for value in given.inputs])
        except Exception:
            return runner.found
        return runner.found

    # --- what may become smaller --------------------------------------------------------------------

    def prefixes(self, given: _Failing) -> Iterator[_Failing | None]:
        """Return a result of an earlier node instead of the graph's own, the shortest first."""
        calls = _calls(given.graph)
        step = 1
        while step < len(calls):
            yield _rebuilt(given, outputs=[calls[step - 1].name])
            step *= 2
        for node in reversed(calls[:-1]):
            yield _rebuilt(given, outputs=[node.name])

    def fewer_outputs(self, given: _Failing) -> Iterator[_Failing | None]:
        """Leave out one half of the results, or one of them."""
        names = [node.name for node in _outputs(given.graph)]
        for chunk in _chunks(names):
            yield _rebuilt(given, outputs=[name for name in names if name not in chunk])

    def earlier_outputs(self, given: _Failing) -> Iterator[_Failing | None]:
        """Return what a result follows from instead of the result, the earliest first."""
        outputs = _outputs(given.graph)
        for node in outputs:
            for earlier in _before(node, _calls(given.graph)):
                others = [earlier if other is node else other for other in outputs]
                yield _rebuilt(given, outputs=[other.name for other in dict.fromkeys(others)])

    def fewer_nodes(self, given: _Failing) -> Iterator[_Failing | None]:
        """Make inputs of stretches of nodes: what they computed is given instead."""
        values = self.values(given)
        names = [node.name for node in _calls(given.graph) if node.name in values]
        for chunk in _chunks(names):
            yield _rebuilt(given, inputs={name: values[name] for name in chunk})


def _chunks(names: list[str]) -> Iterator[set[str]]:
    """All of them, halves, quarters and so on, down to each by itself."""
    width = len(names)
    while width:
        for begin in range(0, len(names), width):
            yield set(names[begin : begin + width])
        width //= 2


def _calls(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op in ("call_function", "call_method", "call_module")]


def _before(node: Node, calls: list[Node]) -> list[Node]:
    """The calls that a node follows from, in order."""
    found, waiting = set[Node](), [node]
    while waiting:
        new = {n for n in waiting.pop().all_input_nodes if n not in found}
        found |= new
        waiting += new
    return [call for call in calls if call in found]


def _output(graph: Graph) -> Node:
    return next(node for node in reversed(graph.nodes) if node.op == "output")


def _outputs(graph: Graph) -> list[Node]:
    return _output(graph).all_input_nodes


def _size(given: _Failing) -> tuple[int, int, int]:
    return len(_calls(given.graph)), len(_outputs(given.graph)), len(given.inputs)


def _rebuilt(
    given: _Failing, outputs: list[str] | None = None, inputs: dict[str, Any] | None = None
) -> _Failing | None:
    """Copy a graph with other results or with inputs in the place of nodes, without what nothing reads.

    Returns: None if nothing would be returned.
    """
    made, copies, values = Graph(), dict[Node, Node](), dict[str, Any]()
    waiting = iter(given.inputs)
    for node in given.graph.nodes:
        if node.op == "placeholder":
            copies[node] = made.placeholder(node.name)
            values[copies[node].name] = next(waiting)
    for node in given.graph.nodes:
        if inputs is not None and node.name in inputs:
            last = [n for n in made.nodes if n.op == "placeholder"]
            with (
                made.inserting_after(last[-1])
                if last
                else made.inserting_before(next(iter(made.nodes), None))
            ):
                copies[node] = made.placeholder(node.name)
            values[copies[node].name] = inputs[node.name]
        elif node.op not in ("placeholder", "output"):
            copies[node] = made.node_copy(node, copies.__getitem__)
    end = _output(given.graph)
    if outputs is None:
        result = map_aggregate(end.args[0], lambda n: copies[n] if isinstance(n, Node) else n)
    else:
        by_name = {node.name: node for node in given.graph.nodes}
        result = tuple(copies[by_name[name]] for name in outputs)
        if not result:
            return None
    made.output(result)
    made.eliminate_dead_code()
    for node in list(made.nodes):
        if node.op == "placeholder" and not node.users:
            made.erase_node(node)
    return _Failing(made, [values[node.name] for node in made.nodes if node.op == "placeholder"])


def minifier(
    fail_f: GraphModule,
    inps: list[Any],
    module_fails: Fails,
    dump_state: Callable[[GraphModule, list[Any]], Any] | None = None,
    *,
    save_dir: str | None = None,
    offload_to_disk: bool = False,
    skip_offload: bool = False,
    skip_sanity: bool = False,
    max_granularity: int | None = None,
) -> tuple[GraphModule, list[Any]]:
    """Return the smallest graph, and its inputs, that still fails.

    Tries, until nothing helps any more: to end the graph earlier, to return fewer results, and to give the
    values of nodes as inputs instead of computing them. Nodes and inputs that nothing reads are left out; at
    least one operator remains.

    Args:
        fail_f: the graph's module, or a module that `fx.symbolic_trace` gave.
        inps: its inputs, one for each placeholder. They are copied for each attempt.
        module_fails: whether a module fails with some inputs. An exception counts as False.
        dump_state: is called with each smaller module that fails, and its inputs.
        save_dir: accepted; nothing is written to disk.
        offload_to_disk: accepted.
        skip_offload: accepted.
        skip_sanity: whether `fail_f` is not tried first. Default: False.
        max_granularity: accepted; all stretches of nodes are tried.
    Returns: the module and the list of its inputs.
    Raises: RuntimeError if the graph does not fail, or if the number of inputs is not that of placeholders.

    Example:
        >>> import flambeau
        >>> def program(x):
        ...     y = flambeau.sin(x) + 1
        ...     return flambeau.cos(y) * flambeau.exp(x)
        >>> def fails(module, inputs):
        ...     return any(node.target is flambeau.cos for node in module.graph.nodes)
        >>> small, inputs = minifier(flambeau.fx.symbolic_trace(program), [flambeau.ones(2)], fails)
        >>> [node.name for node in small.graph.nodes]
        ['add', 'cos', 'output']
    """
    count = sum(1 for node in fail_f.graph.nodes if node.op == "placeholder")
    if count != len(inps):
        raise RuntimeError(f"minifier: expected {count} inputs, one for each placeholder, got {len(inps)}")
    search = _Minifier(fail_f, module_fails, dump_state)
    state = _Failing(fail_f.graph, [_copy(value) for value in inps])
    if not skip_sanity and not search.is_failing(state):
        raise RuntimeError("minifier: expected a graph that fails with these inputs, got one that does not")
    waiting: list[Callable[[_Failing], Iterator[_Failing | None]]] = [
        search.prefixes,
        search.fewer_outputs,
        search.earlier_outputs,
        search.fewer_nodes,
    ]
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for strategy in waiting:
            found = search.kept(state, strategy(state))
            while found is not None:
                state, is_smaller = found, True
                found = search.kept(state, strategy(state))
    return search.module(state.graph), state.inputs
