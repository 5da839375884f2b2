"""DeviceMesh: the processes of a job as an array, whose dimensions have process groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau._object.subclass import DisableTorchDispatch
from flambeau.distributed._groups import NON_GROUP_MEMBER, default_group, get_rank, is_initialized, world
from flambeau.distributed._init import init_process_group, new_group
from flambeau.distributed._process_group import ProcessGroup

__all__ = ["DeviceMesh", "init_device_mesh"]


def _ranks_of(mesh: Any) -> Tensor:
    ranks = mesh.detach().clone() if isinstance(mesh, Tensor) else flambeau.tensor(mesh, device="cpu")
    if ranks.dtype.is_floating_point or ranks.dtype.is_complex or ranks.dtype is flambeau.bool:
        raise TypeError(f"DeviceMesh: expected integers as ranks, got {ranks.dtype}")
    ranks = ranks.to(flambeau.int32).contiguous()
    if ranks.numel() == 0 or ranks.unique().numel() != ranks.numel():
        raise ValueError(f"DeviceMesh: expected each rank once, got {ranks.tolist()}")
    return ranks


def _names_of(name: str, given: Any, dimensions: int) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else tuple(given)
    if len(names) != dimensions:
        raise RuntimeError(
            f"{name}: mesh_shape and mesh_dim_names should have same length: expected {dimensions} names, "
            f"got {names}"
        )
    if len(set(names)) != len(names):
        raise RuntimeError(
            f"{name}: Each mesh_dim_name must be unique: expected different names, got {names}"
        )
    return names


class DeviceMesh:
    """The processes of a job as an array; each dimension has a group of the processes along it.

    All processes make the same mesh in the same order of calls. A mesh whose dimensions have names can be
    sliced by them: ``mesh["tp"]``, ``mesh["dp", "tp"]``.

    Args:
        device_type: the device of the tensors: "cpu".
        mesh: the ranks, as an array of integers.
        mesh_dim_names: a name for each dimension; None: the dimensions have none.
        backend_override: not supported; None.

    Attributes:
        mesh: the ranks, as a tensor.
        device_type: the device of the tensors.
        mesh_dim_names: the names of the dimensions, or None.
    Raises: ValueError for a rank that occurs twice; RuntimeError for ranks that are not in the job, or wrong
        names; TypeError for ranks that are not integers.
    See also: init_device_mesh

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> mesh = dist.DeviceMesh("cpu", [[0]], mesh_dim_names=("dp", "tp"))
        >>> mesh.shape, mesh["tp"].size(), mesh.get_local_rank("dp")
        ((1, 1), 1, 0)
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        backend_override: Any = None,
    ) -> None:
        if device_type != "cpu":
            raise ValueError(f"DeviceMesh: expected cpu as device_type, got {device_type!r}")
        if backend_override is not None:
            raise ValueError(f"DeviceMesh: expected None as backend_override, got {backend_override!r}")
        self.device_type, self.mesh = device_type, _ranks_of(mesh)
        self.mesh_dim_names = _names_of("DeviceMesh", mesh_dim_names, self.mesh.dim())
        self._root: DeviceMesh = self
        self._flattened: dict[str, DeviceMesh] = {}
        if not is_initialized():
            init_process_group()
        size = default_group().size()
        ranks = self.mesh.flatten().tolist()
        if not 0 <= min(ranks) <= max(ranks) < size:
            raise RuntimeError(
                f"DeviceMesh: expected ranks from 0 to {size - 1}, got {ranks}: Mesh should not be bigger "
                f"than default world size {size}"
            )
        self._groups = [self._group_along(dim) for dim in range(self.mesh.dim())]

    def _group_along(self, dim: int) -> Any:
        """Make the groups along a dimension, and return this process's."""
        lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.size(dim)).tolist()
        whole = default_group()
        if len(lines) == 1 and tuple(lines[0]) == whole.global_ranks:
            return whole
        made = [new_group(line) for line in lines]  # all processes take part in making each of them
        return next((g for g in made if g is not NON_GROUP_MEMBER), None)

    @classmethod
    def _of(cls, root: DeviceMesh, ranks: Tensor, names: tuple[str, ...], groups: list[Any]) -> DeviceMesh:
        made = cls.__new__(cls)
        made.device_type, made.mesh, made.mesh_dim_names = root.device_type, ranks, names
        made._root, made._flattened, made._groups = root, {}, groups
        return made

    # --- questions ---------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.mesh.dim()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """Return the number of processes, of the mesh or along a dimension.

        Args:
            mesh_dim: the dimension; None: the whole mesh.
        """
        return self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim)

    def _place(self, name: str, mesh_dim: int | str | None) -> int:
        """Return the number of a dimension."""
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"{name}: Found the DeviceMesh have {self.ndim} dimensions: expected mesh_dim to choose "
                    "one, got None: Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim "
                    "> 1."
                )
            return 0
        if isinstance(mesh_dim, str):
            if mesh_dim not in (self.mesh_dim_names or ()):
                raise KeyError(f"{name}: expected one of {self.mesh_dim_names}, got {mesh_dim!r}")
            return (self.mesh_dim_names or ()).index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"{name}: expected mesh_dim below {self.ndim}, got {mesh_dim}")
        return mesh_dim % self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of this process along a dimension.

        Args:
            mesh_dim: the dimension, by number or name; None: the only one.
        Returns: the group.
        Raises: RuntimeError for None with several dimensions, or in a process outside of the mesh; KeyError,
            IndexError for a dimension that the mesh lacks.
        """
        found = self._flattened_of(mesh_dim)
        if found is not None:
            return found.get_group()
        group = self._groups[self._place("get_group", mesh_dim)]
        if group is None:
            raise RuntimeError(f"get_group: expected a process of the mesh, got rank {get_rank()}")
        return group

    def _flattened_of(self, name: Any) -> DeviceMesh | None:
        if not isinstance(name, str) or name in (self.mesh_dim_names or ()):
            return None
        return self._root._flattened.get(name)

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups of this process, one per dimension."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_coordinate(self) -> list[int] | None:
        """Return the place of this process in the mesh; None for a process outside of it."""
        with DisableTorchDispatch():  # a mode would see its own kind of tensors
            found = (self.mesh == get_rank()).nonzero().tolist()
        return found[0] if found else None

    def get_rank(self) -> int:
        """Return the rank of this process in the job."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the place of this process along a dimension.

        Args:
            mesh_dim: the dimension, by number or name; None: the only one.
        Raises: as `get_group`.
        """
        return get_rank(self.get_group(mesh_dim))

    # --- other meshes ------------------------------------------------------------------------------

    def __getitem__(self, mesh_dim_names: str | tuple[str, ...]) -> DeviceMesh:
        names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
        if self.mesh_dim_names is None:
            raise RuntimeError(
                "DeviceMesh: expected a mesh with names, got one without: Cannot slice a DeviceMesh"
            )
        flat = self._flattened_of(names[0]) if len(names) == 1 else None
        if flat is not None:
            return flat
        if not set(names) <= set(self.mesh_dim_names) or not names:
            raise KeyError(
                f"DeviceMesh: Invalid mesh_dim_names {names} specified: expected names among "
                f"{self.mesh_dim_names}"
            )
        places = [self.mesh_dim_names.index(name) for name in names]
        if places != sorted(set(places)):
            raise KeyError(
                f"DeviceMesh: Invalid mesh_dim_names {names} specified: expected the order of "
                f"{self.mesh_dim_names}"
            )
        if names == self.mesh_dim_names:
            return self
        here = self.get_coordinate() or [0] * self.ndim
        index = tuple(slice(None) if d in places else here[d] for d in range(self.ndim))
        with DisableTorchDispatch():
            ranks = self.mesh[index]
        return self._of(self._root, ranks, names, [self._groups[d] for d in places])

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """Return the mesh as one dimension, which the whole mesh then knows by a name.

        Args:
            mesh_dim_name: the name; None: the names of the dimensions, joined by "_".
        """
        root = self._root
        name = "_".join(self.mesh_dim_names or ()) if mesh_dim_name is None else mesh_dim_name
        if not name:
            raise RuntimeError(
                "_flatten: expected a mesh with names, got one without: Cannot flatten a DeviceMesh"
            )
        if name in (root.mesh_dim_names or ()):
            raise ValueError(f"_flatten: expected a new name, got {name!r}, which a dimension has")
        known = root._flattened.get(name)
        if known is not None:
            if known.mesh.tolist() != self.mesh.flatten().tolist():
                raise ValueError(f"_flatten: expected a new name, got {name!r}, which another mesh has")
            return known
        if self.ndim == 1:
            group = self._groups[0]
        else:  # each process makes the group of all meshes like its own
            group = root._group_of_parts(self.mesh_dim_names or ())
        made = self._of(root, self.mesh.flatten(), (name,), [group])
        root._flattened[name] = made
        return made

    def _group_of_parts(self, names: tuple[str, ...]) -> Any:
        places = [(self.mesh_dim_names or ()).index(name) for name in names]
        others = [d for d in range(self.ndim) if d not in places]
        size = math.prod(self.mesh.size(d) for d in places)
        lines = self.mesh.permute([*others, *places]).reshape(-1, size).tolist()
        made = [new_group(line) for line in lines]
        return next((g for g in made if g is not NON_GROUP_MEMBER), None)

    @staticmethod
    def from_group(
        group: ProcessGroup,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """Return the mesh of one dimension of a group's processes.

        Args:
            group: the group.
            device_type: the device of the tensors: "cpu".
            mesh: the ranks of the group, or None.
            mesh_dim_names: the name of the dimension, in a tuple, or None.
        Returns: the mesh, which uses the group itself.
        Raises: ValueError for other ranks than those of the group, or several groups.
        """
        if not isinstance(group, ProcessGroup):
            raise ValueError(f"from_group: expected one ProcessGroup, got {type(group).__name__}")
        if device_type != "cpu":
            raise ValueError(f"from_group: expected cpu as device_type, got {device_type!r}")
        ranks = list(group.global_ranks)
        given = ranks if mesh is None else _ranks_of(mesh).tolist()
        if given != ranks:
            raise ValueError(
                f"from_group: Invalid mesh: expected the ranks {ranks} of the group, got {given}"
            )
        made = DeviceMesh.__new__(DeviceMesh)
        made.device_type, made.mesh = device_type, _ranks_of(ranks)
        made.mesh_dim_names = _names_of("from_group", mesh_dim_names, 1)
        made._root, made._flattened, made._groups = made, {}, [group]
        return made

    # --- as a value --------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        names = [None if group is None else group.group_name for group in self._groups]
        return {
            "device_type": self.device_type,
            "mesh": self.mesh,
            "mesh_dim_names": self.mesh_dim_names,
            "_root": self._root,
            "_flattened": self._flattened,
            "_groups": names,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Find the groups by their names; in another job, the mesh has none."""
        vars(self).update(state)
        ranks = set(self.mesh.flatten().tolist())
        found = [world.groups.get(name) for name in state["_groups"]]
        self._groups = [
            group
            if group is not None and group.size() == size and ranks.issuperset(group.global_ranks)
            else None
            for group, size in zip(found, self.shape, strict=True)
        ]

    def _facts(self) -> tuple[Any, ...]:
        return self.device_type, self.shape, tuple(self.mesh.flatten().tolist()), self.mesh_dim_names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceMesh) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def __repr__(self) -> str:
        names = self.mesh_dim_names
        shown = ", ".join(f"{n}={s}" for n, s in zip(names, self.shape, strict=True)) if names else ""
        strides = tuple(
            stride if size > 1 else () for size, stride in zip(self.shape, self.mesh.stride(), strict=True)
        )
        shape = f"({shown})" if names else str(self.shape)
        return f"DeviceMesh({shape}, {self.device_type!r}, stride={strides})"


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Return the mesh of the processes of the job, with ranks in row-major order.

    Args:
        device_type: the device of the tensors: "cpu".
        mesh_shape: the sizes of the dimensions, whose product is the number of processes at most.
        mesh_dim_names: a name for each dimension; None: the dimensions have none.
        backend_override: not supported; None.
    Returns: the mesh.
    Raises: RuntimeError for wrong names, or more processes than there are; ValueError for another device.

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> dist.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
        DeviceMesh((dp=1, tp=1), 'cpu', stride=((), ()))
        >>> dist.destroy_process_group()
    """
    shape = (mesh_shape,) if isinstance(mesh_shape, int) else tuple(mesh_shape)
    if not shape or any(not isinstance(size, int) or size < 1 for size in shape):
        raise ValueError(f"init_device_mesh: expected positive sizes, got {mesh_shape}")
    names = _names_of("init_device_mesh", mesh_dim_names, len(shape))
    ranks = flambeau.arange(math.prod(shape), dtype=flambeau.int32, device="cpu").view(shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=names, backend_override=backend_override)


DeviceMesh.__module__ = init_device_mesh.__module__ = "flambeau.distributed.device_mesh"

# Names that PyTorch's module has too.
_ELSEWHERE = "GroupName get_backend get_process_group_ranks get_world_size is_available split_group".split()

__getattr__, __dir__ = attributes(
    __name__,
    dict.fromkeys(_ELSEWHERE, "flambeau.distributed") | {"C10dBackend": "flambeau.distributed._unbuilt"},
)
