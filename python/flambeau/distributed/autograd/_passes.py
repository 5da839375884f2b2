"""One backward pass over several processes.

Each process sees entries: tensors whose gradients come from elsewhere, that is, the roots, or the tensors of
one message that it has sent. A node runs when the gradients of all entries from which it is reached are
there. Nodes that are reached from the same set of entries form a stage, which is one call of the engine of
the process; it stops where other stages begin. Gradients that arrive at a node of received tensors are sent
to the sender, whose entry they complete. Each call of another process is answered when all that it started is
complete, so the first caller knows the end of the pass.

1. The supposing pass takes it that all messages of the context take part, so nobody has to ask. A stage that
   is reached from a message that does not take part never runs; its process reports that it holds gradients.
2. If some do, the exact pass continues from these gradients. First every process learns which of its entries
   take part: walking the graph from an entry finds nodes of tensors that were received; the messages that
   these tensors came with are entries of their senders. Then stages run as before.

PyTorch's design note "Distributed Autograd Design" calls the first FAST mode and the second SMART mode. A
stage that has run is reached from no gradient that is held, so the exact pass repeats nothing.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.autograd.graph import GradientEdge, get_gradient_edge
from flambeau.distributed._gradient_contexts import Context, contexts
from flambeau.distributed.rpc import _current
from flambeau.distributed.rpc._calling import async_call
from flambeau.distributed.rpc.functions import async_execution
from flambeau.futures import Future

AccumulateGrad = type(get_gradient_edge(flambeau.empty(0, device="cpu", requires_grad=True)).node)
ROOTS = -1  # the entry of the roots
HELD = -2  # the entry of gradients that the supposing pass left
SUPPOSING, EXACT = 0, 1
Number = tuple[int, int, int]  # the rank of the first caller, its number of the pass, the kind of pass
Ranks = frozenset[int]
Edge = tuple[Any, int]  # a node and the number of its input


def joined(futures: Sequence[Future[Ranks]], own: Ranks = frozenset()) -> Future[Ranks]:
    """Return a future of the union of ranks; it is done when all are, or as soon as one has failed."""
    if len(futures) == 1 and not own:
        return futures[0]  # callbacks would need another thread
    result: Future[Ranks] = Future()
    left, found, lock = len(futures), own, threading.Lock()

    def count(future: Future[Ranks]) -> None:
        nonlocal left, found
        error, ranks = None, own
        try:
            ranks = future.value()
        except Exception as failure:
            error = failure
        with lock:
            left, found = left - 1, found | ranks
            if result.done() or (left and error is None):
                return
            if error is None:
                result.set_result(found)
            else:
                result.set_exception(error)

    if not futures:
        result.set_result(own)
    for future in futures:
        future._when_done(count)
    return result


class Pass:
    """A pass in one process.

    Args:
        context: whose gradients it computes.
        number: of the pass.
        retain_graph: whether the graph can be used again.
    """

    def __init__(self, context: Context, number: Number, retain_graph: bool) -> None:
        self.context, self.number, self.retain_graph = context, number, retain_graph
        self._lock = threading.Lock()
        self._entries: dict[int, list[Edge]] = {}
        self._seen: set[Any] = set()
        self._arrived: set[int] = set()
        self._reached_by: dict[Any, int] | None = None  # node -> the set of entries, as bits
        self._bits: dict[int, int] = {}
        self._inside: dict[int, list[Any]] = {}  # set of entries -> its nodes
        self._done: set[int] = set()  # sets of entries
        self._gradients: dict[int, dict[Edge, Tensor]] = defaultdict(dict)  # that wait for a stage
        self.held: list[Tensor] = []  # the gradients of the entry HELD
        if number[-1] == SUPPOSING:
            for message, edges in context.sent.items():
                self._entries[message] = [(edge.node, edge.output_nr) for edge in edges]

    def add_roots(self, edges: Sequence[GradientEdge]) -> None:
        """Add the entry of the roots."""
        self._entries[ROOTS] = [(edge.node, edge.output_nr) for edge in edges]

    def take_held(self) -> tuple[list[GradientEdge], list[Tensor]]:
        """Return gradients of stages that did not run, and forget them."""
        with self._lock:
            held = [(GradientEdge(*e), g) for waiting in self._gradients.values() for e, g in waiting.items()]
            self._gradients.clear()
            return [edge for edge, _ in held], [gradient for _, gradient in held]

    # --- what takes part -----------------------------------------------------------------------------

    def add_entry(self, entry: int, edges: Sequence[GradientEdge]) -> dict[int, list[int]]:
        """Note an entry; return messages that its graph came with and no other entry's: rank -> messages."""
        with self._lock:
            if entry in self._entries:
                return {}
            self._entries[entry] = [(edge.node, edge.output_nr) for edge in edges]
            found: dict[int, list[int]] = defaultdict(list)
            waiting = [node for node, _ in self._entries[entry]]
            while waiting:
                node = waiting.pop()
                if node in self._seen:
                    continue
                self._seen.add(node)
                source = self.context.received.get(node)
                if source is not None:
                    found[source[0]].append(source[1])
                else:
                    waiting += [n for n, _ in node.next_functions if n is not None]
            return found

    # --- gradients -----------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Find the set of entries that each node is reached from."""
        self._bits = {entry: 1 << i for i, entry in enumerate(self._entries)}
        order = self._in_order()
        reached: dict[Any, int] = defaultdict(int)
        for entry, edges in self._entries.items():
            for node, _ in edges:
                reached[node] |= self._bits[entry]
        for node in order:
            for following in self._next(node):
                reached[following[0]] |= reached[node]
        inside: dict[int, list[Any]] = defaultdict(list)
        for node in order:
            inside[reached[node]].append(node)
        self._reached_by, self._inside = dict(reached), dict(inside)

    def _next(self, node: Any) -> list[Edge]:
        if node in self.context.received:
            return []
        return [edge for edge in node.next_functions if edge[0] is not None]

    def _in_order(self) -> list[Any]:
        """Return all nodes, each before those that it leads to."""
        order, seen = [], set()
        for edges in self._entries.values():
            stack = [(node, False) for node, _ in edges]
            while stack:
                node, left = stack.pop()
                if left:
                    order.append(node)
                elif node not in seen:
                    seen.add(node)
                    stack.append((node, True))
                    stack += [
                        (following, False) for following, _ in self._next(node) if following not in seen
                    ]
        return order[::-1]

    def arrive(self, entry: int, gradients: Sequence[Tensor | None]) -> Future[Ranks]:
        """Take the gradients of an entry, and run what became ready.

        Returns: a future, done when all that follows is; it has the ranks that hold gradients.
        """
        with self._lock:
            if self._reached_by is None:
                self._plan()
            for edge, gradient in zip(self._entries[entry], gradients, strict=True):
                self._add(edge, gradient)
            self._arrived.add(entry)
            arrived = sum(self._bits[e] for e in self._arrived)
            sent: list[Future[Ranks]] = []
            ready = [s for s in self._inside if s & arrived == s and s not in self._done]
            for entries in sorted(ready, key=int.bit_count):
                self._done.add(entries)
                sent += self._run(entries)
            holds = bool(self._gradients) and self.number[-1] == SUPPOSING
        own: Ranks = frozenset([_current.get("distributed.autograd").info.id] if holds else [])
        return joined(sent, own)

    def _add(self, edge: Edge, gradient: Tensor | None) -> None:
        assert self._reached_by is not None  # _plan has run
        if gradient is not None:
            waiting = self._gradients[self._reached_by[edge[0]]]
            waiting[edge] = waiting[edge] + gradient if edge in waiting else gradient

    def _run(self, entries: int) -> list[Future[Ranks]]:
        """Run the nodes that a set of entries leads to; return the futures of messages with gradients."""
        assert self._reached_by is not None  # _plan has run
        inside, starts = self._inside[entries], self._gradients.pop(entries, {})
        whole: dict[Edge, None] = {}  # edges to leaves and to nodes of received tensors
        others: dict[Edge, None] = {}  # edges to other stages
        for edge in (*starts, *(edge for node in inside for edge in self._next(node))):
            is_here = self._reached_by[edge[0]] == entries
            if isinstance(edge[0], AccumulateGrad) or (is_here and edge[0] in self.context.received):
                whole[edge] = None
            elif not is_here:
                others[edge] = None
        outgoing: dict[Edge, Tensor] = {}
        for edge, gradient in self._engine(starts, whole, others):
            if isinstance(edge[0], AccumulateGrad):
                self.context.add_gradient(edge[0].variable, gradient)
            elif edge in whole:
                outgoing[edge] = gradient
            else:
                self._add(edge, gradient)
        return [self._send(node, outgoing) for node in inside if node in self.context.received]

    def _engine(
        self, starts: dict[Edge, Tensor], whole: dict[Edge, None], others: dict[Edge, None]
    ) -> list[tuple[Edge, Tensor]]:
        """Return the gradients of edges that have one; hooks of tensors see only those of `whole`."""
        ends = (*whole, *others)
        if not starts or not ends:
            return []
        weights = tuple(starts.values())
        found = _C._autograd_edges(tuple(starts), weights, ends, self.retain_graph, False, False, len(whole))
        return [(edge, grad) for edge, grad in zip(ends, found, strict=True) if grad is not None]

    def _send(self, node: Any, gradients: dict[Edge, Tensor]) -> Future[Ranks]:
        rank, message, count = self.context.received[node]
        given = [gradients.get((node, i)) for i in range(count)]
        return _call(rank, _gradients_arrive, self, message, given)


def _call(rank: int, function: Callable[..., Any], work: Pass, *more: Any) -> Future[Ranks]:
    agent = _current.get("distributed.autograd.backward")
    arguments = (work.context.number, work.number, work.retain_graph, *more)
    return async_call(agent, rank, function, arguments, {}, 0.0)


def _of(context: int, number: Number, retain_graph: bool) -> Pass:
    found = contexts.retrieve("distributed.autograd.backward", context)
    with found.lock:
        if number not in found.passes:
            found.passes[number] = Pass(found, number, retain_graph)
        work: Pass = found.passes[number]
        return work


def _tell(work: Pass, found: dict[int, list[int]]) -> Future[Ranks]:
    """Tell senders that messages take part; done when all processes know their entries."""
    return joined([_call(rank, _entries_take_part, work, messages) for rank, messages in found.items()])


@async_execution
def _entries_take_part(
    context: int, number: Number, retain_graph: bool, messages: list[int]
) -> Future[Ranks]:
    work = _of(context, number, retain_graph)
    found: dict[int, list[int]] = defaultdict(list)
    for message in messages:
        for rank, more in work.add_entry(message, work.context.sent[message]).items():
            found[rank] += more
    return _tell(work, found)


@async_execution
def _gradients_arrive(
    context: int, number: Number, retain_graph: bool, message: int, gradients: list[Tensor | None]
) -> Future[Ranks]:
    return _of(context, number, retain_graph).arrive(message, gradients)


def _exact(number: Number) -> Number:
    return (*number[:-1], EXACT)


@async_execution
def _explore_held(context: int, number: Number, retain_graph: bool) -> Future[Ranks]:
    """Begin the exact pass from gradients that the supposing one left here."""
    edges, gradients = _of(context, number, retain_graph).take_held()
    work = _of(context, _exact(number), retain_graph)
    work.held = gradients
    return _tell(work, work.add_entry(HELD, edges))


@async_execution
def _held_arrive(context: int, number: Number, retain_graph: bool) -> Future[Ranks]:
    work = _of(context, _exact(number), retain_graph)
    return work.arrive(HELD, work.held)


def _forget(context: int, number: Number) -> None:
    found = contexts.find(context)
    if found is not None:
        with found.lock:
            found.passes.pop(number, None)
            found.passes.pop(_exact(number), None)


def run(context: Context, number: int, roots: Sequence[Tensor], retain_graph: bool) -> None:
    """Run a pass from roots of this process. Raises: the first error of any process."""
    agent = _current.get("distributed.autograd.backward")
    work = _of(context.number, (agent.info.id, number, SUPPOSING), retain_graph)
    gradients = [flambeau.ones_like(root) for root in roots]
    try:
        with flambeau.enable_grad(), agent.pool.waiting():
            work.add_roots([get_gradient_edge(root) for root in roots])
            holding = work.arrive(ROOTS, gradients).wait()
            if holding:
                for function in (_explore_held, _held_arrive):
                    joined([_call(rank, function, work) for rank in holding]).wait()
    finally:
        _forget(context.number, work.number)
