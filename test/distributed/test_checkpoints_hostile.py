"""Checkpoints that were made to do harm or are damaged: an error, nothing is run, nothing else is read."""

import os
import pickle
from pathlib import Path

import flambeau as fb
import flambeau.distributed.checkpoint as dcp
import pytest
from distributed.one_process import failure, load, save
from flambeau.distributed.checkpoint import _metadata_file
from flambeau.distributed.checkpoint.metadata import MetadataIndex

SIZES = {"w": (4, 3), "v": (2,), "n": ()}


@pytest.fixture
def path(tmp_path):
    """A checkpoint that can be read, beside a file that none may read."""
    folder = tmp_path / "checkpoint"
    save({"w": fb.arange(12.0).reshape(4, 3), "v": fb.ones(2), "n": fb.ones(()), "step": 3}, folder)
    fb.save(fb.full((2,), 66.0), tmp_path / "secret")
    return folder


def blank():
    return {name: fb.zeros(size) for name, size in SIZES.items()} | {"step": 0}


def refused(path, *phrases):
    """The error of a load, which has changed nothing."""
    state = blank()
    error = failure(load, state, path)
    assert not isinstance(error, AssertionError | MemoryError | RecursionError)
    assert all(phrase in str(error) for phrase in phrases), str(error)
    assert state["step"] == 0 and state["w"].sum().item() == 0
    return error


def change(path, edit):
    """Write the metadata anew after a change."""
    file = path / ".metadata"
    metadata = _metadata_file.loads(file.read_bytes(), "")
    edit(metadata)
    file.write_bytes(_metadata_file.dumps(metadata))


def place(metadata, fqn):
    return next(place for index, place in metadata.storage_data.items() if index.fqn == fqn)


class Calls:
    """Pickled as a call."""

    def __init__(self, function, *args):
        self.parts = function, args

    def __reduce__(self):
        return self.parts


CALLS = {
    "os.system": lambda mark: Calls(os.system, f"touch {mark}"),
    "open": lambda mark: Calls(open, str(mark), "w"),
    "eval": lambda mark: Calls(eval, f"open({str(mark)!r}, 'w')"),
    "a method": lambda mark: Calls(Path.touch, mark),
}


@pytest.mark.parametrize("within", ["alone", "planner_data", "key"])
@pytest.mark.parametrize("kind", sorted(CALLS))
def test_a_call_in_the_metadata_is_refused(path, tmp_path, kind, within):
    mark = tmp_path / "mark"
    call = CALLS[kind](mark)
    raw = {"alone": call, "planner_data": {"planner_data": [call]}, "key": {"a": ("b", call)}}[within]
    (path / ".metadata").write_bytes(pickle.dumps(raw, protocol=2))
    refused(path, "is not allowed")
    assert not mark.exists()


def test_a_call_in_a_value_is_refused(path, tmp_path):
    data = pickle.dumps(Calls(os.system, f"touch {tmp_path / 'mark'}"), protocol=2)
    (path / "__7_0.distcp").write_bytes(data)

    def edit(metadata):
        place(metadata, "step").relative_path = "__7_0.distcp"
        place(metadata, "step").offset, place(metadata, "step").length = 0, len(data)

    change(path, edit)
    failure(load, {"step": 0}, path)
    assert not (tmp_path / "mark").exists()


def test_truncated_metadata_are_refused(path):
    whole = (path / ".metadata").read_bytes()
    for end in {*range(0, len(whole), 29), len(whole) - 1}:
        (path / ".metadata").write_bytes(whole[:end])
        refused(path, ".metadata", "damaged")


def test_changed_bytes_of_metadata_give_a_checkpoint_or_an_error(path):
    whole = (path / ".metadata").read_bytes()
    for at in range(0, len(whole), 11):
        for value in (0x00, 0x2E, 0x52, 0xFF):
            (path / ".metadata").write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
            try:
                load(blank(), path)
            except dcp.CheckpointException as caught:
                assert not isinstance(caught.failures[0][0], MemoryError | RecursionError | AssertionError)


@pytest.mark.parametrize(
    "name", ["../secret", "a/../../secret", "/etc/passwd", "", ".", "..", "\0", "x/..", 3, None, ["a"]]
)
def test_files_outside_of_the_checkpoint_are_refused(path, name):
    change(path, lambda metadata: setattr(place(metadata, "v"), "relative_path", name))
    refused(path, "expected", ".metadata")


@pytest.mark.parametrize(
    ("offset", "length"),
    [(-1, 5), (0, -5), (0, 2**62), (2**62, 1), (2**70, 2**70), (10**9, 0), (1.5, 3), ("0", 1), (True, 1)],
)
def test_ranges_outside_of_the_file_are_refused(path, offset, length):
    def edit(metadata):
        place(metadata, "w").offset, place(metadata, "w").length = offset, length

    change(path, edit)
    refused(path, "expected")


def test_a_range_of_another_value_is_refused(path):
    def edit(metadata):
        own, other = place(metadata, "v"), place(metadata, "w")
        own.offset, own.length = other.offset, other.length

    change(path, edit)
    state = {"v": fb.zeros(2)}
    assert "float32 of size" in str(failure(load, state, path)) and state["v"].sum().item() == 0


def test_files_that_are_missing_or_no_files(path):
    change(path, lambda metadata: setattr(place(metadata, "v"), "relative_path", "absent"))
    assert isinstance(failure(load, {"v": fb.zeros(2)}, path), FileNotFoundError)
    assert load({"n": fb.zeros(())}, path)["n"].item() == 1  # others are not needed
    os.mkfifo(path / "absent")  # opening it would wait for ever
    assert "expected a file" in str(failure(load, {"v": fb.zeros(2)}, path))
    (path / "absent").unlink()
    (path / "absent").mkdir()
    assert "expected a file" in str(failure(load, {"v": fb.zeros(2)}, path))


def test_truncated_data_are_refused(path):
    (file,) = path.glob("*.distcp")
    whole = file.read_bytes()
    for end in range(0, len(whole), 211):
        file.write_bytes(whole[:end])
        with pytest.raises(dcp.CheckpointException):
            load(blank(), path)


def chunk(metadata, fqn="w"):
    return metadata.state_dict_metadata[fqn].chunks[0]


def boxes(*found):
    """Chunks of w with these offsets and sizes."""
    chunks = [dcp.ChunkStorageMetadata(fb.Size(offsets), fb.Size(sizes)) for offsets, sizes in found]
    return lambda metadata: setattr(metadata.state_dict_metadata["w"], "chunks", chunks)


WRONG = {
    "chunks that overlap": boxes(([0, 0], [2, 3]), ([1, 0], [2, 3])),
    "chunks that overlap in columns": boxes(([0, 0], [4, 2]), ([0, 1], [4, 1])),
    "a chunk in another": boxes(([0, 0], [3, 3]), ([1, 0], [1, 3])),
    "a larger tensor": lambda m: setattr(m.state_dict_metadata["w"], "size", fb.Size([5, 3])),
    "a larger chunk": lambda m: setattr(chunk(m), "sizes", fb.Size([5, 3])),
    "a smaller chunk": lambda m: setattr(chunk(m), "sizes", fb.Size([3, 3])),
    "a chunk beside": lambda m: setattr(chunk(m), "offsets", fb.Size([1, 0])),
    "a chunk of other dimensions": lambda m: setattr(chunk(m), "offsets", fb.Size([0])),
    "sizes as a list": lambda m: setattr(chunk(m), "sizes", [4, 3]),
    "no sizes": lambda m: setattr(chunk(m), "sizes", None),
    "no chunks": lambda m: m.state_dict_metadata["w"].chunks.clear(),
    "chunks twice": lambda m: m.state_dict_metadata["w"].chunks.append(chunk(m)),
    "a number twice": lambda m: m.state_dict_metadata["n"].chunks.append(chunk(m, "n")),
    "chunks of text": lambda m: m.state_dict_metadata["w"].chunks.append("w"),
    "no dtype": lambda m: setattr(m.state_dict_metadata["w"].properties, "dtype", "float32"),
    "no properties": lambda m: setattr(m.state_dict_metadata["w"], "properties", None),
    "no places": lambda m: setattr(m, "storage_data", None),
    "a place of text": lambda m: m.storage_data.update({MetadataIndex("v"): "v"}),
    "values as a list": lambda m: setattr(m, "state_dict_metadata", []),
    "a key that is no text": lambda m: m.state_dict_metadata.update({3: chunk(m)}),
    "facts of text": lambda m: setattr(m, "storage_meta", "here"),
    "transforms": lambda m: setattr(place(m, "v"), "transform_descriptors", ["zip"]),
}


@pytest.mark.parametrize("kind", sorted(WRONG))
def test_metadata_that_contradict_themselves_are_refused(path, kind):
    change(path, WRONG[kind])
    refused(path, ".metadata")


def test_a_chunk_without_a_place_is_refused(path):
    change(path, lambda m: m.storage_data.pop(next(i for i in m.storage_data if i.fqn == "w")))
    refused(path, "expected a place in the files", "'w'")


def test_data_that_differ_from_the_metadata_are_refused(path):
    """Sizes, dtypes and kinds in the data file are those of the metadata, which were checked."""
    wrong = {
        "sizes": fb.zeros(3, 4),
        "more": fb.zeros(4, 3, 2),
        "dtype": fb.zeros(4, 3, dtype=fb.float64),
        "no tensor": [1.0, 2.0],
        "sparse": fb.zeros(4, 3).to_sparse(),
    }
    for value in wrong.values():
        fb.save(value, path / "__9_0.distcp")

        def edit(metadata):
            own = place(metadata, "w")
            own.relative_path, own.offset = "__9_0.distcp", 0
            own.length = (path / "__9_0.distcp").stat().st_size

        change(path, edit)
        state = {"w": fb.zeros(4, 3)}
        error = failure(load, state, path)
        assert "expected" in str(error) and "float32 of size" in str(error) and state["w"].sum().item() == 0


def nested(first, steps=60):
    """Text and hashes of this take 2^60 steps."""
    for _ in range(steps):
        first = (first, first)
    return first


class Named:
    """Pickled as an object of a module with this state."""

    def __init__(self, module, name, *args):
        self.module, self.name, self.args = module, name, args


class Writer(pickle._Pickler):
    """Writes names that this process does not have."""

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Named):
            self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            super().save(obj.args)
            self.write(pickle.REDUCE)
        else:
            super().save(obj, save_persistent_id)


META = "torch.distributed.checkpoint.metadata"
FILES = "torch.distributed.checkpoint.filesystem"
SLOW = {
    "name of an index": lambda deep: {Named(META, "MetadataIndex", deep): 1},
    "offset of an index": lambda deep: {Named(META, "MetadataIndex", "w", deep): 1},
    "size": lambda deep: Named("torch", "Size", deep),
    "path": lambda deep: Named("pathlib", "PosixPath", deep),
    "layout": lambda deep: Named("torch.serialization", "_get_layout", deep),
    "memory format": lambda deep: Named(META, "_MEM_FORMAT_ENCODING", deep),
    "file": lambda deep: Named(
        META, "Metadata", {}, None,
        {Named(META, "MetadataIndex", "w"): Named(FILES, "_StorageInfo", deep, deep, deep)},
    ),
    "range": lambda deep: Named(
        META, "Metadata", {}, None,
        {Named(META, "MetadataIndex", "w"): Named(FILES, "_StorageInfo", "x", deep, deep)},
    ),
    "transforms": lambda deep: Named(
        META, "Metadata", {}, None,
        {Named(META, "MetadataIndex", "w"): Named(FILES, "_StorageInfo", "x", 0, 0, deep)},
    ),
    "too many arguments": lambda deep: Named(META, "BytesStorageMetadata", deep),
    "a second enumeration": lambda deep: Named(META, "_MEM_FORMAT_ENCODING", "Name", ["A", "B"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(SLOW))
def test_nested_values_take_no_time(path, kind):
    with (path / ".metadata").open("wb") as file:
        Writer(file, protocol=2).dump(SLOW[kind](nested(())))
    refused(path, ".metadata")


def test_many_chunks_take_little_time(path):
    """Chunks that lie side by side along the second dimension are compared with few others."""
    count = 10_000

    def edit(metadata):
        whole = metadata.state_dict_metadata["w"]
        whole.size = fb.Size([3, count])
        whole.chunks = [dcp.ChunkStorageMetadata(fb.Size([0, i]), fb.Size([3, 1])) for i in range(count)]

    change(path, edit)
    assert len(dcp.FileSystemReader(path).read_metadata().state_dict_metadata["w"].chunks) == count


class Own:
    """A class of the program."""


def test_classes_of_programs_are_loaded_only_if_they_are_allowed(path):
    save({"own": Own()}, path)
    assert isinstance(failure(load, {"own": None}, path), pickle.UnpicklingError)
    with fb.serialization.safe_globals([Own]):
        assert type(load({"own": None}, path)["own"]) is Own
