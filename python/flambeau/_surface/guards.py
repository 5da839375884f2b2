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


def detect_fake_mode(inputs: Any = None) -> Any:
    """Return the mode of fake tensors in force, or that of the tensors among `inputs`; or None.

    Args:
        inputs: tensors in containers.
    Raises: AssertionError if there are several modes.
    """
    from flambeau._subclasses._tensor import active_mode, maybe_get_fake_mode
    from flambeau.utils._pytree import tree_leaves

    modes = [active_mode(), *(maybe_get_fake_mode(leaf) for leaf in tree_leaves(inputs))]
    found = [mode for mode in modes if mode is not None]
    if any(mode is not found[0] for mode in found):
        raise AssertionError(f"detect_fake_mode: expected one mode of fake tensors, got {len(found)}")
    return found[0] if found else None


def active_fake_mode() -> Any:
    """Return the mode of fake tensors that is in force in this thread, or None."""
    from flambeau._subclasses._tensor import active_mode

    return active_mode()


@contextmanager
def compile_context(context: None) -> Any:
    """Accept a block without a context."""
    yield context


tracing = compile_context
