"""What runs around the forward and the backward pass of sharded modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _C, Tensor
from flambeau.distributed.fsdp._group import ParameterGroup, Phase, Reductions, check_memory
from flambeau.distributed.fsdp._policies import MixedPrecisionPolicy
from flambeau.nn.modules.module import Module
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten
from flambeau.utils.weak import WeakIdKeyDictionary

_STATE = "_fsdp_state"


def state_of(module: Module) -> ModuleState | None:
    """Return the state of a module that `fully_shard` was applied to; None for others."""
    found: ModuleState | None = vars(module).get(_STATE)
    return found


class Iteration:
    """What the sharded modules under one root share.

    Args:
        states: those of the modules, the root's first.
    """

    def __init__(self, states: list[ModuleState]) -> None:
        self.states = states
        self.groups = list(dict.fromkeys(s.group for s in states if s.group is not None))
        self.watched: list[ParameterGroup] = []  # in the order of forward; backward reverses it
        self._forward: list[ParameterGroup] = []
        self._following: dict[ParameterGroup, ParameterGroup] = {}  # from the last forward pass
        self._pass = 0  # the backward pass at whose end `_finish` runs

    @property
    def is_in_backward(self) -> bool:
        """Whether a backward pass over the modules runs in this thread."""
        return self._pass != 0 and _C._outermost_pass() == self._pass

    @property
    def reductions(self) -> Reductions:
        """The reductions that run."""
        return self.states[0].reductions

    # --- forward ---------------------------------------------------------------------------------------

    def begin_forward(self) -> None:
        """Forget what an earlier pass has left, if it failed."""
        if self._pass and not self.is_in_backward:
            self.reset()
        if not _C._outermost_pass():
            self.watched.clear()
            self._forward.clear()

    def end_forward(self) -> None:
        """Free what was gathered in vain, and remember the order of groups."""
        if _C._outermost_pass():
            return
        for group in self.groups:
            group.drop_gather()
        self._following = {}
        for group, following in zip(self._forward, self._forward[1:], strict=False):
            self._following.setdefault(group, following)
        self._forward.clear()

    def prefetch_after(self, group: ParameterGroup, given: list[ParameterGroup] | None) -> None:
        """Start to gather the groups that follow in forward."""
        if _C._outermost_pass():  # forward is repeated for a checkpoint
            return
        self._forward.append(group)
        following = self._following.get(group)
        for other in given if given is not None else [] if following is None else [following]:
            other.start_unshard()

    # --- backward --------------------------------------------------------------------------------------

    def begin_backward(self) -> None:
        """See to it that the end of this pass is noticed."""
        current = _C._outermost_pass()
        if self._pass == current:
            return
        if self._pass:
            self.reset()
        _C._at_end_of_pass(self._finish)
        self._pass = current
        for group in self.groups:
            group.begin_pass()

    def prefetch_before(self, group: ParameterGroup, given: list[ParameterGroup] | None) -> None:
        """Start to gather the groups that follow in backward."""
        if given is None:
            while self.watched and self.watched.pop() is not group:
                pass
            given = self.watched[-1:]
        for other in given:
            if other.unshards_in_backward and other is not group:
                other.start_unshard()

    def _finish(self) -> None:
        """Reduce what no gradient of an argument has announced, at the end of a backward pass."""
        self._pass = 0
        for group in self.groups:
            if group.phase is Phase.BACKWARD or group.is_whole or group.has_to_reduce:
                group.after_backward(self.reductions)
            group.drop_gather()
            group.phase = Phase.IDLE
        for state in self.states:
            state.waiting.clear()
        self.watched.clear()
        if self.states[0].is_last_backward:
            self.reductions.finish()

    def reset(self) -> None:
        """Wait for what runs, and forget everything about the iteration."""
        self._pass = 0
        self.reductions.drop()
        for group in self.groups:
            group.reshard()
            group.drop_grads()
            group.phase = Phase.IDLE
        for state in self.states:
            state.waiting.clear()
        self.watched.clear()
        self._forward.clear()


class ModuleState:
    """The state of one call of `fully_shard`.

    Args:
        modules: the modules; several share a group.
        policy: the dtypes.
    """

    def __init__(self, modules: tuple[Module, ...], policy: MixedPrecisionPolicy) -> None:
        self.modules, self.policy = modules, policy
        self.group: ParameterGroup | None = None
        self.iteration: Iteration | None = None
        self.is_root = False
        # What holds for all modules under a root counts in the root's state.
        self.is_last_backward, self.reductions = True, Reductions()
        self.waiting: set[Module] = set()  # of several modules, those that have still to run
        self.forward_prefetch: list[ParameterGroup] | None = None
        self.backward_prefetch: list[ParameterGroup] | None = None
        self.when_root: Callable[[], None] | None = None  # called once, if this is the root
        self._watched_leaves = WeakIdKeyDictionary()
        for module in modules:
            vars(module)[_STATE] = self
            module.register_forward_pre_hook(self.before_forward, prepend=True, with_kwargs=True)
            module.register_forward_hook(self.after_forward, always_call=True)

    # --- the root --------------------------------------------------------------------------------------

    @property
    def root(self) -> ModuleState:
        """The state of the root, as far as it is known."""
        return self if self.iteration is None else self.iteration.states[0]

    def begin(self) -> Iteration:
        """Return the iteration; the first module that runs becomes the root of those inside it."""
        if self.iteration is None:
            self.iteration = self._gathered_states()
        return self.iteration

    def _gathered_states(self) -> Iteration:
        states: dict[ModuleState, None] = {self: None}
        for root in self.modules:
            for name, module in root.named_modules():
                state = state_of(module)
                if state is None or state is self:
                    continue
                if state.iteration is not None:
                    raise RuntimeError(
                        f"fully_shard: FSDP state has already been lazily initialized for {name}: expected "
                        "the root module to run first, got a module inside it: FSDP requires running forward "
                        "through the root module first"
                    )
                states[state] = None
        iteration = Iteration(list(states))
        self._name_parameters(iteration)
        for group in iteration.groups:
            group.refresh()
        check_memory(iteration.groups)
        for group in iteration.groups:
            group.check()
        for state in states:
            state.iteration, state.is_root = iteration, state is self
            group_of_state = state.group
            if group_of_state is not None and group_of_state.reshards_after_forward is None:
                group_of_state.reshards_after_forward = state is not self
        if self.when_root is not None:
            self.when_root()
        return iteration

    def _name_parameters(self, iteration: Iteration) -> None:
        names = {m: name for root in self.modules for name, m in root.named_modules()}
        for group in iteration.groups:
            for parameter in group.parameters:
                module, key = parameter.places[0]
                parameter.name = ".".join(part for part in (names.get(module), key) if part)

    # --- forward ---------------------------------------------------------------------------------------

    def _is_repeated(self, iteration: Iteration) -> bool:
        """Whether forward runs once more for a checkpoint around this module."""
        return iteration.is_in_backward and self.group is not None and self.group.phase is Phase.BACKWARD

    def before_forward(self, module: Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Gather the parameters, and cast the arguments."""
        iteration = self.begin()
        is_first = len(self.modules) == 1 or module not in self.waiting
        if self.is_root and is_first:
            iteration.begin_forward()
        policy = self.policy
        if policy.cast_forward_inputs and policy.param_dtype is not None:
            args, kwargs = tree_map(cast_to(policy.param_dtype), (args, kwargs))
        if self._is_repeated(iteration):
            return args, kwargs
        if is_first:
            self.waiting = set(self.modules)
        if self.group is None:
            return args, kwargs
        self.group.before_forward()
        if is_first:
            iteration.prefetch_after(self.group, self.forward_prefetch)
            args, kwargs = self._watch_arguments((args, kwargs))
        return args, kwargs

    def _watch_arguments(self, arguments: Any) -> Any:
        """Let the gradients of the arguments announce the end of the module's backward."""
        if not flambeau.is_grad_enabled():
            return arguments
        leaves, structure = tree_flatten(arguments)
        places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad]
        if not places:
            return arguments
        watched = _Arguments.apply(self, *(leaves[i] for i in places))
        for i, tensor in zip(places, watched, strict=True):
            leaves[i] = tensor
        return tree_unflatten(leaves, structure)

    def after_forward(self, module: Module, args: Any, output: Any) -> Any:
        """Free the parameters, and cast the results."""
        iteration = self.iteration
        if iteration is None:  # the first forward has failed before it began
            return output
        if not self._is_repeated(iteration):
            self.waiting.discard(module)
            if self.group is not None and not self.waiting:
                self.group.after_forward()
            output = self._watch_results(output, iteration)
            if self.is_root and not self.waiting:
                iteration.end_forward()
        if self.policy.output_dtype is not None:
            output = tree_map(cast_to(self.policy.output_dtype), output)
        return output

    def _watch_results(self, output: Any, iteration: Iteration) -> Any:
        """Let the gradients of the results announce the module's backward."""
        if not flambeau.is_grad_enabled():
            return output
        tensors = [x for x in tree_flatten(output)[0] if isinstance(x, Tensor) and x.requires_grad]
        for tensor in tensors:
            # A leaf, such as a parameter that the module returns, keeps its hooks from pass to pass.
            if not (tensor.is_leaf and tensor in self._watched_leaves):
                tensor.register_hook(self._before_backward)
            if tensor.is_leaf:
                self._watched_leaves[tensor] = None
        if tensors and self.group is not None and not _C._outermost_pass():
            iteration.watched.append(self.group)
        return output

    # --- backward --------------------------------------------------------------------------------------

    def _before_backward(self, grad: Tensor) -> None:
        """Gather the parameters; the first gradient of a result calls this."""
        iteration = self.begin()
        iteration.begin_backward()
        group = self.group
        if group is None or group.phase is Phase.BACKWARD:
            return
        group.before_backward()
        iteration.prefetch_before(group, self.backward_prefetch)

    def after_backward(self) -> None:
        """Free the parameters, and start to reduce their gradients."""
        iteration = self.begin()
        iteration.begin_backward()
        if self.group is not None:
            self.group.after_backward(iteration.reductions)

    def reset(self) -> None:
        """Forget everything about an iteration that failed."""
        if self.iteration is not None:
            self.iteration.reset()


class _Arguments(flambeau.autograd.Function):
    """Returns its tensors; its backward runs when the module's backward has ended."""

    @staticmethod
    def forward(ctx: Any, state: ModuleState, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.state = state
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.state.after_backward()
        return (None, *grads)


def cast_to(dtype: flambeau.dtype) -> Callable[[Any], Any]:
    """Return a function that casts floating-point tensors to a dtype."""

    def cast(value: Any) -> Any:
        is_other = isinstance(value, Tensor) and value.is_floating_point() and value.dtype != dtype
        return value.to(dtype) if is_other else value

    return cast
