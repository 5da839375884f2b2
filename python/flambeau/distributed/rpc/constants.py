"""Defaults of workers and calls; times are in seconds."""

from __future__ import annotations

from flambeau._loading.lazy import attributes

DEFAULT_RPC_TIMEOUT_SEC: float = 60.0
DEFAULT_INIT_METHOD: str = "env://"
DEFAULT_NUM_WORKER_THREADS: int = 16
DEFAULT_SHUTDOWN_TIMEOUT: float = 0  # none
UNSET_RPC_TIMEOUT: float = -1.0  # the worker's default

__getattr__, __dir__ = attributes(__name__)
