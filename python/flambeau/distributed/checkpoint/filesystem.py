"""Checkpoints in a directory: PyTorch's files `.metadata` and `__<rank>_<number>.distcp`.

A save writes data files with new names, and then replaces `.metadata`, each atomically and after it has
reached the disk. The checkpoint from before is therefore whole until the new one is, whenever a process is
killed. Only then the files of the old one are removed.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import flambeau
from flambeau import serialization
from flambeau._C import Tensor, strided
from flambeau._loading.lazy import attributes
from flambeau.futures import Future
from flambeau.serialization._replacement import replacing

from . import _metadata_file
from ._chunks import narrowed
from ._storage_place import StoragePlace
from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystemReader", "FileSystemWriter"]

# Names of this module whose subsystems are not built are in a table.
_UNBUILT = (
    "BlockingAsyncStager ExtensionRegistry FileSystem FileSystemBase SerializationFormat "
    "StreamTransformExtension narrow_tensor_by_index"
).split()
__getattr__, __dir__ = attributes(
    __name__, dict.fromkeys(_UNBUILT, "flambeau.distributed.checkpoint._unbuilt")
)

_METADATA = ".metadata"
_SMALL = 1 << 16  # bytes
_DATA = re.compile(r"__\d+_\d+\.distcp")


def _is_path(checkpoint_id: Any) -> bool:
    return isinstance(checkpoint_id, str | os.PathLike) and "://" not in os.fspath(checkpoint_id)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _completed(call: Callable[..., Any], *args: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(call(*args))
    return future


class FileSystemWriter(StorageWriter):
    """Writes a checkpoint to a directory, which PyTorch's `FileSystemReader` can read.

    The directory keeps its previous checkpoint until the new one is complete and on the disk.

    Args:
        path: the directory; it is made if its parent exists or can be made.
        single_file_per_rank: whether a rank writes one file; False: one file for each value.
        sync_files: no effect; files always reach the disk before they are valid.
        thread_count: no effect; one thread writes.
        per_thread_copy_ahead: no effect.
        cache_staged_state_dict: no effect.
        overwrite: whether a checkpoint in the directory may be replaced; False: it is an error.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     writer = dcp.FileSystemWriter(folder)
        ...     meta = dcp.save({"w": flambeau.ones(2)}, storage_writer=writer, no_dist=True)
        >>> meta.state_dict_metadata["w"].size
        flambeau.Size([2])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
    ) -> None:
        self.single_file_per_rank, self.overwrite = single_file_per_rank, overwrite
        self.save_id = ""
        self.reset(path)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a save, to another directory if one is given."""
        if checkpoint_id is not None:
            if not _is_path(checkpoint_id):
                raise ValueError(f"FileSystemWriter: expected a path, got {checkpoint_id!r}")
            self.path = Path(checkpoint_id)
        self.save_id = str(uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Take the rank from `rank=`, which names the files."""
        self.rank = int(kwargs.get("rank") or 0)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the directory. Raises: RuntimeError if it has a checkpoint and `overwrite` is False."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.overwrite and (self.path / _METADATA).exists():
            raise RuntimeError(
                f"FileSystemWriter: expected a directory without a checkpoint, got {self.path}"
            )
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Give each rank the names of its files."""
        return [replace(plan, storage_data=f"__{rank}_") for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write the items of this rank."""
        return _completed(self._write, plan, planner)

    def _write(self, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
        parts = [plan.items] if self.single_file_per_rank else [[item] for item in plan.items]
        names = self._free_names(plan.storage_data)
        return [r for items in parts if items for r in self._write_file(next(names), items, planner)]

    def _free_names(self, prefix: str) -> Iterator[str]:
        """Yield names that no file of the checkpoint before has."""
        for number in count():
            name = f"{prefix}{number}.distcp"
            if not (self.path / name).exists():
                yield name

    def _write_file(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        results = []
        with replacing(self.path / name) as file:
            writer = _Writer(file)
            for item in items:
                begin = writer.position
                _write_value(writer, planner.resolve_data(item))
                length = writer.position - begin
                results.append(WriteResult(item.index, length, StoragePlace(name, begin, length)))
            writer.flush()
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Replace the metadata, which makes the checkpoint valid, and remove files of the one before."""
        metadata.storage_data = {r.index: r.storage_data for part in results for r in part}
        metadata.storage_meta = self.storage_meta()
        _sync_directory(self.path)
        with replacing(self.path / _METADATA) as file:
            _write_all(file, memoryview(_metadata_file.dumps(metadata)))
        _sync_directory(self.path)
        used = {place.relative_path for place in metadata.storage_data.values()}
        for entry in self.path.iterdir():
            if _DATA.fullmatch(entry.name) and entry.name not in used:
                with contextlib.suppress(OSError):
                    entry.unlink()

    def storage_meta(self) -> StorageMeta | None:
        """Return the directory and the identifier of this save."""
        return StorageMeta(checkpoint_id=os.fspath(self.path), save_id=self.save_id)

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The directory."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a path."""
        return _is_path(checkpoint_id)


def _check_values(values: Any, index: MetadataIndex, metadata: Metadata) -> None:
    """Check that a file holds the chunk that the metadata describe. Raises: RuntimeError otherwise."""
    whole: Any = metadata.state_dict_metadata[index.fqn]
    sizes = next((c.sizes for c in whole.chunks if c.offsets == index.offset), None)
    expected = f"{whole.properties.dtype} of size {sizes}"
    if not isinstance(values, Tensor):
        found = type(values).__name__
    else:
        found = f"{values.dtype} of size {values.shape}"
    if found != expected or values.layout is not strided:
        raise RuntimeError(
            f"load: expected a tensor of {expected} in the file for {index.fqn!r}, got {found}"
        )


class _Writer(io.RawIOBase):
    """Collects small pieces before it writes them, and writes large ones from where they are."""

    def __init__(self, file: io.FileIO) -> None:
        self.file, self.position, self.small = file, 0, bytearray()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Take all of a piece."""
        count = memoryview(data).nbytes
        self.position += count
        if count < _SMALL:
            self.small += data
        if max(count, len(self.small)) >= _SMALL:
            self.flush()
        if count >= _SMALL:
            _write_all(self.file, memoryview(data))
        return count

    def flush(self) -> None:
        """Write the small pieces."""
        _write_all(self.file, memoryview(self.small))
        self.small = bytearray()


def _write_all(file: io.FileIO, data: memoryview) -> None:
    while data:  # a raw file may write less than it gets
        data = data[file.write(data) :]


def _write_value(writer: _Writer, value: Tensor | io.BytesIO) -> None:
    """Write bytes, or the file of a tensor that has its own storage."""
    if isinstance(value, io.BytesIO):
        writer.write(value.getbuffer())
        return
    own = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if own.numel() and own.untyped_storage().nbytes() != own.numel() * own.element_size():
        # A part of a storage would save all of it. This storage is the part, of the same memory.
        part: Any = own.reshape(-1).view(flambeau.uint8)
        own = flambeau.frombuffer(memoryview(part), dtype=own.dtype).view(own.shape)
    elif not own.numel():
        own = own.clone()
    target: Any = writer  # a raw file, which is no IO[bytes] to mypy
    serialization.save(own, target)


class FileSystemReader(StorageReader):
    """Reads a checkpoint that `FileSystemWriter`, or PyTorch's, has written to a directory.

    The files are not trusted: they can give tensors and plain data only.

    Args:
        path: the directory.

    Example:
        >>> import tempfile
        >>> import flambeau.distributed.checkpoint as dcp
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = dcp.save({"step": 3}, checkpoint_id=folder, no_dist=True)
        ...     sorted(dcp.FileSystemReader(folder).read_metadata().state_dict_metadata)
        ['step']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.reset(path)

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Begin a load, from another directory if one is given."""
        self.metadata: Metadata | None = None
        if checkpoint_id is not None:
            if not _is_path(checkpoint_id):
                raise ValueError(f"FileSystemReader: expected a path, got {checkpoint_id!r}")
            self.path = Path(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Return what the checkpoint holds.

        Raises: FileNotFoundError if the directory has no checkpoint; RuntimeError if it is damaged.
        """
        path = self.path / _METADATA
        return _metadata_file.loads(path.read_bytes(), str(path))

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Take the places of the values."""
        self.metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return plans

    @property
    def checkpoint_id(self) -> str | os.PathLike[str]:
        """The directory."""
        return self.path

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read the items of this rank; each value in the files is read once."""
        return _completed(self._read, plan, planner)

    def _read(self, plan: LoadPlan, planner: LoadPlanner) -> None:
        items: dict[Any, list[ReadItem]] = defaultdict(list)
        for item in plan.items:
            items[item.storage_index].append(item)
        for index, wanted in items.items():
            place = self._known().storage_data.get(index)
            if place is None:
                raise RuntimeError(f"load: expected a place in the files for {index}, got none")
            self._read_value(self._data_at(place), wanted, planner)

    def _known(self) -> Metadata:
        assert self.metadata is not None, "read_data: expected set_up_storage_reader first"
        return self.metadata

    def _data_at(self, place: StoragePlace) -> io.BytesIO:
        path = self.path / place.relative_path
        if path.exists() and not path.is_file():  # opening a pipe would wait for its writer
            raise RuntimeError(f"load: expected a file at {path}, got something else")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if place.offset + place.length > size:
                end = place.offset + place.length
                raise RuntimeError(f"load: expected at least {end} bytes in {path}, got {size}")
            file.seek(place.offset)
            return io.BytesIO(file.read(place.length))

    def _read_value(self, data: io.BytesIO, wanted: list[ReadItem], planner: LoadPlanner) -> None:
        if wanted[0].type is LoadItemType.BYTE_IO:
            for item in wanted:
                data.seek(0)
                planner.load_bytes(item, data)
            return
        values = serialization.load(data, map_location="cpu", weights_only=True)
        _check_values(values, wanted[0].storage_index, self._known())
        for item in wanted:
            target = planner.resolve_tensor(item).detach()
            part = narrowed(values, item.storage_offsets, item.lengths)
            target.copy_(part)
            planner.commit_tensor(item, target)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a path."""
        return _is_path(checkpoint_id)
