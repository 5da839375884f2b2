"""Backward passes over graphs whose saved tensors were changed in place."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd._saved_hooks import saved_tensors_hooks

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


@functools.cache
def written_arguments(schema: str) -> tuple[int, ...]:
    """Return which arguments an operator changes, by its schema."""
    inside = schema.partition("(")[2].rpartition("->")[0].rpartition(")")[0]
    parts = [p for p in inside.split(", ") if p != "*"]
    return tuple(i for i, part in enumerate(parts) if "!" in part.split(" ")[0])


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

    def before(self, schema: str, args: tuple[Any, ...]) -> None:
        """Copy the saved tensors that share memory with what the operator changes."""
        for index in written_arguments(schema):
            written = args[index]
            for tensor in written if isinstance(written, list) else [written]:
                for kept in self.kept.pop(tensor._storage_id(), ()) if tensor is not None else ():
                    kept.copy()

    def after(self, *_: Any) -> None:
        """Do nothing."""


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
        with saved_tensors_hooks(mutations.pack, mutations.unpack):
            _C._push_operator_mode(mutations)
            try:
                yield mutations
            finally:
                _C._pop_operator_mode()
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
