"""Samplers: in which order a loader visits the samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import flambeau
from flambeau import Generator
from flambeau._loading.lazy import attributes

Index = TypeVar("Index", covariant=True)


class Sampler(Generic[Index]):
    """Yields indices; subclasses define ``__iter__`` and, if they know it, ``__len__``."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _seeded(generator: Generator | None) -> Generator:
    """Return `generator`, or a new one whose seed is drawn from the default generator."""
    if generator is not None:
        return generator
    seed = int(flambeau.empty((), dtype=flambeau.int64).random_().item())
    fresh = Generator()
    fresh.manual_seed(seed)
    return fresh


class RandomSampler(Sampler[int]):
    """All indices in random order, or `num_samples` drawn with replacement."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"RandomSampler: expected replacement to be a bool, got {replacement!r}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"RandomSampler: expected num_samples above 0, got {self.num_samples!r}")

    @property
    def num_samples(self) -> int:
        """How many indices one pass yields."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = _seeded(self.generator)
        # Blocks of 32, and a last permutation that may stay unused: PyTorch draws the same numbers,
        # so that a generator which serves several passes gives equal orders in all of them.
        if self.replacement:
            for at in range(0, self.num_samples, 32):
                size = min(32, self.num_samples - at)
                block = flambeau.randint(count, (size,), dtype=flambeau.int64, generator=generator)
                yield from block.tolist()
            return
        whole, rest = divmod(self.num_samples, count)
        for _ in range(whole):
            yield from flambeau.randperm(count, generator=generator).tolist()
        yield from flambeau.randperm(count, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = flambeau.randperm(len(self.indices), generator=self.generator)
        return (self.indices[i] for i in order.tolist())

    def __len__(self) -> int:
        return len(self.indices)


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` indices of another sampler; the last may be shorter or is dropped."""

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size: expected an int above 0, got {batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last: expected a bool, got {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)
        return int(count // self.batch_size if self.drop_last else -(-count // self.batch_size))


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices drawn with the given weights, with or without replacement.

    Args:
        weights: one per index, not negative; they need not sum to 1.
        num_samples: how many indices one pass yields.
        replacement: whether an index may be drawn again.
        generator: draws the numbers; None: the default generator.
    Raises: ValueError for other counts or flags, and for weights that are no vector.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples: expected an int above 0, got {num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement: expected a bool, got {replacement}")
        held = flambeau.as_tensor(weights, dtype=flambeau.float64)
        if held.dim() != 1:
            raise ValueError(f"weights: expected a sequence of numbers, got shape {tuple(held.shape)}")
        self.weights = held
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = flambeau.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class DistributedSampler(Sampler[Any]):
    """The part of a data set that one of several processes visits.

    Every process makes the same permutation of seed and epoch, and takes each `num_replicas`-th index of it.

    Args:
        dataset: the data set.
        num_replicas: how many processes there are.
        rank: which of them this is.
        shuffle: permute the indices, anew after each `set_epoch`.
        seed: of the permutation; the same in all processes.
        drop_last: leave out what cannot be shared evenly, instead of repeating the first indices.
    Raises: ValueError for a rank that is not below num_replicas.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise ValueError("DistributedSampler: no process group to ask; give num_replicas and rank")
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}: expected 0 to {num_replicas - 1}")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        rest = len(dataset) % num_replicas
        self.num_samples = len(dataset) // num_replicas + (1 if rest and not drop_last else 0)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = flambeau.randperm(len(indices), generator=generator).tolist()
        while indices and len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which permutation comes next."""
        self.epoch = epoch


__getattr__, __dir__ = attributes(__name__)
