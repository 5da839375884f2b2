"""Exceptions of distributed communication."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """Communication between processes failed.

    Example:
        >>> issubclass(flambeau.distributed.DistError, RuntimeError)
        True
    """


class DistBackendError(DistError):
    """A collective or a message failed: a process ended, an argument differs between processes, or time ran
    out.

    Example:
        >>> issubclass(flambeau.distributed.DistBackendError, flambeau.distributed.DistError)
        True
    """


class DistNetworkError(DistError):
    """A socket could not be opened, or its connection broke.

    Example:
        >>> issubclass(flambeau.distributed.DistNetworkError, flambeau.distributed.DistError)
        True
    """


class DistStoreError(DistError):
    """A store did not have a key in time, or its server ended.

    Example:
        >>> from datetime import timedelta
        >>> try:
        ...     flambeau.distributed.HashStore().wait(["key"], timedelta(milliseconds=10))
        ... except flambeau.distributed.DistStoreError as error:
        ...     print(type(error).__name__)
        DistStoreError
    """


class QueueEmptyError(DistStoreError):
    """The queue of a store was empty.

    Example:
        >>> issubclass(flambeau.distributed.QueueEmptyError, flambeau.distributed.DistStoreError)
        True
    """


for _error in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _error.__module__ = "flambeau.distributed"
