"""Data sets by index: sources, and what chains to them.

Each is also a method of `MapDataPipe`: ``SequenceWrapper(range(4)).map(f).batch(2)``.

>>> list(SequenceWrapper(range(3)).map(lambda n: n * n))
[0, 1, 4]
"""

from __future__ import annotations

import bisect
import copy
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau.utils.data.datapipes.datapipe import DataChunk, MapDataPipe, functional_datapipe

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]


class SequenceWrapper(MapDataPipe):
    """The items of a sequence or mapping, of a copy of it unless ``deepcopy=False``."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe):
    """Apply a function to every item."""

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any] = lambda item: item) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("batch")
class Batcher(MapDataPipe):
    """Group items, in order, into lists of `batch_size`."""

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError(f"Batcher: expected a positive batch_size, got {batch_size}")
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(
                f"Batcher: expected an index from 0 to {len(self) - 1}, got {index}: index {index} is out "
                "of bounds"
            )
        begin = index * self.batch_size
        places = range(begin, min(begin + self.batch_size, len(self.datapipe)))
        return self.wrapper_class([self.datapipe[i] for i in places])

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("concat")
class Concater(MapDataPipe):
    """The items of one source after those of another."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Concater: expected at least one data pipe, got nothing")
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        ends = list(itertools.accumulate(map(len, self.datapipes)))
        which = bisect.bisect_right(ends, index)
        if index < 0 or which == len(ends):
            raise IndexError(
                f"Concater: expected an index from 0 to {len(self) - 1}, got {index}: index {index} is "
                "out of range"
            )
        return self.datapipes[which][index - (ends[which - 1] if which else 0)]

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))


@functional_datapipe("zip")
class Zipper(MapDataPipe):
    """Tuples of one item of each source; as many as the shortest has."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Zipper: expected at least one data pipe, got nothing")
        self.datapipes = datapipes

    def __getitem__(self, index: int) -> Any:
        if not index < len(self):
            raise IndexError(
                f"Zipper: expected an index from 0 to {len(self) - 1}, got {index}: index {index} is out "
                "of range"
            )
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


def _shuffler() -> Any:
    from flambeau.utils.data.datapipes.iter import IterDataPipe

    class ShufflerMapDataPipe(IterDataPipe):
        """Yield the items of a source by index in random order."""

        def __init__(self, datapipe: Any, *, indices: Sequence[Any] | None = None) -> None:
            self.datapipe = datapipe
            self.indices = list(range(len(datapipe)) if indices is None else indices)
            self._enabled = True
            self._seed: int | None = None

        def set_shuffle(self, shuffle: bool = True) -> Any:
            """Set whether items are shuffled at all."""
            self._enabled = shuffle
            return self

        def set_seed(self, seed: int) -> Any:
            """Set the seed of the next pass; without one it is drawn from the default generator."""
            self._seed = seed
            return self

        def __iter__(self) -> Iterator[Any]:
            order = self.indices
            if self._enabled:
                drawn = (
                    flambeau.empty((), dtype=flambeau.int64).random_() if self._seed is None else self._seed
                )
                order, self._seed = random.Random(int(drawn)).sample(order, len(order))[::-1], None
            return (self.datapipe[index] for index in order)

        def __len__(self) -> int:
            return len(self.datapipe)

    return ShufflerMapDataPipe


Shuffler = _shuffler()
MapDataPipe.register_datapipe_as_function("shuffle", Shuffler)
