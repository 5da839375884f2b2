"""Files that are replaced as a whole: if the process is killed meanwhile, the old one stays.

The new content goes to a file without a name in the same directory (`O_TMPFILE`), reaches the disk, gets a
name, and takes the target's place by renaming. Where the file system knows no files without names, there is
one name per target, under a lock; what a killed process has left there is overwritten by the next one.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NAMELESS = getattr(os, "O_TMPFILE", 0)
_UNKNOWN = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)  # by systems without O_TMPFILE
_MANY_LINKS = 40  # as Linux allows


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Give a file to write; it takes the place of `path` if the block ends without an exception.

    Links are followed, and permissions of a replaced file are kept. What is not a regular file (a pipe, a
    device) is written directly, and so is what has a name only in /proc or /dev.
    Raises: OSError if the directory or the file may not be written.
    """
    target = _replaceable(os.fspath(path))
    if target is None:
        with Path(path).open("wb", buffering=0) as file:
            yield file
        return
    known = _permissions(target)
    name = _temporary_name(target)
    descriptor, nameless = _opened(target.parent, name)
    with io.FileIO(descriptor, "w") as file:
        try:
            yield file
            if known is not None:
                _keep_permissions(descriptor, known)
            os.fsync(descriptor)
            _move(descriptor, nameless, name, target)
        except BaseException:
            with contextlib.suppress(OSError):
                name.unlink()
            raise


def _move(descriptor: int, nameless: bool, name: Path, target: Path) -> None:
    if not nameless:
        name.replace(target)
        return
    directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(directory, fcntl.LOCK_EX)  # an unlinked file cannot be linked again
        _give_name(descriptor, directory, name)
        name.replace(target)
    finally:
        os.close(directory)


def _replaceable(path: str | bytes) -> Path | None:
    """Return the regular file, or the place for one, that a path leads to."""
    target = Path(os.fsdecode(path))
    for _ in range(_MANY_LINKS):
        parent = target.parent.resolve()
        if parent.is_relative_to("/proc") or (parent.is_relative_to("/dev") and not _is_shm(parent)):
            return None
        target = parent / target.name
        if not target.is_symlink():
            break
        target = parent / target.readlink()
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    return target if stat.S_ISREG(mode) else None


def _is_shm(directory: Path) -> bool:
    return directory.is_relative_to("/dev/shm")


def _permissions(target: Path) -> os.stat_result | None:
    try:
        known = target.stat()
    except FileNotFoundError:
        return None
    if not os.access(target, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    return known


def _keep_permissions(descriptor: int, known: os.stat_result) -> None:
    own = os.fstat(descriptor)
    if (own.st_uid, own.st_gid) != (known.st_uid, known.st_gid):
        with contextlib.suppress(PermissionError):  # who is not root can give only some groups
            os.fchown(descriptor, -1, known.st_gid)
            os.fchown(descriptor, known.st_uid, -1)
    os.fchmod(descriptor, stat.S_IMODE(known.st_mode))


def _temporary_name(target: Path) -> Path:
    """Return a name of fixed length, since the target's may be as long as names can be."""
    return target.parent / f".flambeau-{zlib.crc32(os.fsencode(target.name)):08x}.saving"


def _opened(directory: Path, name: Path) -> tuple[int, bool]:
    """Return a descriptor of an empty file, and whether the file is nameless."""
    if _NAMELESS:
        try:
            return os.open(directory, os.O_WRONLY | _NAMELESS | os.O_CLOEXEC, 0o666), True
        except OSError as error:
            if error.errno not in _UNKNOWN or not directory.is_dir():
                raise
    while True:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # until the descriptor is closed
            if _has_name(descriptor, name):
                os.ftruncate(descriptor, 0)
                return descriptor, False
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # renamed by the process that had the lock


def _has_name(descriptor: int, name: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), name.stat())  # one look: the name may go at any time
    except FileNotFoundError:
        return False


def _give_name(descriptor: int, directory: int, name: Path) -> None:
    """Link a nameless file; what has the name already was left by a process that was killed."""
    while True:
        try:
            # With a directory's descriptor, Python follows the link in /proc.
            os.link(f"/proc/self/fd/{descriptor}", name.name, dst_dir_fd=directory, follow_symlinks=True)
            return
        except FileExistsError:
            name.unlink(missing_ok=True)
