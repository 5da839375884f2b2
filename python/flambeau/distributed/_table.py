"""Keys and values of a store in memory: what each operation does, without waiting and without locks."""

from __future__ import annotations

from collections import deque


class Table:
    """The keys, values and queues of one store."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.queues: dict[str, deque[bytes]] = {}

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value."""
        self.values[key] = value

    def get(self, key: str) -> bytes | None:
        """Return a key's value; None without one."""
        return self.values.get(key)

    def add(self, key: str, amount: int) -> int:
        """Add a number to the number of a key, which is 0 at first, and return the sum."""
        text = self.values.get(key, b"0")
        try:
            total = int(text) + amount
        except ValueError:
            raise RuntimeError(
                f"Store.add: expected a whole number under {key!r}, got {text[:40]!r}"
            ) from None
        self.values[key] = str(total).encode()
        return total

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Give a key `desired` if its value is `expected`, or if it has none and `expected` is empty."""
        current = self.values.get(key)
        if current is None and expected:
            return expected
        if current is None or current == expected:
            self.values[key] = current = desired
        return current

    def append(self, key: str, value: bytes) -> None:
        """Add bytes to the end of a key's value."""
        self.values[key] = self.values.get(key, b"") + value

    def delete_key(self, key: str) -> bool:
        """Remove a key; whether there was one."""
        return self.values.pop(key, None) is not None

    def num_keys(self) -> int:
        """Return the number of keys."""
        return len(self.values)

    def list_keys(self) -> list[str]:
        """Return the keys."""
        return list(self.values)

    def check(self, *keys: str) -> bool:
        """Whether every key has a value, or a queue with one."""
        return all(key in self.values or bool(self.queues.get(key)) for key in keys)

    def queue_push(self, key: str, value: bytes) -> None:
        """Add a value to the end of a queue."""
        self.queues.setdefault(key, deque()).append(value)

    def queue_pop(self, key: str) -> bytes | None:
        """Remove the first value of a queue and return it; None for an empty one."""
        queue = self.queues.get(key)
        if not queue:
            return None
        value = queue.popleft()
        if not queue:
            del self.queues[key]
        return value

    def queue_len(self, key: str) -> int:
        """Return the number of values in a queue."""
        return len(self.queues.get(key, ()))
