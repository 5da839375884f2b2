"""Finding the forward operation behind a failing or NaN-producing backward."""

from __future__ import annotations

import warnings

from flambeau import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Switch anomaly mode: at once, and back at the end of the block if it is one.

    Args:
        mode: whether backward says where in the forward pass a failing node was made.
        check_nan: whether a backward that returns NaN is a failure.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        """The mode is set already."""

    def __exit__(self, *_: object) -> None:
        _C._set_anomaly(*self._previous)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode; see `set_detect_anomaly`."""
    _C._set_anomaly(enabled, check_nan)


class detect_anomaly:
    """A block in anomaly mode. It slows every operation down: for debugging only."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled: every call records where it was made, which takes time",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._previous = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C._set_anomaly(True, self.check_nan)

    def __exit__(self, *_: object) -> None:
        _C._set_anomaly(*self._previous)
