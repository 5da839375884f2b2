"""Checkpoints in files of the format safetensors: the format, hostile files, parts of ranks, PyTorch."""

import json
import os
import struct

import flambeau as fb
import flambeau.distributed.checkpoint as dcp
import pytest
from distributed.ranks import run
from flambeau.distributed.checkpoint import _safetensors as files
from flambeau.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from flambeau.distributed.checkpoint.api import CheckpointException

DTYPES = list(files.DTYPES.values())


def save(folder, state, **options):
    dcp.save(state, storage_writer=dcp.HuggingFaceStorageWriter(str(folder), **options), no_dist=True)


def load(folder, state, reader=dcp.HuggingFaceStorageReader, **options):
    dcp.load(state, storage_reader=reader(str(folder), **options), no_dist=True)
    return state


def sample():
    return {
        "a.weight": fb.arange(12.0).view(3, 4),
        "b": fb.ones(2, dtype=fb.bfloat16),
        "n": fb.tensor(3),
        "empty": fb.zeros(0, 3),
        "t": fb.arange(6.0).view(2, 3).t(),
        "flags": fb.tensor([True, False, True]),
    }


def header_of(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


@pytest.mark.parametrize(
    "options", [{}, {"save_distributed": True}, {"fqn_to_index_mapping": dict.fromkeys(sample(), 2)}]
)
def test_round_trip(tmp_path, options):
    state = sample()
    save(tmp_path, state, **options)
    found = load(tmp_path, {k: fb.zeros_like(v) for k, v in state.items()})
    assert all(fb.equal(found[k], v) for k, v in state.items())


def test_the_files_are_those_of_the_format(tmp_path):
    save(tmp_path, sample(), fqn_to_index_mapping=dict.fromkeys(sample(), 1) | {"n": 2})
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"]["n"] == "model-00002-of-00002.safetensors"
    assert index["metadata"]["total_size"] == 48 + 4 + 8 + 24 + 3
    table, values = header_of(tmp_path / "model-00002-of-00002.safetensors")
    assert table["n"] == {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}
    assert values == struct.pack("<q", 3)
    assert json.loads(table["__metadata__"]["DCP_SHARDING_INFO"]) == {"n": {"saved_offsets": [], "size": []}}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(tmp_path, dtype):
    value = fb.arange(7).to(fb.float32).to(dtype)
    save(tmp_path, {"x": value})
    entry = files.read_header(tmp_path / "model-00001-of-00001.safetensors").entries["x"]
    found = files.read_tensor(tmp_path / "model-00001-of-00001.safetensors", entry)
    assert found.dtype == dtype and fb.equal(found.view(fb.uint8), value.view(fb.uint8))


def written(path, table, values=b"", length=None):
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + values)


def entry(dtype="F32", shape=(2,), places=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(places), **more}


HOSTILE = {
    "nothing": (b"", b"", 0),
    "a length beyond the file": (b"{}", b"", 3),
    "an enormous length": (b"{}", b"", 1 << 63),
    "no JSON": (b"{]", b"", None),
    "no text": (b"\xff\xfe", b"", None),
    "a list": (b"[]", b"", None),
    "space before": (b" {}", b"", None),
    "deep nesting": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b"", None),
    "a key twice": (b'{"a":1,"a":2}', b"", None),
    "no entry": ({"a": 3}, b"", None),
    "missing sizes": ({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, bytes(8), None),
    "more keys": ({"a": entry(more=1)}, bytes(8), None),
    "unknown dtype": ({"a": entry("Q7")}, bytes(8), None),
    "a dtype that is no text": ({"a": entry(["F32"])}, bytes(8), None),
    "negative size": ({"a": entry(shape=(-2,))}, bytes(8), None),
    "a size that is no number": ({"a": entry(shape=(True, 2))}, bytes(8), None),
    "a broken size": ({"a": entry(shape=(2.0,))}, bytes(8), None),
    "a huge size": ({"a": entry(shape=(1 << 62, 1 << 62))}, bytes(8), None),
    "too few bytes": ({"a": entry(places=(0, 7))}, bytes(7), None),
    "reversed": ({"a": entry(places=(8, 0))}, bytes(8), None),
    "negative place": ({"a": entry(places=(-8, 0))}, bytes(8), None),
    "one place": ({"a": entry(places=(0,))}, bytes(8), None),
    "a gap at the begin": ({"a": entry(places=(8, 16))}, bytes(16), None),
    "overlap": ({"a": entry(), "b": entry(places=(4, 12))}, bytes(12), None),
    "the same bytes": ({"a": entry(), "b": entry()}, bytes(8), None),
    "values are missing": ({"a": entry()}, bytes(4), None),
    "more values": ({"a": entry()}, bytes(12), None),
    "info that is no text": ({"__metadata__": {"a": 1}, "a": entry()}, bytes(8), None),
    "info that is no table": ({"__metadata__": "x", "a": entry()}, bytes(8), None),
    "offsets that are no JSON": ({"__metadata__": {"DCP_SHARDING_INFO": "{"}, "a": entry()}, bytes(8), None),
    "offsets of a list": ({"__metadata__": {"DCP_SHARDING_INFO": "[1]"}, "a": entry()}, bytes(8), None),
    "offsets of another dimension": (
        {"__metadata__": {"DCP_SHARDING_INFO": '{"a": {"saved_offsets": [0, 0]}}'}, "a": entry()},
        bytes(8),
        None,
    ),
    "negative offsets": (
        {"__metadata__": {"DCP_SHARDING_INFO": '{"a": {"saved_offsets": [-1]}}'}, "a": entry()},
        bytes(8),
        None,
    ),
    "another size": (
        {"__metadata__": {"DCP_SHARDING_INFO": '{"a": {"saved_offsets": [0], "size": [3]}}'}, "a": entry()},
        bytes(8),
        None,
    ),
    "a missing part": (
        {"__metadata__": {"DCP_SHARDING_INFO": '{"a": {"saved_offsets": [2]}}'}, "a": entry()},
        bytes(8),
        None,
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_errors_and_change_nothing(tmp_path, case):
    table, values, length = HOSTILE[case]
    written(tmp_path / "model.safetensors", table, values, length)
    target = {"a": fb.full((2,), 5.0)}
    with pytest.raises((RuntimeError, CheckpointException), match="expected"):
        load(tmp_path, target)
    assert target["a"].tolist() == [5.0, 5.0]


def test_files_that_are_none(tmp_path):
    with pytest.raises((FileNotFoundError, CheckpointException), match="expected files"):
        load(tmp_path, {"a": fb.zeros(2)})
    os.mkfifo(tmp_path / "a.safetensors")
    with pytest.raises((RuntimeError, CheckpointException), match="expected a file"):
        load(tmp_path, {"a": fb.zeros(2)})


def test_every_cut_of_a_file_is_an_error(tmp_path):
    save(tmp_path, {"a": fb.ones(3), "b": fb.ones(2, dtype=fb.int8)})
    path = tmp_path / "model-00001-of-00001.safetensors"
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        with pytest.raises(RuntimeError, match="expected"):
            files.read_header(path)


def test_values_without_a_place(tmp_path):
    with pytest.raises(CheckpointException, match="expected tensors alone, got another value as 'step'"):
        save(tmp_path, {"a": fb.ones(2), "step": 3})
    with pytest.raises(CheckpointException, match="expected a dtype of safetensors for 'a'"):
        save(tmp_path, {"a": fb.ones(2, dtype=fb.complex128)})
    with pytest.raises(CheckpointException, match="expected the number of a file for 'a', got None"):
        save(tmp_path, {"a": fb.ones(2)}, fqn_to_index_mapping={"b": 1})
    with pytest.raises(ValueError, match="expected save_distributed=True"):
        dcp.HuggingFaceStorageWriter(str(tmp_path), enable_consolidation=True)


def test_a_save_removes_the_files_of_the_one_before(tmp_path):
    save(tmp_path, sample(), fqn_to_index_mapping={k: i + 1 for i, k in enumerate(sample())})
    (tmp_path / "other.txt").write_text("stays")
    save(tmp_path, {"a": fb.ones(2)}, save_distributed=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "other.txt",
        "shard-00001-model-00001-of-00001.safetensors",
    ]
    assert load(tmp_path, {"a": fb.zeros(2)})["a"].tolist() == [1, 1]


@pytest.mark.parametrize("target", [fb.float32, fb.bfloat16])
def test_blocks_are_multiplied_with_their_scales(tmp_path, target):
    values = (fb.arange(35).view(5, 7) % 11 - 5).float()
    scales = fb.arange(12.0).view(3, 4) + 1
    state = {"w": values.to(fb.float8_e4m3fn), "w_scale_inv": scales, "v": fb.ones(3)}
    save(tmp_path, state)
    found = {"w": fb.zeros(5, 7), "v": fb.zeros(3)}
    options = {"block_size": 2, "target_dtype": target}
    load(tmp_path, found, dcp.QuantizedHuggingFaceStorageReader, **options)
    for i in range(5):
        for j in range(7):
            assert found["w"][i, j] == values[i, j] * scales[i // 2, j // 2]
    assert found["v"].tolist() == [1, 1, 1]
    with pytest.raises((RuntimeError, CheckpointException), match="scales for blocks of 3"):
        load(tmp_path, found, dcp.QuantizedHuggingFaceStorageReader, block_size=3)
    with pytest.raises(ValueError, match="positive block_size"):
        dcp.QuantizedHuggingFaceStorageReader(str(tmp_path), block_size=0)


PARTS = """
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.tensor import Replicate, Shard, distribute_tensor
dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (size,))
where = os.environ["WHERE"]
whole = {"a": fw.arange(35.0).view(5, 7), "b": fw.arange(3), "c": fw.ones(2).bfloat16()}
parts = lambda dim: {
    "a": distribute_tensor(whole["a"].clone(), mesh, [Shard(dim)]),
    "b": distribute_tensor(whole["b"].clone(), mesh, [Shard(0)]),
    "c": whole["c"].clone(),
}
"""

SAVE_PARTS = (
    PARTS
    + """
writer = lambda name, **options: dcp.HuggingFaceStorageWriter(f"{where}/{name}", **options)
dcp.save(parts(0), storage_writer=writer("parts", save_distributed=True))
index = {"a": 1, "b": 2, "c": 2}
options = dict(save_distributed=True, enable_consolidation=True)
dcp.save(parts(1), storage_writer=writer("both", fqn_to_index_mapping=index, **options))
from flambeau.distributed.checkpoint import _consolidate_hf_safetensors as consolidation
consolidation.consolidate_safetensors_files_on_every_rank(f"{where}/parts", f"{where}/whole", index)
try:
    dcp.save(parts(0), storage_writer=writer("wrong"))
    put(None)
except dcp.CheckpointException as error:
    put(["CheckpointException", str(error)])
dist.destroy_process_group()
"""
)

LOAD_PARTS = (
    PARTS
    + """
for name in ("parts", "both", "whole"):
    for dim in (0, 1):
        state = {k: fw.zeros_like(v) for k, v in parts(dim).items()}
        dcp.load(state, storage_reader=dcp.HuggingFaceStorageReader(f"{where}/{name}"))
        for key, value in state.items():
            full = value.full_tensor() if hasattr(value, "full_tensor") else value
            assert fw.equal(full, whole[key]), (name, key)
put(1)
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize(("first", "second"), [(3, 2), (1, 3)])
def test_parts_of_ranks(tmp_path, first, second):
    found = run(first, SAVE_PARTS, WHERE=str(tmp_path))
    if first > 1:
        for kind, text in found:
            assert kind == "CheckpointException" and "save_distributed=True for tensors in parts" in text
    run(second, LOAD_PARTS, WHERE=str(tmp_path))
    for name in ("both", "whole"):
        assert sorted(p.name for p in (tmp_path / name).iterdir() if p.is_file()) == [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
            "model.safetensors.index.json",
        ]
        table, _ = header_of(tmp_path / name / "model-00002-of-00002.safetensors")
        assert table["b"]["shape"] == [3] and "a" not in table
    parts = list((tmp_path / "both" / "sharded").iterdir())
    assert parts and all(p.name.startswith("shard-") for p in parts)


def test_parts_of_two_checkpoints_are_an_error(tmp_path):
    run(2, SAVE_PARTS, WHERE=str(tmp_path))
    (tmp_path / "parts" / "shard-00002-model-00001-of-00001.safetensors").unlink()
    with pytest.raises(RuntimeError, match="expected parts that fill"):
        consolidate_safetensors_files(str(tmp_path / "parts"), str(tmp_path / "out"), None)


def test_the_formats_own_library_and_pytorch_read_and_write_the_files(tmp_path):
    library = pytest.importorskip("safetensors.torch", reason="needs the package safetensors")
    import torch
    import torch.distributed.checkpoint as theirs

    state = sample()
    save(tmp_path / "ours", state)
    found = library.load_file(tmp_path / "ours" / "model-00001-of-00001.safetensors")
    assert found.keys() == state.keys()
    for key, value in found.items():
        assert torch.equal(value.float(), torch.tensor(state[key].float().tolist()).view(value.shape)), key
    target = {k: torch.zeros_like(v) for k, v in found.items()}
    theirs.load(target, storage_reader=theirs.HuggingFaceStorageReader(str(tmp_path / "ours")), no_dist=True)
    assert all(torch.equal(target[k], found[k]) for k in found)
    writer = theirs.HuggingFaceStorageWriter(str(tmp_path / "theirs"), save_distributed=True)
    theirs.save(found, storage_writer=writer, no_dist=True)
    back = load(tmp_path / "theirs", {k: fb.zeros_like(v) for k, v in state.items()})
    assert all(fb.equal(back[k], v) for k, v in state.items())
