"""oneDNN, which computes convolutions and large products in float32 and bfloat16."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

from flambeau.backends._flags import changed as _changed

enabled = True
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Tell whether oneDNN is part of this installation.

    Returns: a bool.

    Example:
        >>> isinstance(flambeau.backends.mkldnn.is_available(), bool)
        True
    """
    library = Path(__file__).parent.parent / "lib"
    return any(library.glob("libdnnl*"))


def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> AbstractContextManager[None]:
    """Set the flags of this module for the length of a block.

    They have no effect on results, except that an LSTM in a region of CPU autocast computes in the region's
    dtype only if `enabled` is True.

    Args:
        enabled: whether oneDNN may be used.
        deterministic: whether only deterministic algorithms are used.
        allow_tf32: whether products may be computed in TF32.
    Returns: a context manager, which restores the flags.

    Example:
        >>> with flambeau.backends.mkldnn.flags(enabled=False):
        ...     flambeau.backends.mkldnn.enabled
        False
    """
    values = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return _changed(sys.modules[__name__], values)
