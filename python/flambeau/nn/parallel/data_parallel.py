"""The wrapper that spreads a batch over devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.nn.modules.module import Module
from flambeau.nn.parallel.parallel_apply import parallel_apply
from flambeau.nn.parallel.replicate import replicate
from flambeau.nn.parallel.scatter_gather import gather, scatter_kwargs


class DataParallel(Module):
    """Apply a layer to parts of a batch on several devices; where there is no device, to all of it here.

    No device can be used in this build, so that the layer is called as it is. Its state is below ``module.``.

    Args:
        module: the layer.
        device_ids: devices to use, of those that there are.
        output_device: where results are gathered.
        dim: the dimension of the batch.
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

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the layer."""
        return self.module(*inputs, **kwargs)

    replicate, scatter = staticmethod(replicate), staticmethod(scatter_kwargs)
    parallel_apply, gather = staticmethod(parallel_apply), staticmethod(gather)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[Any] | None = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call a layer as `DataParallel` does."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))
