"""Files that were made to do harm or are damaged: an ordinary exception, and nothing has changed."""

import io
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from collections import OrderedDict

import flambeau as fb
import pytest
from fuzz.files import archive_of, contents, innocent, snapshot, tensor_pickle

REFUSED = (pickle.UnpicklingError, RuntimeError)


def load_pickle(text, **records):
    return fb.load(io.BytesIO(archive_of({"data.pkl": text, **records})))


def global_(module, name):
    return f"c{module}\n{name}\n".encode()


TENSOR_V2 = global_("torch._utils", "_rebuild_tensor_v2")
ORDERED = global_("collections", "OrderedDict")
SIZE = global_("torch", "Size")

# What changes classes or functions, or calls what may not be called.
FORGED = {
    "state of a class": SIZE + b"}X\x06\0\0\0__eq__Nsb.",
    "state of a function": TENSOR_V2 + b"}X\x0c\0\0\0__defaults__)sb.",
    "slots of a class": SIZE + b"N}X\x06\0\0\0__eq__Ns\x86b.",
    "state of a dtype": global_("torch", "float32") + b"}X\x01\0\0\0aNsb.",
    "state of a dict": b"}}X\x01\0\0\0aNsb.",
    "method of an instance": ORDERED + b")R}X\x05\0\0\0itemsNsb.",
    "class of an instance": ORDERED + b")R}X\x09\0\0\0__class__" + SIZE + b"sb.",
    "item of a class": SIZE + b"K\0K\0s.",
    "appended to a class": SIZE + b"K\0a.",
    "appended to a set": b"\x8fK\0a.",
    "call of an instance": b"]" + b")R.",
    "call of a dtype": global_("torch", "float32") + b")R.",
    "a new function": TENSOR_V2 + b")\x81.",
    "a new class": SIZE + SIZE + b"\x85\x81.",
    "inst": b"(icollections\nOrderedDict\n.",
    "obj": b"(" + ORDERED + b"o.",
    "extension": b"\x82\x01.",
    "old persistent id": b"Pstorage\n.",
    "persistent id": b"K\x01Q.",
    "new with keywords": ORDERED + b")}\x92.",
    "buffers": b"\x97.",
    "os": global_("os", "system") + b"X\x04\0\0\0true\x85R.",
    "eval": global_("builtins", "eval") + b"X\x01\0\0\0001\x85R.",
    "range": global_("builtins", "range") + b"\x8a\x06\0\0\0\0\0\x01\x85R.",
    "getattr": global_("builtins", "getattr") + b".",
    "storage class": global_("torch", "UntypedStorage") + b".",
    "inner name": b"\x80\x04X\x0b\0\0\0collectionsX\x1a\0\0\0OrderedDict.fromkeys.__func\x93.",
    "layout": global_("torch.serialization", "_get_layout") + b"X\x0d\0\0\0torch._tensor\x85R.",
    "encoding": global_("_codecs", "encode") + b"X\x01\0\0\0aX\x04\0\0\0zlib\x86R.",
}
# What asks for more memory or time than the bytes can be worth.
HUGE = {
    "bytearray": global_("builtins", "bytearray") + b"\x8a\x06\0\0\0\0\0\x01\x85R.",
    "bytes": b"B\xff\xff\xff\xff.",
    "bytes of 8": b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "text": b"X\xff\xff\xff\xff.",
    "byte array": b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "number": b"\x8b\xff\xff\xff\x7f.",
    "negative length": b"\x8b\xff\xff\xff\xff.",
    "frame": b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7fN.",
    "set of a range": global_("builtins", "set") + global_("builtins", "range") + b"\x85R.",
    "sizes": global_("torch", "Size") + b"\x8a\x06\0\0\0\0\0\x01\x85R.",
    "key": b"}" + b")" + b"q\0h\0\x86" * 80 + b"Ns.",
    "item of a set": b"\x8f(" + b")" + b"q\0h\0\x86" * 80 + b"\x90.",
    "zip": b"((" + b"1" * 100,
}
DAMAGED = {
    "nothing": b"",
    "no stop": b"N",
    "only stop": b".",
    "no such memo": b"h\x05.",
    "pop of nothing": b"00.",
    "tuple of nothing": b"\x87.",
    "no mark": b"t.",
    "odd items": b"}(K\1u.",
    "unhashable": b"}]Ns.",
    "text": b"X\x01\0\0\0\xff.",
    "within a mark": b"(N.",
    "protocol": b"\x80\x09N.",
    "unknown": b"\xfe.",
    "line": b"cnothing",
}


@pytest.mark.parametrize("name", [*FORGED, *HUGE, *DAMAGED])
def test_pickles_that_are_refused(name):
    text = {**FORGED, **HUGE, **DAMAGED}[name]
    before = snapshot()
    with pytest.raises(REFUSED):
        load_pickle(text)
    assert snapshot() == before


def test_a_memo_of_large_numbers_takes_no_memory():
    assert load_pickle(b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff.") is None


def test_deep_nesting_needs_no_recursion():
    found, depth = load_pickle(b"]" * 200_000 + b"a" * 199_999 + b"."), 0
    while found:
        (found,) = found
        depth += 1
    assert depth == 199_999


def test_a_laugh_is_not_repeated():
    found = load_pickle(b"]" + b"q\0]h\0ah\0a" * 60 + b".")
    assert len(found) == 2 and found[0] is found[1]


@pytest.mark.parametrize(
    "geometry",
    [
        (0, (5,), (1,)), (2, (3,), (1,)), (-1, (2,), (1,)), (0, (-1,), (1,)), (0, (2, 2), (4, 1)),
        (0, (2,), (-1,)), (2**62, (1,), (1,)), (0, (2**40, 2**40), (0, 0)), (0, (2**62,), (2**62,)),
        (0, (2,), (1, 1)), (0, (2**70,), (1,)), (0, (2.0,), (1,)), (0, "ab", (1, 1)), (None, (2,), (1,)),
        (0, (True,), (1,)),
    ],
    ids=str,
)  # fmt: skip
def test_tensors_reach_no_further_than_their_storage(geometry):
    with pytest.raises(REFUSED):
        load_pickle(tensor_pickle(*geometry), **{"data/0": bytes(16)})


def test_tensors_of_few_bytes_and_many_elements_are_views():
    x = load_pickle(tensor_pickle(3, (2**40,), (0,)), **{"data/0": bytes(16)})
    assert x.shape == (2**40,) and x.untyped_storage().nbytes() == 16


@pytest.mark.parametrize("size", [0, 15, 20, 160])
def test_a_storage_of_another_length(size):
    with pytest.raises(RuntimeError, match="bytes"):
        load_pickle(tensor_pickle(0, (4,), (1,)), **{"data/0": bytes(size)})


def test_truth_values_of_other_bytes():
    text = tensor_pickle(0, (4,), (1,), b"BoolStorage")
    x = load_pickle(text, **{"data/0": bytes([0, 1, 2, 255])})
    assert x.dtype == fb.bool and x.shape == (4,)


def rewritten(compression=zipfile.ZIP_STORED, **changes):
    """A file written by zipfile, with records replaced; None: left out."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in {**contents(innocent()), **changes}.items():
            if data is not None:
                archive.writestr(f"archive/{name}", data)
    return file.getvalue()


def renamed(name, to):
    assert len(name) == len(to)
    return innocent().replace(name, to)


def test_records_are_found_in_files_of_others():
    assert fb.load(io.BytesIO(rewritten()))["x"].tolist() == [0, 1, 2, 3]


def overlapping():
    """Two entries of the directory for the same record."""
    data = bytearray(innocent())
    entries = [i for i in range(len(data)) if data[i : i + 4] == b"PK\1\2"]
    data[entries[2] + 42 : entries[2] + 46] = data[entries[1] + 42 : entries[1] + 46]
    return bytes(data)


def with_size(size):
    """The directory claims another size of the last storage."""
    data = bytearray(innocent())
    entry = data.rindex(b"archive/data/1") - 46
    data[entry + 20 : entry + 28] = struct.pack("<LL", size, size)
    return bytes(data)


BROKEN = {
    "deflated": lambda: rewritten(zipfile.ZIP_DEFLATED),
    "compressed by lzma": lambda: rewritten(zipfile.ZIP_LZMA),
    "no pickle": lambda: rewritten(**{"data.pkl": None}),
    "no storage": lambda: rewritten(**{"data/0": None}),
    "shorter storage": lambda: rewritten(**{"data/0": bytes(8)}),
    "two pickles": lambda: rewritten(**{"x/data.pkl": b"N."}),
    "names upwards": lambda: rewritten(**{"../x": b"N."}),
    "absolute names": lambda: renamed(b"archive/", b"/rchive/"),
    "names twice": lambda: renamed(b"archive/data/1", b"archive/data/0"),
    "overlap": overlapping,
    "too long": lambda: with_size(10**6),
    "4 GB": lambda: with_size(0xFFFFFFFE),
    "CRC": lambda: innocent().replace(struct.pack("<f", 3), struct.pack("<f", 5)),
    "CRC of the pickle": lambda: innocent().replace(b"requires", b"require5"),
    "no directory": lambda: innocent()[:-100],
    "half": lambda: innocent()[: len(innocent()) // 2],
    "head": lambda: innocent()[:40],
    "encrypted": lambda: innocent().replace(b"PK\1\2\x14\0\x14\0\x08", b"PK\1\2\x14\0\x14\0\x09"),
    "other header": lambda: innocent().replace(b"PK\3\4", b"PK\3\5").replace(b"PK\3\5", b"PK\3\4", 1),
}


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("name", BROKEN)
def test_archives_that_are_broken(name, mmap, tmp_path):
    if mmap and name == "CRC":
        return  # nothing is read, so nothing can be checked
    path = tmp_path / "file"
    path.write_bytes(BROKEN[name]())
    assert path.read_bytes() != innocent()
    with pytest.raises(RuntimeError, match="^load: "):
        fb.load(path, mmap=mmap)


def test_order_of_bytes_that_the_file_names(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(rewritten(byteorder=b"none"))
    with pytest.raises(ValueError, match="expected byteorder little or big"):
        fb.load(path)


def test_what_is_not_an_archive(tmp_path):
    for text, error in (
        (b"", EOFError),
        (b"N.", pickle.UnpicklingError),
        (b"\x80\x02N.", RuntimeError),  # no magic number
    ):
        with pytest.raises(error):
            fb.load(io.BytesIO(text))
    with pytest.raises(FileNotFoundError):
        fb.load(tmp_path / "missing")
    with pytest.raises(ValueError, match="file path"):
        fb.load(io.BytesIO(innocent()), mmap=True)


def test_a_bomb_takes_no_memory(tmp_path):
    """A few kilobytes that stand for 4 GB, in a process that may have 2."""
    bomb = tmp_path / "bomb"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("archive/data.pkl", tensor_pickle(0, (2**20,), (1,)))
        with archive.open("archive/data/0", "w", force_zip64=True) as record:
            for _ in range(64):
                record.write(bytes(1 << 24))
    program = f"""
import flambeau, re, resource

def peak():  # of this process alone; ru_maxrss begins with the peak of the process that started it
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
before = peak()
try:
    flambeau.load({str(bomb)!r})
except RuntimeError as error:
    assert "compressed" in str(error), error
    assert peak() < before + 100_000, (before, peak())
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "refused\n", done.stderr


def test_state_that_ordered_dicts_have():
    state = OrderedDict(x=fb.ones(2))
    state._metadata = OrderedDict(version=1)
    file = io.BytesIO()
    fb.save(state, file)
    file.seek(0)
    assert fb.load(file)._metadata == {"version": 1}


class Settings(dict):
    """A class that files may hold when it is known."""

    def __init__(self, rate=0):
        self.rate = rate


def test_state_of_known_classes_is_that_of_their_objects():
    file = io.BytesIO()
    fb.save(Settings(2), file)
    file.seek(0)
    with fb.serialization.safe_globals([Settings]):
        assert fb.load(file).rate == 2
        before = dict(vars(Settings))
        with pytest.raises(pickle.UnpicklingError):
            load_pickle(global_(Settings.__module__, "Settings") + b"}X\x04\0\0\0rateNsb.")
        assert dict(vars(Settings)) == before


def test_checksums_are_those_of_zip():
    crc32 = fb.serialization._archive._crc32
    data = bytes(fb.randint(0, 256, (5000,), dtype=fb.uint8).tolist())
    for size in (*range(200), 1023, 1024, 4999):
        for start in (0, 1):
            part = data[start : start + size]
            assert crc32(part, 0) == zlib.crc32(part)
            assert crc32(part, 0xDEADBEEF) == zlib.crc32(part, 0xDEADBEEF)
