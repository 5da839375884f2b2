"""Layers of transforms, and tensors wrapped for one of them.

A transform pushes a layer, wraps its tensors for it, runs the function, and takes the wrappers off. A
wrapped tensor hides what the layer adds: a batch dimension (vmap), a graph (grad) or a tangent (jvp).
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
    """A block inside one layer.

    Args:
        kind: "vmap", "grad", "jvp" or "functionalize".
        batch_size: what vmap maps over; -1 for the other kinds.
        randomness: what random operators may do under vmap.
        copies_views: whether views are copies below a layer that functionalizes.
    """

    def __init__(
        self, kind: str, batch_size: int = -1, randomness: str = "error", copies_views: bool = False
    ) -> None:
        self._arguments = (kind, batch_size, randomness, copies_views)
        self._mode = _MODES.get(kind, 0)
        self.level = -1  # its number, once entered

    def __enter__(self) -> Self:
        # Popping the layer puts the modes back.
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
        """Take this layer's wrappers off all tensors of a tree."""
        return tree_map(lambda t: self.take_off(t)[0] if isinstance(t, Tensor) else t, tree)


def batch_first(t: Tensor, layer: Layer, size: int, place: int = 0) -> Tensor:
    """Take a vmap layer's wrapper off and put the batch dimension at a place; add one where there is none."""
    value, dim = layer.take_off(t)
    if dim is None:
        value, dim = value.unsqueeze(0).expand(size, *value.shape), 0
    return value if dim == place else value.movedim(dim, place)


def differentiable(tree: Any) -> tuple[list[Tensor], TreeSpec]:
    """Make the wrapped tensors of a tree leaves of their layer's graph; return them and the shape.

    Raises: ValueError for a leaf that is not a tensor, RuntimeError for one of integers.
    """
    leaves, spec = tree_flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"flambeau.func: expected a Tensor to transform, got {type(leaf)}")
        leaf.requires_grad_()
    return leaves, spec


def only_tensors(leaves: list[Any], api: str) -> None:
    """Check what a function returned.

    Raises: RuntimeError if there is nothing, or something else than tensors.
    """
    if not leaves:
        raise RuntimeError(f"{api}: expected outputs of the function, got an empty list")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{api}: expected the function to return Tensors, got {type(leaf)}")


def split_aux(result: Any, api: str) -> tuple[Any, Any]:
    """Take apart what a function with ``has_aux=True`` returned.

    Raises: RuntimeError unless it is a pair.
    """
    if not (isinstance(result, tuple) and len(result) == 2):
        got = type(result).__name__
        raise RuntimeError(f"{api}: expected (output, aux) from the function with has_aux=True, got {got}")
    return result


def checked_aux(aux: Any, layer: Layer) -> Any:
    """Unwrap what a function returned besides its output.

    Raises: RuntimeError unless it is a tree of tensors.
    """
    for leaf in tree_flatten(aux)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"flambeau.func: Expected tensors as aux for has_aux=True, got unsupported type {type(leaf)}"
            )
    return layer.unwrap(aux)


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """Return the tensor inside the wrapper of a transform, for inspection.

    Outside of transforms it is the tensor itself.

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
