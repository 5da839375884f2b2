"""Where a value lies in the files of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any


def shown(value: Any) -> str:
    """Return text for a value of a file that is not trusted: nested lists could give text without an end."""
    return ascii(value) if isinstance(value, str | int | None) else type(value).__name__


@dataclass
class StoragePlace:
    """The file, the first byte and the number of bytes of a value."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None

    def check(self) -> None:
        """Check a place that was read. Raises: ValueError if it is not within the checkpoint."""
        path = self.relative_path
        if not isinstance(path, str) or "\0" in path:
            raise ValueError(f"expected the name of a file, got {shown(path)}")
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts:
            raise ValueError(f"expected a file within the checkpoint, got {path!r}")
        if not (
            type(self.offset) is int and type(self.length) is int and self.offset >= 0 and self.length >= 0
        ):
            raise ValueError(f"expected a range of bytes, got {shown(self.offset)} and {shown(self.length)}")
        if self.transform_descriptors:
            found = shown(self.transform_descriptors)
            raise ValueError(f"expected values without transforms, got {found}")
