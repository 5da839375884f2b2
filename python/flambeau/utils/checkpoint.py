"""Trading time for memory: parts of a network whose intermediate tensors are computed twice."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau._loading.lazy import attributes
from flambeau._overrides.lanes import for_each_lane
from flambeau.autograd.function import Function
from flambeau.utils._recomputation import DETERMINISM_CHECKS, CheckpointError, Frame, random_state
from flambeau.utils._selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]

_Contexts = tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]
_debug: bool | None = None
_early_stop: bool | None = None


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Override `debug` of every `checkpoint` inside a block.

    Args:
        enabled: the value for all. None leaves each call its own.
    Returns: a context manager.

    Example:
        >>> from flambeau.utils.checkpoint import checkpoint, set_checkpoint_debug_enabled
        >>> with set_checkpoint_debug_enabled(True):
        ...     checkpoint(flambeau.sin, flambeau.zeros(1), use_reentrant=False)
        tensor([0.])
    """
    global _debug
    previous, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = previous


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool | None) -> Iterator[None]:
    """Override `early_stop` of every `checkpoint` inside a block.

    Args:
        enable: the value for all. None leaves each call its own.
    Returns: a context manager.

    Example:
        >>> from flambeau.utils.checkpoint import checkpoint, set_checkpoint_early_stop
        >>> with set_checkpoint_early_stop(False):
        ...     checkpoint(flambeau.sin, flambeau.zeros(1), use_reentrant=False)
        tensor([0.])
    """
    global _early_stop
    previous, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = previous


def noop_context_fn() -> _Contexts:
    """Return two context managers without effect, the default of `context_fn` in `checkpoint`.

    Returns: a pair of context managers.

    Example:
        >>> from flambeau.utils.checkpoint import noop_context_fn
        >>> len(noop_context_fn())
        2
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


@for_each_lane
def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], _Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without storing what its gradient needs; backward calls the function a second time.

    Args:
        function: the function, which must compute the same values in both calls.
        *args: its positional arguments; gradients flow to the tensors among them.
        use_reentrant: False records the graph and recomputes the tensors that it saves; it supports
            `autograd.grad`, keyword arguments and nesting, and is preferable. True records nothing and runs a
            backward pass inside the outer one. None means True, with a warning.
        context_fn: the function that returns the contexts of the first and the second call. Only without
            `use_reentrant`.
        determinism_check: "default" compares shape, dtype and device of the tensors that both calls save,
            "none" does not.
        debug: whether an error names the operators that saved the tensors that differ. Only without
            `use_reentrant`.
        early_stop: whether the second call ends as soon as it has computed all tensors that are needed. Only
            without `use_reentrant`.
        preserve_rng_state: whether the second call draws the same random numbers as the first.
        **kwargs: its keyword arguments. Only without `use_reentrant`.
    Returns: what the function returns.
    Raises: ValueError for arguments that `use_reentrant` excludes; CheckpointError (in backward) if the
        second call saves other tensors.

    Example:
        >>> from flambeau.utils.checkpoint import checkpoint
        >>> x = flambeau.tensor([0.5], requires_grad=True)
        >>> checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False).backward()
        >>> bool(flambeau.allclose(x.grad, (x.sin().exp() * x.cos()).detach()))
        True
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: pass use_reentrant. Left out it is True; False is recommended.",
            stacklevel=2,
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError(
                "checkpoint: Unexpected keyword arguments: expected none with use_reentrant=True, got "
                f"{','.join(kwargs)}"
            )
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError(
                "checkpoint: expected `context_fn` and `debug` only with use_reentrant=False, got "
                "use_reentrant=True"
            )
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    return _checkpoint_saved(
        function, args, kwargs, context_fn(), determinism_check, debug, early_stop, preserve_rng_state
    )


def _checkpoint_saved(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    contexts: _Contexts,
    determinism_check: str,
    debug: bool,
    early_stop: bool,
    preserve_rng_state: bool,
) -> Any:
    """Replace what the graph saves by placeholders that compute it again."""
    if determinism_check not in DETERMINISM_CHECKS:
        raise ValueError(
            f"checkpoint: expected determinism_check of {list(DETERMINISM_CHECKS)}, got {determinism_check!r}"
        )
    forward_context, again_context = contexts
    if not flambeau.is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    state = flambeau.get_rng_state() if preserve_rng_state else None

    def again(*values: Any) -> None:
        with random_state(state), again_context:
            function(*values, **kwargs)

    frame = Frame(
        again,
        args,
        DETERMINISM_CHECKS[determinism_check],
        early_stop if _early_stop is None else _early_stop,
        debug if _debug is None else _debug,
    )
    with frame.forward_hooks(), forward_context:
        return function(*args, **kwargs)


def _detached(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().requires_grad_(value.requires_grad)


class CheckpointFunction(Function):
    """Function behind ``checkpoint(use_reentrant=True)``: one node, whose backward runs the function again.

    Args:
        *args: no effect; `checkpoint` calls ``apply``.
        **kwargs: no effect.

    Example:
        >>> from flambeau.utils.checkpoint import CheckpointFunction
        >>> issubclass(CheckpointFunction, flambeau.autograd.Function)
        True
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Call the function unrecorded and keep its arguments."""
        if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warnings.warn("checkpoint: no input requires grad, so that gradients will be None", stacklevel=3)
        ctx.function = function
        ctx.state = flambeau.get_rng_state() if preserve_rng_state else None
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with flambeau.no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Run the function and a pass through what it records."""
        if _C._pass_is_filtered():
            raise RuntimeError(
                "checkpoint: with use_reentrant=True only .backward() without `inputs` works; pass "
                "use_reentrant=False for the others"
            )
        args = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor
        args = [_detached(a) for a in args]
        with random_state(ctx.state), flambeau.enable_grad():
            outputs = ctx.function(*args)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, grads, strict=False)
            if isinstance(output, Tensor) and output.requires_grad
        ]
        if not pairs:
            raise RuntimeError("checkpoint: no output requires grad, so that there is nothing to recompute")
        flambeau.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return None, None, *(a.grad if isinstance(a, Tensor) else None for a in args)


def checkpoint_sequential(
    functions: Sequence[Callable[..., Any]] | flambeau.nn.Sequential,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Call functions one after the other in segments, each of them under `checkpoint` except the last one.

    Args:
        functions: an `nn.Sequential`, or a list of functions of one argument.
        segments: the number of segments.
        input: the argument of the first function.
        use_reentrant: as for `checkpoint`: False is preferable, None means True with a warning.
        **kwargs: ``preserve_rng_state``, as for `checkpoint`.
    Returns: what the last function returns.
    Raises: ValueError for other keyword arguments.

    Example:
        >>> from flambeau.utils.checkpoint import checkpoint_sequential
        >>> x = flambeau.tensor([0.0], requires_grad=True)
        >>> checkpoint_sequential([flambeau.sin, flambeau.exp], 2, x, use_reentrant=False).backward()
        >>> x.grad
        tensor([1.])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: pass use_reentrant. Left out it is True; False is recommended.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(
            f"checkpoint_sequential: Unexpected keyword arguments: expected none, got {','.join(kwargs)}"
        )
    steps = list(functions.children()) if isinstance(functions, flambeau.nn.Sequential) else list(functions)

    def part(first: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in steps[first:end]:
                value = step(value)
            return value

        return run

    size = len(steps) // segments
    last = size * (segments - 1)
    for first in range(0, last, size) if size else ():
        input = checkpoint(
            part(first, first + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return part(last, len(steps))(input)


__getattr__, __dir__ = attributes(__name__)
