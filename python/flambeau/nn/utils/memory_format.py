"""Laying the weights of convolutions out anew."""

from __future__ import annotations

from typing import Any, TypeVar

from flambeau.nn.modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from flambeau.nn.modules.module import Module

M = TypeVar("M", bound=Module)


def _convert(module: M, memory_format: Any, kinds: tuple[type, ...]) -> M:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Convert the weights of all `Conv2d` and `ConvTranspose2d` in a module to an order in memory.

    Args:
        module: the module, which is changed.
        memory_format: such as `flambeau.channels_last`.
    Returns: `module`.

    Example:
        >>> conv = flambeau.nn.Conv2d(2, 2, 3)
        >>> _ = flambeau.nn.utils.convert_conv2d_weight_memory_format(conv, flambeau.channels_last)
        >>> conv.weight.is_contiguous(memory_format=flambeau.channels_last)
        True
    """
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Convert the weights of all `Conv3d` and `ConvTranspose3d` in a module to an order in memory.

    Args:
        module: the module, which is changed.
        memory_format: such as `flambeau.channels_last_3d`.
    Returns: `module`.

    Example:
        >>> conv = flambeau.nn.Conv3d(2, 2, 3)
        >>> _ = flambeau.nn.utils.convert_conv3d_weight_memory_format(conv, flambeau.channels_last_3d)
        >>> conv.weight.is_contiguous(memory_format=flambeau.channels_last_3d)
        True
    """
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))
