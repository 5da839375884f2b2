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
        flambeau.Size([2, 3])
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


def _factory(name: str, summary: str, arguments: str, call: str, make: Callable[..., Any]) -> Any:
    """Return a public factory; `make` gets the sizes, and what `_make` takes."""

    def factory(
        *size: Any,
        dtype: Any = None,
        layout: Any = flambeau.strided,
        requires_grad: bool = False,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        return make(size, dtype, layout, requires_grad, device_mesh, placements)

    factory.__name__ = factory.__qualname__ = name
    return _documented(f"Return a distributed tensor of {summary}.", arguments, call)(factory)


def _plain(name: str, summary: str) -> Any:
    def make(size: Any, *options: Any) -> Any:
        return _make(name, getattr(flambeau, name), _shape_of(size), *options)

    return _factory(name, summary, _SIZE, f"{name}(2, 3", make)


def _drawn(name: str, summary: str) -> Any:
    def make(size: Any, dtype: Any, layout: Any, requires_grad: bool, *place: Any) -> Any:
        return _random(getattr(flambeau, name), _shape_of(size), dtype, requires_grad, *place)

    return _factory(name, summary, _SIZE, f"{name}(2, 3", make)


zeros = _plain("zeros", "zeros")
ones = _plain("ones", "ones")
empty = _plain("empty", "whatever memory holds")
rand = _drawn("rand", "uniform numbers from 0 to 1")
randn = _drawn("randn", "normal numbers")


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
