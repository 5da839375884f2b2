"""oneDNN, which computes convolutions and large products in float32 and bfloat16."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

from flambeau.backends._flags import changed

enabled = True
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Whether the library came with this installation."""
    library = Path(__file__).parent.parent / "lib"
    return any(library.glob("libdnnl*"))


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> AbstractContextManager[None]:
    """Set flags for a block."""
    values = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return changed(sys.modules[__name__], values)
