"""Differentiation: reverse mode over recorded operations, forward mode, functions of the user's own.

>>> import flambeau as fb
>>> x = fb.tensor([2.0, 3.0], requires_grad=True)
>>> fb.autograd.grad((x * x).sum(), x)
(tensor([4., 6.]),)
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import Tensor
from flambeau._loading.lazy import attributes
from flambeau._overrides.lanes import for_each_lane
from flambeau._overrides.overridable import overridable
from flambeau.autograd import forward_ad, functional, graph
from flambeau.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from flambeau.autograd.function import Function
from flambeau.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from flambeau.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "Function",
    "GradcheckError",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_Tensors = Tensor | Sequence[Tensor]
_Gradients = Tensor | Sequence[Tensor | None] | None


def _as_tuple(tensors: Any) -> tuple[Any, ...]:
    return (tensors,) if isinstance(tensors, Tensor | graph.GradientEdge) else tuple(tensors)


def _gradients_of(outputs: tuple[Any, ...], gradients: Any) -> tuple[Any, ...]:
    """One gradient or None per output, checked for type."""
    given = (None,) * len(outputs) if gradients is None else _as_tuple(gradients)
    if len(given) != len(outputs):
        raise RuntimeError(
            f"backward: expected one gradient per tensor, got {len(outputs)} tensors and {len(given)} "
            "gradients"
        )
    for gradient in given:
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(f"gradient: expected Tensors or None, got {type(gradient).__name__}")
    return given


@for_each_lane
def backward(
    tensors: _Tensors,
    grad_tensors: _Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: _Gradients = None,
    inputs: _Tensors | None = None,
) -> None:
    """Add the gradients of the sum of tensors to the ``grad`` of the leaves that they depend on.

    Args:
        tensors: the tensor, or tensors, to differentiate.
        grad_tensors: the weight of each tensor, of its shape. None means 1 and needs a tensor of one element.
        retain_graph: whether to keep what the graph saved, for another backward pass. None means
            `create_graph`.
        create_graph: whether to record the pass itself, so that the gradients can be differentiated.
        grad_variables: deprecated alias of `grad_tensors`.
        inputs: the tensors whose ``grad`` changes. None means all leaves.
    Returns: None.
    Raises: RuntimeError if a tensor does not require a gradient, the graph was freed, a weight does not fit,
        or `inputs` is empty.

    Example:
        >>> x = flambeau.tensor([1.0, 2.0], requires_grad=True)
        >>> flambeau.autograd.backward(x * x, grad_tensors=flambeau.ones(2))
        >>> x.grad
        tensor([2., 4.])
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("backward(): grad_variables is an old name of grad_tensors; pass one of them")
        grad_tensors = grad_variables
    wanted = () if inputs is None else _as_tuple(inputs)
    if inputs is not None and not wanted:
        raise RuntimeError("backward(): expected one tensor or more as `inputs`, got none")
    outputs = _as_tuple(tensors)
    gradients = _gradients_of(outputs, grad_tensors)
    retain = create_graph if retain_graph is None else retain_graph
    if any(isinstance(item, graph.GradientEdge) for item in outputs + wanted):
        for item in wanted:
            if isinstance(item, Tensor) and not item.is_leaf:
                item.retain_grad()
        weights, roots = _given_weights(outputs, gradients), tuple(map(_edge, outputs))
        _C._autograd_edges(roots, weights, tuple(map(_edge, wanted)), retain, create_graph, True)
        return
    _C._autograd_backward(outputs, gradients, wanted, retain, create_graph)


@functools.partial(overridable, fills=True)
def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: _Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the sum of outputs with respect to inputs, without changing any ``grad``.

    Args:
        outputs: the tensors, or graph edges (`autograd.graph.GradientEdge`), to differentiate.
        inputs: the tensors, or graph edges, with respect to which to differentiate. A dict gives a dict.
        grad_outputs: the weight of each output, of its shape. None means 1 and needs an output of one
            element.
        retain_graph: whether to keep what the graph saved, for another backward pass. None means
            `create_graph`.
        create_graph: whether to record the pass itself, so that the results can be differentiated.
        only_inputs: no effect; deprecated.
        allow_unused: whether an input that no output depends on gives None instead of an error. None means
            `materialize_grads`.
        is_grads_batched: whether the weights, and so the results, have an additional leading dimension.
        materialize_grads: whether an input that no output depends on gives zeros.
    Returns: a tuple with one gradient per input.
    Shape: each gradient has the shape of its input.
    Raises: RuntimeError if an output does not require a gradient, the graph was freed, an input is unused, or
        `inputs` is empty; ValueError if `materialize_grads` is True and `allow_unused` is False.
    See also: `func.grad`

    Example:
        >>> x = flambeau.tensor(3.0, requires_grad=True)
        >>> flambeau.autograd.grad(x * x, x)
        (tensor(6.),)
    """
    if not only_inputs:
        warnings.warn("grad: only_inputs has no effect; leave it out", FutureWarning, stacklevel=2)
    if isinstance(inputs, dict):
        options = (retain_graph, create_graph, only_inputs, allow_unused, is_grads_batched, materialize_grads)
        found = grad(outputs, list(inputs.values()), grad_outputs, *options)
        return dict(zip(inputs, found, strict=True))  # type: ignore[return-value]
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "grad: expected allow_unused=True or None with materialize_grads=True, which gives zeros "
            "for unused inputs, got allow_unused=False"
        )
    allow = materialize_grads if allow_unused is None else allow_unused
    results, wanted = _as_tuple(outputs), _as_tuple(inputs)
    if not wanted:
        raise RuntimeError("grad(): expected one tensor or more as `inputs`, got none")
    weights = _gradients_of(results, grad_outputs)
    retain = create_graph if retain_graph is None else retain_graph
    if any(isinstance(item, graph.GradientEdge) for item in results + wanted):
        return _of_edges(results, weights, wanted, retain, create_graph, allow)
    if is_grads_batched:
        return _batched(results, weights, wanted, retain, create_graph, allow, materialize_grads)
    return _C._autograd_grad(results, weights, wanted, retain, create_graph, allow, materialize_grads)


def _edge(place: Any) -> tuple[Any, int]:
    edge = place if isinstance(place, graph.GradientEdge) else graph.get_gradient_edge(place)
    return edge.node, edge.output_nr


def _given_weights(results: tuple[Any, ...], weights: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the weights, with ones for tensors of one element."""
    given = []
    for result, weight in zip(results, weights, strict=True):
        if weight is None and (isinstance(result, graph.GradientEdge) or result.numel() != 1):
            raise RuntimeError(
                "grad: grad can be implicitly created only for scalar outputs; pass grad_outputs"
            )
        given.append(flambeau.ones_like(result.detach()) if weight is None else weight)
    return tuple(given)


def _of_edges(
    results: tuple[Any, ...],
    weights: tuple[Any, ...],
    wanted: tuple[Any, ...],
    retain: bool,
    create: bool,
    allow: bool,
) -> tuple[Tensor | None, ...]:
    """Return the gradients where some outputs or inputs are places in the graph, not tensors."""
    roots, captures = tuple(map(_edge, results)), tuple(map(_edge, wanted))
    grads = _C._autograd_edges(roots, _given_weights(results, weights), captures, retain, create, False)
    if not allow and any(g is None for g in grads):
        raise RuntimeError(
            "grad: an input appears to not have been used in the graph of the outputs; pass "
            "allow_unused=True to get None for it"
        )
    return grads


def _check_batched(results: tuple[Any, ...], weights: tuple[Any, ...]) -> int:
    """Check weights with a leading dimension against what they weigh; return its size."""
    sizes = set()
    for i, (result, weight) in enumerate(zip(results, weights, strict=True)):
        if weight is None:
            continue
        if weight.dim() == 0 or weight.shape[1:] != result.shape:
            raise RuntimeError(
                f"grad: expected grad_output[{i}] of shape (batch, *{tuple(result.shape)}) with "
                f"is_grads_batched=True, got {tuple(weight.shape)}"
            )
        sizes.add(weight.shape[0])
    if not sizes:
        raise RuntimeError(
            "grad: grad can be implicitly created only for scalar outputs: expected grad_outputs "
            "with is_grads_batched=True, got none"
        )
    if len(sizes) > 1:
        raise ValueError(f"vmap: expected mapped dimensions of equal size, got {sorted(sizes)}")
    return int(sizes.pop())


def _batched(
    results: tuple[Any, ...],
    weights: tuple[Any, ...],
    wanted: tuple[Any, ...],
    retain: bool,
    create: bool,
    allow: bool,
    materialize: bool,
) -> tuple[Tensor | None, ...]:
    """Make one pass for all entries of the weights' leading dimension, under vmap."""
    from flambeau.func._layers import Layer, batch_first

    size = _check_batched(results, weights)
    with Layer("vmap", size) as layer:
        rows = tuple(None if w is None else _C._make_batched(w, 0, layer.level) for w in weights)
        grads = _C._autograd_grad(results, rows, wanted, retain, create, allow, False)
        found = tuple(None if g is None else batch_first(g, layer, size) for g in grads)
    if not materialize:
        return found
    return tuple(flambeau.zeros_like(x) if g is None else g for g, x in zip(found, wanted, strict=True))


class _Engine:
    """What PyTorch's programs call the engine for."""

    queue_callback = staticmethod(_C._at_end_of_pass)


class _VariableMeta(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """Old name of a tensor that may require a gradient; a call returns the tensor itself.

    Args:
        data: the tensor.
        requires_grad: whether to record operations on it.
        volatile: no effect; deprecated.
    Returns: `data`, or a view of it that requires a gradient.

    Example:
        >>> flambeau.autograd.Variable(flambeau.ones(2), requires_grad=True)
        tensor([1., 1.], requires_grad=True)
    """

    _execution_engine = _Engine()

    def __new__(cls, data: Tensor, requires_grad: bool = False, volatile: bool | None = None) -> Any:
        """Return a tensor over the same data."""
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect: use no_grad()", UserWarning, stacklevel=3
            )
        made = data.detach() if data.is_leaf else data
        return made.requires_grad_(requires_grad) if requires_grad else made


__getattr__, __dir__ = attributes(__name__)
