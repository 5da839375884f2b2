"""Data parallel training over processes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]

_MEBIBYTE = 1 << 20


class DistributedDataParallel(Module):
    """Wraps a layer whose gradients are averaged over processes, each with a part of the batch.

    Parameters and buffers of the process of rank 0 are copied to all at first. Gradients are averaged in
    buckets, each as soon as backward has computed it, so that communication and computation overlap. Buffers
    are copied from rank 0 before each forward pass. All processes must run the same passes.

    Args:
        module: the layer, of the same structure in all processes.
        device_ids: None, or an empty list: the layer is on the CPU.
        output_device: None.
        dim: no effect.
        broadcast_buffers: whether buffers are copied from rank 0 before each forward pass.
        init_sync: whether parameters and buffers are compared and copied at first.
        process_group: the processes; None: all.
        bucket_cap_mb: the size of a bucket in MiB. Default: 25; the first one has 1.
        find_unused_parameters: whether backward may leave parameters out, which the graph then tells.
        check_reduction: no effect.
        gradient_as_bucket_view: whether gradients are views of the buckets, which saves their memory; they
            must then not be detached in place.
        static_graph: whether each pass uses the same parameters, which the first one finds.
        delay_all_reduce_named_params: not supported; None.
        param_to_hook_all_reduce: not supported; None.
        mixed_precision: not supported; None.
        device_mesh: not supported; None.
        skip_all_reduce_unused_params: no effect.

    Attributes:
        module: the layer.
    Shape: as `module`.
    Raises: RuntimeError if no parameter needs gradients, or shapes differ between processes; ValueError for
        devices or options that are not supported; TypeError if parameters are not initialized.
    Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
    See also: distributed.init_process_group, DataParallel

    Example:
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> layer = flambeau.nn.parallel.DistributedDataParallel(flambeau.nn.Linear(2, 1))
        >>> layer(flambeau.ones(3, 2)).sum().backward()
        >>> layer.module.weight.grad
        tensor([[3., 3.]])
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:
        from flambeau.distributed._groups import default_group

        super().__init__()
        further = (delay_all_reduce_named_params, param_to_hook_all_reduce, mixed_precision, device_mesh)
        _check_options(module, device_ids, output_device, further)
        self.module, self.dim, self.device_ids, self.output_device = module, dim, None, None
        self.process_group = default_group() if process_group is None else process_group
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * _MEBIBYTE)
        self.require_backward_grad_sync = True
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._hook: tuple[Any, Any] | None = None
        self._join_config: Any = None  # distributed.algorithms.Join sets it
        self._divides_by_initial_size = True
        self._trained()
        if init_sync:
            self._compare()
            self._copy_from([t for _, t in self._kept()], 0)
        self._make_buckets()

    def _trained(self) -> list[tuple[str, Tensor]]:
        """Return names and parameters with gradients. Raises: RuntimeError if there are none."""
        named: list[tuple[str, Tensor]] = list(self.module.named_parameters())
        found = [(n, p) for n, p in named if p.requires_grad and n not in self.parameters_to_ignore]
        if not found:
            raise RuntimeError(
                "DistributedDataParallel: is not needed when a module doesn't have any parameters that "
                "require a gradient: expected such parameters, got none"
            )
        return found

    def _kept(self) -> list[tuple[str, Tensor]]:
        """Return names and tensors of the module that all processes share."""
        named = [*self.module.named_parameters(), *self.module.named_buffers()]
        return [(name, tensor) for name, tensor in named if name not in self.parameters_to_ignore]

    def _make_buckets(self) -> None:
        from flambeau.distributed._buckets import Buckets

        names, parameters = zip(*self._trained(), strict=True)
        group = self.process_group
        self._buckets = Buckets(parameters, group, self.bucket_bytes_cap, self.gradient_as_bucket_view, names)
        self._static_unused: list[Tensor] | None = None

    def _compare(self) -> None:
        """Raise RuntimeError if the tensors of the processes have other names, shapes or dtypes."""
        from flambeau.distributed._objects import all_gather_object

        mine = [(name, tuple(t.shape), str(t.dtype), t.requires_grad) for name, t in self._kept()]
        everyone: list[Any] = [None] * self.process_group.size()
        all_gather_object(everyone, mine, self.process_group)
        for rank, theirs in enumerate(everyone):
            if theirs != mine:
                pairs = zip([*theirs, *[None] * len(mine)], [*mine, *[None] * len(theirs)], strict=False)
                other, own = next((a, b) for a, b in pairs if a != b)
                raise RuntimeError(
                    "DistributedDataParallel: expected the same parameters in all processes, got "
                    f"{own} in rank {self.process_group.rank()} and {other} in rank {rank}"
                )

    def _copy_from(self, tensors: list[Tensor], source: int) -> None:
        """Copy tensors of the process of one rank to all, those of one dtype together."""
        from flambeau.distributed._collectives import broadcast

        by_dtype: dict[Any, list[Tensor]] = {}
        for tensor in tensors:
            by_dtype.setdefault(tensor.dtype, []).append(tensor)
        with flambeau.no_grad():
            for same in by_dtype.values():
                flat = flambeau.cat([t.detach().reshape(-1) for t in same])
                broadcast(flat, group=self.process_group, group_src=source)
                if self.process_group.rank() == source:
                    continue
                for tensor, part in zip(same, flat.split([t.numel() for t in same]), strict=True):
                    tensor.detach().copy_(part.view(tensor.shape))

    def _buffers_to_copy(self) -> list[Tensor]:
        return [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]

    def _copy_buffers(self, source: int) -> None:
        self._copy_from(self._buffers_to_copy(), source)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the layer, and expect backward unless in `no_sync`."""
        from flambeau.distributed._joined_passes import begin_pass

        syncs = flambeau.is_grad_enabled() and self.require_backward_grad_sync
        copies = self.require_backward_grad_sync and self.broadcast_buffers and bool(self._buffers_to_copy())
        source, self._buckets.divisor = begin_pass(self, syncs, copies)
        if copies:
            self._copy_buffers(source)
        output = self.module(*inputs, **kwargs)
        if syncs:
            self._buckets.prepare(self._unused(output))
        return output

    def _reduce_accumulated(self) -> None:
        """Average the gradients that passes in `no_sync` have accumulated, outside of backward."""
        trained = [parameter for _, parameter in self._trained()]
        unused = [p for p in trained if p.grad is None]
        self._buckets.prepare(unused if self.find_unused_parameters or self.static_graph else None)
        for parameter in trained:
            self._buckets._ready(parameter)

    def _begin_accumulated(self) -> bool:
        """Let the next backward pass average its gradients, and those that `no_sync` has accumulated.

        Returns: whether it does; with unknown unused parameters, only `_reduce_accumulated` can.
        """
        if self.find_unused_parameters or self.static_graph:
            return False
        self._buckets.prepare(None)
        self._buckets.watches_repeats = True
        return True

    def _end_accumulated(self) -> None:
        """Average what the pass after `_begin_accumulated` did not reach.

        Raises: RuntimeError if the pass added to a gradient after its reduction had started.
        """
        repeats = self._buckets.has_repeats
        for _, parameter in self._trained():
            self._buckets._ready(parameter)
        self._buckets.disarm()
        if repeats:
            raise RuntimeError(
                "DistributedDataParallel: expected one addition to each gradient in a backward pass, got "
                "several; checkpoints with use_reentrant=True that share a parameter need use_reentrant=False"
            )

    def _unused(self, output: Any) -> list[Tensor] | None:
        """Return the parameters that backward will not reach; None where it must reach all."""
        from flambeau.distributed._buckets import reached

        if not (self.find_unused_parameters or self.static_graph):
            return None
        if self.static_graph and self._static_unused is not None:
            return self._static_unused
        found = reached(output)
        self._static_unused = [p for _, p in self._trained() if id(p) not in found]
        return self._static_unused

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients as they are within the block; the next pass averages what has accumulated."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Any:
        """Allow the processes different numbers of batches within the block.

        A process that leaves the block takes part in the passes of the others, with gradients of zero. At the
        end all processes have the parameters and buffers of one that ran the most passes. Within the block,
        buffers are copied from the highest rank that has batches.

        Args:
            divide_by_initial_world_size: whether gradients are divided by the number of all processes; False:
                of those that have batches.
            enable: False: the block has no effect.
            throw_on_early_termination: whether all processes raise RuntimeError as soon as one has no further
                batch.
        Returns: a `distributed.algorithms.Join`, to be used in a ``with`` statement.
        """
        from flambeau.distributed.algorithms.join import Join

        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> Any:
        """Return what `distributed.algorithms.Join` runs in a process without further batches.

        Args:
            **kwargs: ``divide_by_initial_world_size``, as in `join`; other names have no effect.
        """
        from flambeau.distributed._joined_passes import DataParallelJoinHook

        self._divides_by_initial_size = kwargs.get("divide_by_initial_world_size", True)
        return DataParallelJoinHook(self)

    @property
    def join_device(self) -> flambeau.device:
        """The device of the layer."""
        return flambeau.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Let a function reduce the buckets in place of the average.

        Args:
            state: what the function gets first.
            hook: called with the state and a `distributed.GradBucket`; returns a future of the result.

        Raises: TypeError unless `hook` can be called; RuntimeError for a second hook.
        """
        if not callable(hook):
            raise TypeError(f"register_comm_hook: expected a callable hook, got {type(hook).__name__}")
        if self._hook is not None:
            raise RuntimeError(
                "register_comm_hook: register_comm_hook can only be called once: got a second hook"
            )
        self._hook = (state, hook)
        self._buckets.set_hook(state, hook)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("process_group", "_buckets", "_static_unused"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        from flambeau.distributed._groups import default_group

        super().__setstate__(state)
        self.process_group = default_group()
        self._make_buckets()
        if self._hook is not None:
            self._buckets.set_hook(*self._hook)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Any
    ) -> None:
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore


def _check_options(module: Module, device_ids: Any, output_device: Any, further: tuple[Any, ...]) -> None:
    name = "DistributedDataParallel"
    if not isinstance(module, Module):
        raise TypeError(f"{name}: expected a Module, got {type(module).__name__}")
    if device_ids or output_device is not None:
        raise ValueError(
            f"{name}: device_ids and output_device arguments only work with "
            "single-device/multiple-device GPU "
            f"modules: expected None for a layer on the CPU, got {device_ids} and {output_device}"
        )
    if any(option is not None for option in further):
        raise ValueError(
            f"{name}: expected None for delay_all_reduce_named_params, param_to_hook_all_reduce, "
            f"mixed_precision and device_mesh, got {further}"
        )
    uninitialized = flambeau.nn.parameter.UninitializedParameter
    if any(isinstance(p, uninitialized) for p in module.parameters()):
        raise RuntimeError(
            f"{name}: Modules with uninitialized parameters can't be used with `DistributedDataParallel`: "
            "expected initialized parameters, got lazy ones; run a forward pass first"
        )


__getattr__, __dir__ = attributes(__name__)
