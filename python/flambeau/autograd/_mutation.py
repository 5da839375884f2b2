"""Backward passes over graphs whose saved tensors were changed in place."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd._saved_hooks import saved_tensors_hooks
from flambeau.utils._python_dispatch import TorchDispatchMode

_active: list[_Mutations] = []


class _Kept:
    """A saved tensor, which is replaced by a copy just before it is changed."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.is_copy = False

    def copy(self) -> None:
        if not self.is_copy:
            with flambeau.no_grad():
                self.tensor, self.is_copy = self.tensor.clone(), True


class _Mutations:
    """Watches the operators of a block, and copies what they are about to change."""

    def __init__(self) -> None:
        self.kept: dict[int, weakref.WeakSet[_Kept]] = {}  # by storage

    def clear(self) -> None:
        """Forget all tensors: what is changed from here on is copied no more."""
        self.kept.clear()

    def pack(self, tensor: Tensor) -> _Kept:
        kept = _Kept(tensor)
        self.kept.setdefault(tensor._storage_id(), weakref.WeakSet()).add(kept)
        return kept

    def unpack(self, kept: _Kept) -> Tensor:
        if not _active or _active[-1] is not self:
            raise AssertionError(
                "allow_mutation_on_saved_tensors: the graph was recorded in this context; run its "
                "backward in the context too"
            )
        return kept.tensor

    def copy_written(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Copy the saved tensors that share memory with what an operator changes."""
        schema = func._schema
        given = dict(zip((p.name for p in schema.parameters), args, strict=False)) | kwargs
        for name in schema.mutates & given.keys():
            written = given[name]
            for tensor in written if isinstance(written, list | tuple) else [written]:
                for kept in self.kept.pop(tensor._storage_id(), ()) if tensor is not None else ():
                    kept.copy()


class _CopyBeforeWrites(TorchDispatchMode):
    """Calls `copy_written` before every operator that changes a tensor."""

    def __init__(self, mutations: _Mutations) -> None:
        super().__init__()
        self.mutations = mutations

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator."""
        if func._schema.mutates:
            self.mutations.copy_written(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Mutations]:
    """Allow in-place changes of tensors that the graph has saved, by copying them just before the change.

    Forward and backward pass must both run in the block. Blocks do not nest.

    Returns: a context manager. It yields an object whose ``clear()`` drops all saved tensors.
    Raises: RuntimeError for a block within another.

    Example:
        >>> with flambeau.autograd.graph.allow_mutation_on_saved_tensors():
        ...     x = flambeau.ones(2, requires_grad=True)
        ...     y = x.clone()
        ...     loss = (y**2).sum()
        ...     _ = y.zero_()
        ...     loss.backward()
        >>> x.grad
        tensor([2., 2.])
    """
    if _active:
        raise RuntimeError(
            "allow_mutation_on_saved_tensors: allow_mutation_on_saved_tensors contexts cannot be "
            "nested; leave the outer one first"
        )
    mutations = _Mutations()
    _active.append(mutations)
    try:
        with saved_tensors_hooks(mutations.pack, mutations.unpack), _CopyBeforeWrites(mutations):
            yield mutations
    finally:
        mutations.clear()
        _active.pop()


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Report a change of a tensor's memory that no operator made; backward then detects stale saved tensors.

    Args:
        tensor: the tensor, or several.
    Returns: None.

    Example:
        >>> x = flambeau.zeros(1)
        >>> flambeau.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    for item in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _C._increment_version(item)
