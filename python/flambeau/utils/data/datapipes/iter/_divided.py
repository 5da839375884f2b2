"""Several streams of one source: each item goes to all of them, or to the one that a function chooses."""

from __future__ import annotations

import copy as _copy
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

_COPIES: dict[Any, Callable[[Any], Any]] = {
    None: lambda item: item,
    "shallow": _copy.copy,
    "deep": _copy.deepcopy,
}


class _Division(IterDataPipe):
    """Reads a source for several streams and keeps what some have read and others have not.

    A pass is one reading of the source. The first stream that begins again begins the next pass, in which the
    others join when they begin again.
    """

    name = ""

    def __init__(self, datapipe: Any, num_instances: int, buffer_size: int) -> None:
        if num_instances < 1:
            raise ValueError(f"{self.name}: Expected `num_instances` larger than 0, got {num_instances}")
        if buffer_size < 0:
            warnings.warn(
                f"{self.name}: Unlimited buffer size may need much memory", UserWarning, stacklevel=4
            )
        self.datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        self.pass_number: int | None = None
        self.reset()

    def reset(self) -> None:
        """Forget what was read."""
        self._source: Iterator[Any] | None = None
        self._ended = False
        self._stopped = [True] * self.num_instances

    def begin_pass(self) -> None:
        """Begin the next pass."""
        if not (self._ended and all(self._stopped)):
            warnings.warn(
                f"{self.name}: Some child DataPipes are not exhausted; all of them begin again",
                UserWarning,
                stacklevel=6,
            )
        self.pass_number = (self.pass_number or 0) + 1
        self.reset()

    def items(self, number: int) -> Iterator[Any]:
        """Yield the items of one stream."""
        if self._source is None:
            self._source = iter(self.datapipe)
            self._stopped = [False] * self.num_instances
        self._stopped[number] = False
        try:
            yield from self._items(number)
        finally:
            self._stopped[number] = True

    def _items(self, number: int) -> Iterator[Any]:
        raise TypeError(
            f"{type(self).__name__}: expected an iterator of its parts, got one of the whole; the "
            "pipe is not divided"
        )

    def _read(self) -> Any:
        """Return the next item of the source; StopIteration after its last, for good."""
        if self._ended or self._source is None:
            raise StopIteration
        try:
            return next(self._source)
        except StopIteration:
            self._ended = True
            raise

    def _check_size(self, used: int) -> None:
        if 0 <= self.buffer_size < used:
            raise BufferError(
                f"{self.name}: {self.name} buffer overflow: expected at most {self.buffer_size} elements, "
                f"got {used}; pass a larger buffer_size"
            )

    def __getstate__(self) -> Any:
        waiting = {"pass_number": None, "_source": None, "_ended": False, "_valid_iterator_id": None}
        fresh = {"_stopped": [True] * self.num_instances}
        return {**super().__getstate__(), **waiting, **fresh}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.reset()


class _Forked(_Division):
    name = "Forker"

    def __init__(self, datapipe: Any, num_instances: int, buffer_size: int, copy: str | None) -> None:
        if copy not in _COPIES:
            raise ValueError(
                f"Forker: Unknown copy method {copy!r}: expected None, 'shallow' or 'deep', got {copy!r}"
            )
        self.copy = copy
        super().__init__(datapipe, num_instances, buffer_size)

    def reset(self) -> None:
        super().reset()
        self._buffer: deque[Any] = deque()
        self._dropped = 0  # items that all streams have passed
        self._positions = [0] * self.num_instances

    def _items(self, number: int) -> Iterator[Any]:
        copied = _COPIES[self.copy]
        while True:
            place = self._positions[number] - self._dropped
            if place == len(self._buffer):
                try:
                    self._buffer.append(self._read())
                except StopIteration:
                    return
            item = self._buffer[place]
            self._positions[number] += 1
            if min(self._positions) > self._dropped:
                self._buffer.popleft()
                self._dropped += 1
            self._check_size(len(self._buffer))
            yield copied(item)

    def __len__(self) -> int:
        return len(self.datapipe)


class _Sorted(_Division):
    name = "Demultiplexer"

    def __init__(
        self, datapipe: Any, num_instances: int, classifier_fn: Any, drop_none: bool, buffer_size: int
    ) -> None:
        self.classifier_fn, self.drop_none = classifier_fn, drop_none
        super().__init__(datapipe, num_instances, buffer_size)

    def reset(self) -> None:
        super().reset()
        self._buffers: list[deque[Any]] = [deque() for _ in range(self.num_instances)]

    def _next_of(self, number: int) -> Any:
        while not self._buffers[number]:
            item = self._read()
            kind = self.classifier_fn(item)
            if kind is None and self.drop_none:
                continue
            if kind is None or not 0 <= kind < self.num_instances:
                raise ValueError(
                    f"Demultiplexer: Output of the classification fn: expected 0 to "
                    f"{self.num_instances - 1}, got {kind}"
                )
            if kind == number:
                return item
            self._buffers[kind].append(item)
            self._check_size(sum(map(len, self._buffers)))
        return self._buffers[number].popleft()

    def _items(self, number: int) -> Iterator[Any]:
        while True:
            try:
                item = self._next_of(number)
            except StopIteration:
                return
            yield item


class _ChildDataPipe(IterDataPipe):
    """One of the streams of a division."""

    def __init__(self, main_datapipe: Any, instance_id: int) -> None:
        self.main_datapipe, self.instance_id = main_datapipe, instance_id

    def _begin(self) -> int:
        main = self.main_datapipe
        if main.pass_number is None:
            main.pass_number = 0
        elif self._valid_iterator_id == main.pass_number:
            main.begin_pass()
        self._valid_iterator_id = main.pass_number
        return main.pass_number

    def _is_current(self, number: int) -> bool:
        return number == self._valid_iterator_id == self.main_datapipe.pass_number

    def __iter__(self) -> Iterator[Any]:
        return self.main_datapipe.items(self.instance_id)

    def __len__(self) -> int:
        return len(self.main_datapipe)


def _children(main: _Division) -> list[_ChildDataPipe]:
    return [_ChildDataPipe(main, number) for number in range(main.num_instances)]


@functional_datapipe("fork")
class Forker(IterDataPipe):
    """Return `num_instances` streams of one source.

    Args:
        datapipe: the source.
        num_instances: how many streams.
        buffer_size: how many items one stream may be ahead of another; -1: any number.
        copy: what each stream gets of an item: None: the item; "shallow" or "deep": a copy.
    Raises: BufferError, when it is read, if a stream is further ahead.
    """

    def __new__(cls, datapipe: Any, num_instances: int, buffer_size: int = 1000, copy: Any = None) -> Any:
        """Return the streams as a list; the source itself for a single one."""
        if num_instances == 1:
            return datapipe
        return _children(_Forked(datapipe, num_instances, buffer_size, copy))


@functional_datapipe("demux")
class Demultiplexer(IterDataPipe):
    """Return a stream for each value of a function, 0 ... num_instances - 1.

    Args:
        datapipe: the source.
        num_instances: how many streams.
        classifier_fn: gives the number of an item's stream.
        drop_none: whether an item for which the function returns None is dropped; otherwise it is an error.
        buffer_size: how many items may wait for other streams in all; -1: any number.
    Raises: when it is read, BufferError if more items wait, ValueError for a number without a stream.
    """

    def __new__(
        cls,
        datapipe: Any,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        """Return the streams as a list."""
        return _children(_Sorted(datapipe, num_instances, classifier_fn, drop_none, buffer_size))
