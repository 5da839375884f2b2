"""The program of a rank: tasks in the order in which it starts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flambeau.distributed.simulate import _schedules as schedules
from flambeau.distributed.simulate._classes import RankClass
from flambeau.distributed.simulate._costs import chosen
from flambeau.distributed.simulate._engine import Change, Graph, Task
from flambeau.distributed.simulate._hardware import Cluster, Topology
from flambeau.distributed.simulate._schedules import Action
from flambeau.distributed.simulate._stage import Stage
from flambeau.distributed.simulate._work import Layer

COMPUTE = "compute"
KINDS_OF_WORK = (
    schedules.FORWARD,
    schedules.BACKWARD,
    schedules.INPUTS,
    schedules.WEIGHTS,
    "optimizer",
)
Changes = Sequence[tuple[str, float, bool]]  # kind, bytes, whether at the end of the task


@dataclass
class Place:
    """Where in the step a program is."""

    action: Action
    is_first: bool  # whether no micro-batch has passed through this chunk in this direction
    is_last: bool  # whether none will

    @property
    def label(self) -> str:
        """What tables show about the micro-batch."""
        return f"{self.action.kind} {self.action.micro}"


class Rank:
    """What the programs of one rank are written with.

    Args:
        graph: the tasks of all ranks.
        cluster: their hardware.
        member: the class of the rank.
        stage: its layers.
        overlaps: whether collectives run beside computation.
    """

    def __init__(self, graph: Graph, cluster: Cluster, member: RankClass, stage: Stage) -> None:
        self.graph, self.cluster, self.member, self.stage = graph, cluster, member, stage
        self.plan, self.number = stage.plan, member.number
        self.last: list[int] = []  # the last computation
        self._awaited: list[int] = []
        self._calls: dict[str, int] = {}

    def changes_of(self, changes: Changes) -> list[Change]:
        """Return changes of this rank's memory."""
        return [Change(self.number, kind, nbytes, at_end) for kind, nbytes, at_end in changes if nbytes]

    def wait_for(self, tasks: Iterable[int]) -> None:
        """Let the next computation wait for tasks."""
        self._awaited += tasks

    def compute(self, name: str, kind: str, seconds: float, changes: Changes = ()) -> int:
        """Add a computation, and return its number."""
        task = Task(name, kind, seconds * self.member.slowdown, after=self._awaited, ranks=[self.number])
        task.changes = self.changes_of(changes)
        self._awaited = []
        number = self.graph.add(task, [(self.number, COMPUTE)])
        self.last = [number]
        return number

    def collective(
        self, dim: str, name: str, kind: str, nbytes: float, after: Iterable[int], changes: Changes = ()
    ) -> list[int]:
        """Add a collective over the group along a dimension; none if this rank is alone in it.

        Args:
            dim: the dimension.
            name: what tables show.
            kind: "all_reduce", "all_gather" or "reduce_scatter".
            nbytes: bytes of the whole tensor.
            after: the tasks that it waits for.
            changes: changes of this rank's memory.
        """
        group = self.member.groups.get(dim)
        if group is None:
            if changes:
                return [
                    self.graph.add(Task(name, "local", after=list(after), changes=self.changes_of(changes)))
                ]
            return []
        call = self._calls[dim] = self._calls.get(dim, -1) + 1
        number = self.graph.shared((dim, group.number, call))
        task = self.graph.tasks[number]
        task.seconds, task.algorithm = chosen(self.cluster, kind, nbytes, group.at)
        task.name, task.kind, task.nbytes, task.size = name, kind, nbytes, group.at.size
        task.after += after
        task.ranks.append(self.number)
        task.changes += self.changes_of(changes)
        link = "node" if group.at.nodes == 1 else "network"
        queues = [(self.number, link)]
        if not self.cluster.device.overlaps:
            queues.append((self.number, COMPUTE))
        self.graph.enqueue(number, queues)
        return [number]

    # --- messages between stages -----------------------------------------------------------------------

    def send(self, key: tuple[str, int, int], layer: Layer, forward: bool) -> None:
        """Send the result of a layer, or its gradient, to a neighbour after the last computation."""
        other = self.member.following if forward else self.member.before
        is_far = self.member.to_following if forward else self.member.to_before
        number = self.graph.shared((*key, self.number))
        task = self.graph.tasks[number]
        at = Topology(2, 2, 1) if is_far else Topology(2, 1, 2)
        task.name, task.kind, task.size = f"send {key[0]} {key[2]}", "send", 2
        task.nbytes = self.stage.message(layer)
        task.seconds = self.cluster.link(at).seconds(task.nbytes)
        task.after += self.last
        task.ranks += [self.number, other]
        self.graph.enqueue(number, [(self.number, "send on" if forward else "send back")])

    def receive(self, key: tuple[str, int, int], forward: bool) -> None:
        """Let the next computation wait for a message of a neighbour."""
        other = self.member.before if forward else self.member.following
        self.wait_for([self.graph.shared((*key, other))])


def _bounds(layers: Sequence[Layer]) -> dict[int, tuple[bool, bool]]:
    """Return whether each layer, by its id, is the first, and the last one of its group."""
    first: dict[str, int] = {}
    last = {layer.group: i for i, layer in enumerate(layers)}
    for i, layer in enumerate(layers):
        first.setdefault(layer.group, i)
    return {id(layer): (first[layer.group] == i, last[layer.group] == i) for i, layer in enumerate(layers)}


class Program:
    """Adds the tasks of a rank to the graph.

    Args:
        rank: the rank.
        data: what happens to parameters and gradients.
    """

    def __init__(self, rank: Rank, data: DataParallel) -> None:
        self.rank, self.data, self.stage, self.plan = rank, data, rank.stage, rank.plan
        self.last_part = rank.stage.layout.stages * self.plan.chunks - 1
        self.bounds = [_bounds(layers) for layers in rank.stage.chunks]

    def write(self) -> None:
        """Add all tasks of a step."""
        plan, member = self.plan, self.rank.member
        schedule = plan.pipeline_schedule if plan.pipeline > 1 else "1f1b"
        actions = schedules.order(schedule, member.stage, plan.pipeline, plan.micro_batches, plan.chunks)
        self.data.begin()
        for action in actions:
            self._write(Place(action, action.micro == 0, action.micro == plan.micro_batches - 1))
        self.data.end()
        moved = self.stage.update_bytes()
        seconds = self.rank.cluster.device.seconds(self.stage.model.dtype, moved=moved, kernels=1)
        self.rank.compute(f"optimizer {plan.optimizer}", "optimizer", seconds)

    def _write(self, place: Place) -> None:
        action = place.action
        layers = self.stage.chunks[action.chunk]
        part = self.rank.member.stage + action.chunk * self.stage.layout.stages
        if action.kind == schedules.FORWARD:
            if part > 0:
                self.rank.receive(("forward", part - 1, action.micro), True)
            for layer in layers:
                self._forward(layer, place)
            if part < self.last_part:
                self.rank.send(("forward", part, action.micro), layers[-1], True)
            return
        if action.kind != schedules.WEIGHTS and part < self.last_part:
            self.rank.receive(("backward", part + 1, action.micro), False)
        for layer in reversed(layers):
            self._backward(layer, place)
        if action.kind != schedules.WEIGHTS and part > 0:
            self.rank.send(("backward", part, action.micro), self._input_of(action.chunk), False)

    def _input_of(self, chunk: int) -> Layer:
        """Return the layer before a chunk, whose result the chunk takes."""
        layers = self.stage.model.layers
        first = layers.index(self.stage.chunks[chunk][0])
        return layers[max(first - 1, 0)]

    # --- layers ----------------------------------------------------------------------------------------

    def _seconds(self, layer: Layer, flops: float, times: float) -> float:
        device = self.rank.cluster.device
        return device.seconds(
            self.stage.model.arithmetic,
            flops=self.stage.flops(layer, flops),
            weights=times * self.stage.weight_bytes(layer),
            moved=times * self.stage.moved(layer),
            kernels=layer.kernels[0] if times <= 1 else layer.kernels[1],
        )

    def _sum(self, layer: Layer, place: Place, backward: bool) -> None:
        """Add the collectives of tensor parallelism after a layer; the next computation waits for them."""
        nbytes = layer.sums[backward] * self.plan.micro_batch
        if self.plan.tensor == 1 or not nbytes:
            return
        kinds = ("reduce_scatter", "all_gather") if self.plan.sequence_parallel else ("all_reduce",)
        before = self.rank.last
        for kind in kinds:
            before = self.rank.collective("tensor", f"{layer.name} {place.label}", kind, nbytes, before)
        self.rank.wait_for(before)

    def _is_repeated(self, layer: Layer) -> bool:
        return self.plan.recompute and bool(layer.group)

    def _forward(self, layer: Layer, place: Place) -> None:
        first, last = self.bounds[place.action.chunk][id(layer)]
        self.data.before(layer, place)
        saved = self.stage.saved(layer)
        changes = [("activations", saved, False)]
        if self._is_repeated(layer):  # only the input of the group stays
            changes.append(("activations", -saved, True))
            if first:
                changes.append(("activations", self.stage.message(layer), False))
        name = f"{layer.name} {place.label}"
        self.rank.compute(name, schedules.FORWARD, self._seconds(layer, layer.forward, 1), changes)
        self._sum(layer, place, backward=False)
        if last:
            self.data.after_forward(layer, place)

    def _backward(self, layer: Layer, place: Place) -> None:
        action = place.action
        first, last = self.bounds[action.chunk][id(layer)]
        if action.kind != schedules.WEIGHTS:
            self.data.before(layer, place)
        if self._is_repeated(layer) and action.kind != schedules.WEIGHTS:
            self._repeat(layer, place, last)
        changes: list[tuple[str, float, bool]] = []
        if action.kind != schedules.INPUTS:
            changes += [("activations", -self.stage.saved(layer), True), *self.data.gradients(layer, place)]
            if self._is_repeated(layer) and first:
                changes.append(("activations", -self.stage.message(layer), True))
        seconds = self._seconds(layer, *self._parts(layer, action.kind))
        self.rank.compute(f"{layer.name} {place.label}", action.kind, seconds, changes)
        if action.kind != schedules.WEIGHTS:
            self._sum(layer, place, backward=True)
        if action.kind != schedules.INPUTS:
            self.data.after_backward(layer, place, is_end_of_group=first)

    @staticmethod
    def _parts(layer: Layer, kind: str) -> tuple[float, float]:
        """Return the operations of a backward pass, and how often parameters and activations are moved."""
        if kind == schedules.INPUTS:
            return layer.input_grads, 2
        if kind == schedules.WEIGHTS:
            return layer.weight_grads, 0
        return layer.input_grads + layer.weight_grads, 2

    def _repeat(self, layer: Layer, place: Place, is_first: bool) -> None:
        """Repeat forward of a whole group before its backward."""
        if not is_first:
            return
        for other in self.stage.chunks[place.action.chunk]:
            if other.group == layer.group:
                changes = [("activations", self.stage.saved(other), False)]
                seconds = self._seconds(other, other.forward, 1)
                self.rank.compute(f"{other.name} {place.label} again", schedules.FORWARD, seconds, changes)
                self._sum(other, place, backward=False)


class DataParallel:
    """What happens to parameters and gradients around computations; this class does nothing."""

    def begin(self) -> None:
        """Begin the step."""

    def before(self, layer: Layer, place: Place) -> None:
        """Prepare the parameters of a layer."""

    def after_forward(self, layer: Layer, place: Place) -> None:
        """Act at the end of forward of a group."""

    def gradients(self, layer: Layer, place: Place) -> Changes:
        """Return how backward of a layer changes the memory of gradients."""
        return ()

    def after_backward(self, layer: Layer, place: Place, is_end_of_group: bool) -> None:
        """Act at the end of backward of a layer."""

    def end(self) -> None:
        """Let the optimizer wait for what is left."""
