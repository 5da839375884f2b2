"""Names for kinds of arguments, for annotations."""

from __future__ import annotations

import os
from typing import IO, Any, TypeAlias

from flambeau import _C
from flambeau._object.storage import Storage

Number: TypeAlias = int | float | bool
Device: TypeAlias = _C.device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
_dtype = _C.dtype
_device = _C.device
_size: TypeAlias = Any

__all__ = ["Device", "FileLike", "Number", "Storage"]
