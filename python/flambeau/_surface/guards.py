"""What libraries ask `torch._guards` about a capture of graphs: there is none."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, NoReturn


class _NoContext:
    """A context that exists while a graph is captured."""

    def __init__(self, *args: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__}: flambeau captures no graphs from bytecode; use "
            "flambeau.fx.symbolic_trace"
        )

    @classmethod
    def try_get(cls) -> None:
        """Return None: no graph is being captured."""

    @classmethod
    def get(cls) -> NoReturn:
        """Raise RuntimeError: no graph is being captured."""
        raise RuntimeError(
            f"{cls.__name__}.get: {cls.__name__}.get() must be called while a graph is captured; "
            "flambeau captures none"
        )


class TracingContext(_NoContext):
    """What is known while a graph is captured."""

    @staticmethod
    def extract_stack() -> list[Any]:
        """Return the stack of the program whose graph is captured: it is empty."""
        return []


class CompileContext(_NoContext):
    """What is known while a graph is compiled."""

    @classmethod
    def current_compile_id(cls) -> None:
        """Return None: nothing is being compiled."""

    current_trace_id = current_compile_id


def detect_fake_mode(inputs: Any = None) -> None:
    """Return None: no tensor is fake."""


def active_fake_mode() -> None:
    """Return None: no mode makes fake tensors."""


@contextmanager
def compile_context(context: None) -> Any:
    """Accept a block without a context."""
    yield context


tracing = compile_context
