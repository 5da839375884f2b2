"""Compiled forward and backward programs as one node of autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.autograd.function import once_differentiable
from flambeau.compiler.aot.joint import Joint, Layout
from flambeau.compiler.aot.partition import Parts
from flambeau.compiler.aot.state import without_autocast

Program = Callable[..., list[Any]]


def differentiable(joint: Joint, parts: Parts, forward: Program, backward: Program) -> Callable[..., Any]:
    """Return a function of the captured graph's inputs that returns its outputs, with gradients.

    Args:
        joint: the recorded graph.
        parts: its forward and backward graphs.
        forward: the compiled forward graph, a function of its inputs.
        backward: the compiled backward graph, a function of a list, which it empties.
    """
    count = len(joint.outputs)
    plain = [i for i in range(count) if i not in joint.differentiable]
    places = joint.differentiable
    saved_inputs = parts.saved_inputs
    if flambeau.is_autocast_enabled("cpu"):
        forward = without_autocast(forward)
    backward = without_autocast(backward)  # `backward` may be called inside an autocast region

    class CompiledFunction(flambeau.autograd.Function):
        """The node of one compiled graph."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.set_materialize_grads(False)
            results = forward(*inputs)
            outputs = results[:count]
            ctx.save_for_backward(*[inputs[i] for i in saved_inputs], *results[count:])
            if plain:
                ctx.mark_non_differentiable(*[outputs[i] for i in plain])
            return tuple(outputs)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *gradients: Any) -> Any:
            values = ctx._take_saved()
            values += map(_with_layout, (gradients[i] for i in places), joint.tangent_layouts)
            found = backward(values)
            missing = sum(1 << k for k, i in enumerate(places) if gradients[i] is None)
            return _of_given(found, joint.reached_by, missing) if missing else tuple(found)

    apply: Callable[..., Any] = CompiledFunction.apply
    return apply


def _of_given(gradients: list[Any], reached_by: list[int], missing: int) -> tuple[Any, ...]:
    """Replace gradients by None if all tangents that they depend on are missing, as in eager mode."""
    return tuple(
        None if sources and not sources & ~missing else gradient
        for gradient, sources in zip(gradients, reached_by, strict=True)
    )


def _with_layout(gradient: Any, layout: Layout) -> Any:
    """Return a gradient with the recorded strides; a program may pass any strides, or None."""
    size, strides, dtype = layout
    if gradient is None:
        return flambeau.empty_strided(size, strides, dtype=dtype).zero_()
    if gradient.stride() == strides:
        return gradient
    made = flambeau.empty_strided(gradient.size(), strides, dtype=gradient.dtype, device=gradient.device)
    return made.copy_(gradient)


def without_gradients(forward: Program, needs_guard: bool) -> Callable[..., Any]:
    """Return a function of the captured graph's inputs whose outputs have no gradient."""
    if flambeau.is_autocast_enabled("cpu"):
        forward = without_autocast(forward)
    if not needs_guard:
        return forward

    def run(*inputs: Any) -> Any:
        with flambeau.no_grad():
            return forward(*inputs)

    return run
