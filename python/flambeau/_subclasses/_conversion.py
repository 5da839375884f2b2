"""Conversion of real tensors to fake ones; tensors that share a storage also share it as fake tensors."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau import _C
from flambeau._object.storage import StorageWeakRef
from flambeau._object.subclass import DisableTorchDispatch
from flambeau._subclasses._errors import UnsupportedFakeTensorException
from flambeau.utils._python_dispatch import is_traceable_wrapper_subclass, transform_subclass
from flambeau.utils.weak import WeakIdKeyDictionary

if TYPE_CHECKING:
    from flambeau._subclasses.fake_tensor import FakeTensorMode


class _Memory:
    """The fake counterpart of a real storage.

    Args:
        real: the real storage.
        base: a tensor without memory, as large as the storage.
    """

    def __init__(self, real: Any, base: Any) -> None:
        self.real, self.base = StorageWeakRef(real), base
        self.first: Any = None  # the first fake tensor; the others share its storage


class FakeTensorConverter:
    """Makes one fake tensor for each real tensor, and keeps the pair for the lifetime of the real tensor.

    Args:
        copy_data: must be False.
        export: accepted; has no effect.

    Example:
        >>> from flambeau._subclasses.fake_tensor import FakeTensorConverter, FakeTensorMode
        >>> FakeTensorConverter().from_real_tensor(FakeTensorMode(), flambeau.ones(2))
        FakeTensor(..., size=(2,))
    """

    def __init__(self, *, copy_data: bool = False, export: bool = False) -> None:
        if copy_data:
            raise ValueError("FakeTensorConverter: expected copy_data=False, got True")
        self.tensor_memo = WeakIdKeyDictionary()
        self._memories: dict[int, weakref.ref[_Memory]] = {}

    def from_real_tensor(
        self,
        fake_mode: FakeTensorMode,
        t: Any,
        make_constant: bool = False,
        shape_env: Any = None,
        *,
        source: Any = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> Any:
        """Return the fake counterpart of a tensor.

        The fake tensor has the same sizes, strides, dtype and device, is a Parameter or a leaf if the tensor
        is, and has the same ``requires_grad`` and a fake gradient. Fake tensors share memory and are views
        where the real ones do and are. A tensor of a class with ``__tensor_flatten__`` keeps its class, and
        its parts become fake.

        Args:
            fake_mode: the mode of the result.
            t: the tensor.
            make_constant: keep the elements, so that numbers can be read from the result.
            shape_env: the environment of the mode, for sizes that are symbols; default: sizes are numbers.
            source: the name of the tensor in guards.
            symbolic_context: how its dimensions become symbols.
            trace: accepted; has no effect.
        Raises: `UnsupportedFakeTensorException` for sparse and functional tensors, tensors of function
            transforms, and wrapper classes without ``__tensor_flatten__``.
        """
        if shape_env is not None:
            if fake_mode.shape_env is not shape_env:
                raise ValueError(f"from_real_tensor: expected the mode's shape_env, got {shape_env!r}")
            return fake_mode.from_tensor(
                t, static_shapes=False, source=source, symbolic_context=symbolic_context
            )
        if make_constant:
            return self._new(fake_mode, t, constant=t)
        found = self.tensor_memo.get(t)
        if found is None:
            with flambeau.utils._python_dispatch._disable_current_modes():
                found = self.tensor_memo[t] = self._converted(fake_mode, t)
        return found

    from_meta_and_device = None

    def _converted(self, mode: FakeTensorMode, t: Any) -> Any:
        if is_traceable_wrapper_subclass(t):
            return transform_subclass(t, lambda _, part: mode.from_tensor(part))
        _check(t)
        if t._is_view() and t._base.dtype == t.dtype:
            made = self._view(mode, t)
        else:
            made = self._new(mode, t)
            if not t.is_leaf:
                with flambeau.enable_grad():
                    made = made.requires_grad_().clone()
        if t.is_leaf and t.requires_grad and not made.requires_grad:
            made.requires_grad_()
        if isinstance(t, flambeau.nn.Parameter):
            made = flambeau.nn.Parameter(made.detach(), t.requires_grad)
        if t.is_leaf and t.grad is not None:
            made.grad = mode.from_tensor(t.grad)
        return made

    def _view(self, mode: FakeTensorMode, t: Any) -> Any:
        base = self.from_real_tensor(mode, t._base)
        with flambeau.set_grad_enabled(not t.is_leaf):
            return base.as_strided(t.size(), t.stride(), t.storage_offset())

    def _new(self, mode: FakeTensorMode, t: Any, constant: Any = None) -> Any:
        """Make a leaf in the fake counterpart of the tensor's storage."""
        memory = self._memory(t)
        with DisableTorchDispatch():
            place = (tuple(t.size()), t.stride(), t.storage_offset())
            elem = _C._rebuild(memory.base.untyped_storage().tensor, t.dtype, *place)
        made = mode._wrapped(elem, t.device, memory.first)
        memory.first = memory.first if memory.first is not None else made.detach()
        made._memory = memory
        if constant is not None:
            made._keep_constant(constant)
        return made

    def _memory(self, t: Any) -> _Memory:
        storage = t.untyped_storage()
        key = storage.tensor._storage_id()
        reference = self._memories.get(key)
        found = reference() if reference is not None else None
        if found is None or found.real.expired():
            with DisableTorchDispatch():
                base = flambeau.empty(_extent(t, storage), dtype=flambeau.uint8, device="meta")
            found = _Memory(storage, base)
            memories = self._memories
            memories[key] = weakref.ref(found, lambda r: memories.get(key) is r and memories.pop(key))
        return found


def _extent(t: Any, storage: Any) -> int:
    """Return the bytes of the storage, or the bytes that the tensor spans if the storage has no memory."""
    places = zip(t.size(), t.stride(), strict=True)
    reach = 1 + t.storage_offset() + sum((n - 1) * s for n, s in places) if t.numel() else 0
    return max(storage.nbytes(), reach * t.element_size())


def _check(t: Any) -> None:
    reason = ""
    if t.layout is not flambeau.strided:
        reason = f"a tensor of layout {t.layout}"
    elif _C._is_functional(t):
        reason = "a tensor of functionalisation"
    elif _C._wrapper_level(t):
        reason = "a tensor of a function transform"
    elif _C._has_no_memory(t) and not t.is_meta:
        reason = f"a tensor of class {type(t).__name__}, which has no __tensor_flatten__"
    if reason:
        raise UnsupportedFakeTensorException(f"FakeTensorMode: expected a strided tensor, got {reason}")
