"""Checkpoints in the files of Hugging Face: ``*.safetensors``, and a list of tensors and files.

Only tensors have a place in such files. A file is replaced as a whole, but several files are not. A save over
an earlier checkpoint that is interrupted can leave files of both, so each save should have its own directory.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import flambeau
from flambeau._C import Tensor
from flambeau.futures import Future

from ._chunks import narrowed
from ._consolidate_hf_safetensors import (
    INDEX,
    OFFSETS,
    SIZE,
    Part,
    Whole,
    checked_index,
    consolidate_safetensors_files,
    file_name,
    wholes_in,
    write_index,
)
from ._safetensors import Value, read_tensor, write
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties, TensorStorageMetadata
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem, WriteItemType
from .storage import WriteResult

__all__ = [
    "HuggingFaceStorageReader",
    "HuggingFaceStorageWriter",
    "QuantizedHuggingFaceStorageReader",
]

_OWN_NAMES = re.compile(r"(shard-\d{5}-)?model-\d{5}-of-\d{5}\.safetensors")
_PARTS = "sharded"  # the directory of parts beside whole tensors
_SCALE = "_scale_inv"  # what the names of scales end with


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes a checkpoint of tensors to files of the format safetensors.

    Args:
        path: the directory.
        fqn_to_index_mapping: the number of the file for each tensor, from 1 on. None: one file.
        thread_count: no effect; one thread writes.
        save_distributed: whether each rank writes its parts of tensors; otherwise tensors are whole, and rank
            0 has them.
        enable_consolidation: whether parts go to the directory ``sharded`` inside, and rank 0 then writes the
            whole tensors from them.
        thread_count_consolidation: no effect.
    Raises: ValueError, when it writes, for values that are not tensors, and parts without `save_distributed`.

    Example:
        >>> import os, tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writer = dcp.HuggingFaceStorageWriter(folder)
        ...     meta = dcp.save({"w": flambeau.ones(2)}, storage_writer=writer, no_dist=True)
        ...     sorted(os.listdir(folder))
        ['model-00001-of-00001.safetensors', 'model.safetensors.index.json']
    """

    def __init__(
        self,
        path: str,
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        if enable_consolidation and not save_distributed:
            raise ValueError(
                "HuggingFaceStorageWriter: expected save_distributed=True with enable_consolidation, got "
                "False"
            )
        self._index, self._is_divided = fqn_to_index_mapping, save_distributed
        self._consolidates = enable_consolidation
        super().__init__(path)

    @property
    def _folder(self) -> Path:
        return self.path / _PARTS if self._consolidates else self.path

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the directory."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Give each rank its number. Raises: ValueError for values that the files cannot have."""
        for rank, plan in enumerate(plans):
            for item in plan.items:
                self._check(item)
            if rank and plan.items and not self._is_divided:
                raise ValueError(
                    "HuggingFaceStorageWriter: expected values in rank 0 alone, or save_distributed=True, "
                    f"got {plan.items[0].index.fqn!r} in rank {rank}; with equal values in all ranks, "
                    "DefaultSavePlanner(dedup_save_to_lowest_rank=True) lets rank 0 write them"
                )
        return [replace(plan, storage_data=rank + 1) for rank, plan in enumerate(plans)]

    def _check(self, item: WriteItem) -> None:
        if item.type is WriteItemType.BYTE_IO or item.tensor_data is None:
            raise ValueError(
                f"HuggingFaceStorageWriter: expected tensors alone, got another value as {item.index.fqn!r}"
            )
        is_part = item.tensor_data.chunk.sizes != item.tensor_data.size
        if is_part and not self._is_divided:
            raise ValueError(
                "HuggingFaceStorageWriter: expected save_distributed=True for tensors in parts, got a part "
                f"of {item.index.fqn!r}"
            )

    def _write(self, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
        keys = [item.index.fqn for item in plan.items]
        index = checked_index("HuggingFaceStorageWriter", self._index, keys)
        count = max([*(self._index or {}).values(), *index.values()], default=1)
        files: dict[str, list[WriteItem]] = defaultdict(list)
        for item in plan.items:
            name = file_name(index[item.index.fqn], count)
            files[f"shard-{plan.storage_data:05d}-{name}" if self._is_divided else name].append(item)
        return [r for name, items in files.items() for r in self._write_items(name, items, planner)]

    def _write_items(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        values: dict[str, Value] = {}
        offsets: dict[str, dict[str, list[int]]] = {}
        for item in items:
            data = item.tensor_data
            assert data is not None
            key = item.index.fqn
            if key in values:
                raise ValueError(f"HuggingFaceStorageWriter: expected one part of {key!r} per rank, got two")
            shape = tuple(data.chunk.sizes)
            get: Any = _Resolved(planner, item)
            values[key] = Value(key, data.properties.dtype, shape, get)
            offsets[key] = {"saved_offsets": list(data.chunk.offsets), SIZE: list(data.size)}
        info = {"format": "pt", "DCP_VERSION": "1.0", OFFSETS: json.dumps(offsets)}
        write(self._folder / name, list(values.values()), info)
        return [WriteResult(item.index, values[item.index.fqn].nbytes, name) for item in items]

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the list of files, or whole tensors; remove files of this kind from an earlier checkpoint."""
        written = {result.index.fqn: result.storage_data for part in results for result in part}
        _remove_others(self._folder, {result.storage_data for part in results for result in part})
        if self._consolidates:
            index = checked_index("HuggingFaceStorageWriter", self._index, list(written))
            consolidate_safetensors_files(os.fspath(self._folder), os.fspath(self.path), index)
            count = max(index.values(), default=1)
            _remove_others(self.path, {file_name(number, count) for number in index.values()})
        elif not self._is_divided:
            sizes = {result.index.fqn: result.size_in_bytes for part in results for result in part}
            write_index(self.path, sizes, written)
        else:
            (self.path / INDEX).unlink(missing_ok=True)


@dataclass
class _Resolved:
    """A value of a plan; the planner gives it when it is written."""

    planner: SavePlanner
    item: WriteItem

    def __call__(self) -> Tensor:
        value: Any = self.planner.resolve_data(self.item)
        found: Tensor = value
        return found


def _remove_others(folder: Path, names: set[str]) -> None:
    """Remove files with names of this writer, except some."""
    for entry in list(folder.iterdir()):
        if _OWN_NAMES.fullmatch(entry.name) and entry.name not in names:
            entry.unlink(missing_ok=True)


class HuggingFaceStorageReader(FileSystemReader):
    """Reads tensors from the files ``*.safetensors`` of a directory, whole ones or parts of ranks.

    The files are not trusted. Their headers are checked before a value is read.

    Args:
        path: the directory.
        thread_count: no effect; one thread reads.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> state = {"w": flambeau.zeros(2)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writer = dcp.HuggingFaceStorageWriter(folder)
        ...     meta = dcp.save({"w": flambeau.ones(2)}, storage_writer=writer, no_dist=True)
        ...     dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(folder), no_dist=True)
        >>> state["w"]
        tensor([1., 1.])
    """

    def __init__(self, path: str, thread_count: int = 1) -> None:
        super().__init__(path)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return what the files hold.

        Raises: FileNotFoundError without files; RuntimeError if one is damaged, or parts are missing.
        """
        values: dict[str, Any] = {}
        places: dict[MetadataIndex, Part] = {}
        for name, whole in self._wholes().items():
            chunks = [
                ChunkStorageMetadata(flambeau.Size(p.offsets), flambeau.Size(p.entry.shape))
                for p in whole.parts
            ]
            properties = TensorProperties(dtype=self._dtype_of(name, whole))
            values[name] = TensorStorageMetadata(properties, flambeau.Size(whole.shape), chunks)
            places |= {MetadataIndex(name, part.offsets): part for part in whole.parts}
        return Metadata(values, storage_data=places)

    def _wholes(self) -> dict[str, Whole]:
        return wholes_in(self.path)

    def _dtype_of(self, name: str, whole: Whole) -> Any:
        return whole.dtype

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the items of this rank; each part in the files is read once."""
        items: dict[MetadataIndex, list[ReadItem]] = defaultdict(list)
        for item in plan.items:
            items[item.storage_index].append(item)
        for index, wanted in items.items():
            place = self._known().storage_data.get(index)
            if place is None:
                raise RuntimeError(f"load: expected a place in the files for {index}, got none")
            values = self._values(index.fqn, place)
            for item in wanted:
                target = planner.resolve_tensor(item).detach()
                target.copy_(narrowed(values, item.storage_offsets, item.lengths))
                planner.commit_tensor(item, target)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _values(self, name: str, part: Part) -> Tensor:
        return read_tensor(part.path, part.entry)


class QuantizedHuggingFaceStorageReader(HuggingFaceStorageReader):
    """Reads tensors, and multiplies those in blocks that have a scale per block.

    A matrix ``W`` with the scales ``W_scale_inv``, one per square block, is read as their product. Both are
    whole, each in one file.

    Args:
        path: the directory.
        thread_count: no effect.
        target_dtype: the dtype of products.
        block_size: the rows and columns of a block; those at the ends may be smaller.
    Raises: ValueError for a block size below 1; RuntimeError, when it reads, for scales that do not fit.
    Source: DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.3.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> state = {"w": flambeau.ones(2, 3), "w_scale_inv": flambeau.tensor([[2.0, 3.0]])}
        >>> found = {"w": flambeau.zeros(2, 3)}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     meta = dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(folder), no_dist=True)
        ...     reader = dcp.QuantizedHuggingFaceStorageReader(folder, block_size=2)
        ...     dcp.load(found, storage_reader=reader, no_dist=True)
        >>> found["w"]
        tensor([[2., 2., 3.],
                [2., 2., 3.]])
    """

    def __init__(
        self,
        path: str,
        thread_count: int = 1,
        target_dtype: flambeau.dtype = flambeau.float32,
        block_size: int = 128,
    ) -> None:
        if type(block_size) is not int or block_size < 1:
            raise ValueError(
                f"QuantizedHuggingFaceStorageReader: expected a positive block_size, got {block_size}"
            )
        self.target_dtype, self.block_size = target_dtype, block_size
        super().__init__(path)

    def _wholes(self) -> dict[str, Whole]:
        found = wholes_in(self.path)
        self._scales = {}
        for name, whole in found.items():
            scale = found.get(name + _SCALE)
            if scale is not None:
                self._check(whole, scale)
                self._scales[name] = scale
        return {name: w for name, w in found.items() if name not in {s.name for s in self._scales.values()}}

    def _check(self, whole: Whole, scale: Whole) -> None:
        blocks = tuple(math.ceil(n / self.block_size) for n in whole.shape)
        if len(whole.shape) != 2 or scale.shape != blocks or len(whole.parts) + len(scale.parts) > 2:
            raise RuntimeError(
                f"load: expected a whole matrix {whole.name!r}, and {blocks} scales for blocks of "
                f"{self.block_size}, got {whole.shape} in {len(whole.parts)} parts and {scale.shape}"
            )

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Take the places of the values, and find the scales in this process."""
        super().set_up_storage_reader(metadata, is_coordinator, *args, **kwargs)
        self._wholes()

    def _dtype_of(self, name: str, whole: Whole) -> Any:
        return self.target_dtype if name in self._scales else whole.dtype

    def _values(self, name: str, part: Part) -> Tensor:
        values = super()._values(name, part)
        scale = self._scales.get(name)
        if scale is None:
            return values
        factors = scale.read().float()
        for dim, size in enumerate(part.entry.shape):
            factors = factors.repeat_interleave(self.block_size, dim).narrow(dim, 0, size)
        return (values.float() * factors).to(self.target_dtype)
