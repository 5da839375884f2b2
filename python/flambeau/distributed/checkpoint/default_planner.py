"""Planners that write each chunk once and read every box where it overlaps what this rank holds."""

from __future__ import annotations

import io
from collections import defaultdict
from dataclasses import replace
from typing import Any

import flambeau
from flambeau import serialization
from flambeau._C import Tensor
from flambeau._loading.lazy import attributes
from flambeau._types.size import Size

from ._chunks import check_chunks, chunk_values, chunks_of, narrowed, overlap, write_items
from ._nesting import Path, flatten, flatten_as_saved, nested, parts_of, set_leaf
from .metadata import (
    BytesStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorStorageMetadata,
)
from .planner import LoadItemType, LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem

__all__ = [
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "create_default_global_load_plan",
    "create_default_global_save_plan",
    "create_default_local_load_plan",
    "create_default_local_save_plan",
]

# Names of this module whose subsystems are not built are in a table.
_UNBUILT = (
    "dedup_save_plans find_state_dict_object flatten_state_dict narrow_tensor_by_index set_element"
).split()
__getattr__, __dir__ = attributes(
    __name__, dict.fromkeys(_UNBUILT, "flambeau.distributed.checkpoint._unbuilt")
)

_VERSION = "1.0.0"  # of the format


class DefaultSavePlanner(SavePlanner):
    """Writes each value once: what several ranks hold is written by one of them.

    Args:
        flatten_state_dict: whether nested dicts become keys with dots.
        flatten_sharded_tensors: no effect.
        dedup_replicated_tensors: no effect; tensors that several ranks hold are always written once.
        dedup_save_to_lowest_rank: whether the lowest rank writes them; False: the rank with the fewest bytes.
        enable_plan_caching: no effect.

    Example:
        >>> from flambeau.distributed.checkpoint import DefaultSavePlanner
        >>> planner = DefaultSavePlanner()
        >>> planner.set_up_planner({"model": {"w": flambeau.ones(2)}})
        >>> [item.index.fqn for item in planner.create_local_plan().items]
        ['model.w']
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict = flatten_state_dict
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.is_coordinator = False
        self.state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Path] = {}

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state dict, and flatten it."""
        self.state_dict, self.mappings = flatten(state_dict) if self.flatten_state_dict else (state_dict, {})
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> SavePlan:
        """Offer everything that this rank holds."""
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        return replace(plan, planner_data=self.mappings)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Assign each item to one rank.

        Raises: ValueError if ranks disagree about a value, or the chunks of a tensor do not fill it once.
        """
        plans, metadata = _global_save_plan(all_plans, self.dedup_save_to_lowest_rank)
        paths = {key: path for plan in all_plans for key, path in (plan.planner_data or {}).items()}
        return plans, replace(metadata, planner_data=paths)

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """Return the plan as it is."""
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """Return the chunk, or the bytes that `flambeau.save` writes for another value."""
        value = self.lookup_object(write_item.index)
        if write_item.tensor_data is not None:
            return self.transform_object(write_item, chunk_values(value, write_item.index))
        return self.transform_object(write_item, value)

    def lookup_object(self, index: MetadataIndex) -> Any:
        """Return the value of a key."""
        return self.state_dict[index.fqn]

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """Return what is written for a value: tensors as they are, other values as bytes."""
        if write_item.tensor_data is not None:
            return object
        data = io.BytesIO()
        serialization.save(object, data)
        return data


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """Return the plan of a rank that offers everything it holds.

    Args:
        state_dict: the flat state.
        is_coordinator: no effect.
    Returns: the plan.

    Example:
        >>> from flambeau.distributed.checkpoint.default_planner import create_default_local_save_plan
        >>> len(create_default_local_save_plan({"w": flambeau.ones(2), "n": 1}, True).items)
        2
    """
    return SavePlan([item for fqn, value in state_dict.items() for item in write_items(fqn, value)])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """Assign what ranks offer: each item to one of them.

    Args:
        all_plans: the plan of each rank.
        rewrite_index_hints: no effect; indices always get the place of their chunk.
    Returns: the plans and the metadata.
    Raises: ValueError if ranks disagree about a value, or the chunks of a tensor do not fill it once.

    Example:
        >>> from flambeau.distributed.checkpoint import default_planner
        >>> offer = default_planner.create_default_local_save_plan({"w": flambeau.ones(2)}, True)
        >>> plans, metadata = default_planner.create_default_global_save_plan([offer, offer])
        >>> [len(plan.items) for plan in plans]
        [1, 0]
    """
    return _global_save_plan(all_plans, lowest=False)


def _global_save_plan(all_plans: list[SavePlan], lowest: bool) -> tuple[list[SavePlan], Metadata]:
    described, indices = _described(all_plans)
    writers = _writers(all_plans, lowest)
    plans = []
    for rank, plan in enumerate(all_plans):
        items = [
            replace(item, index=indices[item.index])
            for item in {item.index: item for item in plan.items}.values()
            if writers[item.index] == rank
        ]
        plans.append(replace(plan, items=items))
    return plans, Metadata(described, version=_VERSION)


def _described(plans: list[SavePlan]) -> tuple[dict[str, Any], dict[MetadataIndex, MetadataIndex]]:
    """Return what each key is, and each index with its place in the list of chunks."""
    described: dict[str, Any] = {}
    indices: dict[MetadataIndex, MetadataIndex] = {}
    for item in (item for plan in plans for item in plan.items):
        fqn, data = item.index.fqn, item.tensor_data
        known = described.get(fqn)
        if data is None:
            whole: Any = BytesStorageMetadata()
        else:
            whole = TensorStorageMetadata(data.properties, Size(data.size), [])
        if known is None:
            known = described[fqn] = whole
        if type(known) is not type(whole) or getattr(known, "size", None) != getattr(whole, "size", None):
            raise ValueError(f"save: expected one size for {fqn!r} on all ranks, got {known} and {whole}")
        if data is not None and known.properties.dtype != data.properties.dtype:
            found = f"{known.properties.dtype} and {data.properties.dtype}"
            raise ValueError(f"save: expected one dtype for {fqn!r} on all ranks, got {found}")
        if item.index in indices:
            continue
        if data is None:
            indices[item.index] = item.index
        else:
            indices[item.index] = MetadataIndex(fqn, data.chunk.offsets, len(known.chunks))
            known.chunks.append(data.chunk)
    for fqn, whole in described.items():
        if isinstance(whole, TensorStorageMetadata):
            check_chunks("save", fqn, whole)
    return described, indices


def _writers(plans: list[SavePlan], lowest: bool) -> dict[MetadataIndex, int]:
    """Return the rank that writes each item."""
    offers: dict[MetadataIndex, list[int]] = defaultdict(list)
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(plans):
        for item in {item.index: item for item in plan.items}.values():
            offers[item.index].append(rank)
            sizes[item.index] = item.tensor_storage_size() or 0
    load = [0] * len(plans)
    writers = {}
    for index in sorted(offers, key=lambda i: len(offers[i])):  # those without a choice first
        ranks = offers[index]
        fixed = lowest or index.offset is None
        writer = writers[index] = ranks[0] if fixed else min(ranks, key=lambda rank: load[rank])
        load[writer] += sizes[index]
    return writers


class DefaultLoadPlanner(LoadPlanner):
    """Reads each value of the state dict, whichever chunks the checkpoint has.

    Args:
        flatten_state_dict: whether nested dicts become keys with dots.
        flatten_sharded_tensors: no effect.
        allow_partial_load: whether keys that the checkpoint lacks keep their values; False: they are errors.

    Example:
        >>> from flambeau.distributed.checkpoint import DefaultLoadPlanner
        >>> DefaultLoadPlanner(allow_partial_load=True).allow_partial_load
        True
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load
        self.is_coordinator = False
        self.state_dict: dict[str, Any] = {}
        self.original_state_dict: dict[str, Any] = {}
        self.mappings: dict[str, Path] = {}
        self.metadata: Metadata | None = None

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take the state dict, and flatten it."""
        self.original_state_dict, self.metadata = state_dict, metadata
        known = {} if metadata is None else metadata.state_dict_metadata
        self.state_dict, self.mappings = (
            flatten_as_saved(state_dict, known) if self.flatten_state_dict else (state_dict, {})
        )
        self.is_coordinator = is_coordinator

    def create_local_plan(self) -> LoadPlan:
        """Find the boxes of each tensor in the checkpoint.

        Raises: RuntimeError if the checkpoint lacks a key, ValueError if a size differs.
        """
        assert self.metadata is not None, "create_local_plan: expected set_up_planner with metadata first"
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Set a value that the checkpoint does not hold as a tensor; only plain data and tensors are read."""
        fqn = read_item.dest_index.fqn
        found = serialization.load(value, weights_only=True)
        self.state_dict[fqn] = found
        if self.flatten_state_dict:
            set_leaf(self.original_state_dict, self.mappings[fqn], found)

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Return the view of this rank's chunk that the item fills."""
        view = chunk_values(self.lookup_tensor(read_item.dest_index), read_item.dest_index)
        return narrowed(view, read_item.dest_offsets, read_item.lengths)

    def lookup_tensor(self, index: MetadataIndex) -> Any:
        """Return the tensor of a key."""
        return self.state_dict[index.fqn]

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """Do nothing: the view shares memory with the tensor."""


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty dict with what a checkpoint holds, nested as it was saved.

    Args:
        keys: names of values or of containers that are wanted. Default: all.
        args: as for `DefaultLoadPlanner`.
        kwargs: as for `DefaultLoadPlanner`.
    """

    def __init__(self, keys: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.keys = None if keys is None else set(keys)

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Make empty tensors for what the checkpoint holds. Raises: ValueError if the dict is not empty."""
        if state_dict or metadata is None:
            raise ValueError(
                f"load: expected an empty dict to fill and metadata, got keys {list(state_dict)}"
            )
        known = metadata.planner_data if isinstance(metadata.planner_data, dict) else {}
        paths = {fqn: parts_of(fqn, known.get(fqn, (fqn,))) for fqn in metadata.state_dict_metadata}
        self.mappings = {fqn: path for fqn, path in paths.items() if self._is_wanted(fqn, path)}
        self.state_dict = {fqn: empty_value(metadata.state_dict_metadata[fqn]) for fqn in self.mappings}
        state_dict.update(nested(self.state_dict, self.mappings))
        self.original_state_dict, self.metadata = state_dict, metadata
        self.is_coordinator = is_coordinator

    def _is_wanted(self, fqn: str, path: tuple[Any, ...]) -> bool:
        if self.keys is None or fqn in self.keys:
            return True
        return any(".".join(map(str, path[:count])) in self.keys for count in range(1, len(path)))


def empty_value(saved: Any) -> Any:
    """Return a place for a value: a tensor without values, or None."""
    if isinstance(saved, BytesStorageMetadata):
        return None
    return flambeau.empty(tuple(saved.size), dtype=saved.properties.dtype)


def create_default_local_load_plan(
    state_dict: dict[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """Return the plan of a rank that reads what its tensors need.

    Args:
        state_dict: the flat state to fill.
        metadata: of the checkpoint.
        strict: whether keys that the checkpoint lacks are errors; False: they are left out.
    Returns: the plan.
    Raises: RuntimeError if the checkpoint lacks a key, ValueError if a size differs.

    Example:
        >>> from flambeau.distributed.checkpoint import Metadata
        >>> from flambeau.distributed.checkpoint.default_planner import create_default_local_load_plan
        >>> create_default_local_load_plan({"w": flambeau.ones(2)}, Metadata({}), strict=False).items
        []
    """
    known = metadata.state_dict_metadata
    items: list[ReadItem] = []
    for fqn, value in state_dict.items():
        if fqn in known:
            items += _read_items(fqn, known[fqn], value)
        elif strict:
            raise RuntimeError(f"load: Missing key in checkpoint state_dict: {fqn}.")
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """Return the plans of all ranks as they are.

    Args:
        all_plans: the plan of each rank.
    Returns: the plans.

    Example:
        >>> from flambeau.distributed.checkpoint import LoadPlan
        >>> from flambeau.distributed.checkpoint.default_planner import create_default_global_load_plan
        >>> len(create_default_global_load_plan([LoadPlan([])]))
        1
    """
    return all_plans


def _read_items(fqn: str, saved: Any, value: Any) -> list[ReadItem]:
    if isinstance(saved, BytesStorageMetadata):  # its value replaces also a tensor
        index, nothing = MetadataIndex(fqn), Size([0])
        return [ReadItem(LoadItemType.BYTE_IO, index, nothing, index, nothing, nothing)]
    if not isinstance(value, Tensor):
        found = type(value).__name__
        raise ValueError(f"load: expected a tensor for {fqn!r}, as in the checkpoint, got {found}")
    if tuple(saved.size) != tuple(value.shape):
        raise ValueError(
            f"load: Size mismatch between saved and current values of {fqn!r}: expected "
            f"{tuple(saved.size)}, got {tuple(value.shape)}"
        )
    items = []
    for place, own in enumerate(chunks_of(value)):
        for number, chunk in enumerate(saved.chunks):
            shared = overlap(own, chunk)
            if shared is None:
                continue
            offsets, lengths = shared
            items.append(
                ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, own.offsets, place),
                    Size([o - b for o, b in zip(offsets, own.offsets, strict=True)]),
                    MetadataIndex(fqn, chunk.offsets, number),
                    Size([o - b for o, b in zip(offsets, chunk.offsets, strict=True)]),
                    Size(lengths),
                )
            )
    return items
