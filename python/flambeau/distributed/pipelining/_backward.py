"""Gradients of one micro-batch of a stage: at once, or first those of the inputs and later those of weights.

The split follows Qi et al. 2023 (arXiv:2401.10241): only nodes of the graph on a path from the outputs to the
inputs run in the first part. Where another branch leaves such a path, to a weight, the gradient that arrives
there is kept; the second part starts from these places. So no matrix product is computed twice, except for
weights that are used twice on one path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flambeau import Tensor, autograd
from flambeau.autograd.graph import GradientEdge

Gradients = list[Tensor | None]


def _pairs(
    outputs: Sequence[Tensor], grads: Sequence[Tensor | None] | None
) -> tuple[list[Tensor], list[Any]]:
    """Return the outputs that have gradients, and these."""
    given = [None] * len(outputs) if grads is None else grads
    kept = [
        (output, grad)
        for output, grad in zip(outputs, given, strict=True)
        if output.requires_grad and (grads is None or grad is not None)
    ]
    return [output for output, _ in kept], [grad for _, grad in kept]


def _collected(inputs: Sequence[Tensor]) -> Gradients:
    found = [tensor.grad if tensor.requires_grad else None for tensor in inputs]
    for tensor in inputs:
        tensor.grad = None
    return found


def whole_backward(
    outputs: Sequence[Tensor], grads: Sequence[Tensor | None] | None, inputs: Sequence[Tensor]
) -> Gradients:
    """Add gradients to the leaves, and return those of the inputs.

    Args:
        outputs: the outputs of the stage.
        grads: their gradients; None: the outputs are losses.
        inputs: the inputs; leaves if they require gradients.
    """
    kept, given = _pairs(outputs, grads)
    if kept:
        autograd.backward(kept, given)
    return _collected(inputs)


class _Source:
    """Places from which one pass computes the gradients of some weights.

    Args:
        leaves: the weights, as bits.
        behind: the leaves that the pass would reach again on paths to the inputs, as bits.
        node: a node whose arriving gradients are kept; None: `outputs` are the place.
        outputs: outputs and their gradients.
    """

    def __init__(self, leaves: int, behind: int, node: Any = None, outputs: Sequence[Any] = ()) -> None:
        self.leaves, self.behind, self.node = leaves, behind, node
        self.starts: list[Any] = list(outputs)

    def keep(self, grads: Sequence[Tensor | None]) -> None:
        """Note the gradients that arrive at the node."""
        found = enumerate(grads)
        self.starts = [(GradientEdge(self.node, place), grad) for place, grad in found if grad is not None]


class _Graph:
    """The nodes that the outputs reach; sets of leaves are bits of one number.

    Args:
        roots: the nodes of the outputs.
        inputs: the leaves whose gradients come first.
    """

    def __init__(self, roots: Iterable[Any], inputs: Sequence[Tensor]) -> None:
        self.on_path: dict[Any, bool] = {}
        self.below: dict[Any, int] = {}  # the leaves that a node reaches, except inputs
        self.leaves: list[Tensor] = []
        self._bits: dict[int, int] = {}
        self._inputs = {id(tensor) for tensor in inputs}
        for root in roots:
            self._visit(root)

    def bit_of(self, leaf: Tensor) -> int:
        """Return the bit of a leaf."""
        if id(leaf) not in self._bits:
            self._bits[id(leaf)] = 1 << len(self.leaves)
            self.leaves.append(leaf)
        return self._bits[id(leaf)]

    def _visit(self, root: Any) -> None:
        waiting: list[tuple[Any, bool]] = [(root, False)]
        while waiting:
            node, is_ready = waiting.pop()
            if is_ready:
                self._note(node)
            elif node not in self.on_path:
                self.on_path[node] = False
                waiting.append((node, True))
                waiting += [(child, False) for child in _children(node) if child not in self.on_path]

    def _note(self, node: Any) -> None:
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) in self._inputs:
            self.on_path[node], self.below[node] = True, 0
            return
        below = 0 if variable is None else self.bit_of(variable)
        for child in _children(node):
            below |= self.below[child]
            self.on_path[node] |= self.on_path[child]
        self.below[node] = below

    def sources(self) -> Iterator[_Source]:
        """Yield the nodes on paths to the inputs where branches to weights leave."""
        for node, on_path in self.on_path.items():
            if on_path:
                leaves = behind = 0
                for child in _children(node):
                    if self.on_path[child]:
                        behind |= self.below[child]
                    else:
                        leaves |= self.below[child]
                if leaves:
                    yield _Source(leaves, behind, node)

    def chosen(self, bits: int) -> list[Tensor]:
        """Return the leaves of some bits."""
        return [leaf for place, leaf in enumerate(self.leaves) if bits >> place & 1]


def _children(node: Any) -> list[Any]:
    return [child for child, _ in node.next_functions if child is not None]


def _united(sources: Iterable[_Source]) -> list[list[_Source]]:
    """Put sources with a leaf in common together."""
    groups: list[list[_Source]] = []
    for source in sources:
        touched = [group for group in groups if any(one.leaves & source.leaves for one in group)]
        groups = [group for group in groups if group not in touched]
        groups.append([*(one for group in touched for one in group), source])
    return groups


class SplitBackward:
    """The two parts of a backward pass.

    Args: As for `whole_backward`.
    """

    def __init__(
        self, outputs: Sequence[Tensor], grads: Sequence[Tensor | None] | None, inputs: Sequence[Tensor]
    ) -> None:
        self._pairs = list(zip(*_pairs(outputs, grads), strict=True))
        self._all_inputs = list(inputs)
        self._inputs = [tensor for tensor in inputs if tensor.requires_grad]
        self._passes: list[tuple[list[_Source], list[Tensor] | None]] = []

    def inputs(self) -> Gradients:
        """Return the gradients of the inputs."""
        if not self._inputs or not self._pairs:
            self._passes = [([_Source(0, 0, None, self._pairs)], None)]
            return [None] * len(self._all_inputs)
        sources = self._plan()
        handles = [source.node.register_prehook(source.keep) for source in sources if source.node is not None]
        outputs, given = zip(*self._pairs, strict=True)
        try:
            grads = autograd.grad(outputs, self._inputs, given, retain_graph=True, allow_unused=True)
        finally:
            for handle in handles:
                handle.remove()
        found = {id(tensor): grad for tensor, grad in zip(self._inputs, grads, strict=True)}
        return [found.get(id(tensor)) for tensor in self._all_inputs]

    def _plan(self) -> list[_Source]:
        graph = _Graph([out.grad_fn for out, _ in self._pairs if out.grad_fn is not None], self._inputs)
        own = {id(tensor) for tensor in self._inputs}
        sources = list(graph.sources())
        for out, grad in self._pairs:
            if out.grad_fn is None and id(out) not in own:
                sources.append(_Source(graph.bit_of(out), 0, None, [(out, grad)]))
            elif out.grad_fn is not None and not graph.on_path[out.grad_fn]:
                sources.append(_Source(graph.below[out.grad_fn], 0, None, [(out, grad)]))
        everything = _Source(0, 0, None, self._pairs)
        for group in _united(sources):
            leaves = 0
            for source in group:
                leaves |= source.leaves
            # A weight that is used twice on one path would be reached twice, so its pass covers the path.
            if any(source.behind & leaves for source in group):
                everything.leaves |= leaves
            else:
                self._passes.append((group, graph.chosen(leaves)))
        if everything.leaves:
            self._passes.append(([everything], graph.chosen(everything.leaves)))
        return sources

    def weights(self) -> None:
        """Add the gradients of all leaves except the inputs to them."""
        passes, self._passes, self._pairs = self._passes, [], []
        for place, (group, leaves) in enumerate(passes):
            starts = [start for source in group for start in source.starts]
            if starts:
                tensors, grads = zip(*starts, strict=True)
                more = place + 1 < len(passes)
                autograd.backward(list(tensors), list(grads), retain_graph=more, inputs=leaves)
