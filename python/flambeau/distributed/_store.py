"""Stores of keys and values that processes share: the interface, a store in memory, and prefixes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from flambeau.distributed._errors import DistStoreError, QueueEmptyError
from flambeau.distributed._table import Table

__all__ = ["HashStore", "PrefixStore", "Store"]

DEFAULT_TIMEOUT = timedelta(seconds=300)


def encoded(name: str, value: Any) -> bytes:
    """Return a value as bytes; text is encoded as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"{name}: expected a value of type str or bytes, got {type(value).__name__}")


def _checked_key(name: str, key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{name}: expected a key of type str, got {type(key).__name__}")
    return key


def _checked_keys(name: str, keys: Any) -> list[str]:
    if isinstance(keys, str) or not isinstance(keys, Sequence):
        raise TypeError(f"{name}: expected a list of keys, got {type(keys).__name__}")
    return [_checked_key(name, key) for key in keys]


class Store:
    """Base class of stores of keys and values, by which processes find each other.

    Keys are text; values are bytes. Every operation is atomic. A subclass implements ``_apply`` and
    ``_wait``, or overrides the methods.

    Example:
        >>> isinstance(flambeau.distributed.HashStore(), flambeau.distributed.Store)
        True
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    def _apply(self, operation: str, *arguments: Any) -> Any:
        raise RuntimeError(
            f"Store.{operation}: expected a subclass that implements it, got {type(self).__name__}"
        )

    def _wait(self, keys: list[str], seconds: float) -> bool:
        raise RuntimeError(f"Store.wait: expected a subclass that implements it, got {type(self).__name__}")

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait for a key."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait for a key."""
        if not isinstance(timeout, timedelta):
            raise TypeError(f"Store.set_timeout: expected a timedelta, got {type(timeout).__name__}")
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Give a key a value; an earlier value is replaced."""
        self._apply("set", _checked_key("Store.set", key), encoded("Store.set", value))

    def get(self, key: str) -> bytes:
        """Return the value of a key, and wait for it first.

        Raises: DistStoreError if it does not come in time.
        """
        _checked_key("Store.get", key)
        while (value := self._apply("get", key)) is None:
            self.wait([key])
        return value

    def add(self, key: str, amount: int) -> int:
        """Add a number to the number of a key, which is 0 at first, and return the sum."""
        if not isinstance(amount, int):
            raise TypeError(f"Store.add: expected an int, got {type(amount).__name__}")
        return self._apply("add", _checked_key("Store.add", key), int(amount))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Give a key `desired_value` if its value is `expected_value`, and return the value that it then has.

        A key without a value is set if `expected_value` is empty; otherwise `expected_value` is returned.
        """
        name = "Store.compare_set"
        expected, desired = encoded(name, expected_value), encoded(name, desired_value)
        return self._apply("compare_set", _checked_key(name, key), expected, desired)

    def append(self, key: str, value: str | bytes) -> None:
        """Add bytes to the end of the value of a key, which is empty at first."""
        self._apply("append", _checked_key("Store.append", key), encoded("Store.append", value))

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it existed."""
        return self._apply("delete_key", _checked_key("Store.delete_key", key))

    def num_keys(self) -> int:
        """Return the number of keys."""
        return self._apply("num_keys")

    def list_keys(self) -> list[str]:
        """Return the keys."""
        return self._apply("list_keys")

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys have values; without waiting."""
        return self._apply("check", *_checked_keys("Store.check", keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys have values.

        Raises: DistStoreError when `timeout` has passed; None: the store's.
        """
        wanted = _checked_keys("Store.wait", keys)
        limit = self._timeout if timeout is None else timeout
        if not isinstance(limit, timedelta):
            raise TypeError(f"Store.wait: expected a timedelta, got {type(limit).__name__}")
        if not self._wait(wanted, limit.total_seconds()):
            late = int(limit.total_seconds() * 1000)
            raise DistStoreError(f"Store.wait: wait timeout after {late}ms, keys: {', '.join(wanted)}")

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys, and wait for them first."""
        return [self.get(key) for key in _checked_keys("Store.multi_get", keys)]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Give several keys their values."""
        wanted = _checked_keys("Store.multi_set", keys)
        if len(wanted) != len(values):
            raise ValueError(
                f"Store.multi_set: expected as many values as keys, got {len(wanted)} keys and "
                f"{len(values)} values"
            )
        for key, value in zip(wanted, values, strict=True):
            self.set(key, value)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Add a value to the end of a queue."""
        name = "Store.queue_push"
        self._apply("queue_push", _checked_key(name, key), encoded(name, value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Remove the first value of a queue and return it.

        Raises: QueueEmptyError for an empty queue without `block`; DistStoreError if no value comes in time.
        """
        _checked_key("Store.queue_pop", key)
        while (value := self._apply("queue_pop", key)) is None:
            if not block:
                raise QueueEmptyError(
                    f"Store.queue_pop: expected a value in queue {key!r}, got an empty queue"
                )
            self.wait([key])
        return value

    def queue_len(self, key: str) -> int:
        """Return the number of values in a queue."""
        return self._apply("queue_len", _checked_key("Store.queue_len", key))

    def has_extended_api(self) -> bool:
        """Whether the store has `append`, `multi_get`, `multi_set` and queues."""
        return True

    def clone(self) -> Store:
        """Return a store of the same keys, with a timeout of its own."""
        raise RuntimeError(f"Store.clone: expected a subclass that implements it, got {type(self).__name__}")


class HashStore(Store):
    """Keys and values in the memory of one process, for its threads.

    Example:
        >>> store = flambeau.distributed.HashStore()
        >>> store.set("key", "value")
        >>> store.get("key"), store.add("count", 2), store.num_keys()
        (b'value', 2, 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._table, self._changed = Table(), threading.Condition()

    def _apply(self, operation: str, *arguments: Any) -> Any:
        with self._changed:
            result = getattr(self._table, operation)(*arguments)
            self._changed.notify_all()
        return result

    def _wait(self, keys: list[str], seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._table.check(*keys), max(seconds, 0))

    def clone(self) -> HashStore:
        """Return a store of the same keys, with a timeout of its own."""
        other = HashStore()
        other._table, other._changed, other._timeout = self._table, self._changed, self._timeout
        return other


class PrefixStore(Store):
    """Part of another store, whose keys begin with a prefix.

    Args:
        prefix: what stands before each key, followed by "/".
        store: the other store.

    Raises: TypeError for other types.

    Example:
        >>> whole = flambeau.distributed.HashStore()
        >>> part = flambeau.distributed.PrefixStore("job", whole)
        >>> part.set("key", "value")
        >>> whole.get("job/key")
        b'value'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        if not isinstance(prefix, str) or not isinstance(store, Store):
            given = f"{type(prefix).__name__} and {type(store).__name__}"
            raise TypeError(f"PrefixStore: expected a str and a Store, got {given}")
        super().__init__()
        self._prefix, self._store = prefix, store

    @property
    def underlying_store(self) -> Store:
        """The other store."""
        return self._store

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait for a key, which is a setting of the other store."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long `get` and `wait` wait for a key, in the other store as well."""
        self._store.set_timeout(timeout)

    def _key(self, key: str) -> str:
        return f"{self._prefix}/{_checked_key('PrefixStore', key)}"

    def set(self, key: str, value: str | bytes) -> None:
        """Give a key a value."""
        self._store.set(self._key(key), value)

    def get(self, key: str) -> bytes:
        """Return the value of a key, and wait for it first."""
        return self._store.get(self._key(key))

    def add(self, key: str, amount: int) -> int:
        """Add a number to the number of a key, and return the sum."""
        return self._store.add(self._key(key), amount)

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        """Give a key `desired_value` if its value is `expected_value`, and return its value."""
        return self._store.compare_set(self._key(key), expected_value, desired_value)

    def append(self, key: str, value: str | bytes) -> None:
        """Add bytes to the end of the value of a key."""
        self._store.append(self._key(key), value)

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether it existed."""
        return self._store.delete_key(self._key(key))

    def num_keys(self) -> int:
        """Return the number of keys of the other store, also of those without the prefix."""
        return self._store.num_keys()

    def list_keys(self) -> list[str]:
        """Return the keys of the other store that have the prefix, without it."""
        start = f"{self._prefix}/"
        return [key.removeprefix(start) for key in self._store.list_keys() if key.startswith(start)]

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys have values."""
        return self._store.check([self._key(key) for key in _checked_keys("PrefixStore.check", keys)])

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys have values."""
        wanted = [self._key(key) for key in _checked_keys("PrefixStore.wait", keys)]
        if timeout is None:
            self._store.wait(wanted)
        else:
            self._store.wait(wanted, timeout)

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Add a value to the end of a queue."""
        self._store.queue_push(self._key(key), value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Remove the first value of a queue and return it."""
        return self._store.queue_pop(self._key(key), block)

    def queue_len(self, key: str) -> int:
        """Return the number of values in a queue."""
        return self._store.queue_len(self._key(key))

    def has_extended_api(self) -> bool:
        """Whether the other store has `append`, `multi_get`, `multi_set` and queues."""
        return self._store.has_extended_api()

    def clone(self) -> PrefixStore:
        """Return a store of the same keys, with a timeout of its own."""
        return PrefixStore(self._prefix, self._store.clone())


for _class in (Store, HashStore, PrefixStore):
    _class.__module__ = "flambeau.distributed"
