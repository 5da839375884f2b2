"""Files from before PyTorch 1.6, and how files are trusted: read as PyTorch reads them."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
import warnings

import flambeau
import numpy as np
import pytest
from oracle import pytorch

SOURCES = {
    "plain": lambda t: {"x": t.arange(6.0).reshape(2, 3), "n": 5, "names": ["a", (1, 2.5, None)]},
    "views": lambda t: (lambda x: [x, x[1], x.t()])(t.arange(6.0).reshape(2, 3)),
    "dtypes": lambda t: [t.ones(3).to(getattr(t, d)) for d in DTYPES],
    "parameter": lambda t: t.nn.Parameter(t.ones(2)),
    "state": lambda t: t.nn.Linear(3, 2).state_dict(),
    "empty": lambda t: [t.empty(0), t.ones(())],
    "storage": lambda t: t.arange(4.0).storage(),
    "optimizer": lambda t: t.optim.SGD([t.ones(2)], lr=0.1, momentum=0.9).state_dict(),
}
DTYPES = "uint8 int8 int16 int32 int64 bool float16 bfloat16 float32 float64 complex64 complex128".split()


def legacy(value):
    """A file of PyTorch's own in its old format."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytorch().save(value, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


def shown(value):
    """What a value holds, without its framework."""
    if hasattr(value, "state_dict") and not isinstance(value, dict):
        value = value.state_dict()
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [shown(v) for v in value]
    if hasattr(value, "tolist"):
        facts = [list(value.shape), value.stride(), value.requires_grad] if hasattr(value, "stride") else []
        return [str(value.dtype).rpartition(".")[2], value.tolist(), *facts]
    return value


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("name", SOURCES)
def test_streams(name, weights_only):
    torch = pytorch()
    data = legacy(SOURCES[name](torch))
    found = flambeau.load(io.BytesIO(data), weights_only=weights_only)
    assert shown(found) == shown(torch.load(io.BytesIO(data), weights_only=weights_only))


def test_views_of_a_stream_share_memory():
    x, row, turned = flambeau.load(io.BytesIO(legacy(SOURCES["views"](pytorch()))))
    x[1, 0] = 50
    assert row[0] == 50 and turned[0, 1] == 50


def test_modules_need_trust():
    data = legacy(pytorch().nn.Linear(3, 2))
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        flambeau.load(io.BytesIO(data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = flambeau.load(io.BytesIO(data), weights_only=False)
    assert type(module) is flambeau.nn.Linear
    expected = pytorch().load(io.BytesIO(data), weights_only=False)
    x = np.ones((1, 3), np.float32)
    ours, theirs = module(flambeau.from_numpy(x)), expected(pytorch().from_numpy(x))
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "location", ["cpu", "meta", lambda s, where: s, lambda s, where: None, {"cpu": "cpu"}]
)
def test_map_location(location):
    torch = pytorch()
    data = legacy({"x": torch.ones(2)})
    ours = flambeau.load(io.BytesIO(data), map_location=location)["x"]
    assert ours.device.type == torch.load(io.BytesIO(data), map_location=location)["x"].device.type


def test_map_location_sees_storages_and_their_places():
    def seen(framework):
        out = []
        data = legacy([pytorch().ones(2), pytorch().ones(1, dtype=pytorch().int64)])
        framework.load(io.BytesIO(data), map_location=lambda s, place: out.append((s.nbytes(), place)))
        return out

    assert seen(flambeau) == seen(pytorch())


@pytest.mark.parametrize("end", [1, 40, -4, -30])
def test_damaged_streams_raise(end):
    data = legacy({"x": pytorch().ones(20)})[:end]
    for weights_only in (True, False):
        with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError)):
            flambeau.load(io.BytesIO(data), weights_only=weights_only)


def test_other_pickles_are_refused():
    for data in (pickle.dumps(5, 2), pickle.dumps([1, 2], 2)):
        with pytest.raises(RuntimeError, match="Invalid magic number; corrupt file"):
            flambeau.load(io.BytesIO(data))
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        flambeau.load(str(_written(legacy(pytorch().ones(2)))), mmap=True)


def _written(data):
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".pt", delete=False) as file:
        file.write(data)
    return file.name


def test_a_storage_larger_than_the_file_is_refused():
    data = legacy(pytorch().ones(300))
    at = data.index(struct.pack("<H", 300))  # the count in the persistent id
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        flambeau.load(io.BytesIO(data[:at] + struct.pack("<H", 65000) + data[at + 2 :]))


# --- tar ----------------------------------------------------------------------------------------------


class Kind:
    """Stands for a class of PyTorch's in a pickle."""

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return getattr, (pytorch(), self.name)


def tar_file():
    """Two tensors over one storage, in the format of PyTorch 0.1, written by hand."""
    torch = pytorch()
    put = lambda *objects: b"".join(pickle.dumps(o, 2) for o in objects)  # noqa: E731
    values = np.arange(6, dtype=np.float32)
    storages = put(1, (77, "cpu", torch.FloatStorage)) + struct.pack("<q", 6) + values.tobytes() + put([])
    tensors = put(2)
    for key, size, stride, offset in ((5, (2, 3), (3, 1), 0), (6, (3,), (1,), 3)):
        tensors += put((key, 77, torch.FloatTensor)) + struct.pack("<ii", len(size), 0)
        tensors += struct.pack(f"<{len(size)}q", *size) + struct.pack(f"<{len(size)}q", *stride)
        tensors += struct.pack("<q", offset)

    class Pickler(pickle._Pickler):
        def persistent_id(self, obj):
            return str(obj.key) if isinstance(obj, Key) else None

    text = io.BytesIO()
    Pickler(text, 2).dump({"x": Key(5), "row": Key(6), "n": 3})
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for name, data in (("storages", storages), ("tensors", tensors), ("pickle", text.getvalue())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Key:
    """A tensor of the archive."""

    def __init__(self, key):
        self.key = key


def test_tar(tmp_path):
    torch, data = pytorch(), tar_file()
    (tmp_path / "x.tar").write_bytes(data)  # PyTorch reads this format from files alone
    ours = flambeau.load(tmp_path / "x.tar", weights_only=False)
    assert shown(ours) == shown(torch.load(tmp_path / "x.tar", weights_only=False))
    ours["x"][1, 0] = 9
    assert ours["row"][0] == 9
    with pytest.raises(RuntimeError, match=r"legacy \.tar format"):
        flambeau.load(io.BytesIO(data))


# --- trust --------------------------------------------------------------------------------------------

OPTIONS = (
    {},
    {"weights_only": True},
    {"weights_only": False},
    {"pickle_module": pickle},
    {"pickle_module": pickle, "weights_only": True},
)


def trusted(framework, data, options):
    """What loading gives: the number of warnings, or the error and its words."""
    words = ("Weights only load failed", "Only one of", "explicit pickle_module")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            framework.load(io.BytesIO(data), **options)
        except Exception as error:
            return type(error).__name__, [word in str(error) for word in words]
    return len(caught)


@pytest.mark.parametrize("only", [None, "0", "1", "yes", "TRUE"])
@pytest.mark.parametrize("never", [None, "1"])
def test_environment(monkeypatch, only, never):
    torch, file = pytorch(), io.BytesIO()
    torch.save({"x": np.float64(1.5)}, file)
    given = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": only, "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": never}
    for name, value in given.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    for options in OPTIONS:
        assert trusted(flambeau, file.getvalue(), options) == trusted(torch, file.getvalue(), options)


NUMPY = {
    "scalar": np.float64(1.5), "array": np.arange(6).reshape(2, 3), "text": np.array(["a", "bc"]),
    "dtype": np.dtype("f4"), "small": np.int32(3), "half": np.ones(2, np.float16), "flag": np.bool_(True),
    "fortran": np.asfortranarray(np.ones((2, 2))), "empty": np.zeros((0, 2)),
}  # fmt: skip


def numpy_globals():
    core = np._core.multiarray if hasattr(np, "_core") else np.core.multiarray
    dtypes = {type(np.asarray(v).dtype) for v in NUMPY.values()} | {type(np.dtype("f4"))}
    return [core.scalar, core._reconstruct, np.ndarray, np.dtype, bytes, *dtypes]


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_objects_with_their_globals(name):
    torch = pytorch()
    file = io.BytesIO()
    torch.save({"value": NUMPY[name]}, file)
    for framework in (flambeau, torch):
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
            framework.load(file)
        file.seek(0)
        with framework.serialization.safe_globals(numpy_globals()):
            found = framework.load(file)["value"]
        assert type(found) is type(NUMPY[name])
        np.testing.assert_array_equal(found, NUMPY[name])


def test_numpy_objects_of_our_files():
    file = io.BytesIO()
    flambeau.save(NUMPY, file)
    file.seek(0)
    with pytorch().serialization.safe_globals(numpy_globals()):
        found = pytorch().load(file)
    for name, value in NUMPY.items():
        np.testing.assert_array_equal(found[name], value)
