"""FSDPModule: the methods of a sharded module."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from flambeau import Tensor
from flambeau.distributed.fsdp._group import ParameterGroup
from flambeau.distributed.fsdp._layout import group_of
from flambeau.distributed.fsdp._state import ModuleState, state_of
from flambeau.nn.modules.module import Module

__all__ = ["FSDPModule", "UnshardHandle", "register_fsdp_forward_method", "share_comm_ctx"]


class UnshardHandle:
    """The gathering of a module's parameters that `FSDPModule.unshard` has started.

    Example:
        >>> flambeau.distributed.fsdp.UnshardHandle().wait()
    """

    def wait(self) -> None:
        """Wait until the module has the whole parameters."""


class _GroupHandle(UnshardHandle):
    def __init__(self, group: ParameterGroup | None) -> None:
        self._group = group

    def wait(self) -> None:
        """Wait until the module has the whole parameters."""
        group, self._group = self._group, None
        if group is not None:
            group.unshard()


class FSDPModule:
    """The methods that `fully_shard` gives a module; the module's class becomes a subclass of this one.

    Methods without `recurse` in their arguments act on the module alone, not on those inside it.

    Example:
        >>> from flambeau.distributed.fsdp import FSDPModule, fully_shard
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> layer = fully_shard(flambeau.nn.Linear(2, 2))
        >>> isinstance(layer, FSDPModule), type(layer).__name__, type(layer.weight).__name__
        (True, 'FSDPLinear', 'DTensor')
        >>> layer.unshard()
        >>> type(layer.weight).__name__
        'Parameter'
        >>> dist.destroy_process_group()
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a module of the class that was sharded: its parameters are whole."""
        original = cls.__mro__[2]
        return original(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise AssertionError(
            "fully_shard: FSDP does not support deepcopy. Please use state dict for serialization: expected "
            "a copy before fully_shard, got one afterwards"
        )

    # --- parts and wholes ------------------------------------------------------------------------------

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Give the module its whole parameters.

        Args:
            async_op: whether to return before they have come; forward waits for them.
        Returns: what waits for them, with `async_op`; None otherwise.
        """
        group = _state(self).group
        if group is None:
            return _GroupHandle(None) if async_op else None
        if async_op:
            group.start_unshard()
            return _GroupHandle(group)
        group.unshard()
        return None

    def reshard(self) -> None:
        """Give the module the parts of its parameters, and free the whole ones."""
        group = _state(self).group
        if group is not None:
            group.reshard()

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        self.reshard()
        super()._apply(*args, **kwargs)  # type: ignore[misc]
        group = _state(self).group
        if group is not None:
            group.refresh()
        return self

    # --- what passes do --------------------------------------------------------------------------------

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Say whether the next backward pass is the last one of an iteration.

        Args:
            is_last_backward: whether the pass waits for all reductions at its end.
        """
        _state(self).root.is_last_backward = is_last_backward

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Say whether backward reduces gradients; otherwise each process accumulates its own.

        Args:
            requires_gradient_sync: whether to reduce.
            recurse: whether this holds for sharded modules inside, too.
        """
        for group in _groups(self, recurse):
            group.reduces = group.all_reduces = requires_gradient_sync

    def _set_gradient_sync(self, is_on: bool) -> None:
        """Say whether backward reduces gradients, as `set_requires_gradient_sync` does."""
        self.set_requires_gradient_sync(is_on)

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Say whether backward adds gradients over the copies of a mesh of two dimensions.

        Args:
            requires_all_reduce: whether to add them; otherwise results for the parts are accumulated.
            recurse: whether this holds for sharded modules inside, too.
        """
        for group in _groups(self, recurse):
            group.all_reduces = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Say whether forward frees the whole parameters at its end.

        Args:
            reshard_after_forward: whether to free them.
            recurse: whether this holds for sharded modules inside, too.
        Raises: ValueError if it is not a bool.
        """
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(
                f"set_reshard_after_forward: expected a bool, got {type(reshard_after_forward).__name__}"
            )
        for group in _groups(self, recurse):
            group.reshards_after_forward, group.smaller = reshard_after_forward, None

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Say whether backward frees the whole parameters at its end.

        Args:
            reshard_after_backward: whether to free them; otherwise the next forward uses them again, which
                must come before the optimizer's step.
            recurse: whether this holds for sharded modules inside, too.
        """
        for group in _groups(self, recurse):
            group.reshards_after_backward = reshard_after_backward

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Say whether backward needs the whole parameters, as of most modules; not of an embedding.

        Args:
            unshard_in_backward: whether to gather them.
        """
        for group in _groups(self, False):
            group.unshards_in_backward = unshard_in_backward

    def set_modules_to_forward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Say whose parameters are gathered while this module computes.

        Args:
            modules: sharded modules. Default: the one that followed in the last forward pass.
        Raises: ValueError for other modules.
        """
        _state(self).forward_prefetch = _groups_of("set_modules_to_forward_prefetch", modules)

    def set_modules_to_backward_prefetch(self, modules: Sequence[FSDPModule]) -> None:
        """Say whose parameters are gathered while backward of this module computes.

        Args:
            modules: sharded modules. Default: the one that came before in forward.
        Raises: ValueError for other modules.
        """
        _state(self).backward_prefetch = _groups_of("set_modules_to_backward_prefetch", modules)

    # --- how gradients are reduced ---------------------------------------------------------------------

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Say by what the sum of gradients is divided.

        Args:
            factor: the divisor. Default: the number of processes.
        Raises: ZeroDivisionError for 0.
        """
        if factor == 0:
            raise ZeroDivisionError(
                f"set_gradient_divide_factor: expected a number other than 0, got {factor}"
            )
        for group in _groups(self, False):
            group.divisor = factor

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """As `set_gradient_divide_factor`, which replaces it.

        Args:
            factor: the divisor.
        Raises: ZeroDivisionError for 0.
        """
        self.set_gradient_divide_factor(factor)

    def set_reduce_scatter_unused_params(
        self, reduce_scatter_unused_params: bool, *, recurse: bool = True
    ) -> None:
        """Say whether parameters without a gradient are reduced as zeros.

        Args:
            reduce_scatter_unused_params: whether they are; needed where processes use different parameters.
            recurse: whether this holds for sharded modules inside, too.
        """
        for group in _groups(self, recurse):
            group.reduces_unused = reduce_scatter_unused_params

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """Say how many reductions may run at a time.

        Args:
            max_input_buffers: at least 1, the default; each needs memory for the gradients of a module. The
                reductions of all modules under one root share the limit.
            recurse: no effect, as the limit is shared.
        Raises: ValueError for a smaller number.
        """
        if max_input_buffers < 1:
            raise ValueError(
                f"set_reduce_scatter_max_input_buffers: expected at least 1, got {max_input_buffers}"
            )
        _state(self).root.reductions.limit = max_input_buffers

    def set_all_reduce_hook(self, hook: Callable[[Tensor], None], *, stream: Any = None) -> None:
        """Call a function with each reduced gradient, which it may change in place.

        Args:
            hook: called with the divided sum of a module's gradients, as one tensor of one dimension.
            stream: None; the CPU has no streams.
        Raises: ValueError for a stream.
        """
        if stream is not None:
            raise ValueError(f"set_all_reduce_hook: expected None as stream on the CPU, got {stream!r}")
        for group in _groups(self, False):
            group.reduced_hook = hook

    # --- how it communicates ---------------------------------------------------------------------------

    def set_custom_all_gather(self, comm: Any) -> None:
        """Let an object gather the module's parameters.

        Args:
            comm: called as ``comm(output, input, group, async_op=True)``, with tensors of one dimension;
                returns a `distributed.Work`, or None if it has ended. Its method
                ``allocate(size, *, dtype, device)`` returns memory.
        """
        for group in _groups(self, False):
            group.gathers = comm

    def set_custom_reduce_scatter(self, comm: Any) -> None:
        """Let an object reduce the module's gradients.

        Args:
            comm: called as ``comm(output, input, group, op, async_op=True)``; otherwise as for
                `set_custom_all_gather`.
        """
        for group in _groups(self, False):
            group.scatters = comm

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """Say whether gradients are reduced in a process group of their own.

        Args:
            enable: whether they are. All processes of the mesh call this.
            recurse: whether this holds for sharded modules inside, too.
        """
        for group in _groups(self, recurse):
            layout = group.layout
            group.scatter_group = group_of(layout, layout.size) if enable else layout.group

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Accepted: reductions are sums in any case, with divisions before or after.

        Args:
            enable: no effect.
        """

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Accepted: no process group has an allocator of its own.

        Args:
            enable: no effect.
        """

    # --- after a failure -------------------------------------------------------------------------------

    def reset_iter_state(self) -> None:
        """Forget an iteration that failed; gradients that it accumulated are lost.

        The next forward pass does this by itself.

        Raises: RuntimeError unless the module is the root.
        """
        state = _state(self)
        if state.iteration is not None and not state.is_root:
            raise RuntimeError(
                "reset_iter_state: reset_iter_state must be called on the root FSDP module: expected the "
                "root, got a module inside it"
            )
        state.reset()


FSDPModule.__module__ = UnshardHandle.__module__ = "flambeau.distributed.fsdp"


def _state(module: Any) -> ModuleState:
    found = state_of(module)
    if found is None:
        raise RuntimeError(f"FSDPModule: expected a module after fully_shard, got {type(module).__name__}")
    return found


def _groups(module: Any, recurse: bool) -> Iterator[ParameterGroup]:
    for inner in module.modules() if recurse else (module,):
        state = state_of(inner)
        if state is not None and state.group is not None:
            yield state.group


def _groups_of(name: str, modules: Sequence[Any]) -> list[ParameterGroup]:
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"{name}: Expects FSDPModule but got {type(module)}: expected a sharded module")
    return [group for module in modules for group in _groups(module, False)]


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let a method of a sharded module gather and free parameters as `forward` does.

    Args:
        module: the module; one that is not sharded stays as it is.
        method_name: the name of the method.
    Raises: ValueError if there is no such method.

    Example:
        >>> from flambeau.distributed.fsdp import fully_shard, register_fsdp_forward_method
        >>> class Scale(flambeau.nn.Linear):
        ...     def scaled(self, x):
        ...         return x * self.weight
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> layer = fully_shard(Scale(2, 1))
        >>> register_fsdp_forward_method(layer, "scaled")
        >>> layer.scaled(flambeau.zeros(2))
        tensor([[0., 0.]], grad_fn=<MulBackward0>)
        >>> dist.destroy_process_group()
    """
    state = state_of(module)
    if state is None:
        return
    method = getattr(module, method_name, None)
    if not callable(method):
        raise ValueError(
            f"register_fsdp_forward_method: {type(module)} does not have a method {method_name}: expected "
            f"the name of a method, got {method_name!r}"
        )

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = state.before_forward(module, args, kwargs)
        output = None
        try:
            output = method(*args, **kwargs)
        finally:
            output = state.after_forward(module, args, output)
        return output

    vars(module)[method_name] = wrapped


def share_comm_ctx(modules: Sequence[FSDPModule]) -> None:
    """Let several root modules share one queue of reductions, as the stages of a pipeline.

    Args:
        modules: sharded modules, the roots of their models.
    Raises: ValueError for other modules.

    Example:
        >>> from flambeau.distributed.fsdp import fully_shard, share_comm_ctx
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> share_comm_ctx([fully_shard(flambeau.nn.Linear(2, 2)) for _ in range(2)])
        >>> dist.destroy_process_group()
    """
    _groups_of("share_comm_ctx", modules)
    roots = [_state(module).root for module in modules]
    for root in roots:
        root.reductions = roots[0].reductions
