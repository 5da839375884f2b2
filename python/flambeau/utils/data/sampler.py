"""Samplers: in which order a loader visits the samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import flambeau
from flambeau import Generator
from flambeau._loading.lazy import attributes

Index = TypeVar("Index", covariant=True)


class Sampler(Generic[Index]):
    """Base class of samplers, which yield indices of a data set.

    A subclass defines ``__iter__`` and, if it knows it, ``__len__``.

    Example:
        >>> class Reversed(flambeau.utils.data.Sampler):
        ...     def __iter__(self):
        ...         return iter([2, 1, 0])
        >>> list(flambeau.utils.data.DataLoader("abc", sampler=Reversed(), batch_size=3))
        [['c', 'b', 'a']]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler[int]):
    """Sampler of all indices in ascending order.

    Args:
        data_source: the data set, with a length.

    Example:
        >>> list(flambeau.utils.data.SequentialSampler("abc"))
        [0, 1, 2]
    """

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
    """Sampler of indices in random order.

    Args:
        data_source: the data set, with a length.
        replacement: whether an index may be drawn again.
        num_samples: the number of indices, above 0. None means the length of `data_source`.
        generator: the source of random numbers. None means a generator that the default generator seeds at
            each pass.
    Raises: TypeError if `replacement` is not a bool, ValueError for another `num_samples`.

    Example:
        >>> sorted(flambeau.utils.data.RandomSampler("abc"))
        [0, 1, 2]
    """

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
    """Sampler of the given indices in random order.

    Args:
        indices: the indices.
        generator: the source of random numbers. None means the default generator.

    Example:
        >>> sorted(flambeau.utils.data.SubsetRandomSampler([4, 7]))
        [4, 7]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = flambeau.randperm(len(self.indices), generator=self.generator)
        return (self.indices[i] for i in order.tolist())

    def __len__(self) -> int:
        return len(self.indices)


class BatchSampler(Sampler[list[int]]):
    """Sampler of lists of indices, which another sampler yields.

    Args:
        sampler: the other sampler.
        batch_size: the length of the lists, above 0.
        drop_last: whether to drop the last list if it is shorter.
    Raises: ValueError for another `batch_size` or `drop_last`.

    Example:
        >>> list(flambeau.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"BatchSampler: expected batch_size to be an int above 0, got {batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: expected drop_last to be a bool, got {drop_last!r}")
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
    """Sampler of indices drawn with the given weights.

    Args:
        weights: the weight of each index, 0 or more; they need not have the sum 1.
        num_samples: the number of indices in a pass, above 0.
        replacement: whether an index may be drawn again.
        generator: the source of random numbers. None means the default generator.
    Raises: ValueError for another `num_samples` or `replacement`, or weights that are not a vector.

    Example:
        >>> list(flambeau.utils.data.WeightedRandomSampler([0.0, 1.0, 0.0], num_samples=3))
        [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"WeightedRandomSampler: expected num_samples to be an int above 0, got {num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(f"WeightedRandomSampler: expected replacement to be a bool, got {replacement}")
        held = flambeau.as_tensor(weights, dtype=flambeau.float64)
        if held.dim() != 1:
            raise ValueError(
                "WeightedRandomSampler: expected weights to be a sequence of numbers, got shape "
                f"{tuple(held.shape)}"
            )
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
    """Sampler of the share of a data set that one of several processes reads.

    All processes make the same permutation from the seed and the epoch, and each takes every
    `num_replicas`-th index of it.

    Args:
        dataset: the data set, with a length.
        num_replicas: the number of processes. None asks the group of all processes.
        rank: the number of this process, from 0. None asks the group of all processes.
        shuffle: whether to permute the indices; call ``set_epoch`` before each pass for a new permutation.
        seed: the seed of the permutation, equal in all processes.
        drop_last: whether to drop the indices that cannot be shared evenly instead of repeating the first
            ones.
    Raises: ValueError without `num_replicas` or `rank` before `distributed.init_process_group`, or for a rank
        out of range.

    Example:
        >>> data = flambeau.utils.data
        >>> list(data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
        [1, 3, 0]
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
            from flambeau import distributed

            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: Invalid rank {rank}: expected 0 to {num_replicas - 1}, got {rank}"
            )
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
