"""Distributed tensors made in place: each process makes its part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._api import DTensor, _mesh_of, distribute_tensor
from flambeau.distributed.tensor._placements import Partial, Placement, normalized
from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta, local_shape

_EXAMPLE = """

    Args:
        {arguments}
        dtype: the dtype; None: the default.
        layout: strided.
        requires_grad: whether operators on it are recorded.
        device_mesh: the mesh; None: all processes, in one dimension.
        placements: one per dimension of the mesh; None: `Replicate`.
    Returns: the tensor.
    Raises: ValueError for `Partial`, wrong placements or another layout.

    Example:
        >>> from flambeau.distributed import tensor
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> tensor.{call}, device_mesh=mesh, placements=[tensor.Shard(0)]).shape
        torch.Size([2, 3])
        >>> dist.destroy_process_group()
    """


def _documented(summary: str, arguments: str, call: str) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        function.__doc__ = summary + _EXAMPLE.format(arguments=arguments, call=call)
        function.__module__ = "flambeau.distributed.tensor"
        return function

    return add


_SIZE = "*size: the sizes of the whole, as integers or one sequence."


def _shape_of(size: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)


def _make(
    name: str,
    make: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: Any,
    layout: Any,
    requires_grad: bool,
    device_mesh: DeviceMesh | None,
    placements: Sequence[Placement] | None,
) -> Any:
    if layout is not flambeau.strided:
        raise ValueError(f"{name}: expected the layout strided, got {layout}")
    mesh = _mesh_of(device_mesh)
    placed = normalized(name, placements, mesh.ndim, len(shape))
    if any(isinstance(placement, Partial) for placement in placed):
        raise ValueError(f"{name}: expected Shard or Replicate, got {placed}")
    local = make(local_shape(mesh, placed, shape), dtype=dtype)
    strides = tuple(flambeau.empty(shape, device="meta").stride())
    spec = DTensorSpec(mesh, placed, TensorMeta(shape, strides, local.dtype))
    return DTensor(local, spec, requires_grad=requires_grad)


def _random(
    make: Callable[..., Any],
    shape: tuple[int, ...],
    dtype: Any,
    requires_grad: bool,
    mesh: DeviceMesh | None,
    placements: Any,
) -> Any:
    """Take parts of what one process would make, so that the numbers do not depend on the placements."""
    whole = make(shape, dtype=dtype).requires_grad_(requires_grad)
    return distribute_tensor(whole, mesh, placements)


@_documented("Return a distributed tensor of zeros.", _SIZE, "zeros(2, 3")
def zeros(
    *size: Any,
    dtype: Any = None,
    layout: Any = flambeau.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    options = dtype, layout, requires_grad, device_mesh, placements
    return _make("zeros", flambeau.zeros, _shape_of(size), *options)


@_documented("Return a distributed tensor of ones.", _SIZE, "ones(2, 3")
def ones(
    *size: Any,
    dtype: Any = None,
    layout: Any = flambeau.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    options = dtype, layout, requires_grad, device_mesh, placements
    return _make("ones", flambeau.ones, _shape_of(size), *options)


@_documented("Return a distributed tensor of whatever memory holds.", _SIZE, "empty(2, 3")
def empty(
    *size: Any,
    dtype: Any = None,
    layout: Any = flambeau.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    options = dtype, layout, requires_grad, device_mesh, placements
    return _make("empty", flambeau.empty, _shape_of(size), *options)


@_documented(
    "Return a distributed tensor of one number.",
    "size: the sizes of the whole.\n        fill_value: the number.",
    "full((2, 3), 7",
)
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = flambeau.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    def fill(shape: Sequence[int], dtype: Any) -> Any:
        return flambeau.full(shape, fill_value, dtype=dtype)

    options = dtype, layout, requires_grad, device_mesh, placements
    return _make("full", fill, _shape_of((size,)), *options)


@_documented("Return a distributed tensor of uniform numbers from 0 to 1.", _SIZE, "rand(2, 3")
def rand(
    *size: Any,
    dtype: Any = None,
    layout: Any = flambeau.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    return _random(flambeau.rand, _shape_of(size), dtype, requires_grad, device_mesh, placements)


@_documented("Return a distributed tensor of normal numbers.", _SIZE, "randn(2, 3")
def randn(
    *size: Any,
    dtype: Any = None,
    layout: Any = flambeau.strided,
    requires_grad: bool = False,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
) -> DTensor:
    return _random(flambeau.randn, _shape_of(size), dtype, requires_grad, device_mesh, placements)
