"""Results of earlier runs, cached under build/: facts about texts, found by the hash of the text.

A key is a hash of everything that the fact follows from, so that a stale fact cannot be found. A file is
written beside and renamed, and its own hash stands at its beginning: runs at the same time, and killed
ones, do no harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def _folder() -> Path:
    """Return build/codegen of a source tree; for an installed generator, a folder in the user's cache."""
    root = Path(__file__).resolve().parents[2]
    if (root / "CMakeLists.txt").is_file():
        return root / "build" / "codegen"
    home = Path(os.environ.get("HOME") or tempfile.gettempdir())
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "flambeau" / "codegen"


FOLDER = _folder()
_MOST = 20_000
_GENERATOR = Path(__file__).parents[1]


def digest(*parts: str) -> bytes:
    """Return the hash of texts, kept apart."""
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Memory:
    """Facts of one kind.

    `modules` are those that work them out, as paths below codegen/: another version of them knows nothing.
    """

    def __init__(
        self, name: str, modules: Iterable[str], folder: Path | None = None, most: int = _MOST
    ) -> None:
        texts = [(_GENERATOR / f"{module}.py").read_text(encoding="utf-8") for module in sorted(modules)]
        version = digest(sys.version, *texts).hex()
        self._path = (folder or FOLDER) / f"{name}-{version[:16]}.bin"
        self._known: dict[bytes, Any] = _read(self._path)
        self._used: dict[bytes, Any] = {}
        self._is_new = False
        self._most = most  # facts that are kept beside those of this run

    def find(self, key: bytes) -> Any:
        """Return the fact, None if it is not known."""
        if key in self._known:
            self._used[key] = self._known[key]
        return self._known.get(key)

    def put(self, key: bytes, value: Any) -> None:
        """Remember plain data under a key, in place of what stood there."""
        self._used[key] = self._known[key] = value
        self._is_new = True

    def recall(self, key: bytes, work_out: Callable[[], Any]) -> Any:
        """Return the fact; `work_out` gives plain data, or None for what shall not be kept."""
        value = self.find(key)
        if value is None:
            value = work_out()
            if value is not None:
                self.put(key, value)
        return value

    def keep(self) -> None:
        """Write what is new; a folder that cannot be written to is not a mistake."""
        if not self._is_new:
            return
        facts = self._known if len(self._known) <= self._most else self._used
        with contextlib.suppress(OSError):
            _write(self._path, marshal.dumps(facts))
        self._is_new = False


def _read(path: Path) -> dict[bytes, Any]:
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    checksum, payload = data[:32], data[32:]
    if hashlib.sha256(payload).digest() != checksum:
        return {}
    facts: dict[bytes, Any] = marshal.loads(payload)
    return facts


def _write(path: Path, payload: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_bytes(hashlib.sha256(payload).digest() + payload)
    beside.replace(path)
    for older in path.parent.glob(f"{path.name.split('-')[0]}-*.bin"):
        if older != path:
            older.unlink(missing_ok=True)
