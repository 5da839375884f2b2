"""The agent of this process."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from flambeau.distributed._gradient_contexts import contexts

if TYPE_CHECKING:
    from flambeau.distributed.rpc._agent import Agent

lock = threading.Lock()
_agent: Agent | None = None


def find() -> Agent | None:
    """Return the agent, or None before `init_rpc` and after `shutdown`."""
    return _agent


def get(name: str) -> Agent:
    """Return the agent. Raises: RuntimeError if there is none."""
    if _agent is None:
        raise RuntimeError(
            f"{name}: RPC has not been initialized. Call distributed.rpc.init_rpc first: expected "
            "a worker, got a "
            "process that is none"
        )
    return _agent


def put(agent: Agent | None) -> None:
    """Set or remove the agent."""
    global _agent
    _agent = agent


def _in_child() -> None:
    global _agent
    if _agent is not None:
        _agent.abandon()
        _agent = None
        contexts.clear()


os.register_at_fork(after_in_child=_in_child)
