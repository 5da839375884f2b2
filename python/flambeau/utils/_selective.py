"""Checkpoints that keep what some operators gave: a policy decides, operator by operator."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau import ops
from flambeau._C import Tensor
from flambeau.utils._python_dispatch import TorchDispatchMode


class CheckpointPolicy(enum.Enum):
    """Choices of a policy for an operator's results: save them, save them on the CPU, or recompute them.

    ``MUST_`` is final; a compiler may overrule ``PREFER_``.

    Example:
        >>> from flambeau.utils.checkpoint import CheckpointPolicy
        >>> CheckpointPolicy.MUST_SAVE.name
        'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVED = (
    CheckpointPolicy.MUST_SAVE,
    CheckpointPolicy.PREFER_SAVE,
    CheckpointPolicy.MUST_CPU_OFFLOAD,
    CheckpointPolicy.PREFER_CPU_OFFLOAD,
)
_OFFLOADED = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


@dataclass
class SelectiveCheckpointContext:
    """First argument of a policy.

    Args:
        is_recompute: whether the second call runs. flambeau asks the policy in the first call only, with
            False.

    Example:
        >>> from flambeau.utils.checkpoint import SelectiveCheckpointContext
        >>> SelectiveCheckpointContext(is_recompute=False).is_recompute
        False
    """

    is_recompute: bool


class _Kept:
    """A result of the forward pass."""

    def __init__(self, tensor: Tensor, offload: bool) -> None:
        self.device = tensor.device
        self.tensor = tensor.detach().cpu() if offload else tensor.detach()
        self.version = self.tensor._version

    def get(self, may_change: bool) -> Tensor:
        if self.tensor._version != self.version and not may_change:
            raise RuntimeError(
                "create_selective_checkpoint_contexts: a cached tensor was mutated; pass "
                "allow_cache_entry_mutation=True to allow it"
            )
        return self.tensor.to(self.device)


def _mapped(value: Any, function: Callable[[Any], Any], kind: type) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_mapped(v, function, kind) for v in value)
    return function(value) if isinstance(value, kind) else value


# Both passes detach tensors, but not as often as each other.
_IGNORED = ("aten.detach.default", "aten.alias.default")


class _Mode(TorchDispatchMode):
    """What both passes have in common: the results that are kept, by operator in the order of calls."""

    def __init__(self, policy: Callable[..., Any], kept: dict[Any, list[Any]]) -> None:
        super().__init__()
        self.policy = policy
        self.kept = kept


class _Keeping(_Mode):
    """The mode of the forward pass."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and keep what the policy wants; None stands for a call that is to run again."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if str(func) in _IGNORED:
            return result
        chosen = self._choice(func, args, kwargs)
        keep = functools.partial(_Kept, offload=chosen in _OFFLOADED)
        kept = _mapped(result, keep, Tensor) if chosen in _SAVED else None
        self.kept.setdefault(func, []).append(kept)
        return result

    def _choice(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CheckpointPolicy:
        if func._schema.is_mutable:
            return CheckpointPolicy.MUST_RECOMPUTE  # its result is its argument
        context = SelectiveCheckpointContext(is_recompute=False)
        chosen = self.policy(context, func, *args, **kwargs)
        if isinstance(chosen, bool):
            return CheckpointPolicy.MUST_SAVE if chosen else CheckpointPolicy.PREFER_RECOMPUTE
        return chosen


class _Giving(_Mode):
    """The mode of the recomputation."""

    def __init__(self, policy: Callable[..., Any], kept: dict[Any, list[Any]], may_change: bool) -> None:
        super().__init__(policy, kept)
        self.may_change = may_change

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return what was kept, so that the operator does not run."""
        if str(func) in _IGNORED:
            return func(*args, **(kwargs or {}))
        if not self.kept.get(func):
            raise RuntimeError(
                f"create_selective_checkpoint_contexts: {func} was not found in "
                "storage in the backward pass; call the same operators in both passes, and run the graph "
                "only once"
            )
        kept = self.kept[func].pop(0)
        if kept is None:
            return func(*args, **(kwargs or {}))
        return _mapped(kept, lambda k: k.get(self.may_change), _Kept)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[_Keeping, _Giving]:
    """Return the contexts of a checkpoint that saves the results of some operators and recomputes the others.

    Args:
        policy_fn_or_list: a function ``policy(ctx, op, *args)`` that returns a `CheckpointPolicy`, or a bool
            (whether to save), for an operator such as ``ops.aten.mm.default``; or a list of the operators
            whose results are saved.
        allow_cache_entry_mutation: whether saved results may be changed in place before backward.
    Returns: the pair of contexts that `context_fn` of `checkpoint` returns.
    Raises: TypeError for another policy, ValueError for a list of anything but operators with their overload.

    Example:
        >>> import functools
        >>> from flambeau.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> contexts = functools.partial(create_selective_checkpoint_contexts, [flambeau.ops.aten.mm.default])
        >>> x = flambeau.ones(2, 2, requires_grad=True)
        >>> y = checkpoint(lambda t: (t @ t).sin(), x, use_reentrant=False, context_fn=contexts)
        >>> y.sum().backward()
    """
    if callable(policy_fn_or_list):
        policy = policy_fn_or_list
    elif isinstance(policy_fn_or_list, Sequence):
        chosen = list(policy_fn_or_list)
        for op in chosen:
            if not isinstance(op, ops.Overload):
                raise ValueError(
                    "create_selective_checkpoint_contexts: expected OpOverloads in the list, such as "
                    f"ops.aten.mm.default, got {op} of type {type(op)}"
                )

        def policy(_: Any, op: Any, *args: Any) -> bool:
            return op in chosen
    else:
        raise TypeError(
            "create_selective_checkpoint_contexts: expected a policy function or a list of "
            f"operators, got {type(policy_fn_or_list).__name__}"
        )
    kept: dict[Any, list[Any]] = {}
    return _Keeping(policy, kept), _Giving(policy, kept, allow_cache_entry_mutation)
