"""AsyncCollectiveTensor: the result of a collective that may still run."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau import Tensor, ops
from flambeau.distributed._functional_operators import SPACE
from flambeau.utils._pytree import tree_map_only

__all__ = ["AsyncCollectiveTensor"]

_functional: Any = getattr(ops, SPACE)
# Views that read no element, so that they need not wait.
_VIEWS = frozenset(
    "view _unsafe_view slice select permute transpose t unsqueeze squeeze expand alias detach "
    "as_strided".split()
)


class AsyncCollectiveTensor(Tensor):
    """The result of a collective that may still run; the first operator that reads it waits for the end.

    Views of it do not wait.

    Args:
        elem: the tensor that the collective writes to.

    Example:
        >>> from flambeau.distributed import _functional_collectives as functional
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = functional.all_reduce(flambeau.ones(2), "sum", dist.group.WORLD)
        >>> type(x).__name__, x + 1
        ('AsyncCollectiveTensor', tensor([2., 2.]))
        >>> dist.destroy_process_group()
    """

    elem: Tensor
    completed: bool

    @staticmethod
    def __new__(cls: Any, elem: Tensor) -> Any:
        make: Any = Tensor._make_wrapper_subclass  # type: ignore[attr-defined]
        made = make(
            cls,
            elem.shape,
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            device=elem.device,
        )
        made.elem, made.completed = elem, False
        return made

    def trigger_wait(self) -> Tensor:
        """Wait for the collective, and return the tensor that it wrote to."""
        if not self.completed:
            _functional.wait_tensor(self.elem)
            self.completed = True
        return self.elem

    wait = trigger_wait

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"AsyncCollectiveTensor({self.trigger_wait()})"

    def tolist(self) -> Any:
        """Wait, and return the elements as Python numbers."""
        return self.trigger_wait().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        """Wait, and return the elements as an array of NumPy."""
        return self.trigger_wait().numpy(force=force)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], meta: Any, size: Any, stride: Any) -> Tensor:
        return AsyncCollectiveTensor(inner["elem"])

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator on `elem`: a view at once, all others after the end of the collective."""
        name = func.name().partition("::")[2].partition(".")[0]
        if name in _VIEWS and isinstance(args[0], AsyncCollectiveTensor) and not args[0].completed:
            return AsyncCollectiveTensor(func(args[0].elem, *args[1:], **(kwargs or {})))
        args, kwargs = tree_map_only(
            AsyncCollectiveTensor, AsyncCollectiveTensor.trigger_wait, (args, kwargs or {})
        )
        return func(*args, **kwargs)


def deferred(result: Tensor) -> Tensor:
    """Return a result that is waited for when it is read; now, if it is recorded or traced."""
    is_plain = type(result) is Tensor and not result.requires_grad
    if is_plain and not flambeau._C._len_torch_dispatch_stack() and not flambeau.compiler.is_compiling():
        return AsyncCollectiveTensor(result)
    return _functional.wait_tensor(result)


AsyncCollectiveTensor.__module__ = "flambeau.distributed._functional_collectives"
