"""Padding of tensors."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau
from flambeau import Tensor
from flambeau._C import _functions

__all__ = ["pad"]

# Number of padded dimensions -> numbers of dimensions of the inputs that take them.
_FITTING = {1: (2, 3), 2: (3, 4), 3: (4, 5)}


def _check_edges(input: Tensor, pad: Sequence[int], mode: str) -> None:
    dims = len(pad) // 2
    if dims not in _FITTING or input.dim() not in _FITTING[dims]:
        raise NotImplementedError(
            "pad: Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: "
            f"got {len(pad)} numbers for {input.dim()} dimensions in mode {mode}"
        )
    batched = input.dim() == _FITTING[dims][1]
    for d in range(1 if batched else 0, input.dim()):
        if input.size(d) == 0:
            raise RuntimeError(
                f"pad: expected {dims + 1} or {dims + 2} dimensions, empty in none but the batch, got "
                f"shape {list(input.shape)}"
            )


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Extend a tensor at its edges, or cut it.

    Args:
        input: the tensor.
        pad: the numbers of elements before and after the last dimension, then the one before it, and so on;
            negative numbers cut.
        mode: "constant"; "reflect" mirrors at the edge elements, which are not repeated; "replicate" repeats
            the edge elements; "circular" continues at the other end. All but "constant" take 1 to 3
            dimensions after batch and channels.
        value: the added value with "constant". None means 0.
    Shape: each dimension grows by its two numbers.
    Raises: RuntimeError for an odd number of lengths, too many of them, an empty dimension, or a value with
        another mode than "constant"; NotImplementedError for an unknown mode or a number of dimensions that
        it does not take; TypeError for arguments of another type.
    See also: nn.ConstantPad1d, nn.ReflectionPad2d, nn.ReplicationPad3d, nn.CircularPad1d

    Example:
        >>> x = flambeau.tensor([[1.0, 2.0, 3.0]])
        >>> flambeau.nn.functional.pad(x, (1, 2), mode="reflect")
        tensor([[2., 1., 2., 3., 2., 1.]])
    """
    if not isinstance(input, Tensor) or isinstance(pad, str) or not isinstance(mode, str):
        raise TypeError(f"pad: expected a Tensor, lengths and the name of a mode, got {input}, {pad}, {mode}")
    if len(pad) % 2:
        raise RuntimeError(f"pad: expected an even number of lengths, got {len(pad)}")
    if len(pad) > 2 * input.dim():
        raise RuntimeError(
            f"pad: expected at most {2 * input.dim()} lengths for {input.dim()} dimensions, got {len(pad)}"
        )
    if mode == "constant":
        return flambeau.constant_pad_nd(input, pad, 0.0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(
            f"pad: Padding mode '{mode}' doesn't take in value argument: expected 0 or None, got {value}"
        )
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"pad: expected mode 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}"
        )
    _check_edges(input, pad, mode)
    if mode == "replicate" or (mode == "reflect" and len(pad) < 6):  # those on PyTorch's list for the CPU
        return _functions._pad_edges_float32(input, pad, mode)
    return _functions._pad_edges(input, pad, mode)
