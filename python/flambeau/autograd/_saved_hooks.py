"""Saved-tensor hooks: what the graph keeps passes through a pair of functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau import _C
from flambeau._C import Tensor


class saved_tensors_hooks:
    """A block in which tensors kept for backward pass through a pair of functions.

    Args:
        pack_hook: called with each tensor that is saved; what it returns is kept instead.
        unpack_hook: called with that when backward needs the tensor; returns an equal one.

    >>> import flambeau as fb
    >>> x = fb.tensor([3.0], requires_grad=True)
    >>> with fb.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda v: fb.tensor(v)):
    ...     y = x.sin().exp()
    >>> y.backward()
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *_: object) -> None:
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """A block in which tensors kept for backward wait in the host's memory.

    Args:
        pin_memory: accepted for PyTorch's programs; the host's memory needs no pinning here.
        device_type: accepted for PyTorch's programs.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(device=packed[0]))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Make saved_tensors_hooks raise a RuntimeError with this message within the block."""
    previous = _C._disable_saved_tensors_hooks(error_message)
    try:
        yield
    finally:
        _C._disable_saved_tensors_hooks(previous)
