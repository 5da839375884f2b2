"""Data sets that are streams: sources, and what chains to them.

Each is also a method of `IterDataPipe`: ``IterableWrapper(range(4)).map(f).batch(2)``.

>>> list(IterableWrapper(range(5)).filter(lambda n: n != 1).batch(2))
[[0, 2], [3, 4]]
"""

from __future__ import annotations

import copy
import itertools
import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau.utils.data.collate import default_collate
from flambeau.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe
from flambeau.utils.data.datapipes.iter._divided import Demultiplexer, Forker
from flambeau.utils.data.datapipes.iter._files import FileLister, FileOpener, StreamReader
from flambeau.utils.data.sampler import Sampler as _Sampler
from flambeau.utils.data.sampler import SequentialSampler
from flambeau.utils.data.worker import get_worker_info

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]


def _length(data: Any, of: Any) -> int:
    """Return the length of a source; TypeError if it has none."""
    if hasattr(data, "__len__"):
        return len(data)
    raise TypeError(
        f"{type(of).__name__}: expected a source with a length, got one without: "
        f"{type(of).__name__} instance doesn't have valid length"
    )


class IterableWrapper(IterDataPipe):
    """The items of an iterable, of a copy of it unless ``deepcopy=False``."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(self.iterable)
            except TypeError:  # as of generators
                warnings.warn("IterableWrapper: cannot copy the iterable; it is read itself", stacklevel=2)
        yield from source

    def __len__(self) -> int:
        return _length(self.iterable, self)


class _Chain(IterDataPipe):
    """A stream over another."""

    def __init__(self, datapipe: Any) -> None:
        self.datapipe = datapipe

    def __len__(self) -> int:
        return _length(self.datapipe, self)


@functional_datapipe("map")
class Mapper(_Chain):
    """Apply a function to every item, or to columns of it.

    Args:
        datapipe: the source.
        fn: the function.
        input_col: index or key of its argument in an item, or a list of them; None: the item is.
        output_col: where the result goes: None replaces the first input column, -1 appends.
    """

    def __init__(
        self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        super().__init__(datapipe)
        if input_col is None and output_col is not None:
            raise ValueError(
                "Mapper: `output_col` must be None when `input_col` is None: expected None, got "
                f"{output_col!r}"
            )
        if isinstance(output_col, list | tuple):
            if len(output_col) > 1:
                raise ValueError(
                    f"Mapper: `output_col` must be a single column: expected one, got {output_col!r}"
                )
            output_col = output_col[0]
        self.fn, self.input_col, self.output_col = fn, input_col, output_col

    def _applied(self, item: Any) -> Any:
        if self.input_col is None:
            return self.fn(item)
        columns = self.input_col if isinstance(self.input_col, list | tuple) else [self.input_col]
        result = self.fn(*(item[column] for column in columns))
        changed = list(item) if isinstance(item, tuple) else copy.copy(item)
        if self.output_col == -1:
            changed.append(result)
        else:
            changed[columns[0] if self.output_col is None else self.output_col] = result
            if self.output_col is None:
                for column in sorted(columns[1:], reverse=True):
                    del changed[column]
        return tuple(changed) if isinstance(item, tuple) else changed

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            yield self._applied(item)


@functional_datapipe("collate")
class Collator(Mapper):
    """Collate every item, by default into tensors as DataLoader does."""

    def __init__(self, datapipe: Any, conversion: Any = default_collate, collate_fn: Any = None) -> None:
        super().__init__(datapipe, conversion if collate_fn is None else collate_fn)


@functional_datapipe("filter")
class Filter(_Chain):
    """Keep the items, or those whose columns, for which a function returns True."""

    def __init__(self, datapipe: Any, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        super().__init__(datapipe)
        self.filter_fn, self.input_col = filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            columns = self.input_col if isinstance(self.input_col, list | tuple) else [self.input_col]
            kept = self.filter_fn(*([item] if self.input_col is None else [item[c] for c in columns]))
            if not isinstance(kept, bool):
                raise ValueError(f"Filter: expected a bool of `filter_fn`, got {type(kept).__name__}")
            if kept:
                yield item

    def __len__(self) -> int:
        raise TypeError(
            f"{type(self).__name__}.__len__: expected a length that is known, got none: "
            f"{type(self).__name__} instance doesn't have valid length"
        )


@functional_datapipe("batch")
class Batcher(_Chain):
    """Group items, in order, into lists of `batch_size`."""

    def __init__(
        self, datapipe: Any, batch_size: int, drop_last: bool = False, wrapper_class: Any = DataChunk
    ) -> None:
        if batch_size <= 0:
            raise AssertionError(f"Batcher: expected a positive batch_size, got {batch_size}")
        super().__init__(datapipe)
        self.batch_size, self.drop_last, self.wrapper_class = batch_size, drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        items = iter(self.datapipe)
        while batch := list(itertools.islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = super().__len__()
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcher(_Chain):
    """Yield the items of lists, `unbatch_level` levels deep; -1: all levels."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        super().__init__(datapipe)
        if unbatch_level < -1:
            raise ValueError(f"UnBatcher: expected unbatch_level of at least -1, got {unbatch_level}")
        self.unbatch_level = unbatch_level

    def _flat(self, item: Any, level: int) -> Iterator[Any]:
        if level != 0 and isinstance(item, list | DataChunk):
            for inner in item:
                yield from self._flat(inner, level - 1)
        elif level > 0:
            raise IndexError(
                "UnBatcher: expected unbatch_level within the depth of the items, got unbatch_level "
                f"{self.unbatch_level}, which exceeds the depth"
            )
        else:
            yield item

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            yield from self._flat(item, self.unbatch_level)

    def __len__(self) -> int:
        raise TypeError(
            f"{type(self).__name__}.__len__: expected a length that is known, got none: "
            f"{type(self).__name__} instance doesn't have valid length"
        )


@functional_datapipe("shuffle")
class Shuffler(_Chain):
    """Yield items in random order, drawn from a buffer of `buffer_size`."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError(f"Shuffler: expected a positive buffer_size, got {buffer_size}")
        super().__init__(datapipe if unbatch_level == 0 else UnBatcher(datapipe, unbatch_level))
        self.buffer_size = buffer_size
        self._enabled = True
        self._seed: int | None = None

    def set_shuffle(self, shuffle: bool = True) -> Shuffler:
        """Set whether items are shuffled at all."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Shuffler:
        """Set the seed of the next pass; without one it is drawn from the default generator."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        drawn = flambeau.empty((), dtype=flambeau.int64).random_() if self._seed is None else self._seed
        rng, self._seed = random.Random(int(drawn)), None
        buffer: list[Any] = []
        for item in self.datapipe:
            if len(buffer) == self.buffer_size:
                place = rng.randint(0, len(buffer) - 1)
                taken, buffer[place] = buffer[place], item
                yield taken
            else:
                buffer.append(item)
        while buffer:
            yield buffer.pop(rng.randint(0, len(buffer) - 1))


@functional_datapipe("sharding_filter")
class ShardingFilter(_Chain):
    """Keep every n-th item: those of one worker among n, by default of the DataLoader's workers."""

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        super().__init__(source_datapipe)
        self._share: tuple[int, int] | None = None

    def apply_sharding(self, num_of_instances: int, instance_id: int, sharding_group: Any = None) -> None:
        """Keep the items whose number leaves `instance_id` when divided by `num_of_instances`."""
        if not 0 <= instance_id < num_of_instances:
            raise ValueError(
                f"ShardingFilter.apply_sharding: expected an instance_id below {num_of_instances}, got "
                f"{instance_id}"
            )
        self._share = num_of_instances, instance_id

    def _part(self) -> tuple[int, int]:
        worker = get_worker_info()
        return self._share or ((worker.num_workers, worker.id) if worker is not None else (1, 0))

    def is_shardable(self) -> bool:
        """Whether it takes part in sharding: yes."""
        return True

    def __iter__(self) -> Iterator[Any]:
        count, mine = self._part()
        yield from itertools.islice(iter(self.datapipe), mine, None, count)

    def __len__(self) -> int:
        count, mine = self._part()
        return (super().__len__() - mine + count - 1) // count


class _Several(IterDataPipe):
    """A stream over several."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError(f"{type(self).__name__}: expected at least one data pipe, got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError(
                f"{type(self).__name__}: expected all inputs to be IterDataPipe, got "
                f"{[type(d).__name__ for d in datapipes]}"
            )
        self.datapipes = datapipes


@functional_datapipe("concat")
class Concater(_Several):
    """Yield the items of one source after those of another."""

    def __iter__(self) -> Iterator[Any]:
        yield from itertools.chain(*self.datapipes)

    def __len__(self) -> int:
        return sum(_length(pipe, self) for pipe in self.datapipes)


@functional_datapipe("zip")
class Zipper(_Several):
    """Yield tuples of one item of each source, until one ends."""

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(_length(pipe, self) for pipe in self.datapipes)


@functional_datapipe("mux")
class Multiplexer(_Several):
    """Yield one item of each source in turn, until one ends."""

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*self.datapipes, strict=False):
            yield from row

    def __len__(self) -> int:
        return len(self.datapipes) * min(_length(pipe, self) for pipe in self.datapipes)


@functional_datapipe("groupby")
class Grouper(_Chain):
    """Collect items with the same key into lists of `group_size`; the rest follows at the end."""

    def __init__(
        self,
        datapipe: Any,
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        super().__init__(datapipe)
        self.group_key_fn, self.keep_key, self.buffer_size = group_key_fn, keep_key, buffer_size
        self.group_size, self.drop_remaining = group_size, drop_remaining
        self.guaranteed = group_size if guaranteed_group_size is None else guaranteed_group_size

    def _shown(self, key: Any, items: list[Any]) -> Any:
        return (key, DataChunk(items)) if self.keep_key else DataChunk(items)

    def __iter__(self) -> Iterator[Any]:
        groups: dict[Any, list[Any]] = defaultdict(list)
        held = 0
        for item in self.datapipe:
            key = self.group_key_fn(item)
            groups[key].append(item)
            held += 1
            if self.group_size is not None and len(groups[key]) == self.group_size:
                held -= self.group_size
                yield self._shown(key, groups.pop(key))
            elif held == self.buffer_size:
                largest = max(groups, key=lambda k: len(groups[k]))
                items = groups.pop(largest)
                held -= len(items)
                if self.guaranteed is None or len(items) >= self.guaranteed:
                    yield self._shown(largest, items)
                elif not self.drop_remaining:
                    raise RuntimeError(f"Grouper: Failed to group items: {items}")
        for key, items in groups.items():
            yield self._shown(key, items)

    def __len__(self) -> int:
        raise TypeError(
            f"{type(self).__name__}.__len__: expected a length that is known, got none: "
            f"{type(self).__name__} instance doesn't have valid length"
        )


@functional_datapipe("sampler")
class Sampler(_Chain):
    """Yield the indices that a sampler draws for a source."""

    def __init__(
        self,
        datapipe: Any,
        sampler: Callable[..., _Sampler[Any]] = SequentialSampler,
        sampler_args: Sequence[Any] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(datapipe)
        self.sampler = sampler(datapipe, *(sampler_args or ()), **(sampler_kwargs or {}))

    def __iter__(self) -> Iterator[Any]:
        yield from self.sampler


IterableWrapperIterDataPipe, MapperIterDataPipe, FilterIterDataPipe = IterableWrapper, Mapper, Filter
ShufflerIterDataPipe, ShardingFilterIterDataPipe, BatcherIterDataPipe = Shuffler, ShardingFilter, Batcher
CollatorIterDataPipe, SamplerIterDataPipe, GrouperIterDataPipe = Collator, Sampler, Grouper
ConcaterIterDataPipe, ZipperIterDataPipe, MultiplexerIterDataPipe = Concater, Zipper, Multiplexer
FileListerIterDataPipe, FileOpenerIterDataPipe, StreamReaderIterDataPipe = (
    FileLister,
    FileOpener,
    StreamReader,
)
ForkerIterDataPipe, DemultiplexerIterDataPipe, UnBatcherIterDataPipe = Forker, Demultiplexer, UnBatcher
