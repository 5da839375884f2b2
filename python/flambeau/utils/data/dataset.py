"""Data sets: collections and streams of samples."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import flambeau
from flambeau import Generator, Tensor
from flambeau._loading.lazy import attributes

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Base class of data sets with samples by index.

    A subclass defines ``__getitem__`` and, for most samplers, ``__len__``. It can define ``__getitems__``,
    which returns the samples of a list of indices. ``a + b`` is a `ConcatDataset`.

    Example:
        >>> class Squares(flambeau.utils.data.Dataset):
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, index):
        ...         return index * index
        >>> list(flambeau.utils.data.DataLoader(Squares(), batch_size=2))
        [tensor([0, 1]), tensor([4, 9])]
    """

    def __getitem__(self, index: Any) -> Sample:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample]):
    """Base class of data sets that are streams of samples.

    A subclass defines ``__iter__``. In a `DataLoader` with workers each worker iterates over the whole data
    set, unless ``__iter__`` divides the samples by `get_worker_info`. ``a + b`` is a `ChainDataset`.

    Example:
        >>> class Count(flambeau.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(3))
        >>> list(flambeau.utils.data.DataLoader(Count(), batch_size=2))
        [tensor([0, 1]), tensor([2])]
    """

    def __iter__(self) -> Iterator[Sample]:
        raise TypeError(
            f"{type(self).__name__}: expected a subclass that defines __iter__, got one without: it "
            "must define __iter__"
        )

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Data set of rows of tensors: sample i is the tuple of row i of each tensor.

    Args:
        *tensors: the tensors, of equal size in dimension 0.
    Raises: AssertionError if the sizes differ.

    Example:
        >>> data = flambeau.utils.data.TensorDataset(flambeau.tensor([1.0, 2.0]), flambeau.tensor([0, 1]))
        >>> data[1]
        (tensor(2.), tensor(1))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            raise AssertionError(
                "TensorDataset: Size mismatch between tensors: expected equal first sizes, got "
                f"{[tensor.size(0) for tensor in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class Subset(Dataset[Any]):
    """Data set of the samples of another one at the given indices.

    Args:
        dataset: the other data set.
        indices: the indices, in order.

    Example:
        >>> list(flambeau.utils.data.Subset("abcd", [3, 0]))
        ['d', 'a']
    """

    def __init__(self, dataset: Dataset[Any], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):  # the data set indexes by lists itself
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return several samples, by one call of the data set if it offers that."""
        wanted = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return many(wanted) if callable(many) else [self.dataset[i] for i in wanted]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset[Any]):
    """Concatenation of data sets.

    Args:
        datasets: the data sets, each with a length.
    Raises: AssertionError without data sets, or for an `IterableDataset`.

    Example:
        >>> data = flambeau.utils.data.ConcatDataset(["ab", "cd"])
        >>> len(data), data[2]
        (4, 'c')
    """

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: expected at least one dataset, got none")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Sequence[Any]) -> list[int]:
        """Return the number of samples up to the end of each data set."""
        return list(accumulate(map(len, sequence)))

    @property
    def cummulative_sizes(self) -> list[int]:
        """The older name of `cumulative_sizes`."""
        warnings.warn("cummulative_sizes: use cumulative_sizes", FutureWarning, stacklevel=2)
        return self.cumulative_sizes

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        if index < -len(self):
            raise ValueError(
                f"ConcatDataset: expected an index from {-len(self)} to {len(self) - 1}, got {index}"
            )
        if index >= len(self):
            raise IndexError(
                f"ConcatDataset: expected an index from {-len(self)} to {len(self) - 1}, got {index}"
            )
        index %= len(self)
        which = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]


class ChainDataset(IterableDataset[Any]):
    """Concatenation of streams of samples.

    Args:
        datasets: the data sets, each an `IterableDataset`.

    Example:
        >>> class Count(flambeau.utils.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(flambeau.utils.data.ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            self._check(dataset)
            yield from dataset

    def __len__(self) -> int:
        for dataset in self.datasets:
            self._check(dataset)
        return sum(len(dataset) for dataset in self.datasets)

    @staticmethod
    def _check(dataset: Any) -> None:
        if not isinstance(dataset, IterableDataset):
            raise AssertionError(
                "ChainDataset: ChainDataset only supports IterableDataset: expected one, got "
                f"{type(dataset).__name__}"
            )


class StackDataset(Dataset[Any]):
    """Data set whose samples combine the samples of several others at one index.

    Args:
        *args: the data sets; samples are then tuples.
        **kwargs: the data sets by name; samples are then dicts.
    Raises: ValueError without data sets, with both kinds of arguments, or if the lengths differ.

    Example:
        >>> data = flambeau.utils.data.StackDataset(image="ab", label=[0, 1])
        >>> data[1]
        {'image': 'b', 'label': 1}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError("StackDataset: expected a tuple of ``args`` or a dict of ``kwargs``, got both")
        if not args and not kwargs:
            raise ValueError("StackDataset: expected at least one dataset, got none")
        self.datasets: Any = kwargs or args
        if len({len(d) for d in self._each()}) > 1:
            raise ValueError(
                "StackDataset: Size mismatch between datasets: expected equal lengths, got "
                f"{[len(d) for d in self._each()]}"
            )

    def _each(self) -> list[Any]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def __getitem__(self, index: Any) -> Any:
        found = [dataset[index] for dataset in self._each()]
        return (
            dict(zip(self.datasets, found, strict=True)) if isinstance(self.datasets, dict) else tuple(found)
        )

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Return several samples, by one call of each data set that offers it."""
        columns = [
            d.__getitems__(indices) if callable(getattr(d, "__getitems__", None)) else [d[i] for i in indices]
            for d in self._each()
        ]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(
                    f"StackDataset: expected {len(indices)} samples of the inner dataset, got {len(column)}"
                )
        rows = zip(*columns, strict=True)
        if isinstance(self.datasets, dict):
            return [dict(zip(self.datasets, row, strict=True)) for row in rows]
        return list(rows)

    def __len__(self) -> int:
        return len(self._each()[0])


def random_split(dataset: Any, lengths: Sequence[float], generator: Generator | None = None) -> list[Subset]:
    """Split a data set at random into subsets.

    Args:
        dataset: the data set, with a length.
        lengths: the size of each subset, or fractions with the sum 1. Samples that remain after rounding down
            go one by one to the first subsets.
        generator: the source of random numbers. None means the default generator.
    Returns: a list of `Subset`.
    Raises: ValueError if `lengths` do not fit the data set.

    Example:
        >>> parts = flambeau.utils.data.random_split(range(10), [0.75, 0.25])
        >>> [len(part) for part in parts]
        [8, 2]
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1.0) and sum(lengths) <= 1.0 + 1e-9:
        sizes = [math.floor(total * fraction) for fraction in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if not size:
                warnings.warn(f"random_split: part {i} is empty", stacklevel=2)
    else:
        sizes = [int(length) for length in lengths]
    if sum(sizes) != total:
        raise ValueError(
            f"random_split: expected lengths that sum to that of the dataset, {len(dataset)}, got "
            f"{list(lengths)}"
        )
    order = flambeau.randperm(total, generator=generator).tolist()
    ends = list(accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


__getattr__, __dir__ = attributes(__name__)
