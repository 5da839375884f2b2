"""Saved-tensor hooks: what the graph keeps passes through a pair of functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau import _C
from flambeau._C import Tensor


class saved_tensors_hooks:
    """Context manager that replaces each tensor saved for backward by the value of a function.

    Args:
        pack_hook: the function of a tensor to save; its value is stored instead.
        unpack_hook: the function of the stored value; it returns an equal tensor, which backward uses.

    Example:
        >>> x = flambeau.tensor([3.0], requires_grad=True)
        >>> hooks = flambeau.autograd.graph.saved_tensors_hooks
        >>> with hooks(lambda t: t.tolist(), lambda values: flambeau.tensor(values)):
        ...     y = x * x
        >>> y.backward()
        >>> x.grad
        tensor([6.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        _C._push_saved_tensors_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *_: object) -> None:
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Context manager that stores tensors saved for backward in the memory of the host.

    Args:
        pin_memory: no effect.
        device_type: no effect.

    Example:
        >>> x = flambeau.tensor([3.0], requires_grad=True)
        >>> with flambeau.autograd.graph.save_on_cpu():
        ...     y = x * x
        >>> y.backward()
        >>> x.grad
        tensor([6.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(device=packed[0]))


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Make `saved_tensors_hooks` raise a RuntimeError inside a block.

    Args:
        error_message: the message of the error.
    Returns: a context manager.

    Example:
        >>> with flambeau.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        ...     print("hooks are disabled")
        hooks are disabled
    """
    previous = _C._disable_saved_tensors_hooks(error_message)
    try:
        yield
    finally:
        _C._disable_saved_tensors_hooks(previous)
