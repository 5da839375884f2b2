"""Starting calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.distributed import _gradient_contexts
from flambeau.distributed.rpc import _pickles
from flambeau.distributed.rpc._agent import Agent
from flambeau.distributed.rpc._frames import INTERNAL, Kind, Message
from flambeau.distributed.rpc._references import Used
from flambeau.distributed.rpc._replies import Reply
from flambeau.distributed.rpc.constants import UNSET_RPC_TIMEOUT
from flambeau.distributed.rpc.options import checked_timeout


def seconds_of(name: str, agent: Agent, timeout: Any) -> float:
    """Return the time-out of a call in seconds, where -1 means the worker's; 0 is none."""
    return agent.timeout if timeout == UNSET_RPC_TIMEOUT else checked_timeout(name, timeout)


def async_call(
    agent: Agent,
    to: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    timeout: float = UNSET_RPC_TIMEOUT,
    internal: bool = False,
) -> Reply:
    """Return the future of a call. `internal`: it belongs to the end of the job, and is not waited for."""
    seconds = seconds_of("rpc", agent, timeout)
    context = None if internal else _gradient_contexts.current()
    message = _pickles.write(agent, Kind.CALL, to, (function, args, kwargs), context)
    message.flags |= INTERNAL * internal
    message.is_copied = True
    return agent.call(to, message, seconds)


def sync_call(
    agent: Agent,
    to: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Any:
    """Return the result of a call."""
    seconds = seconds_of("rpc", agent, timeout)
    message = _pickles.write(agent, Kind.CALL, to, (function, args, kwargs), _gradient_contexts.current())
    return agent.call(to, message, seconds).wait()


def fetch(agent: Agent, state: Used, timeout: float) -> Any:
    """Return the value of an RRef of another worker's value."""
    seconds, context = seconds_of("rpc", agent, timeout), _gradient_contexts.current()
    message = Message(Kind.FETCH, numbers=state.number)
    if context is not None:
        message.context = context.number
        message.gradients = _gradient_contexts.note_sent(context, state.owner, ())
    return agent.call(state.owner, message, seconds).wait()


def start_remote(
    make: Callable[..., Any],
    agent: Agent,
    to: int,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Any:
    """Return an RRef of the result of a function that another worker runs; `make` makes those of this one."""
    seconds, references = seconds_of("remote", agent, timeout), agent.references
    number, user = references.new_number(), references.new_number()
    message = _pickles.write(agent, Kind.REMOTE, to, (function, args, kwargs), _gradient_contexts.current())
    message.numbers = (*number, *user)
    message.is_copied = True
    if to == agent.info.id:
        made = make(agent, references.add_user(number, user, to))
        creation = agent.call(to, message, seconds)
        creation._when_done(lambda _: references.remove_user(number, user))
        return made
    made = references.user(number, to, user)
    state: Used = made._state
    state.creation = agent.call(to, message, seconds)
    return made
