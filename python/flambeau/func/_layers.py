"""Layers of transforms, and tensors that are wrapped for a layer.

A transform pushes a layer, wraps its tensors for the layer, runs the function, and unwraps the results. A
wrapped tensor hides an addition of the layer: a batch dimension (vmap), a graph (grad) or a tangent (jvp).
"""

from __future__ import annotations

import threading
from typing import Any, Self

from flambeau import _C
from flambeau._C import Tensor
from flambeau.autograd.grad_mode import _FORWARD, _GRAD
from flambeau.utils._pytree import TreeSpec, tree_flatten, tree_map

_MODES = {"grad": _GRAD, "jvp": _FORWARD}


class _Active(threading.local):
    """The number of layers that this thread is in."""

    count = 0


_active = _Active()


def is_any_active() -> bool:
    """Whether a transform is running in this thread."""
    return _active.count > 0


class Layer:
    """A context manager whose block runs inside a new layer.

    Args:
        kind: "vmap", "grad", "jvp" or "functionalize".
        batch_size: the size of the dimension that vmap maps over; -1 for the other kinds.
        randomness: the behaviour of random operators under vmap.
        copies_views: whether a layer that functionalizes runs views as copies.
    """

    def __init__(
        self, kind: str, batch_size: int = -1, randomness: str = "error", copies_views: bool = False
    ) -> None:
        self._arguments = (kind, batch_size, randomness, copies_views)
        self._mode = _MODES.get(kind, 0)
        self.level = -1  # the layer's number, once entered

    def __enter__(self) -> Self:
        # Popping the layer restores the modes.
        self.level = _C._push_layer(*self._arguments)
        _active.count += 1
        if self._mode:
            _C._set_grad_modes(_C._get_grad_modes() | self._mode)
        return self

    def __exit__(self, *_: object) -> None:
        _active.count -= 1
        _C._pop_layer()

    def track(self, tree: Any) -> Any:
        """Wrap all tensors of a tree."""
        level = self.level
        return tree_map(lambda t: _C._make_tracked(t, level) if isinstance(t, Tensor) else t, tree)

    def take_off(self, t: Tensor) -> tuple[Tensor, int | None]:
        """Return the value inside a tensor of this layer, and its batch dimension if it has one."""
        found = _C._unwrap(t, self.level)
        return found if type(found) is tuple else (t, None)

    def unwrap(self, tree: Any) -> Any:
        """Unwrap all tensors of a tree that belong to this layer."""
        return tree_map(lambda t: self.take_off(t)[0] if isinstance(t, Tensor) else t, tree)


def batch_first(t: Tensor, layer: Layer, size: int, place: int = 0) -> Tensor:
    """Unwrap a tensor of a vmap layer, with the batch dimension at `place`; expand tensors without one."""
    value, dim = layer.take_off(t)
    if dim is None:
        value, dim = value.unsqueeze(0).expand(size, *value.shape), 0
    return value if dim == place else value.movedim(dim, place)


def differentiable(tree: Any) -> tuple[list[Tensor], TreeSpec]:
    """Make the wrapped tensors of a tree leaves of their layer's graph; return them and the tree's spec.

    Raises: ValueError for a leaf that is not a tensor, RuntimeError for a tensor of integers.
    """
    leaves, spec = tree_flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"flambeau.func: expected a Tensor to transform, got {type(leaf)}")
        leaf.requires_grad_()
    return leaves, spec


def only_tensors(leaves: list[Any], api: str) -> None:
    """Check the outputs of a function.

    Raises: RuntimeError if there are no outputs, or if one is not a tensor.
    """
    if not leaves:
        raise RuntimeError(f"{api}: expected outputs of the function, got an empty list")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{api}: expected the function to return Tensors, got {type(leaf)}")


def split_aux(result: Any, api: str) -> tuple[Any, Any]:
    """Split the result of a function with ``has_aux=True``.

    Raises: RuntimeError if the result is not a pair.
    """
    if not (isinstance(result, tuple) and len(result) == 2):
        got = type(result).__name__
        raise RuntimeError(f"{api}: expected (output, aux) from the function with has_aux=True, got {got}")
    return result


def checked_aux(aux: Any, layer: Layer) -> Any:
    """Unwrap the auxiliary result of a function.

    Raises: RuntimeError if it is not a tree of tensors.
    """
    for leaf in tree_flatten(aux)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"flambeau.func: Expected tensors as aux for has_aux=True, got unsupported type {type(leaf)}"
            )
    return layer.unwrap(aux)


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return the tensor inside the wrapper of a transform, for inspection.

    Outside transforms the result is the tensor itself.

    Args:
        tensor: the tensor.
        recurse: whether to remove the wrappers of all transforms instead of only the innermost one.
    Returns: the tensor inside.

    Example:
        >>> shapes = []
        >>> def double(x):
        ...     shapes.append(flambeau.func.debug_unwrap(x).shape)
        ...     return x * 2
        >>> doubled = flambeau.vmap(double)(flambeau.ones(3, 2))
        >>> shapes
        [flambeau.Size([3, 2])]
    """
    level = _C._wrapper_level(tensor)
    while level:
        tensor = _C._unwrap(tensor, level)[0]
        level = _C._wrapper_level(tensor) if recurse else 0
    return tensor
