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
    """Override the `debug` of every checkpoint made within the block; None leaves them theirs."""
    global _debug
    previous, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = previous


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool | None) -> Iterator[None]:
    """Override the `early_stop` of every checkpoint made within the block."""
    global _early_stop
    previous, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = previous


def noop_context_fn() -> _Contexts:
    """Return two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


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
    """Call a function without keeping what its gradient needs; backward calls it a second time.

    Args:
        function: computes the same from the same arguments whenever it is called.
        args: its arguments; gradients flow to the tensors among them.
        use_reentrant: False: the graph is recorded as ever, tensors that it saves are recomputed (to be
            preferred: it serves ``autograd.grad``, keywords and nesting). True: nothing is recorded, and
            a pass of its own runs within the backward pass. To be given; None warns and means True.
        context_fn: returns the contexts of the first and the second call (not reentrant only).
        determinism_check: "default" compares shape, dtype and device of what both calls save; "none".
        debug: name in an error where both calls saved the tensor that differs (not reentrant only).
        early_stop: end the second call as soon as it has made all that is needed (not reentrant only).
        preserve_rng_state: give the second call the random numbers of the first.
        kwargs: keyword arguments of the function (not reentrant only).
    Raises: CheckpointError in backward if the second call does not save what the first did.

    >>> import flambeau as fb
    >>> from flambeau.utils.checkpoint import checkpoint
    >>> x = fb.tensor([0.5], requires_grad=True)
    >>> checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False).backward()
    >>> bool(fb.allclose(x.grad, (x.sin().exp() * x.cos()).detach()))
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
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("checkpoint: `context_fn` and `debug` are for use_reentrant=False")
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
            f"determinism_check: expected one of {list(DETERMINISM_CHECKS)}, got {determinism_check!r}"
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
    """The reentrant form: records one node, whose backward runs the function and a pass through it."""

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
    """Call functions one after the other, in segments that are checkpointed; the last one is not.

    Args:
        functions: an nn.Sequential, or a list of functions of one argument.
        segments: into how many to divide them.
        input: the argument of the first.
        use_reentrant: as for `checkpoint`.
        kwargs: ``preserve_rng_state``.
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: pass use_reentrant. Left out it is True; False is recommended.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
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
