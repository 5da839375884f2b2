"""The wrapper that spreads a batch over devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.parallel_apply import parallel_apply
from flambeau.nn.parallel.replicate import replicate
from flambeau.nn.parallel.scatter_gather import gather, scatter_kwargs


class DataParallel(Module):
    """Wrapper that applies a module to parts of a batch on several devices; without such devices, to all of
    it here.

    This build uses no devices but the CPU, so the module is called as it is. Its state is below ``module.``.

    Args:
        module: the module.
        device_ids: the devices to use, of those that there are. None means all.
        output_device: where results are gathered. None means the first device.
        dim: the dimension of the batch.
    Shape: as for `module`.
    See also: nn.parallel.data_parallel

    Example:
        >>> layer = flambeau.nn.DataParallel(flambeau.nn.Linear(2, 3))
        >>> layer(flambeau.zeros(4, 2)).shape
        flambeau.Size([4, 3])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the layer."""
        return self.module(*inputs, **kwargs)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Module]:
        """Return copies of a layer on devices."""
        return replicate(module, device_ids)

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Sequence[Any]) -> Any:
        """Return the parts of a batch on devices."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def parallel_apply(self, replicas: Sequence[Module], inputs: Any, kwargs: Any) -> list[Any]:
        """Return what each copy gives for its part."""
        return parallel_apply(replicas, inputs, kwargs)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """Return the parts of a result as one."""
        return gather(outputs, output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a module on parts of a batch on several devices, as `DataParallel` does.

    This build uses no devices but the CPU, so the module is called as it is.

    Args:
        module: the module.
        inputs: its argument, or a tuple of its arguments.
        device_ids: the devices to use.
        output_device: where results are gathered.
        dim: the dimension of the batch.
        module_kwargs: its arguments by keyword.
    Returns: what the module returns.

    Example:
        >>> flambeau.nn.parallel.data_parallel(flambeau.nn.ReLU(), flambeau.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))
