"""Checkpoints as single files, and single files as checkpoints, against PyTorch."""

import os
import pickle
from importlib import import_module

import flambeau as fb
import flambeau.distributed.checkpoint as dcp
import pytest
from distributed.one_process import failure, load, save
from distributed.ranks import run
from flambeau.distributed.checkpoint import _metadata_file
from flambeau.distributed.checkpoint.format_utils import (
    BroadcastingTorchSaveReader,
    DynamicMetaLoadPlanner,
    _EmptyStateDictLoadPlanner,
    dcp_to_torch_save,
    torch_save_to_dcp,
)
from flambeau.distributed.checkpoint.metadata import MetadataIndex
from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict
from oracle import pytorch


def made(torch):
    return {
        "m": {"w": torch.arange(6.0).reshape(2, 3), "l": [torch.ones(1), {"k": 3}, [1, [2]]]},
        "e": {},
        "n": 5,
        "h": torch.tensor(2, dtype=torch.int16),
        "tuple": (torch.ones(1), 2),
        "view": torch.arange(10)[::2],
    }


def described(value):
    if isinstance(value, dict):
        return {key: described(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(described(item) for item in value)
    return (str(value.dtype).split(".")[1], value.tolist()) if hasattr(value, "tolist") else value


def without_empty(state):
    return {key: value for key, value in state.items() if key != "e"}  # checkpoints have no empty dicts


@pytest.mark.parametrize("back", ["flambeau", "torch"])
@pytest.mark.parametrize("forth", ["flambeau", "torch"])
@pytest.mark.parametrize("writer", ["flambeau", "torch"])
def test_files_go_through_checkpoints_of_both(tmp_path, writer, forth, back):
    torch = pytorch()
    frameworks = {"flambeau": fb, "torch": torch}
    formats = {name: import_module(f"{name}.distributed.checkpoint.format_utils") for name in frameworks}
    frameworks[writer].save(made(frameworks[writer]), tmp_path / "before.pt")
    formats[forth].torch_save_to_dcp(tmp_path / "before.pt", tmp_path / "checkpoint")
    formats[back].dcp_to_torch_save(tmp_path / "checkpoint", tmp_path / "after.pt")
    want = described(without_empty(made(fb)))
    assert described(fb.load(tmp_path / "after.pt")) == want
    assert described(torch.load(tmp_path / "after.pt", weights_only=True)) == want


def test_a_checkpoint_of_several_processes_becomes_one_file(tmp_path):
    code = """
from flambeau.distributed.tensor import Shard, distribute_tensor
import flambeau.distributed.checkpoint as dcp
dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (size,))
w = distribute_tensor(fw.arange(35.0).reshape(7, 5), mesh, [Shard(1)])
dcp.save({"m": {"w": w}, f"own{rank}": rank}, checkpoint_id=os.environ["PLACE"])
put(None)
"""
    run(3, code, PLACE=str(tmp_path / "checkpoint"))
    dcp_to_torch_save(tmp_path / "checkpoint", tmp_path / "whole.pt")
    state = fb.load(tmp_path / "whole.pt")
    assert state["m"]["w"].equal(fb.arange(35.0).reshape(7, 5))
    assert [state[f"own{i}"] for i in range(3)] == [0, 1, 2] and len(state) == 4


READ = """
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader, DynamicMetaLoadPlanner
dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (size,))
reads = []
from flambeau import serialization
load = serialization.load
serialization.load = lambda place, **options: reads.append(str(place)[:1]) or load(place, **options)
state = {"w": distribute_tensor(fw.zeros(7, 5), mesh, [Shard(0)]), "d": {"n": 0, "v": fw.zeros(2)}}
if rank == 1:
    state["only"] = fw.zeros(())
reader = BroadcastingTorchSaveReader(os.environ["PLACE"])
dcp.load(state, storage_reader=reader, planner=DynamicMetaLoadPlanner())
missing = None
try:
    dcp.load({"q": 1} if rank else {}, storage_reader=reader, planner=DynamicMetaLoadPlanner())
except dcp.CheckpointException as error:
    missing = sorted(error.failures)
put([state["w"].full_tensor().tolist(), state["d"]["n"], state["d"]["v"].tolist(),
     state["only"].item() if rank == 1 else None, reads.count("/"), missing])
"""


def test_one_process_reads_a_file_and_sends_the_parts(tmp_path):
    w = fb.arange(35.0).reshape(7, 5)
    state = {"w": w, "d": {"n": 3, "v": fb.ones(2)}, "only": fb.tensor(4.0), "unused": fb.ones(5)}
    fb.save(state, tmp_path / "whole.pt")
    for rank, found in enumerate(run(2, READ, PLACE=str(tmp_path / "whole.pt"))):
        assert found == [w.tolist(), 3, [1, 1], [None, 4.0][rank], [2, 0][rank], [1]]


def test_a_file_is_read_by_one_process(tmp_path):
    fb.save(made(fb), tmp_path / "whole.pt")
    reader = BroadcastingTorchSaveReader()
    state = {"m": {"w": fb.zeros(2, 3), "l": [fb.zeros(1), {"k": 0}, []]}, "n": 0}
    dcp.load(state, checkpoint_id=tmp_path / "whole.pt", storage_reader=reader, no_dist=True)
    assert described(state) == described({key: made(fb)[key] for key in state})
    planner = DynamicMetaLoadPlanner(allow_partial_load=True)
    state = {"q": 1, "n": 0}
    dcp.load(state, storage_reader=reader, planner=planner, no_dist=True)
    assert state == {"q": 1, "n": 5}
    with pytest.raises(dcp.CheckpointException, match="Size mismatch"):
        dcp.load({"h": fb.zeros(3)}, storage_reader=reader, no_dist=True)
    with pytest.raises(dcp.CheckpointException, match="expected checkpoint_id, got None"):
        dcp.load({"h": 1}, storage_reader=BroadcastingTorchSaveReader(), no_dist=True)
    with pytest.raises(ValueError, match="expected coordinator_rank=0, got 1"):
        BroadcastingTorchSaveReader(coordinator_rank=1)
    assert reader.validate_checkpoint_id(tmp_path / "whole.pt") and not reader.validate_checkpoint_id(
        tmp_path
    )


@pytest.mark.parametrize("keys", [None, {"m"}, {"m.w"}, {"m.l"}, {"m.l.0"}, {"n", "h"}, {"w"}, set()])
def test_an_empty_dict_is_filled_with_chosen_keys(tmp_path, keys):
    def found(torch):
        formats = import_module(f"{torch.__name__}.distributed.checkpoint.format_utils")
        loader = import_module(f"{torch.__name__}.distributed.checkpoint.state_dict_loader")
        place = tmp_path / torch.__name__
        module = import_module(f"{torch.__name__}.distributed.checkpoint")
        module.save(made(torch), checkpoint_id=place, no_dist=True)
        state = {}
        planner = formats._EmptyStateDictLoadPlanner(keys=keys)
        reader = module.FileSystemReader(place)
        loader._load_state_dict(state, storage_reader=reader, planner=planner, no_dist=True)
        return described(state)

    assert found(fb) == found(pytorch())


def test_places_that_hold_nothing_are_none(tmp_path):
    """PyTorch fails here: empty dicts in lists leave gaps."""
    save({"a": [{}, fb.ones(1), {}]}, tmp_path)
    dcp_to_torch_save(tmp_path, tmp_path / "whole.pt")
    assert described(fb.load(tmp_path / "whole.pt")) == {"a": [None, ("float32", [1.0])]}


def test_older_functions_leave_objects_alone(tmp_path):
    class Own:
        def state_dict(self):
            raise AssertionError

        def load_state_dict(self, state):
            raise AssertionError

    with pytest.raises(dcp.CheckpointException, match="pickle"):  # as any other object
        dcp.save_state_dict({"o": Own()}, dcp.FileSystemWriter(tmp_path), no_dist=True)
    metadata = dcp.save_state_dict({"w": fb.ones(2)}, dcp.FileSystemWriter(tmp_path), no_dist=True)
    assert list(metadata.state_dict_metadata) == ["w"]
    state = {"w": fb.zeros(2)}
    dcp.load_state_dict(state, dcp.FileSystemReader(tmp_path), no_dist=True)
    assert state["w"].tolist() == [1, 1]


COORDINATED = """
import flambeau.distributed.checkpoint as dcp
dist.init_process_group("gloo")
place = os.environ["PLACE"]

class Writer(dcp.FileSystemWriter):
    def finish(self, metadata, results):
        put(["finished", len(results)])
        super().finish(metadata, results)

state = {"w": fw.ones(2), f"own{rank}": rank}
put(None)
dcp.save_state_dict(state, Writer(place), coordinator_rank=1)
state = {"w": fw.zeros(2), "own0": None}
dcp.load_state_dict(state, dcp.FileSystemReader(place), coordinator_rank=1)
assert state["w"].tolist() == [1, 1] and state["own0"] == 0
assert "expected coordinator_rank below 2, got 2" in raised(
    dcp.load_state_dict, state, dcp.FileSystemReader(place), coordinator_rank=2)[1]
"""


def test_another_rank_may_coordinate(tmp_path):
    assert run(2, COORDINATED, PLACE=str(tmp_path)) == [None, ["finished", 2]]


class Calls:
    """Pickled as a call."""

    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts[0], self.parts[1:]


def test_bad_files_are_errors(tmp_path):
    fb.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(TypeError, match=r"torch_save_to_dcp: expected a dict in .*list\.pt, got list"):
        torch_save_to_dcp(tmp_path / "list.pt", tmp_path / "c")
    with pytest.raises(FileNotFoundError):
        torch_save_to_dcp(tmp_path / "absent", tmp_path / "c")
    fb.save({"a": Calls(os.system, f"touch {tmp_path / 'mark'}")}, tmp_path / "bad.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch_save_to_dcp(tmp_path / "bad.pt", tmp_path / "c")
    with pytest.raises(dcp.CheckpointException, match="FileNotFoundError"):
        dcp_to_torch_save(tmp_path / "absent", tmp_path / "c.pt")
    assert not (tmp_path / "mark").exists() and not (tmp_path / "c").exists()
    assert not (tmp_path / "c.pt").exists()
    save({"a": 1}, tmp_path / "c")
    with pytest.raises(dcp.CheckpointException, match="expected an empty dict"):
        reader, planner = dcp.FileSystemReader(tmp_path / "c"), _EmptyStateDictLoadPlanner()
        _load_state_dict({"a": 1}, storage_reader=reader, planner=planner, no_dist=True)


@pytest.mark.parametrize("sizes", [(2**62, 2**62), (2**62,), (2**40, 3), (0, 2**62)])
def test_sizes_that_no_memory_holds_are_errors(tmp_path, sizes):
    save({"a": fb.ones(1), "b": 2}, tmp_path)
    metadata = dcp.FileSystemReader(tmp_path).read_metadata()
    whole = metadata.state_dict_metadata["a"]
    whole.size = whole.chunks[0].sizes = fb.Size(sizes)
    whole.chunks[0].offsets = fb.Size([0] * len(sizes))
    places = {
        MetadataIndex(i.fqn, i.offset and [0] * len(sizes)): p for i, p in metadata.storage_data.items()
    }
    metadata.storage_data = places
    (tmp_path / ".metadata").write_bytes(_metadata_file.dumps(metadata))
    if 0 in sizes:
        dcp_to_torch_save(tmp_path, tmp_path / "whole.pt")
        assert tuple(fb.load(tmp_path / "whole.pt")["a"].shape) == sizes
        return
    assert not isinstance(failure(dcp_to_torch_save, tmp_path, tmp_path / "whole.pt"), AssertionError)
    assert load({"b": 0}, tmp_path) == {"b": 2}


PATHS = {
    "a large gap": {"a": ("l", 10**12), "b": ("b",)},
    "a negative place": {"a": ("l", -1)},
    "a float": {"a": ("l", 1.0)},
    "no path": {"a": ()},
    "text": {"a": "a"},
    "a number first": {"a": (0, "a")},
    "names and places": {"a": ("l", 0), "b": ("l", "x")},
    "through a value": {"a": ("l",), "b": ("l", "x")},
    "around a value": {"a": ("l", "x"), "b": ("l",)},
    "twice": {"a": ("l",), "b": ("l",)},
    "deep": {"a": ("l",) * 100_000},
}


@pytest.mark.parametrize("name", sorted(PATHS))
def test_hostile_paths_are_refused(tmp_path, name):
    save({"a": fb.ones(1), "b": 2}, tmp_path)
    metadata = dcp.FileSystemReader(tmp_path).read_metadata()
    metadata.planner_data = PATHS[name]
    (tmp_path / ".metadata").write_bytes(_metadata_file.dumps(metadata))
    error = failure(dcp_to_torch_save, tmp_path, tmp_path / "whole.pt")
    assert isinstance(error, ValueError) and not (tmp_path / "whole.pt").exists()
    assert load({"b": 0}, tmp_path) == {"b": 2}  # other loads do not need the paths
