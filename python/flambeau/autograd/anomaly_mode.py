"""Finding the forward operation behind a failing or NaN-producing backward."""

from __future__ import annotations

import warnings

from flambeau import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class set_detect_anomaly:
    """Setting of anomaly mode; takes effect at once, and until the end of the block as a context manager.

    Args:
        mode: whether backward reports where the forward pass made a failing node.
        check_nan: whether a node that returns NaN in backward counts as failing.

    Example:
        >>> with flambeau.autograd.set_detect_anomaly(True, check_nan=False):
        ...     flambeau.is_anomaly_enabled(), flambeau.is_anomaly_check_nan_enabled()
        (True, False)
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        """The mode is set already."""

    def __exit__(self, *_: object) -> None:
        _C._set_anomaly(*self._previous)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Set whether backward reports where the forward pass made a failing node.

    Args:
        enabled: whether anomaly mode is on.
        check_nan: whether a node that returns NaN in backward counts as failing. Default: True.
    Returns: nothing.
    See also: autograd.detect_anomaly, autograd.set_detect_anomaly

    Example:
        >>> flambeau.set_anomaly_enabled(True)
        >>> flambeau.is_anomaly_enabled(), flambeau.is_anomaly_check_nan_enabled()
        (True, True)
        >>> flambeau.set_anomaly_enabled(False)
    """
    _C._set_anomaly(enabled, check_nan)


class detect_anomaly:
    """Context manager for anomaly mode: backward reports where the forward pass made a failing node.

    It slows every operation down and is meant for debugging.

    Args:
        check_nan: whether a node that returns NaN in backward counts as failing.

    Example:
        >>> x = flambeau.tensor(-1.0, requires_grad=True)
        >>> with flambeau.autograd.detect_anomaly():
        ...     print(flambeau.is_anomaly_enabled())
        True
    """

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
