"""Streams of files, as in PyTorch."""

import importlib
import io
import os
import warnings

import flambeau as fb
import pytest
from oracle import pytorch
from sides import plain, raised

NAMES = ("x.txt", "y.png", "a/z.txt", "a/b/w.txt", "a/q.TXT", "c/last.txt")
WAYS = [
    {},
    {"masks": "*.txt"},
    {"masks": ["*.png", "x*"]},
    {"recursive": True},
    {"recursive": True, "masks": "*.txt"},
    {"abspath": True, "length": 3},
]


def pipes(torch):
    return importlib.import_module(f"{torch.__name__}.utils.data.datapipes.iter")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def same(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert plain(program(fb)) == plain(program(pytorch()))


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_names_of_files(folder, options):
    def program(torch):
        lister, wrapper = pipes(torch).FileLister, pipes(torch).IterableWrapper
        roots = (".", str(folder), "a", [str(folder), "a"])
        found = [list(lister(root, **options)) for root in roots]
        found.append(list(wrapper(["a", "c"]).list_files(**options)))
        return [*found, raised("valid length", len, lister(".", **options))]

    same(program)


def test_roots_that_are_not_folders(folder):
    def program(torch):
        lister = pipes(torch).FileLister
        return raised("", list, lister("none")), list(lister("x.txt")), list(lister("x.txt", "*.png"))

    same(program)


def test_open_files(folder):
    def program(torch):
        names = pipes(torch).IterableWrapper(["x.txt", "a/z.txt"])
        found = []
        for options in ({}, {"mode": "rb"}, {"mode": "b"}, {"mode": "t", "encoding": "utf-8"}):
            found.append(
                [(name, file.read(4), file.readline()) for name, file in names.open_files(**options)]
            )
        lines = [list(file) for _, file in names.open_files()]
        wrong = [raised("Invalid mode", names.open_files, mode="w")]
        wrong.append(raised("encoding", names.open_files, mode="rb", encoding="utf-8"))
        wrong.append(raised("Expected string", list, pipes(torch).IterableWrapper([3]).open_files()))
        wrong.append(raised("", list, pipes(torch).IterableWrapper(["none"]).open_files()))
        return found, lines, wrong, raised("", len, names.open_files())

    same(program)


def test_bytes_of_files(folder):
    def program(torch):
        wrapper = pipes(torch).IterableWrapper
        found = []
        for chunk in (None, 3, 7):
            memory = io.BytesIO(b"abcdefg")
            source = wrapper([("k", memory), ("none", io.BytesIO())], deepcopy=False)
            found += [list(source.read_from_stream(chunk)), memory.closed]
        files = wrapper(["x.txt"]).open_files(mode="rb").read_from_stream(4)
        return found, list(files)

    same(program)


def test_a_file_is_closed_with_its_last_reference(folder):
    pipe = pipes(fb).IterableWrapper(["x.txt"]).open_files()
    (_, stream) = next(iter(pipe))
    file, number = stream.file_obj, stream.fileno()
    del stream
    assert file.closed
    with pytest.raises(OSError):
        os.fstat(number)
