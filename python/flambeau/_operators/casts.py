"""What autocast of CUDA does to functions that are written in Python and have no entry in the specification.

On the CPU autocast has no policy for them; the operators that they call cast.

In Python because it casts the arguments of functions that are written in Python. Calls `to`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from flambeau import _C
from flambeau._C import Tensor, dtype


def is_eligible(tensor: Tensor, kind: str) -> bool:
    """Whether autocast of a device type casts a tensor; it leaves float64 as it is."""
    return tensor.device.type == kind and tensor.is_floating_point() and tensor.dtype != _C.float64


def lower_precision(operands: Sequence[Tensor], kind: str) -> dtype | None:
    """The dtype of the region."""
    return _C.get_autocast_dtype(kind)


def promote(operands: Sequence[Tensor], kind: str) -> dtype | None:
    """The widest dtype among the operands; None where it is neither the region's nor float32."""
    given = {t.dtype for t in operands if t.device.type == kind and t.is_floating_point()}
    if given - {_C.get_autocast_dtype(kind), _C.float32}:
        return None
    return _C.float32 if _C.float32 in given else _C.get_autocast_dtype(kind)


Result = TypeVar("Result")
Policy = Callable[[Sequence[Tensor], str], dtype | None]


def with_casts(
    policy: Policy, function: Callable[[Sequence[Tensor]], Result], operands: Sequence[Tensor]
) -> Result:
    """Return what a function gives of operands; in a region of a device that casts as CUDA, of their casts.

    What the function consists of does not cast again.

    Args:
        policy: `lower_precision` or `promote`.
        function: the function of the list of operands.
        operands: one tensor or more; the device of the first one decides.
    """
    kind = "cpu" if operands[0].is_cpu else operands[0].device.type
    if kind == "cpu" or not _C._is_autocast_available(kind) or not _C.is_autocast_enabled(kind):
        return function(operands)
    wanted = policy(operands, kind)
    if wanted is not None:
        operands = [t.to(wanted) if is_eligible(t, kind) else t for t in operands]
    _C.set_autocast_enabled(kind, False)
    try:
        return function(operands)
    finally:
        _C.set_autocast_enabled(kind, True)
