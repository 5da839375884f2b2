"""DataLoader: batches of a data set, fetched in this process or by worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import flambeau
from flambeau import Generator
from flambeau.utils.data.collate import default_collate
from flambeau.utils.data.dataset import IterableDataset
from flambeau.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from flambeau.utils.data.worker import WorkerPool, get_worker_info

__all__ = ["DataLoader", "get_worker_info"]


def _unbatched(samples: list[Any]) -> Any:
    sample = samples[0]
    return flambeau.as_tensor(sample) if type(sample).__module__ == "numpy" else sample


def _check_workers(num_workers: int, timeout: float, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers: expected 0, for no processes, or more")
    if timeout < 0:
        raise ValueError("timeout: expected 0 or more")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


class DataLoader:
    """Iterate over batches.

    Args:
        dataset: a `Dataset` (indexed) or `IterableDataset` (streamed).
        batch_size: samples per batch; None yields samples one by one, not collated.
        shuffle: visit in a new random order each time.
        sampler: order of indices; excludes `shuffle`.
        batch_sampler: lists of indices; excludes batch_size, shuffle, sampler and drop_last.
        num_workers: processes that fetch samples; 0: this one.
        collate_fn: makes a batch of a list of samples; `default_collate` by default.
        pin_memory: accepted; without an accelerator there is nothing to pin.
        drop_last: leave out a last batch that is shorter.
        timeout: seconds to wait for a worker's batch; 0 waits for ever.
        worker_init_fn: called in each worker with its number.
        generator: source of the random order and of the workers' seeds.
        prefetch_factor: batches that each worker prepares ahead.
        persistent_workers: keep the workers from one pass to the next.
        pin_memory_device: as `pin_memory`.
        in_order: batches come in the order of the sampler in any case.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.in_order = in_order
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.persistent_workers = persistent_workers
        self._pool: WorkerPool | None = None
        self._streams = isinstance(dataset, IterableDataset)
        self._choose_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.collate_fn = collate_fn or (_unbatched if self._is_unbatched else default_collate)

    def _choose_order(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        if self._streams and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "DataLoader with IterableDataset: expected no shuffle, sampler or batch_sampler option"
            )
        if sampler is not None and shuffle:
            raise ValueError("sampler and shuffle exclude each other")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler excludes batch_size, shuffle, sampler and drop_last")
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None excludes drop_last")
        if sampler is None and batch_sampler is None and not self._streams:
            sampler = (
                RandomSampler(self.dataset, generator=self.generator)
                if shuffle
                else SequentialSampler(self.dataset)
            )
        if batch_sampler is None and batch_size is not None and not self._streams:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        elif batch_sampler is not None:
            batch_size = None
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self._is_unbatched = batch_size is None and batch_sampler is None

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            self._draw_seed()
            return self._stream() if self._streams else self._fetch()
        if self._pool is None or not self._pool.alive():
            self._pool = WorkerPool(self, self._draw_seed())
        return self._pool.batches(self._requests(), keep=self.persistent_workers)

    def _draw_seed(self) -> int:
        """Draw what seeds the workers; without workers as well, so that the order does not depend on them."""
        return int(flambeau.empty((), dtype=flambeau.int64).random_(generator=self.generator).item())

    def _requests(self) -> Iterator[list[int] | None]:
        """Yield the indices of each batch; for streams None, which workers answer with their next batch."""
        if self._streams:
            while True:
                yield None
        elif self.batch_sampler is not None:
            yield from self.batch_sampler
        else:
            yield from ([index] for index in self.sampler)

    def _fetch(self) -> Iterator[Any]:
        for indices in self._requests():
            yield self.collate_fn([self.dataset[i] for i in indices or ()])

    def _stream(self) -> Iterator[Any]:
        return batches_of_stream(iter(self.dataset), self.batch_size, self.drop_last, self.collate_fn)

    def __len__(self) -> int:
        if self._streams:
            count = len(self.dataset)
            if self.batch_size is None:
                return int(count)
            return int(count // self.batch_size if self.drop_last else -(-count // self.batch_size))
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)


def batches_of_stream(
    samples: Iterator[Any], batch_size: int | None, drop_last: bool, collate: Callable[[list[Any]], Any]
) -> Iterator[Any]:
    """Yield collated batches of a stream until it ends."""
    while batch := list(islice(samples, batch_size or 1)):
        if len(batch) < (batch_size or 1) and drop_last:
            return
        yield collate(batch)
