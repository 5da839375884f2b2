"""Values in messages: pickles of the structure, with tensors and RRefs beside them.

Functions and classes are pickled by their importable names; no code is sent. A pickle is read only after the
sender has shown that it knows the secret of the job.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau import Tensor
from flambeau.distributed import _gradient_contexts
from flambeau.distributed._gradient_contexts import Context, contexts
from flambeau.distributed.rpc._frames import HOLDS_REFERENCES, NOT_RECORDED, Kind, Message
from flambeau.distributed.rpc._tensor_table import describe, is_sent_as_bytes, read_table
from flambeau.nn import Parameter

if TYPE_CHECKING:
    from flambeau.distributed.rpc._agent import Agent

_here = threading.local()  # .depth: whether a message is being pickled or read


def in_message() -> bool:
    """Whether this thread pickles or reads a message."""
    return getattr(_here, "depth", 0) > 0


class _Message:
    """Around the pickling or the reading of a message."""

    def __enter__(self) -> None:
        _here.depth = getattr(_here, "depth", 0) + 1

    def __exit__(self, *error: object) -> None:
        _here.depth -= 1


_message = _Message()


class _Pickler(pickle.Pickler):
    def __init__(self, stream: io.BytesIO, agent: Agent, to: int) -> None:
        super().__init__(stream, protocol=5)
        self._agent, self._to = agent, to
        self.tensors: list[Tensor] = []
        self.forks: list[tuple[int, ...]] = []
        self._index: dict[int, int] = {}

    def persistent_id(self, value: Any) -> Any:
        if is_sent_as_bytes(value):
            at = self._index.setdefault(id(value), len(self.tensors))
            if at == len(self.tensors):
                self.tensors.append(value)
            return at
        if self._agent.references.is_reference(value):
            fork = self._agent.references.fork(value, self._to)
            self.forks.append(fork)
            return fork
        return None

    def reducer_override(self, value: Any) -> Any:
        """Pickle a function of TorchScript by its name, as any function."""
        script = sys.modules.get("flambeau.jit._script")
        if script is None or not isinstance(value, script.ScriptFunction):
            return NotImplemented
        name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
        found: Any = sys.modules.get(value.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not value:
            raise pickle.PicklingError(
                f"rpc: expected a script function that its module has by name, got {name!r} of "
                f"{value.__module__}"
            )
        return name


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, agent: Agent, tensors: list[Tensor]) -> None:
        super().__init__(stream)
        self._agent, self._tensors = agent, tensors

    def persistent_load(self, found: Any) -> Any:
        if isinstance(found, int):
            return self._tensors[found]
        return self._agent.references.adopt(*found)


def write(agent: Agent, kind: Kind, to: int, value: Any, context: Context | None) -> Message:
    """Return a message with a value to a worker. Raises: the exception of a value that can't be pickled."""
    stream = io.BytesIO()
    pickler = _Pickler(stream, agent, to)
    try:
        with _message:
            pickler.dump(value)
        described = [describe(tensor) for tensor in pickler.tensors]
    except BaseException:
        for fork in pickler.forks:
            agent.references.withdraw(fork)
        raise
    message = Message(kind, body=stream.getvalue(), dense=[dense for _, dense in described])
    message.table = b"".join(entry.pack() for entry, _ in described)
    message.flags = HOLDS_REFERENCES if pickler.forks else 0
    message.forks = pickler.forks
    if context is not None:
        message.context = context.number
        message.gradients = _gradient_contexts.note_sent(context, to, pickler.tensors)
    return message


def read(agent: Agent, sender: int, message: Message) -> Any:
    """Return the value of a message."""
    tensors: list[Tensor] = []
    needing: list[Tensor] = []
    context = contexts.find(message.context) if message.gradients >= 0 else None
    for entry, dense in zip(read_table(message.table), message.dense, strict=True):
        if entry.requires_grad and message.gradients == NOT_RECORDED:
            pass
        elif entry.requires_grad and context is not None:
            needing.append(dense)
        elif entry.is_parameter:
            dense = Parameter(dense, requires_grad=entry.requires_grad)
        elif entry.requires_grad:
            dense.requires_grad_()
        tensors.append(dense)
    if needing and context is not None:
        _gradient_contexts.note_received(context, sender, message.gradients, needing)
    with _message, flambeau.enable_grad():
        return _Unpickler(io.BytesIO(message.body), agent, tensors).load()
