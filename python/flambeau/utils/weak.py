"""Dictionaries whose keys are tensors: by identity, and without keeping them alive."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from flambeau._C import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """Weak reference that is hashed and compared by the identity of its object.

    Args:
        key: the object.
        callback: a function that is called with the reference when the object is gone.

    Example:
        >>> from flambeau.utils.weak import WeakIdRef
        >>> x = flambeau.ones(2)
        >>> WeakIdRef(x) == WeakIdRef(x)
        True
    """

    __slots__ = ("_id",)
    _id: int

    def __new__(cls, key: Any, callback: Any = None) -> Any:
        """Refer to `key`, and call `callback` when it goes."""
        self = super().__new__(cls, key, callback)
        self._id = id(key)
        return self

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return mine is theirs if mine is not None and theirs is not None else self is other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """Dictionary with weak keys that are compared by identity.

    Args:
        dict: the first entries.
        ref_type: the class of weak references.

    Example:
        >>> from flambeau.utils.weak import WeakIdKeyDictionary
        >>> x = flambeau.ones(2)
        >>> names = WeakIdKeyDictionary({x: "x"})
        >>> names[x], len(names)
        ('x', 1)
        >>> del x
        >>> len(names)
        0
    """

    def __init__(self, dict: Mapping[Any, Any] | None = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        own = weakref.ref(self)

        def remove(key: Any) -> None:
            there = own()
            if there is not None:
                there.data.pop(key, None)

        self._remove = remove
        self.update(dict or {})

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # such objects cannot be referred to weakly
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self) -> WeakIdKeyDictionary:
        """Return a dictionary with the same entries."""
        new = type(self)(ref_type=self.ref_type) if type(self) is WeakIdKeyDictionary else type(self)()
        new.update(self)
        return new

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        from copy import deepcopy

        new = self.copy()
        for key in list(new):
            new[key] = deepcopy(new[key], memo)
        return new

    def keyrefs(self) -> list[Any]:
        """Return the weak references to the keys."""
        return list(self.data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """Weak reference to a tensor; a call returns the tensor, or None once it is gone.

    Args:
        tensor: the tensor.
    Raises: AssertionError if it is not a tensor.

    Example:
        >>> from flambeau.utils.weak import TensorWeakRef
        >>> x = flambeau.ones(2)
        >>> ref = TensorWeakRef(x)
        >>> ref() is x
        True
        >>> del x
        >>> ref() is None
        True
    """

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"TensorWeakRef: expected a tensor, got {type(tensor)}")
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()
