"""Results of one stage to the next: shapes are sent when they are new, and known afterwards.

The first message to a stage in a step names the sender's description of the step: its number, whether it
is new, whether backward follows, and a checksum of the schedule. With a new description, shapes and dtypes
precede the tensors of each micro-batch, and the receiver keeps them; otherwise receives are posted before the
tensors are sent. So micro-batches may differ in size, and no stage runs twice to find out shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor
from flambeau.distributed._errors import DistBackendError
from flambeau.distributed._point_to_point import P2POp, batch_isend_irecv, irecv, isend
from flambeau.distributed._work import Work
from flambeau.distributed.pipelining._layouts import assembled, layout_of, local_of

_MOST = 64  # descriptions that both sides keep
# Shape and dtype of this rank's part, the layout of a DTensor, whether a gradient is wanted; None: no tensor.
Described = tuple[Any, ...] | None


def described(tensor: Tensor | None) -> Described:
    """Return what the receiver has to know about a tensor."""
    if tensor is None:
        return None
    local = local_of(tensor)
    dtype = str(local.dtype).removeprefix("flambeau.")
    return tuple(local.shape), dtype, layout_of(tensor), tensor.requires_grad


def made_of(one: tuple[Any, ...], device: Any) -> Tensor:
    """Return memory for a tensor that was described."""
    return flambeau.empty(one[0], dtype=getattr(flambeau, one[1]), device=device)


class Peer(NamedTuple):
    """The other side of a direction.

    Args:
        group: the processes.
        rank: its rank in the group.
        tag: of the direction; the next number is also used.
        words: what the messages are, for errors.
        device: where tensors are.
        table: a checksum of the schedule's table.
        get_mesh: returns this stage's mesh for DTensors.
    """

    group: Any
    rank: int
    tag: int
    words: str
    device: Any
    table: int
    get_mesh: Any = None


class Batch:
    """Messages that are started together."""

    def __init__(self) -> None:
        self._ops: list[P2POp] = []
        self._sinks: list[list[Work]] = []

    def add(self, op: Callable[..., Any], tensor: Tensor, peer: Peer, tag: int, sink: list[Work]) -> None:
        """Add a message; its work goes to `sink`."""
        self._ops.append(P2POp(op, tensor, group=peer.group, tag=tag, group_peer=peer.rank))
        self._sinks.append(sink)

    def start(self) -> None:
        """Start the messages."""
        if self._ops:
            works = batch_isend_irecv(self._ops)
            for work, sink in zip(works, self._sinks, strict=True):
                sink.append(work)
        self._ops, self._sinks = [], []


def wait(works: list[Work], where: str) -> None:
    """Wait for messages. Raises: DistBackendError, which says which stage and micro-batch waited."""
    for work in works:
        try:
            work.wait()
        except DistBackendError as error:
            raise DistBackendError(f"{where}: {error}") from error
    works.clear()


class Outbox:
    """Sends the tensors of one stage to a neighbour on another rank.

    Args:
        peer: the neighbour.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._numbers: dict[Any, int] = {}
        self._known: dict[int, dict[int, list[Described]]] = {}
        self._works: list[Work] = []
        self.reset()

    def reset(self) -> None:
        """Begin a step."""
        self.number: int | None = None
        self._is_new = False

    def send(
        self, batch: Batch, microbatch: int, tensors: Sequence[Tensor | None], context: Any, trains: bool
    ) -> None:
        """Send the tensors of a micro-batch.

        Args:
            batch: receives the messages.
            microbatch: the micro-batch.
            tensors: the tensors.
            context: equal values mean that all micro-batches of a step have the shapes of an earlier step.
            trains: whether gradients come back.
        """
        found = [described(tensor) for tensor in tensors]
        if self.number is None:
            self._choose(batch, (context, microbatch, tuple(found), trains), trains)
        assert self.number is not None
        known = self._known[self.number]
        if self._is_new:
            known[microbatch] = found
            text = json.dumps(found).encode()
            size = flambeau.tensor([len(text)], dtype=flambeau.int64)
            batch.add(isend, size, self._peer, self._peer.tag, self._works)
            body = flambeau.tensor(list(text), dtype=flambeau.uint8)
            batch.add(isend, body, self._peer, self._peer.tag, self._works)
        elif found != known[microbatch]:
            raise RuntimeError(
                "PipelineStage: expected tensors of the shapes, dtypes and requires_grad "
                f"{known[microbatch]}, as in an earlier step with equal arguments, got {found}: "
                f"{self._peer.words}, micro-batch {microbatch}"
            )
        for tensor in tensors:
            if tensor is not None:
                batch.add(isend, local_of(tensor), self._peer, self._peer.tag + 1, self._works)

    def _choose(self, batch: Batch, key: Any, trains: bool) -> None:
        self._is_new = key not in self._numbers
        if self._is_new:
            if len(self._numbers) >= _MOST:
                oldest = next(iter(self._numbers))
                self._numbers[key] = self._numbers.pop(oldest)
            else:
                self._numbers[key] = len(self._numbers)
            self._known[self._numbers[key]] = {}
        self.number = self._numbers[key]
        head = flambeau.tensor([self.number, self._is_new, trains, self._peer.table], dtype=flambeau.int64)
        batch.add(isend, head, self._peer, self._peer.tag, self._works)

    def finish(self) -> None:
        """Wait until everything was sent."""
        wait(self._works, self._peer.words)

    def drop_ended(self) -> None:
        """Forget messages that have ended well."""
        self._works = [work for work in self._works if not (work.is_completed() and work.is_success())]


class Inbox:
    """Receives the tensors that one stage gets from a neighbour on another rank.

    Args:
        peer: the neighbour.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._known: dict[int, dict[int, list[Described]]] = {}
        self.reset()

    def reset(self) -> None:
        """Begin a step."""
        self._head: Tensor | None = None
        self._head_works: list[Work] = []
        self.number: int | None = None
        self._is_new = False
        self._waiting: list[int] = []
        self._arriving: dict[int, tuple[list[Tensor | None], list[Work]]] = {}

    def expect(self, batch: Batch, microbatch: int) -> None:
        """Begin to receive the tensors of a micro-batch, as far as their shapes are known.

        Args:
            batch: receives the messages.
            microbatch: the micro-batch; calls are in the order in which the neighbour sends.
        """
        if self._head is None:
            self._head = flambeau.empty(4, dtype=flambeau.int64)
            batch.add(irecv, self._head, self._peer, self._peer.tag, self._head_works)
        self._waiting.append(microbatch)
        if self.number is not None and not self._is_new:
            self._post(batch)

    def _post(self, batch: Batch) -> None:
        """Post the receives of one micro-batch, whose shapes are known."""
        assert self.number is not None
        microbatch = self._waiting.pop(0)
        works: list[Work] = []
        shapes = self._known[self.number][microbatch]
        tensors = [None if one is None else made_of(one, self._peer.device) for one in shapes]
        for tensor in tensors:
            if tensor is not None:
                batch.add(irecv, tensor, self._peer, self._peer.tag + 1, works)
        self._arriving[microbatch] = (tensors, works)

    def take(self, microbatch: int, trains: bool) -> list[Tensor | None]:
        """Wait for the tensors of a micro-batch, and return them.

        Args:
            microbatch: the micro-batch.
            trains: whether this rank sends gradients back.
        Raises: RuntimeError if the other rank expects no gradients, or this one does not.
        """
        where = f"{self._peer.words}, micro-batch {microbatch}"
        if self.number is None:
            self._read_head(trains, where)
        batch = Batch()
        while microbatch not in self._arriving:
            if self._is_new:
                self._read_shapes(where)
            self._post(batch)
            batch.start()
        parts, works = self._arriving.pop(microbatch)
        wait(works, where)
        assert self.number is not None
        found: list[Tensor | None] = []
        for part, one in zip(parts, self._known[self.number][microbatch], strict=True):
            if part is None or one is None:
                found.append(None)
                continue
            tensor = assembled(part, one[2], self._peer.get_mesh)
            found.append(tensor.requires_grad_() if trains and one[-1] else tensor)
        return found

    def _read_head(self, trains: bool, where: str) -> None:
        assert self._head is not None
        wait(self._head_works, where)
        self.number, is_new, theirs, table = self._head.tolist()
        if table != self._peer.table:
            raise RuntimeError(f"{where}: expected one schedule and n_microbatches on all ranks, got several")
        self._is_new = bool(is_new)
        if self._is_new:
            self._known[self.number] = {}
        if bool(theirs) != trains:
            raise RuntimeError(
                f"{where}: expected a loss_fn on all ranks or on none, and the same call on all, got "
                f"{'gradients' if theirs else 'no gradients'} on the sending rank and "
                f"{'gradients' if trains else 'no gradients'} on this one"
            )

    def _read_shapes(self, where: str) -> None:
        size = flambeau.empty(1, dtype=flambeau.int64)
        self._receive(size, where)
        text = flambeau.empty(int(size.item()), dtype=flambeau.uint8)
        self._receive(text, where)
        assert self.number is not None
        shapes = json.loads(bytes(text.tolist()))
        self._known[self.number][self._waiting[0]] = [None if one is None else tuple(one) for one in shapes]

    def _receive(self, tensor: Tensor, where: str) -> None:
        works: list[Work] = []
        batch = Batch()
        batch.add(irecv, tensor, self._peer, self._peer.tag, works)
        batch.start()
        wait(works, where)
