"""Names of backends, and the functions that make process groups of other packages' backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

__all__ = ["Backend", "BackendConfig"]


class Plugin(NamedTuple):
    """What makes a process group of a registered backend."""

    creator_fn: Callable[..., Any]
    extended_api: bool


class Backend(str):
    """Name of a backend, in lower case.

    Args:
        name: the name: "mpi" and "gloo" are served by MPI, for tensors of the CPU; others are registered.

    Raises: ValueError for what is not text.

    Example:
        >>> flambeau.distributed.Backend("GLOO")
        'gloo'
        >>> flambeau.distributed.Backend.MPI
        'mpi'
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"

    _plugins: ClassVar[dict[str, Plugin]] = {}
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL}
    backend_capability: ClassVar[dict[str, list[str]]] = {GLOO: ["cpu"], NCCL: ["cuda"], MPI: ["cpu"]}

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise ValueError(
                f"Backend: expected a str, got Backend constructor parameter must be string-ish: {name!r}"
            )
        return getattr(cls, name.upper(), name.lower())

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Any],
        extended_api: bool = False,
        devices: str | Sequence[str] | None = None,
    ) -> None:
        """Let `init_process_group` and `new_group` know a backend.

        Args:
            name: its name.
            func: called with store, rank, size and timeout; returns a `ProcessGroup`.
            extended_api: whether `func` is called with an object that has these, and the group's options.
            devices: the devices of its tensors. Default: "cpu" and "cuda".

        Raises: RuntimeError if the name is registered.
        """
        key = name.lower()
        if hasattr(cls, name.upper()) or key in cls._plugins:
            raise RuntimeError(
                f"Backend.register_backend: expected a new name, got {name}, which is registered"
            )
        kinds = (
            ["cpu", "cuda"] if devices is None else [devices] if isinstance(devices, str) else list(devices)
        )
        setattr(cls, name.upper(), key)
        cls.backend_list.append(key)
        cls.backend_capability[key] = kinds
        cls._plugins[name.upper()] = Plugin(func, extended_api)


class BackendConfig:
    """Backends by device, as in "cpu:gloo,cuda:nccl".

    Args:
        backend: a name, which stands for all devices, or pairs.

    Raises: ValueError for a text that is neither.

    Example:
        >>> str(flambeau.distributed.BackendConfig("cpu:gloo,cuda:nccl"))
        'cpu:gloo,cuda:nccl'
    """

    def __init__(self, backend: str) -> None:
        self.device_backend_map: dict[str, str] = {}
        text = str(backend)
        if ":" not in text:
            devices = Backend.backend_capability.get(text.lower(), ["cpu", "cuda"])
            self.device_backend_map = {device: Backend(text) for device in devices}
            return
        for pair in text.lower().split(","):
            device, _, name = pair.partition(":")
            if not device or not name or ":" in name:
                raise ValueError(f"BackendConfig: expected device:backend pairs, got {backend!r}")
            if device in self.device_backend_map:
                raise ValueError(
                    f"BackendConfig: expected each device once, got duplicate device type {device}"
                )
            self.device_backend_map[device] = Backend(name)

    def get_device_backend_map(self) -> dict[str, str]:
        """Return the backend of each device."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())


for _class in (Backend, BackendConfig):
    _class.__module__ = "flambeau.distributed"
