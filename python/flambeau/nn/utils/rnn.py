"""Sequences of different lengths: padded to one tensor, or packed without padding."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import flambeau
from flambeau import Tensor


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Compute the permutation that undoes another.

    Args:
        permutation: a vector of the numbers 0 to n - 1, or None.
    Returns: the inverse, or None.

    Example:
        >>> flambeau.nn.utils.rnn.invert_permutation(flambeau.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    places = flambeau.arange(permutation.numel(), device=permutation.device)
    return flambeau.empty_like(permutation).scatter_(0, permutation, places)


class PackedSequence(_Packed):
    """Batch of sequences of different lengths without padding: step by step, the longest sequence first.

    It is made by `pack_padded_sequence` or `pack_sequence`, and recurrent networks take it as input.

    Args:
        data: the elements, (total, *): first those of step 0, then those of step 1, and so on.
        batch_sizes: the number of sequences that have an element at each step, int64 on the CPU.
        sorted_indices: the sequence of the batch that stands at each place. None means that all keep their
            places.
        unsorted_indices: the place at which each sequence stands. None computes it from `sorted_indices`.
    Raises: ValueError if `batch_sizes` is not on the CPU.
    See also: pad_packed_sequence

    Example:
        >>> sequences = [flambeau.tensor([1, 2, 3]), flambeau.tensor([4])]
        >>> packed = flambeau.nn.utils.rnn.pack_sequence(sequences)
        >>> packed.data, packed.batch_sizes
        (tensor([1, 4, 2, 3]), tensor([2, 1, 1]))
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes.device.type != "cpu":
            raise ValueError(f"PackedSequence: expected batch_sizes on the CPU, got {batch_sizes.device}")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return a sequence with `data` in another dtype or on another device; itself if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = (
            None if order is None else order.to(data.device)
            for order in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, *indices)

    def pin_memory(self) -> PackedSequence:
        """Return a sequence in memory that a GPU can copy from by itself."""
        indices = (
            None if order is None else order.pin_memory()
            for order in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def is_pinned(self) -> bool:
        """Whether the data lies in pinned memory."""
        data: Any = self.data
        return data.is_pinned()

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move to the CPU; other arguments are those of `to`."""
        return self.to(*args, device="cpu", **kwargs)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move to a CUDA device; the arguments are those of `to`."""
        if args or "device" in kwargs:
            device = flambeau.device("cuda", args[0]) if args and isinstance(args[0], int) else None
            return self.to(device or args[0], *args[1:], **kwargs) if args else self.to(**kwargs)
        return self.to(device="cuda", **kwargs)

    def double(self) -> PackedSequence:
        """Cast the data to float64."""
        return self.to(flambeau.float64)

    def float(self) -> PackedSequence:
        """Cast the data to float32."""
        return self.to(flambeau.float32)

    def half(self) -> PackedSequence:
        """Cast the data to float16."""
        return self.to(flambeau.float16)

    def long(self) -> PackedSequence:
        """Cast the data to int64."""
        return self.to(flambeau.int64)

    def int(self) -> PackedSequence:
        """Cast the data to int32."""
        return self.to(flambeau.int32)

    def short(self) -> PackedSequence:
        """Cast the data to int16."""
        return self.to(flambeau.int16)

    def char(self) -> PackedSequence:
        """Cast the data to int8."""
        return self.to(flambeau.int8)

    def byte(self) -> PackedSequence:
        """Cast the data to uint8."""
        return self.to(flambeau.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data lies on a GPU."""
        return self.data.device.type == "cuda"


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch of sequences of different lengths.

    Args:
        input: (time, batch, *), or (batch, time, *) with `batch_first`.
        lengths: the length of each sequence, above 0: a list, or a tensor on the CPU.
        batch_first: whether the batch is the first dimension.
        enforce_sorted: whether the lengths must be in descending order; False sorts the sequences first.
    Returns: a `PackedSequence`.
    Raises: RuntimeError for lengths that do not fit or, with `enforce_sorted`, are not in descending order.
    See also: pad_packed_sequence, pack_sequence

    Example:
        >>> padded = flambeau.tensor([[1, 4], [2, 0], [3, 0]])
        >>> flambeau.nn.utils.rnn.pack_padded_sequence(padded, [3, 1]).data
        tensor([1, 4, 2, 3])
    """
    given = flambeau.as_tensor(lengths, dtype=flambeau.int64)
    if given.dim() != 1:
        raise RuntimeError(f"pack_padded_sequence: expected lengths of one dimension, got {given.dim()}")
    order = None
    if not enforce_sorted:
        given, order = given.sort(descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    padded = input.transpose(0, 1) if batch_first else input
    counts = given.tolist()
    if not counts or min(counts) <= 0:
        raise RuntimeError(f"pack_padded_sequence: expected lengths greater than 0, got {counts}")
    if len(counts) != padded.size(1):
        raise RuntimeError(
            f"pack_padded_sequence: expected len(lengths) equal to batch_size {padded.size(1)}, "
            f"got {len(counts)}"
        )
    if any(a < b for a, b in itertools.pairwise(counts)):
        raise RuntimeError(
            "pack_padded_sequence: expected lengths sorted in decreasing order, or enforce_sorted=False, "
            f"got {counts}"
        )
    sizes = [sum(n > t for n in counts) for t in range(counts[0])]
    data = flambeau.cat([padded[t, :n] for t, n in enumerate(sizes)])
    return PackedSequence(data, flambeau.tensor(sizes), order, None)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Pad a packed batch, the inverse of `pack_padded_sequence`.

    Args:
        sequence: the packed batch.
        batch_first: whether the batch is the first dimension of the result.
        padding_value: the value of elements after the end of a sequence.
        total_length: the time of the result. None means the longest length.
    Returns: the batch, (time, batch, *) or (batch, time, *), and the lengths.
    Raises: ValueError if `total_length` is less than the longest length.

    Example:
        >>> packed = flambeau.nn.utils.rnn.pack_sequence([flambeau.tensor([1, 2, 3]), flambeau.tensor([4])])
        >>> flambeau.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2, 3],
                [4, 0, 0]]), tensor([3, 1]))
    """
    sizes = sequence.batch_sizes.tolist()
    longest = len(sizes) if total_length is None else total_length
    if longest < len(sizes):
        raise ValueError(
            f"pad_packed_sequence: expected total_length of {len(sizes)} or more, got {total_length}"
        )
    steps = []
    for step in sequence.data.split(sizes):
        around = [0, 0] * (step.dim() - 1) + [0, sizes[0] - step.size(0)]
        steps.append(flambeau.constant_pad_nd(step, around, padding_value))
    padded = flambeau.stack(steps)
    around = [0, 0] * (padded.dim() - 1) + [0, longest - len(sizes)]
    padded = flambeau.constant_pad_nd(padded, around, padding_value)
    lengths = flambeau.tensor([sum(n > place for n in sizes) for place in range(sizes[0])])
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def _listed(name: str, sequences: Any) -> list[Tensor]:
    """Return the sequences of any iterable as a list.

    Raises: RuntimeError if `sequences` is not an iterable or is empty, TypeError if it contains anything but
        tensors.
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"{name}: expected iterable for input sequences, got {type(sequences).__name__}")
    found = list(sequences)
    if not found:
        raise RuntimeError(f"{name}: expected one sequence or more, got none")
    for sequence in found:
        if not isinstance(sequence, Tensor):
            raise TypeError(f"{name}: expected Tensors, got {type(sequence).__name__}")
    return found


def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stack sequences of different lengths, padded to the longest one.

    Args:
        sequences: the sequences, (length, *) each.
        batch_first: whether the batch is the first dimension of the result.
        padding_value: the value of the added elements.
        padding_side: "right" adds at the end, "left" at the start.
    Returns: a tensor (time, batch, *) or (batch, time, *).
    Raises: RuntimeError for another side or no sequences, TypeError for a value that is not a tensor.
    See also: unpad_sequence, pack_sequence

    Example:
        >>> sequences = [flambeau.tensor([1, 2, 3]), flambeau.tensor([4])]
        >>> flambeau.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        tensor([[1, 2, 3],
                [4, 0, 0]])
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"pad_sequence: expected padding_side 'left' or 'right', got {padding_side!r}")
    sequences = _listed("pad_sequence", sequences)
    longest = max(s.size(0) for s in sequences)
    rows = []
    for s in sequences:
        missing = longest - s.size(0)
        side = [missing, 0] if padding_side == "left" else [0, missing]
        rows.append(flambeau.constant_pad_nd(s, [0, 0] * (s.dim() - 1) + side, padding_value))
    return flambeau.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Divide a padded batch into its sequences, the inverse of `pad_sequence`.

    Args:
        padded_sequences: (time, batch, *), or (batch, time, *) with `batch_first`.
        lengths: the length of each sequence.
        batch_first: whether the batch is the first dimension.
    Returns: a list of sequences, (length, *) each.

    Example:
        >>> padded = flambeau.tensor([[1, 2, 3], [4, 0, 0]])
        >>> flambeau.nn.utils.rnn.unpad_sequence(padded, flambeau.tensor([3, 1]), batch_first=True)
        [tensor([1, 2, 3]), tensor([4])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(rows.unbind(0), lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths.

    Args:
        sequences: the sequences, (length, *) each, with lengths above 0.
        enforce_sorted: whether the lengths must be in descending order; False sorts the sequences first.
    Returns: a `PackedSequence`.
    Raises: RuntimeError for no sequences or, with `enforce_sorted`, lengths that are not in descending order;
        TypeError for a value that is not a tensor.
    See also: unpack_sequence, pad_sequence

    Example:
        >>> flambeau.nn.utils.rnn.pack_sequence([flambeau.tensor([1, 2, 3]), flambeau.tensor([4])]).data
        tensor([1, 4, 2, 3])
    """
    sequences = _listed("pack_sequence", sequences)
    lengths = [s.size(0) for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Divide a packed batch into its sequences, the inverse of `pack_sequence`.

    Args:
        packed_sequences: the packed batch.
    Returns: a list of sequences, (length, *) each.

    Example:
        >>> packed = flambeau.nn.utils.rnn.pack_sequence([flambeau.tensor([1, 2, 3]), flambeau.tensor([4])])
        >>> flambeau.nn.utils.rnn.unpack_sequence(packed)
        [tensor([1, 2, 3]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
