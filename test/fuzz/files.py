"""Files for tests of `load`: sound ones, and mutations that must give a result or an ordinary exception."""

from __future__ import annotations

import argparse
import io
import pickle
import random
import struct
import sys
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

import flambeau
from flambeau.serialization import _allowed
from flambeau.serialization._archive import Writer
from flambeau.serialization._opcodes import _ACTIONS

# What a damaged file may raise.
ORDINARY = (pickle.UnpicklingError, RuntimeError, ValueError, EOFError, MemoryError)


def archive_of(records: Mapping[str, bytes]) -> bytes:
    """A sound archive of these records."""
    out = io.BytesIO()
    writer = Writer(out.write)
    for name, data in records.items():
        writer.add(f"archive/{name}", data)
    writer.close()
    return out.getvalue()


def contents(file: bytes) -> dict[str, bytes]:
    """The records of a sound archive."""
    reader = flambeau.serialization.Reader(io.BytesIO(file))
    return {name.partition("/")[2]: reader.read(name) for name in sorted(reader.records)}


def innocent() -> bytes:
    """A file with something of everything."""
    x = flambeau.arange(4.0)
    state = OrderedDict(weight=flambeau.nn.Parameter(flambeau.ones(2, 2)))
    state._metadata = {"": {"version": 1}}
    value = {
        "x": x, "view": x[1:], "state": state, "numbers": [1, 2.5, 1 << 70, True, None, 1j],
        "text": "requires", "bytes": [b"abc", bytearray(b"x")], "set": {1, "a"},
        "size": flambeau.Size([2, 3]), "dtype": flambeau.bfloat16, "device": flambeau.device("cpu"),
        "wide": flambeau.ones(3, dtype=flambeau.uint16), "count": Counter("aab"),
        "mask": flambeau.tensor([True, False]),
    }  # fmt: skip
    out = io.BytesIO()
    flambeau.save(value, out)
    return out.getvalue()


def tensor_pickle(offset: Any, size: Any, stride: Any, storage: bytes = b"FloatStorage") -> bytes:
    """The pickle of a tensor over four elements of the storage `0`."""
    pid = b"(X\x07\0\0\0storagectorch\n" + storage + b"\nX\x01\0\0\0000X\x03\0\0\0cpuK\x04tQ"
    # Each pickle without its protocol and its stop leaves one object on the stack.
    geometry = b"".join(pickle.dumps(part, 2)[2:-1] for part in (offset, size, stride))
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + pid + geometry + b"\x89NtR."


def snapshot() -> list[Any]:
    """What a file must not change: all attributes of what it may refer to."""
    found: list[Any] = []
    for target in [*_allowed._allowed().values(), *_allowed._CALLS, dict, list, flambeau.nn.Module]:
        if isinstance(target, type):
            found.append([(k, id(v)) for k, v in sorted(vars(target).items())])
        elif isinstance(target, FunctionType):
            found.append(
                (id(target.__code__), target.__defaults__, target.__kwdefaults__, dict(vars(target)))
            )
    return found


def _flipped(data: bytes, source: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 8))):
        out[source.randrange(len(out))] ^= 1 << source.randrange(8)
    return bytes(out)


def _cut(data: bytes, source: random.Random) -> bytes:
    begin, end = sorted(source.randrange(len(data)) for _ in range(2))
    return source.choice((data[:begin], data[:begin] + data[end:], data[:end] + data[begin:]))


def _numbers(data: bytes, source: random.Random) -> bytes:
    """Numbers at the edges, where numbers may be."""
    out = bytearray(data + bytes(8))
    value = source.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(data), 0x10000))
    at = source.randrange(len(out) - 4)
    out[at : at + 4] = struct.pack(source.choice("<>") + "L", value)
    return bytes(out)


_PIECES = (b"}X\6\0\0\0__eq__Nsb", b")R", b")\x81", b"N}\x86b", b"(u", b"h\0", b"h\1b")


def _opcodes(data: bytes, source: random.Random) -> bytes:
    """Other opcodes, in place or inserted, with arguments."""
    known = [*_ACTIONS, b"R", b"b", b"\x81", b"Q", b"o", b"i", b"\x82", b"\x92", b"2"]
    names = ["torch\nSize", "torch._utils\n_rebuild_tensor_v2", "collections\nOrderedDict", "builtins\nset"]
    out = bytearray(data)
    for _ in range(source.choice((1, 2, 4))):
        piece = source.choice(known)
        if piece == b"c":
            piece += f"{source.choice(names)}\n".encode()
        elif source.random() < 0.3:
            piece = source.choice(
                (b"}X\6\0\0\0__eq__Nsb", b")R", b")\x81", b"N}\x86b", b"(u", b"h\0", b"h\1b")
            )
        at = source.randrange(len(out))
        out[at : at + source.choice((0, len(piece)))] = piece
    return bytes(out)


def mutations(seed: int) -> Iterator[bytes]:
    """Files without end: damaged as archives, or sound archives of damaged pickles and storages."""
    source = random.Random(seed)
    sound = innocent()
    records = contents(sound)
    directory = sound.index(b"PK\1\2")
    while True:
        kind = source.randrange(4)
        if kind == 0:
            yield source.choice((_flipped, _cut, _numbers))(sound, source)
        elif kind == 1:  # the directory is short, and most of the file decides nothing
            yield sound[:directory] + source.choice((_flipped, _cut, _numbers))(sound[directory:], source)
        else:
            change = source.choice((_flipped, _cut, _numbers, _opcodes, _opcodes))
            name = source.choice(("data.pkl",) * 8 + tuple(records))
            yield archive_of({**records, name: change(records[name] or b"\0" * 8, source)})


def touch(value: Any, budget: list[int]) -> None:
    """Look at what came out, as far as the budget goes."""
    budget[0] -= 1
    if budget[0] < 0:
        return
    if isinstance(value, flambeau.Tensor):
        if value.numel() < 10_000:
            repr(value)
            value.detach().clone()
    elif isinstance(value, dict):
        for item in list(value.items()):
            touch(item, budget)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            touch(item, budget)


def damage(seed: int, count: int) -> list[str]:
    """What is wrong after loading `count` mutated files, with the file in hexadecimal."""
    before = snapshot()
    problems = []
    for number, file in zip(range(count), mutations(seed), strict=False):
        wrong = ""
        try:
            touch(flambeau.load(io.BytesIO(file)), [1000])
        except ORDINARY:
            pass
        except Exception as error:
            # PyTorch's type for an unknown byte order; a ValueError of another sender is a fault.
            if not (type(error) is ValueError and str(error).startswith("load: expected byteorder")):
                wrong = f"{type(error).__name__}: {error}"
        if number % 50 == 0 and snapshot() != before:
            wrong += " a class has changed"
            before = snapshot()
        if wrong:
            packed = f"zlib.decompress(bytes.fromhex({zlib.compress(file).hex()!r}))"
            problems.append(
                f"file {number} of seed {seed}: {wrong}\n    zlib.decompress(bytes.fromhex({packed!r}))"
            )
    return problems


def main() -> int:
    """Load damaged files and report."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.files", description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    problems = damage(options.seed, options.count)
    print("\n".join(problems))
    print(f"{options.count} damaged files, {len(problems)} findings (seed {options.seed})")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
