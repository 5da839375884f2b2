"""Gradients from one stage to the one before, which knows their shapes: they are those of its outputs.

A mask precedes the gradients of each micro-batch, since autograd may leave one out. Zeros are sent
in its place, which the receiver discards, so that it can post all receives beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

import flambeau
from flambeau import Tensor
from flambeau.distributed._point_to_point import irecv, isend
from flambeau.distributed._work import Work
from flambeau.distributed.pipelining._layouts import local_of
from flambeau.distributed.pipelining._wire import Batch, Described, Peer, made_of, wait

_BITS = 62  # of a mask of one number


class GradientOutbox:
    """Sends the gradients of the arguments of one stage to a neighbour on another rank.

    Args:
        peer: the neighbour.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._works: list[Work] = []

    def send(self, batch: Batch, wanted: Sequence[Described], grads: Sequence[Tensor | None]) -> None:
        """Send the gradients of a micro-batch.

        Args:
            batch: receives the messages.
            wanted: shapes, dtypes and `requires_grad` of the arguments.
            grads: their gradients.
        """
        pairs = [(one, grad) for one, grad in zip(wanted, grads, strict=True) if one is not None and one[-1]]
        if not pairs:
            return
        given = [grad is not None for _, grad in pairs]
        batch.add(isend, _mask(given), self._peer, self._peer.tag, self._works)
        for one, grad in pairs:
            value = made_of(one, self._peer.device).zero_() if grad is None else local_of(grad)
            batch.add(isend, value, self._peer, self._peer.tag + 1, self._works)

    def finish(self) -> None:
        """Wait until everything was sent."""
        wait(self._works, self._peer.words)

    def drop_ended(self) -> None:
        """Forget messages that have ended well."""
        self._works = [work for work in self._works if not (work.is_completed() and work.is_success())]


def _mask(given: Sequence[bool]) -> Tensor:
    numbers = [0] * (len(given) // _BITS + 1)
    for place, bit in enumerate(given):
        numbers[place // _BITS] |= int(bit) << place % _BITS
    return flambeau.tensor(numbers, dtype=flambeau.int64)


class GradientInbox:
    """Receives the gradients of the results of one stage from a neighbour on another rank.

    Args:
        peer: the neighbour.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.reset()

    def reset(self) -> None:
        """Begin a step."""
        self._waiting: list[int] = []
        self._arriving: dict[int, tuple[Tensor, list[Tensor], list[Work]]] = {}

    def expect(self, batch: Batch, microbatch: int, results: dict[int, list[Described]]) -> None:
        """Begin to receive the gradients of a micro-batch, if its results are known.

        Args:
            batch: receives the messages.
            microbatch: the micro-batch; calls are in the order in which the neighbour sends.
            results: shapes, dtypes and `requires_grad` of the results of micro-batches.
        """
        self._waiting.append(microbatch)
        self._post(batch, results)

    def _post(self, batch: Batch, results: dict[int, list[Described]]) -> None:
        while self._waiting and self._waiting[0] in results:
            microbatch = self._waiting.pop(0)
            wanted = [one for one in results[microbatch] if one is not None and one[-1]]
            mask, works = _mask([False] * len(wanted)), list[Work]()
            grads = [made_of(one, self._peer.device) for one in wanted]
            if wanted:
                batch.add(irecv, mask, self._peer, self._peer.tag, works)
            for grad in grads:
                batch.add(irecv, grad, self._peer, self._peer.tag + 1, works)
            self._arriving[microbatch] = (mask, grads, works)

    def take(self, microbatch: int, results: dict[int, list[Described]]) -> list[Tensor | None]:
        """Wait for the gradients of a micro-batch; return one, or None, per tensor among its results.

        Args:
            microbatch: the micro-batch.
            results: shapes, dtypes and `requires_grad` of the results of micro-batches.
        """
        batch = Batch()
        self._post(batch, results)
        batch.start()
        mask, grads, works = self._arriving.pop(microbatch)
        wait(works, f"{self._peer.words}, micro-batch {microbatch}")
        numbers, arrived = mask.tolist(), iter(enumerate(grads))
        found: list[Tensor | None] = []
        for one in results[microbatch]:
            if one is not None:
                place, grad = next(arrived) if one[-1] else (0, None)
                is_given = grad is not None and numbers[place // _BITS] >> place % _BITS & 1
                found.append(grad if is_given else None)
        return found
