"""Checkpoints of one process: what is saved is loaded, also by PyTorch."""

import io
from collections import OrderedDict
from copy import deepcopy
from importlib import import_module

import flambeau as fb
import flambeau.distributed.checkpoint as dcp
import pytest
from distributed.one_process import failure, load, save
from flambeau.distributed.checkpoint.api import CheckpointException
from oracle import pytorch

DTYPES = """bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex32
    complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu""".split()


def same(a, b):
    """Whether dtypes, shapes and bytes are equal."""
    if (str(a.dtype).split(".")[1], tuple(a.shape)) != (str(b.dtype).split(".")[1], tuple(b.shape)):
        return False
    return bytes_of(a) == bytes_of(b)


def bytes_of(tensor):
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return bytes(plain.untyped_storage())[: plain.numel() * plain.element_size()]


def tensors(torch):
    """Tensors of every dtype and of unusual strides."""
    bits = torch.arange(48, dtype=torch.uint8) % 60  # no NaN, and 0 or 1 for bool
    found = {}
    for name in DTYPES:
        dtype = getattr(torch, name)
        found[name] = bits.to(torch.bool) if name == "bool" else bits.view(dtype).reshape(-1, 3)
    base = torch.arange(24.0).reshape(2, 3, 4)
    found |= {
        "empty": torch.zeros(0),
        "empty box": torch.zeros(2, 0, 3),
        "number": torch.tensor(1.5),
        "transposed": base.transpose(0, 2),
        "part": base[1, :, 1::2],
        "expanded": torch.tensor([1.0, 2.0]).unsqueeze(1).expand(2, 3),
        "conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj(),
        "negative": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
        "channels": torch.arange(48.0).reshape(1, 3, 4, 4).contiguous(memory_format=torch.channels_last),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "result": torch.ones(2, requires_grad=True) * 3,
    }
    return found


def blank(torch, state):
    return {name: torch.zeros(x.shape, dtype=x.dtype) for name, x in state.items()}


def test_every_dtype_and_geometry_is_loaded_as_saved(tmp_path):
    state = tensors(fb)
    metadata = save(state, tmp_path)
    found = load(blank(fb, state), tmp_path)
    assert [name for name in state if not same(state[name], found[name])] == []
    assert metadata.state_dict_metadata["part"].size == fb.Size([3, 2])
    assert (tmp_path / "__0_0.distcp").stat().st_size < 60_000  # a part does not save the whole storage


def test_loading_writes_into_the_memory_of_the_tensors(tmp_path):
    save({"w": fb.arange(6.0).reshape(2, 3), "p": fb.ones(2)}, tmp_path)
    base = fb.zeros(3, 2)
    parameter = fb.nn.Parameter(fb.zeros(2))
    state = load({"w": base.t(), "p": parameter}, tmp_path)
    assert base.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert state["p"] is parameter and parameter.requires_grad and parameter.tolist() == [1, 1]


@pytest.mark.parametrize("writer", ["flambeau", "torch"])
def test_pytorch_and_flambeau_read_each_other(tmp_path, writer):
    torch = pytorch()
    import torch.distributed.checkpoint as other

    ours, theirs = (fb, dcp), (torch, other)
    (source, write), (target, read) = (ours, theirs) if writer == "flambeau" else (theirs, ours)
    plain = {"step": 7, "text": "ä", "nothing": None, "pair": (1, 2.5), "list": [1, [2]], "set": {1}}
    nested = {
        "layers": [{"w": source.ones(2)}, {"w": source.zeros(1), "y": "x"}],
        "ordered": OrderedDict(a=1),
    }
    write.save(tensors(source) | plain | nested, checkpoint_id=tmp_path, no_dist=True)

    state = blank(target, tensors(target)) | dict.fromkeys(plain)
    state |= {"layers": [{"w": target.zeros(2)}, {"w": target.ones(1), "y": ""}], "ordered": {"a": 0}}
    read.load(state, checkpoint_id=tmp_path, no_dist=True)
    want = tensors(source)
    assert [name for name in want if not same(want[name], state[name])] == []
    assert {name: state[name] for name in plain} == plain
    assert state["layers"][0]["w"].tolist() == [1, 1] and state["layers"][1]["y"] == "x"
    assert state["ordered"] == {"a": 1}


NESTS = {
    "empty dict": lambda t: {"a": {}, "b": 1},
    "empty list": lambda t: {"a": []},
    "list of numbers": lambda t: {"a": [1, [2]]},
    "list with a tensor": lambda t: {"a": [1, [2, t.ones(1)]]},
    "list of dicts": lambda t: {"a": [{"b": 1}, {}]},
    "tuple with a tensor": lambda t: {"a": (t.ones(1), 2)},
    "keys of other types": lambda t: {1: t.ones(1), "x": {2: 3}},
    "list of a list and a dict": lambda t: {"a": [[], {}]},
    "optimizer": lambda t: {"o": t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=1.0).state_dict()},
}


@pytest.mark.parametrize("name", sorted(NESTS))
def test_nested_states_have_the_keys_of_pytorch(name, tmp_path):
    def described(torch):
        module = import_module(f"{torch.__name__}.distributed.checkpoint")
        found = module.save(NESTS[name](torch), checkpoint_id=tmp_path / torch.__name__, no_dist=True)
        kinds = {key: type(value).__name__ for key, value in found.state_dict_metadata.items()}
        return kinds, found.planner_data, found.version

    assert described(fb) == described(pytorch())


def test_paths_with_one_name_are_an_error(tmp_path):
    error = failure(save, {"a": {"b": 1}, "a.b": 2}, tmp_path)
    assert isinstance(error, ValueError) and "'a.b'" in str(error)
    assert not (tmp_path / ".metadata").exists()


class Counter:
    """An object with a state."""

    def __init__(self, n):
        self.n = n

    def state_dict(self):
        return {"n": self.n, "t": fb.full((2,), float(self.n))}

    def load_state_dict(self, state):
        self.n, self.t = state["n"], state["t"]


def test_objects_with_a_state_give_and_get_it(tmp_path):
    model, counter = fb.nn.Linear(2, 3), Counter(5)
    save({"model": model, "counter": counter, "step": 1}, tmp_path)
    other, zero = fb.nn.Linear(2, 3), Counter(0)
    state = load({"model": other, "counter": zero, "step": 0}, tmp_path)
    assert state["model"] is other and state["counter"] is zero and state["step"] == 1
    assert other.weight.equal(model.weight) and zero.n == 5 and zero.t.tolist() == [5, 5]


def test_training_continues_from_a_checkpoint(tmp_path):
    def made():
        fb.manual_seed(1)
        model = fb.nn.Sequential(fb.nn.Linear(3, 4), fb.nn.BatchNorm1d(4), fb.nn.Linear(4, 1))
        optimizer = fb.optim.AdamW(model.parameters(), lr=0.1)
        return model, optimizer, fb.optim.lr_scheduler.StepLR(optimizer, 2)

    def train(parts, steps):
        model, optimizer, scheduler = parts
        for x in steps:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            scheduler.step()
        return [p.tolist() for p in model.parameters()]

    batches = [fb.randn(5, 3) for _ in range(6)]
    first = made()
    train(first, batches[:3])
    save(dict(zip(("model", "optimizer", "scheduler"), first, strict=True)), tmp_path)
    want = train(first, batches[3:])

    second = made()
    train(second, batches[:1])  # makes the optimizer's state
    load(dict(zip(("model", "optimizer", "scheduler"), second, strict=True)), tmp_path)
    assert train(second, batches[3:]) == want


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    "wanted",
    [
        lambda t: {"w": t.zeros(2, 3), "q": t.zeros(1)},
        lambda t: {"w": t.zeros(2, 3), "deep": {"q": 1}},
        lambda t: {"w": t.zeros(3, 2)},
        lambda t: {"w": t.zeros(6)},
        lambda t: {"w": t.zeros(())},
        lambda t: {"w": t.zeros(2, 3, dtype=t.int8)},
        lambda t: {"w": t.zeros(2, 3, dtype=t.complex64)},
        lambda t: {"n": t.zeros(1)},
        lambda t: {"w": 3},
        lambda t: {"w": None},
        lambda t: {"list": {"0": 1}},
        lambda t: {},
    ],
)
def test_states_that_differ_are_treated_as_by_pytorch(wanted, partial, tmp_path):
    def loaded(torch):
        module = import_module(f"{torch.__name__}.distributed.checkpoint")
        place = {"checkpoint_id": tmp_path / torch.__name__, "no_dist": True}
        module.save({"w": torch.arange(6.0).reshape(2, 3), "n": 5, "list": [1, 2]}, **place)
        state, planner = wanted(torch), module.DefaultLoadPlanner(allow_partial_load=partial)
        try:
            module.load(state, planner=planner, **place)
        except module.CheckpointException as error:
            return type(error.failures[0][0]).__name__
        return {
            k: (str(v.dtype).split(".")[1], v.tolist()) if hasattr(v, "dtype") else v
            for k, v in state.items()
        }

    assert loaded(fb) == loaded(pytorch())


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize(
    "wanted",
    [
        {"d": {"x": 0, "y": {"z": 0}}},
        {"d": {"x": 0, "y": {"z": 0}}, "q": 1},
        {"d": {"other": 0}, "e": [0, {"k": 0}]},
        {"d": {"x": 0}, "n": {"q": 1}},
        {"deep": {"d": {"x": 1}}},
    ],
)
def test_containers_that_were_saved_as_one_value_are_loaded_as_one(wanted, partial, tmp_path):
    """PyTorch 2.3 and earlier saved containers without tensors so."""

    def loaded(torch):
        module = import_module(f"{torch.__name__}.distributed.checkpoint")
        place = {"checkpoint_id": tmp_path / torch.__name__, "no_dist": True}
        saved = {"d": {"x": 1, "y": {"z": 2}}, "e": [1, {"k": 3}]}
        module.save(saved, planner=module.DefaultSavePlanner(flatten_state_dict=False), **place)
        state, planner = deepcopy(wanted), module.DefaultLoadPlanner(allow_partial_load=partial)
        try:
            module.load(state, planner=planner, **place)
        except module.CheckpointException as error:
            return type(error.failures[0][0]).__name__
        return state

    assert loaded(fb) == loaded(pytorch())


def test_errors_name_the_key_and_the_sizes(tmp_path):
    save({"w": fb.zeros(2, 3)}, tmp_path)
    text = str(failure(load, {"w": fb.zeros(3, 2)}, tmp_path))
    assert "Size mismatch" in text and "'w'" in text and "expected (2, 3), got (3, 2)" in text
    assert "Missing key in checkpoint state_dict: q." in str(failure(load, {"q": 1}, tmp_path))
    assert isinstance(failure(load, {"w": 1}, tmp_path / "absent"), FileNotFoundError)


def test_a_failed_load_of_one_key_leaves_tensors_unchanged(tmp_path):
    save({"w": fb.ones(2), "v": fb.ones(3)}, tmp_path)
    state = {"w": fb.zeros(2), "v": fb.zeros(4)}
    failure(load, state, tmp_path)
    assert state["w"].tolist() == [0, 0]  # plans fail before anything is read


def test_places_are_needed_and_paths(tmp_path):
    for call in (dcp.save, dcp.async_save, dcp.load):
        with pytest.raises(RuntimeError, match="expected checkpoint_id or storage_"):
            call({"a": 1}, no_dist=True)
    for kind in (dcp.FileSystemWriter, dcp.FileSystemReader):
        with pytest.raises(ValueError, match="expected a path, got 's3://bucket/x'"):
            kind("s3://bucket/x")
        assert kind.validate_checkpoint_id(tmp_path) and not kind.validate_checkpoint_id("s3://bucket/x")
    writer = dcp.FileSystemWriter(tmp_path / "first")
    dcp.save({"a": 1}, storage_writer=writer, checkpoint_id=tmp_path / "second", no_dist=True)
    assert not (tmp_path / "first").exists() and writer.checkpoint_id == tmp_path / "second"
    with pytest.raises(CheckpointException, match="expected a directory without a checkpoint"):
        dcp.save(
            {"a": 1}, storage_writer=dcp.FileSystemWriter(tmp_path / "second", overwrite=False), no_dist=True
        )


def test_what_has_no_elements_in_memory_is_refused(tmp_path):
    assert isinstance(failure(save, {"s": fb.ones(2).to_sparse()}, tmp_path), NotImplementedError)
    assert isinstance(failure(save, {"m": fb.ones(2, device="meta")}, tmp_path), NotImplementedError)
    assert "pickle" in str(failure(save, {"f": lambda: 0}, tmp_path)).lower()
    assert list(tmp_path.glob("*")) == []


def test_a_failed_save_leaves_the_checkpoint_from_before(tmp_path):
    save({"w": fb.ones(2), "f": 1}, tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    failure(save, {"w": fb.zeros(2), "f": lambda: 0}, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert load({"w": fb.zeros(2)}, tmp_path)["w"].tolist() == [1, 1]


@pytest.mark.parametrize("single", [True, False])
def test_files_of_the_checkpoint_from_before_are_removed(tmp_path, single):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "__3_0.distcp").write_text("of a rank that is no more")
    sizes = []
    for n in range(3):
        writer = dcp.FileSystemWriter(tmp_path, single_file_per_rank=single)
        dcp.save({"w": fb.full((2,), float(n)), "v": n, "u": [n]}, storage_writer=writer, no_dist=True)
        assert load({"w": fb.zeros(2), "v": None, "u": None}, tmp_path) == {
            "w": _Equal(fb.full((2,), float(n))),
            "v": n,
            "u": [n],
        }
        sizes.append(len(list(tmp_path.iterdir())))
    assert sizes == [3 if single else 5] * 3 and (tmp_path / "notes.txt").read_text() == "mine"


class _Equal:
    def __init__(self, tensor):
        self.tensor = tensor

    def __eq__(self, other):
        return self.tensor.equal(other)


class NarrowWriter(dcp.FileSystemWriter):
    """A program's class whose methods take no keywords, and whose metadata have one more value."""

    def set_up_storage_writer(self, is_coordinator):
        super().set_up_storage_writer(is_coordinator)


class NarrowReader(dcp.FileSystemReader):
    """A program's class whose methods take no keywords."""

    def set_up_storage_reader(self, metadata, is_coordinator):
        super().set_up_storage_reader(metadata, is_coordinator)


class Renaming(dcp.DefaultLoadPlanner):
    """A program's planner that reads under the names of an older model."""

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.wanted = state_dict
        super().set_up_planner({f"old_{k}": v for k, v in state_dict.items()}, metadata, is_coordinator)


class Halved(dcp.DefaultSavePlanner):
    """A program's planner that changes values while they are saved."""

    def transform_object(self, write_item, object):
        changed = object / 2 if write_item.tensor_data is not None else object
        return super().transform_object(write_item, changed)


def test_classes_of_programs_take_part(tmp_path):
    dcp.save(
        {"old_w": fb.full((3,), 4.0), "n": 2},
        storage_writer=NarrowWriter(tmp_path),
        planner=Halved(),
        no_dist=True,
    )
    state = {"w": fb.zeros(3)}
    dcp.load(state, storage_reader=NarrowReader(tmp_path), planner=Renaming(), no_dist=True)
    assert state["w"].tolist() == [2, 2, 2] and load({"n": 0}, tmp_path) == {"n": 2}


def test_functions_that_programs_plan_with_are_those_of_pytorch():
    def plans(torch):
        own = import_module(f"{torch.__name__}.distributed.checkpoint.default_planner")
        state = {"w": torch.ones(2, 3), "n": 1}
        offers = [own.create_default_local_save_plan(state, is_coordinator=True)]
        saves, metadata = own.create_default_global_save_plan(offers)
        wanted = {"w": torch.zeros(2, 3), "q": 1}
        load = own.create_default_local_load_plan(wanted, metadata, strict=False)
        with pytest.raises(RuntimeError, match=r"Missing key in checkpoint state_dict: q\."):
            own.create_default_local_load_plan(wanted, metadata)
        (read,) = own.create_default_global_load_plan([load])[0].items
        box = (
            read.dest_index.fqn,
            tuple(read.dest_offsets),
            tuple(read.storage_offsets),
            tuple(read.lengths),
        )
        writes = sorted(
            (i.index.fqn, i.index.offset and tuple(i.index.offset), i.type.name) for i in saves[0].items
        )
        return writes, box, sorted(metadata.state_dict_metadata)

    assert plans(fb) == plans(pytorch())


def test_without_flattening_nested_values_are_one(tmp_path):
    state = {"a": {"w": fb.ones(2)}, "t": fb.ones(1)}
    planner = dcp.DefaultSavePlanner(flatten_state_dict=False)
    assert sorted(save(state, tmp_path, planner=planner).state_dict_metadata) == ["a", "t"]
    found = load(
        {"a": None, "t": fb.zeros(1)}, tmp_path, planner=dcp.DefaultLoadPlanner(flatten_state_dict=False)
    )
    assert found["a"]["w"].tolist() == [1, 1] and found["t"].tolist() == [1]


def test_bytes_are_what_save_writes(tmp_path):
    """The format: a value that is not a tensor is a file of `save` within the data file."""
    metadata = save({"n": {"deep": [1, 2]}}, tmp_path)
    ((index, place),) = metadata.storage_data.items()
    data = (tmp_path / place.relative_path).read_bytes()[place.offset :][: place.length]
    assert index.fqn == "n.deep" and fb.load(io.BytesIO(data)) == [1, 2]
