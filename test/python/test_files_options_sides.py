"""Files one after the other, the format before 1.6, orders of bytes, and other choices, as in PyTorch."""

import datetime
import io
import mmap
import sys
import zipfile

import flambeau
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()


def saved(torch, obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


def rewritten(file, **records):
    """The archive with other records; None leaves one out."""
    out = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            data = records.get(entry.filename.rpartition("/")[2], old.read(entry))
            if data is not None:
                new.writestr(entry.filename, data)
    out.seek(0)
    return out


@scenario
def objects_of_the_older_format_follow_each_other(torch):
    file = io.BytesIO()
    for value in (torch.ones(2), {"a": torch.zeros(3)}, [1, torch.ones(2, dtype=torch.bfloat16).float()]):
        torch.save(value, file, _use_new_zipfile_serialization=False)
    file.seek(0)
    found = [torch.load(file) for _ in range(3)]
    return [found, raised("", torch.load, file)[0]]


@scenario
def the_older_format_keeps_what_tensors_share(torch):
    whole = torch.arange(6.0)
    file = saved(torch, [whole, whole[2:4], whole.view(2, 3).t()], _use_new_zipfile_serialization=False)
    found = torch.load(file)
    found[0][2] = 9
    return [found, [list(t.stride()) for t in found], file.getvalue()[:2]]


@scenario
def the_older_format_has_one_dtype_for_a_storage(torch):
    whole = torch.arange(6.0)
    both = [whole, whole.view(torch.int32)]
    return raised("", torch.save, both, io.BytesIO(), _use_new_zipfile_serialization=False)[0]


def without_checksums(torch, obj):
    torch.serialization.set_crc32_options(False)
    try:
        return saved(torch, obj)
    finally:
        torch.serialization.set_crc32_options(True)


def test_each_reads_files_without_checksums_of_the_other():
    torch = pytorch()
    for one, other in ((flambeau, torch), (torch, flambeau)):
        file = without_checksums(one, one.arange(100))
        sums = {entry.CRC for entry in zipfile.ZipFile(file).infolist()}
        assert sums == {0}
        file.seek(0)
        assert other.load(file).tolist() == list(range(100))


def test_each_reads_the_older_format_of_the_other():
    torch = pytorch()
    for one, other in ((flambeau, torch), (torch, flambeau)):
        file = saved(one, {"a": one.arange(5), "b": one.ones(2, 2).t()}, _use_new_zipfile_serialization=False)
        found = other.load(file)
        assert found["a"].tolist() == [0, 1, 2, 3, 4]
        assert found["b"].tolist() == [[1, 1], [1, 1]]


@scenario
def an_archive_may_begin_within_a_file(torch):
    file = io.BytesIO()
    file.write(b"12345")
    torch.save(torch.arange(4.0), file)
    end = raised("", torch.load, file)[0]
    file.seek(5)
    return [end, torch.load(file)]


@scenario
def bytes_in_the_other_order(torch):
    values = [torch.tensor([1.0, 2.5]), torch.tensor([1 + 2j]), torch.tensor([3, 4], dtype=torch.int16)]
    records = {str(i): t.numpy().byteswap().tobytes() for i, t in enumerate(values)}
    big = rewritten(saved(torch, values), byteorder=b"big", **records)
    unnamed = rewritten(saved(torch, values), byteorder=None, **records)
    options = torch.serialization
    before = options.get_default_load_endianness()
    options.set_default_load_endianness(options.LoadEndianness.BIG)
    try:
        found = [torch.load(big), torch.load(unnamed)]
    finally:
        options.set_default_load_endianness(None)
    wrong = raised("", options.set_default_load_endianness, "big")[0]
    unknown = raised("", torch.load, rewritten(saved(torch, values), byteorder=b"none"))[0]
    return [found, before, wrong, unknown]


@scenario
def names_that_would_be_refused(torch):
    find = torch.serialization.get_unsafe_globals_in_checkpoint
    file = saved(torch, [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), torch.ones(1)])
    found = [find(file)]
    file.seek(0)
    with torch.serialization.safe_globals([datetime.date]):
        found.append(find(file))
    older = saved(torch, 1, _use_new_zipfile_serialization=False)
    refused = raised("add_safe_globals", torch.load, saved(torch, datetime.date(2020, 1, 1)))
    return [*found, find(saved(torch, {"a": torch.ones(1)})), raised("", find, older)[0], refused]


@scenario
def data_can_be_left_out(torch):
    with torch.serialization.skip_data():
        file = saved(torch, torch.arange(1.0, 5.0))
    full = saved(torch, torch.ones(3))
    with torch.serialization.skip_data():
        shape = torch.load(full).shape
    return [torch.load(file), list(shape)]


@scenario
def files_are_mapped_as_chosen(torch):
    import tempfile
    from pathlib import Path

    options, found = torch.serialization, []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        torch.save(torch.zeros(3), path)
        torch.load(path, mmap=True).fill_(1)
        found.append(torch.load(path))
        with options.set_default_mmap_options(mmap.MAP_SHARED):
            torch.load(path, mmap=True).fill_(2)
            found.append(options.get_default_mmap_options() == mmap.MAP_SHARED)
        found.append(torch.load(path, mmap=True))  # the checksum is that of the old values
    private = options.get_default_mmap_options() == mmap.MAP_PRIVATE
    return [found, private, raised("", options.set_default_mmap_options, 0)[0]]


@scenario
def places_of_others_can_be_registered(torch):
    places, seen = torch.serialization, []

    def tagger(storage):
        return "elsewhere" if storage.nbytes() == 44 else None

    def restore(storage, location):
        if location == "elsewhere":
            seen.append(storage.nbytes())
            return storage

    module = sys.modules[places.__name__]
    known = getattr(module, "_package_registry", None)
    known = module._places._packages if known is None else known
    before = list(known)
    places.register_package(5, tagger, restore)
    try:
        file = saved(torch, [torch.ones(11), torch.ones(2)])
        name = places.location_tag(torch.ones(11).untyped_storage())
        found = torch.load(file)
    finally:
        known[:] = before
    unknown = raised("", places.default_restore_location, torch.ones(1).untyped_storage(), "nowhere")[0]
    return [found, seen, name, unknown, places.location_tag(torch.ones(1).untyped_storage())]


@scenario
def options_of_the_format(torch):
    options = torch.serialization
    before = options.get_crc32_options()
    found = torch.load(without_checksums(torch, torch.ones(2)))
    kinds = [
        options._is_zipfile(saved(torch, 1, _use_new_zipfile_serialization=new)) for new in (True, False)
    ]
    return [before, found, kinds, hex(options.MAGIC_NUMBER), options.PROTOCOL_VERSION]


test_as_in_pytorch = scenario.test()
