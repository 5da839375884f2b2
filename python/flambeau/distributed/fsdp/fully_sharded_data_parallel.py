"""FullyShardedDataParallel: a module whose parameters the processes divide as flat tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.distributed.fsdp import _wrapping
from flambeau.distributed.fsdp._clipping import clipped
from flambeau.distributed.fsdp._exposure import Exposure, whole_grads
from flambeau.distributed.fsdp._flat import FlatParts
from flambeau.distributed.fsdp._flat_optimizer import OptimizerStates, OptimStateKeyType
from flambeau.distributed.fsdp._settings import checked_settings, default_settings
from flambeau.distributed.fsdp._wrapped_states import WRAPPED, StateHooks, clean
from flambeau.distributed.fsdp._wrapper_state import HYBRID, FlatGroup, WrapperState, layout_for
from flambeau.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    MixedPrecision,
    OptimStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from flambeau.nn.modules.module import Module

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

# Names that PyTorch's module has as well.
_OF_FSDP = (
    "FlatParameter FullOptimStateDictConfig FullStateDictConfig LocalOptimStateDictConfig "
    "LocalStateDictConfig ShardedOptimStateDictConfig ShardedStateDictConfig"
).split()
__getattr__, __dir__ = attributes(
    __name__,
    {
        **dict.fromkeys(_OF_FSDP, "flambeau.distributed.fsdp"),
        **dict.fromkeys(
            ("FlatParamHandle", "HandleTrainingState", "TrainingState"), "flambeau.distributed.fsdp._unbuilt"
        ),
        "ActivationWrapper": "flambeau.distributed.algorithms._checkpoint.checkpoint_wrapper",
        "CustomPolicy": "flambeau.distributed.fsdp.wrap",
        "DeviceMesh": "flambeau.distributed",
    },
)


class FullyShardedDataParallel(OptimizerStates, Module):
    """A module whose parameters, gradients and optimizer states the processes divide.

    The parameters that no wrapper inside the module has form one flat tensor. Each process keeps an equal
    part of it. Forward and backward gather it, and backward reduces the gradients to parts. An optimizer
    made afterwards works on parts. `fully_shard` divides each parameter along a dimension instead, and
    leaves the class of the module.

    Args:
        module: the module; its parameters are divided in place.
        process_group: the processes; with a hybrid strategy a pair: those with the parts, those with copies.
            Default: all.
        sharding_strategy: what is divided. Default: ``ShardingStrategy.FULL_SHARD``.
        cpu_offload: no effect, as parameters are in the memory of the host.
        auto_wrap_policy: which modules inside are wrapped on their own (`distributed.fsdp.wrap`).
        backward_prefetch: when backward gathers the next parameters; None: when it needs them.
        mixed_precision: the dtypes of computation and communication.
        ignored_modules: modules inside that stay as they are.
        param_init_fn: called with each module to give parameters on the meta device memory and values.
            Default: their method ``reset_parameters``.
        device_id: None or the CPU.
        sync_module_states: whether all processes start with the parameters and buffers of the first one.
        forward_prefetch: whether forward gathers the next parameters while it computes.
        limit_all_gathers: no effect: at most one set of parameters is gathered ahead.
        use_orig_params: whether the module keeps its parameters, each with this process's part in one
            dimension; otherwise it has one `FlatParameter`. Frozen and trained parameters need True.
        ignored_states: parameters or modules that stay as they are.
        device_mesh: the processes; two dimensions with a hybrid strategy: copies, parts.
    Shape:
        As of the module.
    Raises: TypeError and ValueError for wrong arguments; ValueError for parameters that cannot form one flat
        tensor: without dimensions, or of several dtypes.
    Source: Zhao et al. 2023, "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel".
    See also: distributed.fsdp.fully_shard, nn.parallel.DistributedDataParallel

    Example:
        >>> from flambeau.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
        >>> dist = flambeau.distributed
        >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        >>> net = flambeau.nn.Linear(2, 1)
        >>> model = FullyShardedDataParallel(net, sharding_strategy=ShardingStrategy.NO_SHARD)
        >>> model(flambeau.ones(3, 2)).sum().backward()
        >>> next(model.parameters()).grad
        tensor([3., 3., 3.])
        >>> list(model.state_dict())
        ['weight', 'bias']
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        ignored = _wrapping.ignored_of(ignored_modules, ignored_states)
        options: dict[str, Any] = {
            "process_group": process_group,
            "sharding_strategy": sharding_strategy or ShardingStrategy.FULL_SHARD,
            "cpu_offload": cpu_offload,
            "backward_prefetch": backward_prefetch,
            "mixed_precision": MixedPrecision() if mixed_precision is None else mixed_precision,
            "param_init_fn": param_init_fn,
            "device_id": device_id,
            "sync_module_states": sync_module_states,
            "forward_prefetch": forward_prefetch,
            "limit_all_gathers": limit_all_gathers,
            "use_orig_params": use_orig_params,
            "ignored_states": ignored,
            "device_mesh": device_mesh,
        }
        _wrapping.check(module, options)
        if auto_wrap_policy is not None:
            _wrapping.wrap_by_policy(module, auto_wrap_policy, type(self), options, ignored)
        self._set_up(module, options)

    def _set_up(self, module: Module, options: dict[str, Any]) -> None:
        """Divide what no wrapper inside the module has."""
        strategy, precision = options["sharding_strategy"], options["mixed_precision"]
        ignored, keeps = options["ignored_states"], options["use_orig_params"]
        layout = layout_for(strategy, options["process_group"], options["device_mesh"])
        _wrapping.initialize(module, options["param_init_fn"], ignored)
        if options["sync_module_states"]:
            _wrapping.synchronize(module, layout, ignored)
        self._layout, self.sharding_strategy, self._use_orig_params = layout, strategy, keeps
        self.process_group, self.mixed_precision, self._ignored = layout.group, precision, ignored
        whole_dtype = precision.param_dtype
        self._parts: FlatParts | None = _wrapping.divide(module, layout, ignored, keeps, whole_dtype)
        self._modules[WRAPPED] = module
        self._is_summoned = False
        self._settings = default_settings()
        self._state = WrapperState(self, precision, options["backward_prefetch"], options["forward_prefetch"])
        self._state.when_root = self._prepare_root
        if self._parts is not None:
            self._parts.low_dtype = _wrapping.low_dtype(precision, layout)
            frees = strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
            self._state.group = FlatGroup(self._parts, self._state.policy, None if frees else False)
        self._hooks = StateHooks(self)

    # --- the wrapped module ----------------------------------------------------------------------------

    @property
    def module(self) -> Module:
        """The wrapped module."""
        wrapped: Any = self._modules[WRAPPED]
        return wrapped

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            wrapped = self.__dict__.get("_modules", {}).get(WRAPPED)
            if wrapped is None:
                raise
            return getattr(wrapped, name)

    def __getitem__(self, key: int) -> Any:
        wrapped: Any = self.module
        return wrapped[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the wrapped module; parameters are gathered before and freed afterwards."""
        return self.module(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Yield the parameters, within `summon_full_params` by the names of the plain module.

        Args:
            *args: as of `nn.Module.named_parameters`.
            **kwargs: as of `nn.Module.named_parameters`.
        """
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield (clean(name) if self._is_summoned else name), parameter

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers, within `summon_full_params` by the names of the plain module.

        Args:
            *args: as of `nn.Module.named_buffers`.
            **kwargs: as of `nn.Module.named_buffers`.
        """
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield (clean(name) if self._is_summoned else name), buffer

    def _reshard(self) -> None:
        if self._state.group is not None:
            self._state.group.reshard()

    def _apply(self, *args: Any, **kwargs: Any) -> Any:
        for each in self.fsdp_modules(self):
            each._reshard()
        super()._apply(*args, **kwargs)
        for each in self.fsdp_modules(self):
            if each._parts is not None:
                with flambeau.no_grad():
                    each._parts.refresh()
        return self

    def apply(self, fn: Callable[[Module], None]) -> Any:
        """Call a function on every module of the tree, children first, with whole parameters.

        Args:
            fn: called with each module; changes of parameters are kept.
        Returns: the wrapper.
        """
        if self._is_summoned:  # the wrapper around this one calls
            return super().apply(fn)
        with self.summon_full_params(self):
            return super().apply(fn)

    def check_is_root(self) -> bool:
        """Return whether the module is the outermost wrapper; its first forward pass settles this."""
        self._state.begin()
        return self._state.is_root

    def _check_root(self, name: str) -> None:
        if not self.check_is_root():
            raise RuntimeError(
                f"{name}: `{name}()` should only be called on the root FSDP instance: expected the outermost "
                f"wrapper, got one inside it: {type(self.module).__name__}"
            )

    def _prepare_root(self) -> None:
        """Cast the buffers of all wrappers; their own dtype counts in states."""
        for wrapper in self.fsdp_modules(self):
            dtype = wrapper.mixed_precision.buffer_dtype
            if dtype is None:
                continue
            names = {m: n for n, m in wrapper.module.named_modules()}
            for owner in _wrapping.own_modules(wrapper.module, wrapper._ignored):
                for name, buffer in owner._buffers.items():
                    if buffer is not None and buffer.is_floating_point() and buffer.dtype != dtype:
                        key = clean(".".join(part for part in (names[owner], name) if part))
                        wrapper._hooks.buffers[key] = buffer.dtype
                        owner._buffers[name] = buffer.to(dtype)

    # --- training --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Let backward within the context accumulate whole gradients without communication.

        The first backward pass after it reduces them, too.

        Raises: RuntimeError unless the module is the outermost wrapper.
        """
        self._check_root("no_sync")
        groups = self._state.begin().groups
        before = [group.reduces for group in groups]
        for group in groups:
            group.reduces = False
        try:
            yield
        finally:
            for group, reduces in zip(groups, before, strict=True):
                group.reduces = reduces

    def _set_gradient_sync(self, is_on: bool) -> None:
        """Say whether backward reduces gradients."""
        for wrapper in self.fsdp_modules(self):
            if wrapper._state.group is not None:
                wrapper._state.group.reduces = is_on

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale the gradients of all parameters so that their norm is at most a number.

        Args:
            max_norm: the number.
            norm_type: the order of the norm, also infinity.
        Returns: the norm before, of the gradients of all processes together.
        Raises: RuntimeError unless the module is the outermost wrapper.
        """
        self._check_root("clip_grad_norm_")
        with flambeau.no_grad():
            return clipped(self.fsdp_modules(self), self.parameters(), float(max_norm), float(norm_type))

    def register_comm_hook(self, state: object, hook: Callable[..., object]) -> None:
        """Let a function reduce gradients, in place of a sum that is divided by the number of processes.

        Args:
            state: the first argument of the function.
            hook: called with `state`, the flat gradient of this process with its padding, and a tensor for
                the part of the result; without the last with ``ShardingStrategy.NO_SHARD``, where it writes
                the result into the gradient.
        Raises: RuntimeError unless the module is the outermost wrapper; AssertionError if there is a hook;
            AssertionError for a hybrid strategy, as in PyTorch, unless one process has whole parameters.
        """
        self._check_root("register_comm_hook")
        for wrapper in self.fsdp_modules(self):
            group: Any = wrapper._state.group
            if wrapper.sharding_strategy in HYBRID and wrapper._layout.size > 1:
                raise AssertionError(
                    "register_comm_hook: Communication hook is not supported for hybrid strategies: expected "
                    f"another strategy, got {wrapper.sharding_strategy}"
                )
            if group is not None and group.is_hooked:
                raise AssertionError(
                    "register_comm_hook: A communication hook is already registered: expected one, got two"
                )
        for wrapper in self.fsdp_modules(self):
            group = wrapper._state.group
            if group is not None:
                group.set_hook(state, hook)

    # --- whole parameters ------------------------------------------------------------------------------

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Return the wrappers in a module, also the module itself.

        Args:
            module: the module.
            root_only: whether to leave out wrappers inside of others.
        """
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {m for each in found for m in each.modules() if m is not each}
        return [each for each in found if each not in inner]

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Give a module its whole parameters within a context; no passes run there.

        Args:
            module: the module, in all processes.
            recurse: whether wrappers inside get theirs, too.
            writeback: whether changes are kept; each process keeps those of its part.
            rank0_only: whether the other processes than rank 0 keep their parts.
            offload_to_cpu: no effect.
            with_grads: whether gradients are there as well.
        Raises: NotImplementedError for `writeback` with `rank0_only`, as other processes have no changes;
            RuntimeError within another such context.
        """
        if writeback and rank0_only:
            raise NotImplementedError(
                "summon_full_params: writeback=True and rank0_only=True is not supported: expected one of "
                "them, got both"
            )
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        if not recurse:
            wrappers = [each for each in wrappers if each is module]
        if any(each._is_summoned for each in wrappers):
            raise RuntimeError("summon_full_params: expected no other such context around it, got one")
        shown: list[Exposure] = []
        is_here = not rank0_only or flambeau.distributed.get_rank() == 0
        try:
            for each in wrappers:
                each._is_summoned = True
                each._reshard()
                if each._parts is not None:
                    wholes = each._parts.gather_values()
                    grads = whole_grads(each._parts) if with_grads else None
                    if is_here:
                        shown.append(Exposure(each._parts, wholes, is_same=True))
                        shown[-1].show_grads(grads)
            yield
        finally:
            for exposure in shown:
                exposure.end(writeback)
            for each in wrappers:
                each._is_summoned = False

    # --- states ----------------------------------------------------------------------------------------

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Choose the form of the states of all wrappers in a module.

        Args:
            module: the module.
            state_dict_type: the form.
            state_dict_config: options of the model's state. Default: those of the form.
            optim_state_dict_config: options of the optimizer's state. Default: those of the form.
        Returns: what was set before.
        Raises: RuntimeError for options of another form, or if wrappers differ.
        """
        settings = checked_settings(state_dict_type, state_dict_config, optim_state_dict_config)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for wrapper in FullyShardedDataParallel.fsdp_modules(module):
            wrapper._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """Return the form of the states of all wrappers in a module.

        Args:
            module: the module.
        Raises: RuntimeError if wrappers differ.
        """
        found = [wrapper._settings for wrapper in FullyShardedDataParallel.fsdp_modules(module)]
        if any(other != found[0] for other in found):
            raise RuntimeError("get_state_dict_type: expected one form in all wrappers, got several")
        return found[0] if found else default_settings()

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """Choose the form of the states within a context.

        Args:
            module: the module.
            state_dict_type: the form.
            state_dict_config: options of the model's state.
            optim_state_dict_config: options of the optimizer's state.
        Raises: RuntimeError for options of another form, or if wrappers differ.
        """
        choose = FullyShardedDataParallel.set_state_dict_type
        before = choose(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            for wrapper in FullyShardedDataParallel.fsdp_modules(module):
                wrapper._settings = before


FSDP = FullyShardedDataParallel
