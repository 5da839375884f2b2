"""Whole tensors in files of Hugging Face from the parts that ranks have written."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.distributed._barriers import barrier
from flambeau.distributed._groups import get_rank, get_world_size, is_initialized
from flambeau.serialization._replacement import replacing

from ._chunks import narrowed
from ._safetensors import Entry, Value, read_header, read_tensor, write

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]

OFFSETS = "DCP_SHARDING_INFO"  # PyTorch's key: a table of the first element of each part
SIZE = "size"  # of the whole, beside the first element; PyTorch does not write it
INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"


class Part:
    """A part of a tensor in a file.

    Args:
        path: the file.
        entry: its place there.
        offsets: its first element in the whole tensor.
        size: the sizes of the whole, or None where the file does not tell.
    """

    def __init__(
        self, path: Path, entry: Entry, offsets: tuple[int, ...], size: tuple[int, ...] | None
    ) -> None:
        self.path, self.entry, self.offsets, self.size = path, entry, offsets, size


class Whole:
    """A tensor whose parts are in files.

    Args:
        name: its name.
        parts: its parts, which fill it once.
    Raises: RuntimeError if they do not.
    """

    def __init__(self, name: str, parts: list[Part]) -> None:
        self.name, self.parts, self.dtype = name, parts, parts[0].entry.dtype
        kinds = {(part.entry.dtype, len(part.entry.shape)) for part in parts}
        if len(kinds) > 1:
            raise RuntimeError(f"load: expected parts of {name!r} of one dtype and dimension, got {kinds}")
        ends = [[o + n for o, n in zip(p.offsets, p.entry.shape, strict=True)] for p in parts]
        self.shape = tuple(max(sizes) for sizes in zip(*ends, strict=True))
        known = {part.size for part in parts if part.size is not None} - {self.shape}
        filled = sum(math.prod(part.entry.shape) for part in parts)
        is_once = filled == math.prod(self.shape) and len({part.offsets for part in parts}) == len(parts)
        if known or not is_once:
            shape = next(iter(known), self.shape)
            raise RuntimeError(
                f"load: expected parts that fill {name!r} of shape {shape} once, got {filled} elements in "
                f"{len(parts)} parts; files of another checkpoint may be in the directory"
            )

    def read(self) -> Tensor:
        """Return the whole tensor."""
        if len(self.parts) == 1:
            return read_tensor(self.parts[0].path, self.parts[0].entry)
        whole = flambeau.empty(self.shape, dtype=self.dtype)
        for part in self.parts:
            narrowed(whole, part.offsets, part.entry.shape).copy_(read_tensor(part.path, part.entry))
        return whole


def _parts(path: Path, info: Mapping[str, str], entries: Mapping[str, Entry]) -> dict[str, Part]:
    """Return the parts of tensors in a file."""
    try:
        table = json.loads(info.get(OFFSETS, "{}"))
        if not isinstance(table, dict):
            raise ValueError(type(table).__name__)
        found = {}
        for name, entry in entries.items():
            places = table.get(name, {"saved_offsets": [0] * len(entry.shape)})
            size = _numbers(places[SIZE], entry) if SIZE in places else None
            found[name] = Part(path, entry, _numbers(places["saved_offsets"], entry), size)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RuntimeError(f"load: expected offsets as {OFFSETS} in {path}, got {error}") from None
    return found


def _numbers(given: Any, entry: Entry) -> tuple[int, ...]:
    is_valid = isinstance(given, list) and len(given) == len(entry.shape)
    if not is_valid or not all(type(n) is int and 0 <= n < 1 << 62 for n in given):
        raise ValueError(str(given)[:80])
    return tuple(given)


def wholes_in(folder: Path) -> dict[str, Whole]:
    """Return the tensors in the files of a directory. Raises: FileNotFoundError if there is no file."""
    parts: dict[str, list[Part]] = {}
    paths = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX)) if folder.is_dir() else []
    if not paths:
        raise FileNotFoundError(f"load: expected files *{SUFFIX} in {folder}, got none")
    for path in paths:
        header = read_header(path)
        for name, part in _parts(path, header.info, header.entries).items():
            parts.setdefault(name, []).append(part)
    return {name: Whole(name, some) for name, some in parts.items()}


def file_name(index: int, count: int) -> str:
    """Return the name of a file with whole tensors."""
    return f"model-{index:05d}-of-{count:05d}{SUFFIX}"


def checked_index(name: str, table: Mapping[str, int] | None, keys: list[str]) -> dict[str, int]:
    """Return the number of the file for each tensor. Raises: ValueError for missing or wrong numbers."""
    if table is None:
        return dict.fromkeys(keys, 1)
    for key in keys:
        if type(table.get(key)) is not int or table[key] < 1:
            raise ValueError(f"{name}: expected the number of a file for {key!r}, got {table.get(key)!r}")
    return {key: table[key] for key in keys}


def write_index(folder: Path, sizes: Mapping[str, int], names: Mapping[str, str]) -> None:
    """Write the list of tensors and their files."""
    table = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": dict(sorted(names.items()))}
    with replacing(folder / INDEX) as file:
        file.write(json.dumps(table, indent=2).encode("utf-8"))


def _consolidate(
    name: str, source: Any, target: Any, table: Mapping[str, int] | None, rank: int, size: int
) -> None:
    """Write the files that belong to a rank; rank 0 writes the list of them, too."""
    folder, wholes = Path(target), wholes_in(Path(source))
    folder.mkdir(parents=True, exist_ok=True)
    index = checked_index(name, table, list(wholes))
    count = max(index.values())
    for number in sorted(set(index.values()))[rank::size]:
        values = [
            Value(key, whole.dtype, whole.shape, whole.read)
            for key, whole in wholes.items()
            if index[key] == number
        ]
        write(folder / file_name(number, count), values, {"format": "pt"})
    if rank == 0:
        sizes = {k: math.prod(w.shape) * w.dtype.itemsize for k, w in wholes.items()}
        write_index(folder, sizes, {key: file_name(number, count) for key, number in index.items()})


def consolidate_safetensors_files(
    input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int] | None, num_threads: int = 1
) -> None:
    """Write whole tensors from files with the parts of ranks.

    Args:
        input_dir: the directory with the parts.
        output_dir: the directory for ``model-<n>-of-<N>.safetensors`` and their list.
        fqn_to_index_mapping: the number of the file for each tensor, from 1 on. None: one file.
        num_threads: no effect; one thread writes, and one whole tensor is in memory at a time.
    Raises: FileNotFoundError without files; RuntimeError for damaged ones, and parts that do not fill a
        tensor; ValueError for a tensor without a number.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> from flambeau.distributed.checkpoint._consolidate_hf_safetensors import (
        ...     consolidate_safetensors_files)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writer = dcp.HuggingFaceStorageWriter(f"{folder}/parts", save_distributed=True)
        ...     _ = dcp.save({"w": flambeau.ones(2)}, storage_writer=writer, no_dist=True)
        ...     consolidate_safetensors_files(f"{folder}/parts", f"{folder}/whole", None)
        ...     dcp.HuggingFaceStorageReader(f"{folder}/whole").read_metadata().state_dict_metadata["w"].size
        flambeau.Size([2])
    """
    _consolidate("consolidate_safetensors_files", input_dir, output_dir, fqn_to_index_mapping, 0, 1)


def consolidate_safetensors_files_on_every_rank(
    input_dir: str | os.PathLike[str],
    output_dir: str | os.PathLike[str],
    fqn_to_index_mapping: dict[str, int] | None,
    num_threads: int = 1,
    process_group: Any = None,
) -> None:
    """Write whole tensors from files with the parts of ranks; each rank writes some of the files.

    Args:
        input_dir: the directory with the parts, which all ranks see.
        output_dir: the directory for ``model-<n>-of-<N>.safetensors`` and their list.
        fqn_to_index_mapping: the number of the file for each tensor, from 1 on. None: one file.
        num_threads: no effect.
        process_group: the ranks. Default: all.
    Raises: what `consolidate_safetensors_files` raises.

    Example:
        >>> from flambeau.distributed.checkpoint import _consolidate_hf_safetensors as files
        >>> try:
        ...     files.consolidate_safetensors_files_on_every_rank("/nowhere", "/nowhere", None)
        ... except FileNotFoundError:
        ...     print("no files")
        no files
    """
    name = "consolidate_safetensors_files_on_every_rank"
    has_ranks = is_initialized()
    rank = get_rank(process_group) if has_ranks else 0
    size = get_world_size(process_group) if has_ranks else 1
    _consolidate(name, input_dir, output_dir, fqn_to_index_mapping, rank, size)
    if has_ranks:
        barrier(process_group)
