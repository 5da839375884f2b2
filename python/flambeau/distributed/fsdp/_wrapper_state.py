"""What `FullyShardedDataParallel` does around passes: a group with one flat parameter, and its processes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._groups import default_group, get_world_size
from flambeau.distributed._process_group import ProcessGroup
from flambeau.distributed.device_mesh import DeviceMesh, init_device_mesh
from flambeau.distributed.fsdp._flat import FlatParts
from flambeau.distributed.fsdp._group import ParameterGroup
from flambeau.distributed.fsdp._layout import Layout
from flambeau.distributed.fsdp._policies import MixedPrecisionPolicy
from flambeau.distributed.fsdp._state import ModuleState, cast_to
from flambeau.distributed.fsdp._transfers import AllGather, ReduceScatter
from flambeau.distributed.fsdp.api import BackwardPrefetch, MixedPrecision, ShardingStrategy
from flambeau.nn.modules.module import Module
from flambeau.utils._pytree import tree_map

_NAME = "FullyShardedDataParallel"
HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)


class _CopyOfOne(AllGather):
    """Gathers among one process."""

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, *_: Any, **__: Any) -> None:
        output_tensor.copy_(input_tensor)


class _SumOfOne(ReduceScatter):
    """Reduces among one process."""

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, *_: Any, **__: Any) -> None:
        output_tensor.copy_(input_tensor)


class _Hooked(ReduceScatter):
    """Lets a function of the program reduce gradients."""

    def __init__(self, state: object, hook: Callable[..., object], is_divided: bool) -> None:
        self._state, self._hook, self._is_divided = state, hook, is_divided

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, *_: Any, **__: Any) -> None:
        if self._is_divided:
            self._hook(self._state, input_tensor, output_tensor)
        else:
            self._hook(self._state, input_tensor)
            output_tensor.copy_(input_tensor)


class FlatGroup(ParameterGroup):
    """The group of one flat parameter."""

    def __init__(self, parts: FlatParts, policy: MixedPrecisionPolicy, reshards: bool | None) -> None:
        super().__init__([parts], parts.layout, policy, reshards, None)
        self.flat, self.is_hooked = parts, False
        if parts.layout.size == 1:
            self.gathers, self.scatters = _CopyOfOne(), _SumOfOne()

    def start_unshard(self) -> None:
        """Start to gather the parameters, unless each process has them."""
        if not self.flat.shares_memory(self.policy.param_dtype):
            super().start_unshard()

    def unshard(self) -> None:
        """Give the module the whole parameters."""
        if self._is_whole or not self.flat.shares_memory(self.policy.param_dtype):
            super().unshard()
            return
        with flambeau.inference_mode(False), flambeau.no_grad():
            self.flat.share_memory()
            self.flat.use_whole()
        self._is_whole = True

    def set_hook(self, state: object, hook: Callable[..., object]) -> None:
        """Let a function reduce the gradients, and divide them."""
        self.is_hooked, self.divisor = True, 1.0
        self.scatters = _Hooked(state, hook, self.layout.size > 1)
        self.layout = Layout(self.layout.mesh, self.layout.group)  # the function adds over copies, too


class WrapperState(ModuleState):
    """The state of one `FullyShardedDataParallel`.

    Args:
        module: the wrapper.
        precision: the dtypes.
        prefetch: when backward gathers the next parameters; None: when it needs them.
        prefetches_forward: whether forward gathers those of the next module.
    """

    def __init__(
        self,
        module: Module,
        precision: MixedPrecision,
        prefetch: BackwardPrefetch | None,
        prefetches_forward: bool,
    ) -> None:
        policy = MixedPrecisionPolicy(
            precision.param_dtype,
            precision.reduce_dtype,
            cast_forward_inputs=precision.cast_forward_inputs,
        )
        super().__init__((module,), policy)
        self.precision, self._prefetch = precision, prefetch
        self.forward_prefetch = None if prefetches_forward else []
        self.backward_prefetch = None if prefetch is BackwardPrefetch.BACKWARD_PRE else []

    def before_forward(self, module: Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Gather the parameters, and cast the arguments."""
        if vars(module).get("_is_summoned"):
            raise RuntimeError(f"{_NAME}: expected no pass within summon_full_params, got a call")
        iteration = self.begin()
        dtype = self.precision.param_dtype
        if self.is_root:
            if not iteration.is_in_backward:
                for group in iteration.groups:  # an optimizer may have changed the parts since
                    if group.is_whole:
                        group.reshard()
            if self.precision.cast_root_forward_inputs and dtype is not None:
                args, kwargs = tree_map(cast_to(dtype), (args, kwargs))
        return super().before_forward(module, args, kwargs)

    def after_backward(self) -> None:
        """Free the parameters, and start to reduce their gradients."""
        if self._prefetch is BackwardPrefetch.BACKWARD_POST and self.group is not None:
            iteration = self.begin()
            iteration.begin_backward()
            iteration.prefetch_before(self.group, None)
        super().after_backward()


# --- the processes -------------------------------------------------------------------------------------


def _mesh_of(group: ProcessGroup) -> DeviceMesh:
    mesh: DeviceMesh = vars(group).setdefault("_fsdp_mesh", DeviceMesh.from_group(group, "cpu"))
    return mesh


def hybrid_mesh() -> DeviceMesh:
    """Return a mesh with one row per machine; all processes call this."""
    size = get_world_size()
    local = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    rows = size // local if local > 0 and size % local == 0 else 1
    return init_device_mesh("cpu", (rows, size // rows), mesh_dim_names=("copies", "parts"))


def layout_for(strategy: ShardingStrategy, process_group: Any, mesh: DeviceMesh | None) -> Layout:
    """Return the processes that have parts, and those that have copies of them.

    Raises: ValueError for a group or a mesh that the strategy cannot use; TypeError for other objects.
    """
    if mesh is not None:
        return _layout_of_mesh(strategy, process_group, mesh)
    if strategy in HYBRID:
        return _layout_of_pair(process_group)
    group = default_group() if process_group is None else process_group
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"{_NAME}: expected a ProcessGroup as process_group, got {group!r}")
    return _divided(strategy, _mesh_of(group), group)


def _layout_of_mesh(strategy: ShardingStrategy, process_group: Any, mesh: Any) -> Layout:
    if process_group is not None:
        raise ValueError(
            f"{_NAME}: Cannot pass both process_group and device_mesh at the same time: expected one of "
            "them, got both"
        )
    if not isinstance(mesh, DeviceMesh):
        raise TypeError(f"{_NAME}: expected a DeviceMesh as device_mesh, got {type(mesh).__name__}")
    expected = 2 if strategy in HYBRID else 1
    if mesh.ndim != expected:
        raise ValueError(
            f"{_NAME}: expected a device_mesh of {expected} dimensions for {strategy}, got {mesh.ndim}"
        )
    if expected == 2:
        return Layout(mesh, mesh.get_group(1), mesh.get_group(0))
    return _divided(strategy, mesh, mesh.get_group())


def _layout_of_pair(pair: Any) -> Layout:
    if pair is None:
        raise ValueError(
            f"{_NAME}: Manual wrapping with a hybrid strategy requires explicit specification of process "
            "group or device_mesh: expected one of them, got neither"
        )
    is_pair = isinstance(pair, tuple) and len(pair) == 2
    if not is_pair or not all(isinstance(each, ProcessGroup) for each in pair):
        raise ValueError(
            f"{_NAME}: expected two process groups, of the parts and of the copies, as process_group, got "
            f"{pair!r}"
        )
    parts, copies = pair
    return Layout(_mesh_of(parts), parts, copies)


def _divided(strategy: ShardingStrategy, mesh: DeviceMesh, group: ProcessGroup) -> Layout:
    if strategy is ShardingStrategy.NO_SHARD or group.size() == 1:
        return Layout(mesh, ProcessGroup(0, 1), group)
    return Layout(mesh, group)
