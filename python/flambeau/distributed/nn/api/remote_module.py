"""Modules that another worker has."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau._loading.lazy import attributes
from flambeau.distributed.rpc import RRef, get_worker_info, rpc_async, rpc_sync
from flambeau.distributed.rpc._pickles import in_message
from flambeau.futures import Future
from flambeau.nn import Module, Parameter

__all__ = ["RemoteModule"]

_DEVICE = re.compile(r"(?P<worker>rank:\d+|[^/]+)(?:/(?P<device>.+))?")


def _place(remote_device: Any) -> tuple[str | int, Any]:
    """Return the worker and the device of a text such as "worker/cpu" or "rank:1/cpu"."""
    found = _DEVICE.fullmatch(remote_device) if isinstance(remote_device, str) else None
    if found is None:
        raise ValueError(
            "RemoteModule: Could not parse remote_device: expected '<worker>/<device>' or "
            f"'rank:<rank>/<device>', got {remote_device!r}"
        )
    device = flambeau.device(found["device"] or "cpu")
    if device.type != "cpu":
        raise ValueError(f"RemoteModule: expected the device cpu, which is the only one, got {device}")
    worker = found["worker"]
    return (int(worker.removeprefix("rank:")) if worker.startswith("rank:") else worker), device


def _create(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: str) -> RRef[Module]:
    made = kind(*args, **kwargs)
    if not isinstance(made, Module):
        raise ValueError(
            "RemoteModule: Expect `module_cls(*args, **kwargs)` returns an instance of nn.Module: expected a "
            f"module, got {type(made).__name__}"
        )
    return RRef(made.to(device))


def _parameters(module: RRef[Module], recurse: bool) -> list[RRef[Parameter]]:
    return [RRef(parameter) for parameter in module.local_value().parameters(recurse)]


def _forward(module: RRef[Module], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return module.local_value()(*args, **kwargs)


def _train(module: RRef[Module], mode: bool) -> None:
    module.local_value().train(mode)


class RemoteModule(Module):
    """Module that another worker has and runs.

    A call runs there and returns a copy of the result. Within `distributed.autograd.context`, gradients go
    through the call. The parameters stay with their owner: `DistributedOptimizer` trains them. Methods that
    need parameters, buffers or submodules here raise ValueError.

    Args:
        remote_device: the name of the worker, "name/cpu", or "rank:<rank>/cpu".
        module_cls: the class of the module, or a function that returns one, which that worker can import.
        args: arguments of the class.
        kwargs: arguments of the class by name.
    Shape: that of the module.
    Raises: ValueError for another device, or if `module_cls` does not return a module; RuntimeError for an
        unknown worker; the exception of the class.
    Source: PyTorch's documentation of the class.

    Example:
        >>> rpc = flambeau.distributed.rpc
        >>> options = rpc.TensorPipeRpcBackendOptions(init_method="tcp://127.0.0.1:0")
        >>> rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
        >>> module = flambeau.distributed.nn.RemoteModule("alone/cpu", flambeau.nn.Linear, (3, 2))
        >>> module(flambeau.ones(4, 3)).shape, len(module.remote_parameters())
        (flambeau.Size([4, 2]), 2)
        >>> rpc.shutdown()
    """

    on: str | int
    module_rref: RRef[Module]

    def __init__(
        self,
        remote_device: str,
        module_cls: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.on, self.device = _place(remote_device)
        get_worker_info(self.on)  # type: ignore[arg-type]  # raises for an unknown worker
        arguments = (module_cls, args or (), kwargs or {}, str(self.device))
        self.module_rref = rpc_sync(self.on, _create, args=arguments)
        self.is_scriptable = False

    @staticmethod
    def init_from_module_rref(remote_device: str, module_rref: RRef[Module]) -> RemoteModule:
        """Return a `RemoteModule` of a module that a worker has already.

        Args:
            remote_device: as for the class.
            module_rref: the reference to the module.
        """
        made = RemoteModule.__new__(RemoteModule)
        Module.__init__(made)
        made.on, made.device = _place(remote_device)
        made.module_rref, made.is_scriptable = module_rref, False
        return made

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the module."""
        return self.forward_async(*args, **kwargs).wait()

    def forward_async(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Return a future of the result of the module."""
        return rpc_async(self.module_rref.owner(), _forward, args=(self.module_rref, args, kwargs))

    def remote_parameters(self, recurse: bool = True) -> list[RRef[Parameter]]:
        """Return references to the parameters.

        Args:
            recurse: whether to include those of submodules.
        """
        return rpc_sync(self.module_rref.owner(), _parameters, args=(self.module_rref, recurse))

    def get_module_rref(self) -> RRef[Module]:
        """Return the reference to the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> RemoteModule:
        """Set the mode of the module: training or evaluation."""
        rpc_sync(self.module_rref.owner(), _train, args=(self.module_rref, mode))
        self.training = mode
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not in_message():
            raise RuntimeError(
                "RemoteModule: expected a remote call, got Cannot pickle RemoteModule in python pickler. "
                "RemoteModule can only be pickled when using RPC"
            )
        return RemoteModule.init_from_module_rref, (f"{_text(self.on)}/{self.device}", self.module_rref)

    def __repr__(self) -> str:
        return f"RemoteModule(on={self.on!r}, device={self.device})"


def _text(worker: str | int) -> str:
    return worker if isinstance(worker, str) else f"rank:{worker}"


_ELSEWHERE = {"parameters": "remote_parameters"}
_REFUSED = """
    register_buffer register_parameter add_module apply cuda ipu xpu cpu type float double half bfloat16 to
    register_backward_hook register_forward_pre_hook register_forward_hook state_dict load_state_dict
    parameters named_parameters buffers named_buffers children named_children modules named_modules
    requires_grad_ zero_grad share_memory extra_repr
""".split()


def _refusal(name: str) -> Callable[..., Any]:
    hint = f". Please use ``{_ELSEWHERE[name]}`` instead" if name in _ELSEWHERE else ""

    def method(self: RemoteModule, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(
            f"RemoteModule.{name}: Method ``{name}`` not supported for RemoteModule{hint}: "
            "expected a method that "
            "needs only the reference, got one that needs the module here"
        )

    method.__name__, method.__qualname__ = name, f"RemoteModule.{name}"
    method.__doc__ = "Raise ValueError: the module is in another worker."
    return method


for _name in _REFUSED:
    setattr(RemoteModule, _name, _refusal(_name))

__getattr__, __dir__ = attributes(__name__)
