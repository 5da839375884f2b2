"""DataLoader: batches of a data set, fetched in this process or by worker processes."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, Generic

import flambeau
from flambeau import Generator
from flambeau.utils.data._passes import BatchesHere, BatchesOfWorkers
from flambeau.utils.data._pool import WorkerPool
from flambeau.utils.data.collate import default_collate
from flambeau.utils.data.datapipes.datapipe import IterDataPipe
from flambeau.utils.data.dataset import IterableDataset, Sample
from flambeau.utils.data.graph_settings import apply_random_seed, apply_shuffle_settings
from flambeau.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from flambeau.utils.data.worker import Fetcher, get_worker_info

__all__ = ["DataLoader", "get_worker_info"]


def _unbatched(sample: Any) -> Any:
    return flambeau.as_tensor(sample) if type(sample).__module__ == "numpy" else sample


def _check_workers(
    num_workers: int, timeout: float, persistent_workers: bool, prefetch_factor: int | None
) -> None:
    if num_workers < 0:
        raise ValueError(f"DataLoader: expected num_workers >= 0, got {num_workers}")
    if timeout < 0:
        raise ValueError(f"DataLoader: expected timeout >= 0, got {timeout}")
    if persistent_workers and num_workers == 0:
        raise ValueError(
            "DataLoader: persistent_workers option needs num_workers > 0: expected "
            "persistent_workers=False without workers, got True"
        )
    if prefetch_factor is not None and num_workers == 0:
        raise ValueError(
            f"DataLoader: expected prefetch_factor=None without workers, got {prefetch_factor}; pass "
            "num_workers > 0 to prefetch"
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"DataLoader: expected prefetch_factor >= 1, got {prefetch_factor}")


def _context_of(choice: Any, num_workers: int) -> Any:
    """Return a context of multiprocessing, for its name too; None for the default."""
    if choice is None:
        return None
    if num_workers == 0:
        raise ValueError(
            f"DataLoader: expected multiprocessing_context=None without workers, got {choice!r}; pass "
            "num_workers > 0 with it"
        )
    if isinstance(choice, str):
        known = multiprocessing.get_all_start_methods()
        if choice not in known:
            raise ValueError(
                f"DataLoader: multiprocessing_context option should specify one of {known}: expected one "
                f"of them, got {choice!r}"
            )
        return multiprocessing.get_context(choice)
    if not isinstance(choice, BaseContext):
        raise TypeError(
            "DataLoader: expected a name or a context as multiprocessing_context, got "
            f"{type(choice).__name__}"
        )
    return choice


_FIXED = frozenset("batch_size batch_sampler sampler drop_last dataset persistent_workers".split())


class DataLoader(Generic[Sample]):
    """Iterable over batches of a data set, optionally read by worker processes.

    An exception in a worker is raised by ``next()`` with its type, if the type can be made in this process,
    and with the worker's traceback in the message or a note; the next call continues with the next batch. A
    worker that dies raises RuntimeError. Workers end with the iterator, or with the loader if they are
    persistent, and always with the process that started them.

    Args:
        dataset: a `Dataset` (by index) or an `IterableDataset` (a stream).
        batch_size: the number of samples in a batch. None yields samples one by one, without collating them.
        shuffle: whether to read in a new random order at each pass. None means False.
        sampler: the sampler of indices. It excludes `shuffle`.
        batch_sampler: the sampler of lists of indices. It excludes `batch_size`, `shuffle`, `sampler` and
            `drop_last`.
        num_workers: the number of worker processes. 0 reads in this process.
        collate_fn: the function that makes a batch of a list of samples. None means `default_collate`.
        pin_memory: no effect without an accelerator.
        drop_last: whether to drop the last batch if it is shorter.
        timeout: the seconds to wait for a batch of a worker. 0 waits without limit.
        worker_init_fn: a function that each worker calls with its number when it starts.
        multiprocessing_context: how workers start: a context of `multiprocessing`, or its name. None means
            the default.
        generator: the source of the random order and of the seeds of workers. None means the default
            generator.
        prefetch_factor: the number of batches that each worker prepares in advance. None means 2 with
            workers.
        persistent_workers: whether workers continue after a pass.
        pin_memory_device: no effect.
        in_order: whether batches come in the order of the sampler, instead of the order in which workers
            finish.
    Raises: ValueError for arguments out of range or that exclude each other.

    Example:
        >>> loader = flambeau.utils.data.DataLoader([1.0, 2.0, 3.0], batch_size=2)
        >>> list(loader)
        [tensor([1., 2.], dtype=flambeau.float64), tensor([3.], dtype=flambeau.float64)]
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
        _check_workers(num_workers, timeout, persistent_workers, prefetch_factor)
        self.dataset = dataset
        if isinstance(dataset, IterDataPipe):  # its own shufflers do it; none is added
            apply_shuffle_settings(dataset, shuffle)
            shuffle = None
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.in_order = in_order
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.persistent_workers = persistent_workers
        self._pool: WorkerPool | None = None
        self._streams = isinstance(self.dataset, IterableDataset)
        self._choose_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.collate_fn = collate_fn or (_unbatched if self._is_unbatched else default_collate)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "collate_fn" in vars(self):  # the last one of the constructor
            raise ValueError(
                f"{type(self).__name__}: {name} should not be set after construction: expected no change, "
                f"got {value!r}"
            )
        super().__setattr__(name, value)

    def _choose_order(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        if self._streams and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "DataLoader: expected no shuffle, sampler or batch_sampler option with an "
                f"IterableDataset, got shuffle={shuffle}, sampler={sampler}, batch_sampler={batch_sampler}"
            )
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: expected sampler or shuffle, got both")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "DataLoader: expected no batch_size, shuffle, sampler or drop_last with batch_sampler, "
                f"got batch_size={batch_size}, shuffle={shuffle}, sampler={sampler}, drop_last={drop_last}"
            )
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: expected drop_last=False with batch_size=None, got True")
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

    @property
    def multiprocessing_context(self) -> Any:
        """What starts the workers; None: the default of the system."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, choice: Any) -> None:
        self._context = _context_of(choice, self.num_workers)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors that this process may use.

        Returns: None.
        """
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if self.num_workers and available is not None and self.num_workers > available:
            warnings.warn(
                f"DataLoader has {self.num_workers} worker processes, and {available} processors for them",
                stacklevel=3,
            )

    @property
    def fetcher(self) -> Fetcher:
        """How this loader's batches are made."""
        batched = (self.batch_size if self._streams else self.batch_sampler) is not None
        return Fetcher(self.collate_fn, self._streams, batched, self.batch_size, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterDataPipe):  # all workers shuffle alike, and each keeps its part
            apply_random_seed(self.dataset, Generator().manual_seed(self._draw_seed()))
        if self.num_workers == 0:
            self._draw_seed()
            return BatchesHere(self)
        if not self.persistent_workers:
            return BatchesOfWorkers(self, WorkerPool(self, self._draw_seed()))
        if self._pool is None or not self._pool.alive():
            self._pool = WorkerPool(self, self._draw_seed())
        elif self._pool.is_busy():
            # Another pass is going on; this one gets workers of its own.
            return BatchesOfWorkers(self, WorkerPool(self, self._draw_seed()))
        return BatchesOfWorkers(self, self._pool)

    def _draw_seed(self) -> int:
        """Draw what seeds the workers; without workers as well, so that the order does not depend on them."""
        return int(flambeau.empty((), dtype=flambeau.int64).random_(generator=self.generator).item())

    def requests(self) -> Iterator[Any]:
        """Yield the request of each fetch.

        Returns: an iterator over the indices of each batch, or over single indices if the loader makes no
            batches. For an `IterableDataset` it yields None without end, which asks for the next batch.
        """
        if self._streams:
            while True:
                yield None
        elif self.batch_sampler is not None:
            yield from self.batch_sampler
        else:
            yield from self.sampler

    def __len__(self) -> int:
        if self._streams:
            count = len(self.dataset)
            if self.batch_size is None:
                return int(count)
            return int(count // self.batch_size if self.drop_last else -(-count // self.batch_size))
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)
