"""Compiled kernels on disk, for later processes: files that name their own checksum.

A file is written beside its place and renamed, so readers see all of it or nothing. Its first line is the
SHA-256 of the rest: a damaged file is removed and counts as missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path

LIMIT = 256 << 20  # bytes of all files; the oldest go first
_SUFFIX = ".kernel"


def folder() -> Path | None:
    """Return the folder of the cache: ``FLAMBEAU_CACHE_DIR``, or ``flambeau`` in the user's cache folder.

    Returns: the folder, which exists with mode 0700; None if it cannot be made, is a link, belongs to another
        user, or if other users may write to it.
    """
    named = os.environ.get("FLAMBEAU_CACHE_DIR")
    above = os.environ.get("XDG_CACHE_HOME")
    try:
        path = Path(named) if named else (Path(above) if above else Path.home() / ".cache") / "flambeau"
        path = path / "kernels"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except (OSError, RuntimeError):  # no home
        return None
    is_safe = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return path if is_safe else None


def key_of(*parts: str) -> str:
    """Return the name for what depends on all of `parts`."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def read(key: str) -> bytes | None:
    """Return what was written under a key; None if there is nothing, or if the file is damaged."""
    place = folder()
    if place is None:
        return None
    path = place / (key + _SUFFIX)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    sum_, _, content = data.partition(b"\n")
    if sum_ != hashlib.sha256(content).hexdigest().encode():
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # it was used: others are older
    return content


def write(key: str, content: bytes) -> None:
    """Keep `content` under a key; where the folder cannot be written to, nothing is kept."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=place)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
            Path(name).replace(place / (key + _SUFFIX))
        except OSError:
            with contextlib.suppress(OSError):
                Path(name).unlink()
        _evict(place)


def _evict(place: Path) -> None:
    """Remove the oldest files beyond the limit; files that other processes removed count as gone."""
    files = []
    for path in place.iterdir():
        with contextlib.suppress(OSError):
            found = path.stat()
            files.append((found.st_mtime_ns, found.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= LIMIT:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
