"""Counts of the users of remote values.

A value has one owner and an identifier; each `RRef` elsewhere is a user with a number of its own. The owner
knows all users and keeps the value until the last one is gone. A worker that sends an RRef makes a new
user, and keeps its own RRef until the owner has confirmed the new one, so that the owner always knows a user:

- the owner sends it: it notes the new user itself;
- a user sends it to the owner: the owner answers ACCEPTED;
- a user sends it to another worker: that worker sends FORK to the owner, and ACCEPTED after the answer.

A user that goes sends DROP after its FORK, on the same connection. The users of a worker that ends go with
it.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Any

from flambeau.distributed.rpc._frames import Kind, Message
from flambeau.distributed.rpc._replies import PoolFuture

if TYPE_CHECKING:
    from flambeau.distributed.rpc._agent import Agent

Number = tuple[int, int]  # rank and number within it


class Held:
    """A value that this worker owns.

    Args:
        agent: of this worker.
        number: the identifier.
    """

    def __init__(self, agent: Agent, number: Number) -> None:
        self.number = number
        self.future = PoolFuture(agent.pool)
        self.users: dict[Number, int] = {}  # user -> its worker


class Used:
    """What an RRef of another worker's value knows.

    Args:
        number: the identifier of the value.
        owner: the rank of its owner.
        user: the number of this user.
    """

    def __init__(self, number: Number, owner: int, user: Number) -> None:
        self.number, self.owner, self.user = number, owner, user
        self.confirmed = False
        self.creation: Any = None  # the future of rpc.remote
        self.type_future: Any = None

    def is_confirmed(self) -> bool:
        """Whether the owner knows this user."""
        return self.confirmed or (self.creation is not None and self.creation.done())


class References:
    """All values and users of a worker.

    Args:
        agent: the worker.
        make: returns an RRef of a `Held` or a `Used`.
        kind: the class of RRefs.
    """

    def __init__(self, agent: Agent, kind: Any) -> None:
        self._agent, self._kind = agent, kind
        self._lock = threading.RLock()  # a finalizer may run while its thread holds it
        self._held: dict[Number, Held] = {}
        self._children: dict[Number, tuple[Any, int]] = {}  # user -> the RRef it comes from, its worker
        self._numbers = itertools.count()

    def is_reference(self, value: Any) -> bool:
        """Whether a value is an RRef."""
        return isinstance(value, self._kind)

    def new_number(self) -> Number:
        """Return an identifier."""
        return self._agent.info.id, next(self._numbers)

    def held(self, number: Number) -> Held:
        """Return a value of this worker; messages about it may come before the one that makes it."""
        with self._lock:
            return self._held.setdefault(number, Held(self._agent, number))

    def add_user(self, number: Number, user: Number, rank: int) -> Held:
        """Note a user."""
        with self._lock:
            found = self.held(number)
            found.users[user] = rank
            return found

    def remove_user(self, number: Number, user: Number) -> None:
        """Forget a user, and the value if it was the last one."""
        with self._lock:
            found = self._held.get(number)
            if found is not None:
                found.users.pop(user, None)
                if not found.users:
                    del self._held[number]

    def user(self, number: Number, owner: int, user: Number) -> Any:
        """Return an RRef of another worker's value; the owner hears when the RRef is gone."""
        used = Used(number, owner, user)
        made = self._kind._of(self._agent, used)
        drop = Message(Kind.DROP, numbers=(*number, *user))
        weakref.finalize(made, self._agent.post, owner, drop).atexit = False
        return made

    def fork(self, reference: Any, to: int) -> tuple[int, ...]:
        """Return what stands for an RRef in a message: value, owner, new user, and who knows the user."""
        state, user = reference._state_in(self._agent), self.new_number()
        own = self._agent.info.id
        if isinstance(state, Held):
            with self._lock:
                self._held.setdefault(state.number, state).users[user] = to
            return (*state.number, own, *user, own)
        with self._lock:
            self._children[user] = (reference, to)
        return (*state.number, state.owner, *user, own)

    def withdraw(self, fork: tuple[int, ...]) -> None:
        """Forget a new user whose message was not sent."""
        self.accepted(fork[3:5])
        if fork[2] == self._agent.info.id:
            self.remove_user(fork[:2], fork[3:5])  # type: ignore[arg-type]

    def accepted(self, user: Any) -> None:
        """Release the RRef that a user comes from, since the owner knows the user."""
        with self._lock:
            self._children.pop(user, None)

    def adopt(self, rank: int, count: int, owner: int, user_rank: int, user_count: int, parent: int) -> Any:
        """Return the RRef of a message that has come."""
        number, user, own = (rank, count), (user_rank, user_count), self._agent.info.id
        if owner == own:
            made = self._kind._of(self._agent, self.held(number))
            if parent == own:
                self.remove_user(number, user)
            else:
                self._agent.post(parent, Message(Kind.ACCEPTED, numbers=user))
            return made
        made = self.user(number, owner, user)
        used = made._state
        if parent == owner:
            used.confirmed = True
            return made
        answer = self._agent.post_call(owner, Message(Kind.FORK, numbers=(*number, *user)))

        def confirm(_: Any) -> None:
            used.confirmed = True
            self._agent.post(parent, Message(Kind.ACCEPTED, numbers=user))

        answer._when_done(confirm)
        return made

    def forget(self, rank: int) -> None:
        """Remove the users of a worker that has ended."""
        with self._lock:
            for number, held in list(self._held.items()):
                for user in [u for u, where in held.users.items() if where == rank]:
                    self.remove_user(number, user)
            children = [user for user, (_, to) in self._children.items() if to == rank]
            released = [self._children.pop(user) for user in children]
        del released

    def counts(self) -> tuple[int, int]:
        """Return how many values are kept for users, and how many users wait to be confirmed."""
        with self._lock:
            return len(self._held), len(self._children)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()
            self._children.clear()
