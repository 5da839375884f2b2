"""The agent of a worker: connections to the others, calls that wait for answers, and calls to answer."""

from __future__ import annotations

import itertools
import math
import os
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import flambeau
from flambeau.distributed import _gradient_contexts
from flambeau.distributed._gradient_contexts import contexts
from flambeau.distributed.rpc import _handshake, _pickles, _remote_errors
from flambeau.distributed.rpc._connection import Connection
from flambeau.distributed.rpc._frames import HOLDS_REFERENCES, INTERNAL, NOT_RECORDED, Kind, Message
from flambeau.distributed.rpc._listener import Listener
from flambeau.distributed.rpc._pool import Clock, Pool, Task
from flambeau.distributed.rpc._references import References
from flambeau.distributed.rpc._replies import Reply
from flambeau.distributed.rpc._tensor_table import allocate, read_table
from flambeau.distributed.rpc._worker_info import WorkerInfo
from flambeau.futures import Future

_CONNECT = 30.0  # seconds for a connection to another worker
_PATIENCE = 600.0  # seconds that a control message may take to be sent
_NAP = 0.001  # seconds until it tells others that references are gone, several at once
_ASYNC = "_flambeau_async_execution"


@dataclass(eq=False)
class _Peer:
    """Another worker: where it is, the connection to it, and why there will be none."""

    info: WorkerInfo
    address: tuple[str, int]
    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: Connection | None = None
    ended: str | None = None
    noted: bool = False  # whether its end has been handled


@dataclass(frozen=True, slots=True)
class _Pending:
    reply: Reply
    to: int
    is_recorded: bool  # whether the tensors of the answer need gradients


class Agent:
    """One worker.

    Args:
        info: its name and rank.
        host: the address of the interface that it listens on.
        secret: of the job.
        threads: how many functions of others run at the same time.
        reference_kind: the class of RRefs.
        timeout: the default one of calls, in seconds.
    """

    def __init__(
        self, info: WorkerInfo, host: str, secret: bytes, threads: int, reference_kind: type, timeout: float
    ) -> None:
        self.info, self.timeout, self.closed = info, timeout, False
        self._secret = secret
        self.pool = Pool(threads)
        self.references = References(self, reference_kind)
        self.on_lost: Callable[[int, RuntimeError], None] = lambda rank, error: None
        self._peers: dict[int, _Peer] = {}
        self._known: dict[str | int, WorkerInfo] = {}
        self._lock = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._clock = Clock(
            self._pending, lambda call, late: self._fail(call, _remote_errors.timed_out(late))
        )
        self._numbers = itertools.count(1)
        self._incoming: set[Connection] = set()
        self.sent = self.handled = 0  # messages that are work
        self._posted: deque[tuple[int, Message]] = deque()
        self._wake_outbox: queue.SimpleQueue[bool] = queue.SimpleQueue()  # put() is safe in finalizers
        self._outbox = threading.Thread(target=self._send_posted, name="flambeau rpc outbox", daemon=True)
        self._outbox.start()
        self.listener = Listener(host, secret, info.id, self._welcome)
        self.listener.start()
        self.meetings: Any = None  # those that this worker leads

    # --- who there is --------------------------------------------------------------------------------

    def know(self, peers: Sequence[tuple[str, str, int]]) -> None:
        """Note the names and addresses of all workers, by rank."""
        for rank, (name, host, port) in enumerate(peers):
            self._peers[rank] = peer = _Peer(WorkerInfo(name, rank), (host, port))
            self._known |= {name: peer.info, rank: peer.info}

    @property
    def workers(self) -> list[WorkerInfo]:
        """All workers, by rank."""
        return [peer.info for peer in self._peers.values()]

    def find(self, to: Any) -> WorkerInfo:
        """Return the worker that a name, a rank or a WorkerInfo means."""
        if isinstance(to, WorkerInfo):
            to = to.id
        if type(to) in (str, int) and to in self._known:
            return self._known[to]
        if isinstance(to, bool) or not isinstance(to, str | int):
            raise ValueError(
                f"rpc: Cannot get WorkerInfo from name {to}: expected the name, the rank or the "
                "WorkerInfo of "
                f"a worker, got {type(to).__name__}"
            )
        for info in self.workers:
            if to in (info.name, info.id):
                return info
        kind = "name" if isinstance(to, str) else "id"
        raise RuntimeError(
            f"rpc: expected one of {', '.join(f'{w.name} ({w.id})' for w in self.workers)}, got {to!r}: "
            f"name:{self.info.name},rank:{self.info.id} could not find destination {kind} {to}"
        )

    def incoming_ranks(self) -> set[int]:
        """Return the ranks of the workers that are connected to this one."""
        with self._lock:
            return {connection.rank for connection in self._incoming}

    # --- connections ---------------------------------------------------------------------------------

    def _welcome(self, rank: int, link: socket.socket) -> None:
        connection = Connection(link, rank, self.pool, self._receive, self._incoming_ended)
        with self._lock:
            if self.closed:
                link.close()
                return
            self._incoming.add(connection)
        connection.start()

    def connection(self, rank: int, deadline: float = math.inf) -> Connection:
        """Return the connection to a worker. Raises: OSError if there is none."""
        peer = self._peers.get(rank)
        if peer is None:
            raise ConnectionError("the job has no worker of this rank")
        if not peer.lock.acquire(timeout=min(max(deadline - time.monotonic(), 0), _CONNECT)):
            raise TimeoutError("it does not accept connections")
        try:
            if self.closed:
                raise ConnectionError("this worker has been shut down")
            if peer.ended is not None:
                raise ConnectionError(peer.ended)
            if peer.connection is None:
                peer.connection = self._connect(
                    rank, peer.address, min(deadline, time.monotonic() + _CONNECT)
                )
            return peer.connection
        finally:
            peer.lock.release()

    def _connect(self, rank: int, address: tuple[str, int], deadline: float) -> Connection:
        link = socket.create_connection(address, max(deadline - time.monotonic(), 0.001))
        try:
            _handshake.introduce(link, self._secret, self.info.id, rank, deadline)
        except OSError:
            link.close()
            raise
        made = Connection(link, rank, self.pool, self._receive, self._ended)
        made.start()
        made.introduce_memory()
        return made

    def _incoming_ended(self, connection: Connection, reason: str) -> None:
        """Note the end of a connection by which a worker calls this one.

        Answers of the worker may still be on their way on the other connection, whose end comes by itself.
        """
        with self._lock:
            self._incoming.discard(connection)
        peer = self._peers.get(connection.rank)
        if peer is not None and not self.closed:
            if peer.connection is None:
                peer.ended = peer.ended or _reason(connection, reason)
            self._note_end(peer, _reason(connection, reason))

    def _ended(self, connection: Connection, reason: str) -> None:
        """Note the end of a connection by which this worker calls another one."""
        rank, peer = connection.rank, self._peers[connection.rank]
        if self.closed:
            return
        peer.ended = _reason(connection, reason)
        with self._lock:
            lost = [number for number, pending in self._pending.items() if pending.to == rank]
        for number in lost:
            self._fail(number, self._unreachable(rank, peer.ended))
        self._note_end(peer, peer.ended)

    def _note_end(self, peer: _Peer, reason: str) -> None:
        self.references.forget(peer.info.id)
        with self._lock:
            first, peer.noted = not peer.noted, True
        if first:
            self.on_lost(peer.info.id, self._unreachable(peer.info.id, reason))

    def _unreachable(self, rank: int, reason: object) -> RuntimeError:
        peer = self._peers.get(rank)
        name = "" if peer is None else f"{peer.info.name!r} "
        return RuntimeError(f"rpc: expected worker {name}(id {rank}) to answer, got its end: {reason}")

    # --- calls of this worker ------------------------------------------------------------------------

    def call(self, to: int, message: Message, timeout: float = 0.0) -> Reply:
        """Send a call and return the future of its answer; a timeout of 0 is none."""
        reply = self._expect(to, message)
        deadline = time.monotonic() + timeout if timeout > 0 else math.inf
        if timeout > 0:
            self._clock.at(deadline, message.call, timeout)
        try:
            self._send(to, message, deadline)
        except OSError as error:
            for fork in message.forks:
                self.references.withdraw(fork)
            self._fail(message.call, self._unreachable(to, error))
        return reply

    def _expect(self, to: int, message: Message) -> Reply:
        message.call, reply = next(self._numbers), Reply(self.pool)
        with self._lock:
            self._pending[message.call] = _Pending(reply, to, flambeau.is_grad_enabled())
            self.sent += not message.flags & INTERNAL
        return reply

    def _fail(self, number: int, error: RuntimeError) -> None:
        with self._lock:
            pending = self._pending.pop(number, None)
        if pending is not None:
            pending.reply.settle(error=error)

    def _send(self, to: int, message: Message, deadline: float) -> None:
        if to == self.info.id:
            self._receive_own(_copied(message))
        else:
            self.connection(to, deadline).send(message, deadline)

    def post(self, to: int, message: Message) -> None:
        """Send a message soon, from a thread of its own. It may be called by finalizers."""
        self._posted.append((to, message))
        self._wake_outbox.put(True)

    def post_call(self, to: int, message: Message) -> Reply:
        """Send a call soon, from a thread of its own."""
        reply = self._expect(to, message)
        self.post(to, message)
        return reply

    def _send_posted(self) -> None:
        while self._wake_outbox.get():
            if self._posted and self._posted[0][1].kind is Kind.DROP:
                time.sleep(_NAP)
            while self._posted:
                self._send_one_posted(*self._posted[0])
                self._posted.popleft()

    def _send_one_posted(self, to: int, message: Message) -> None:
        if not message.call:
            with self._lock:
                self.sent += 1
        try:
            self._send(to, message, time.monotonic() + _PATIENCE)
        except OSError as error:
            self._fail(message.call, self._unreachable(to, error))

    # --- messages of other workers ---------------------------------------------------------------------

    def _receive_own(self, message: Message) -> None:
        """Take a message of this worker to itself."""
        task = self._receive(None, message)
        if task is not None:
            self.pool.submit(task)

    def _receive(self, connection: Connection | None, message: Message) -> Task | None:
        """Take a message in the order of the connection, and return what is left to do; None: this worker."""
        kind, numbers = message.kind, message.numbers
        sender = self.info.id if connection is None else connection.rank
        if kind in (Kind.REPLY, Kind.ERROR):
            return self.pool.first_of(lambda: self._take_answer(sender, message))
        elif kind is Kind.CALL:
            return lambda: self._run(connection, sender, message, None)
        elif kind is Kind.REMOTE:
            held = self.references.add_user(numbers[:2], numbers[2:], sender)  # type: ignore[arg-type]
            return lambda: self._run(connection, sender, message, held)
        elif kind is Kind.FETCH:
            held = self.references.held(numbers)  # type: ignore[arg-type]
            return lambda: self._run_fetch(connection, sender, message, held)
        elif kind is Kind.GOODBYE:
            assert connection is not None  # no worker says it to itself
            connection.said_goodbye = True
        elif kind is Kind.FORK:
            self.references.add_user(numbers[:2], numbers[2:], sender)  # type: ignore[arg-type]
            return lambda: self._confirm(connection, message)
        else:
            if kind is Kind.DROP:
                self.references.remove_user(numbers[:2], numbers[2:])  # type: ignore[arg-type]
            else:
                self.references.accepted(numbers)
            self._count_handled(message)
        return None

    def _confirm(self, connection: Connection | None, message: Message) -> None:
        self._answer(connection, Message(Kind.REPLY, message.call))
        self._count_handled(message)

    def _count_handled(self, message: Message) -> None:
        with self._lock:
            self.handled += not message.flags & INTERNAL

    def _take_answer(self, sender: int, message: Message) -> None:
        with self._lock:
            pending = self._pending.get(message.call)
            if pending is not None and pending.to == sender:
                del self._pending[message.call]
            else:
                pending = None
        if pending is not None and not pending.is_recorded:
            message.gradients = NOT_RECORDED
        if message.flags & HOLDS_REFERENCES:  # they are taken over even if nobody reads the answer

            def take() -> None:
                try:
                    value = _pickles.read(self, sender, message)
                except Exception as error:
                    if pending is not None:
                        pending.reply.settle(error=error)
                else:
                    if pending is not None:
                        pending.reply.settle(value)

            self.pool.submit(take)
        elif pending is None:
            return  # it came too late
        elif message.kind is Kind.ERROR:
            pending.reply.arrive(lambda: _raise(message.body))
        elif not message.body:
            pending.reply.settle()
        else:
            pending.reply.arrive(lambda: _pickles.read(self, sender, message))

    def _run(self, connection: Connection | None, sender: int, message: Message, held: Any) -> None:
        """Run the function of a call and answer, at once or when its future is done."""
        context = contexts.join(message.context) if message.context >= 0 else None
        try:
            with _gradient_contexts.using(context):
                function, arguments, options = _pickles.read(self, sender, message)
                value = function(*arguments, **options)
                if getattr(function, _ASYNC, False):
                    if not isinstance(value, Future):
                        raise TypeError(
                            f"rpc: expected a Future from a function with async_execution, got {value!r}"
                        )
                    self._finish_later(connection, sender, message, context, held, value)
                    return
        except BaseException as error:
            self._finish(connection, sender, message, context, held, None, error)
        else:
            self._finish(connection, sender, message, context, held, value, None)

    def _run_fetch(self, connection: Connection | None, sender: int, message: Message, held: Any) -> None:
        context = contexts.join(message.context) if message.context >= 0 else None
        with _gradient_contexts.using(context):
            self._finish_later(connection, sender, message, context, None, held.future)

    def _finish_later(
        self,
        connection: Connection | None,
        sender: int,
        message: Message,
        context: Any,
        held: Any,
        future: Future[Any],
    ) -> None:
        """Answer when a future is done, in this thread if it is done already."""

        def finish(done: Future[Any]) -> None:
            self._finish(connection, sender, message, context, held, *_outcome(done), is_copied=True)

        if future.done():
            self._finish(connection, sender, message, context, held, *_outcome(future))
        else:
            future._when_done(finish)

    def _finish(
        self,
        connection: Connection | None,
        sender: int,
        message: Message,
        context: Any,
        held: Any,
        value: Any,
        error: BaseException | None,
        is_copied: bool = False,
    ) -> None:
        if held is not None:
            held.future.settle(value, None if error is None else _remote_errors.at(self.info, error))
        answer = Message(Kind.REPLY)
        if held is None and error is None:
            try:
                answer = _pickles.write(self, Kind.REPLY, sender, value, context)
            except BaseException as failure:
                error = failure
        if error is not None:
            answer = Message(Kind.ERROR, body=_remote_errors.pack(self.info, error))
        answer.call, answer.is_copied = message.call, is_copied
        self._answer(connection, answer)
        self._count_handled(message)

    def _answer(self, connection: Connection | None, answer: Message) -> None:
        try:
            if connection is None:
                self._receive_own(_copied(answer))
            else:
                connection.send(answer, time.monotonic() + _PATIENCE)
        except OSError:  # the worker that asked has ended
            for fork in answer.forks:
                self.references.withdraw(fork)

    # --- the end -------------------------------------------------------------------------------------

    def load(self) -> tuple[int, int, bool]:
        """Return how many messages were sent and handled, and whether anything else is being done.

        One running task of the pool is the one that asks.
        """
        with self._lock:
            sent, handled = self.sent, self.handled
        return sent, handled, bool(self._posted) or self.pool.load() > 1

    def close(self) -> None:
        """Say goodbye, close all connections and the port, and end all threads."""
        with self._lock:
            self.closed = True
            numbers, incoming = list(self._pending), list(self._incoming)
        self.listener.stop()
        connections = [*incoming, *(p.connection for p in self._peers.values() if p.connection is not None)]
        for connection in connections:
            connection.close(Message(Kind.GOODBYE))
        for number in numbers:
            self._fail(
                number, RuntimeError("rpc: expected an answer before shutdown, got the end of the worker")
            )
        self._wake_outbox.put(False)
        self._clock.close()
        self.pool.close()
        if threading.current_thread() is not self._outbox:
            self._outbox.join(2)
        self.references.clear()

    def abandon(self) -> None:
        """Close the sockets in a child of the process, so that only the parent keeps the connections."""
        self.closed = True
        links = [c.socket for c in self._incoming]
        links += [p.connection.socket for p in self._peers.values() if p.connection is not None]
        for link in [*links, *self.listener.sockets()]:
            if (descriptor := link.detach()) >= 0:  # close() waits for the streams of the socket
                os.close(descriptor)


def _reason(connection: Connection, reason: str) -> str:
    return "it has been shut down" if connection.said_goodbye else reason


def _raise(body: bytes | bytearray) -> NoReturn:
    raise _remote_errors.build(body)


def _outcome(done: Future[Any]) -> tuple[Any, BaseException | None]:
    try:
        return done.value(), None
    except BaseException as error:
        return None, error


def _copied(message: Message) -> Message:
    """Return a message as it would come from another worker, with tensors of its own."""
    copies = []
    for entry, dense in zip(read_table(message.table), message.dense, strict=True):
        copies.append(allocate(entry).copy_(dense))
    return Message(
        message.kind,
        message.call,
        message.context,
        message.gradients,
        message.numbers,
        message.table,
        message.body,
        copies,
        message.flags,
    )
