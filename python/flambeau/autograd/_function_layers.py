"""Custom Functions under function transforms.

A layer answers the call of a Function as it answers an operator: a gradient layer records it for tensors
of its own level and calls the Function again below; a vmap layer asks the Function's own rule, or maps
its methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from flambeau import _C
from flambeau._C import Tensor
from flambeau.utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_map


class VmapInfo(NamedTuple):
    """Information about the transform, for the vmap rule of a Function."""

    batch_size: int
    randomness: str


def apply_in_layer(cls: Any, args: tuple[Any, ...]) -> Any:
    """Call the Function under the innermost layer."""
    if not cls._sets_up_context:
        raise RuntimeError(f"{cls.__name__}: transforms need a setup_context apart from forward")
    kind, level, batch_size, randomness = _C._innermost_layer()
    if kind == "vmap":
        return _batched(cls, args, level, VmapInfo(batch_size, randomness))
    return _recorded(cls, args, level)


def _map_tensors(function: Callable[[Tensor], Any], tree: Any) -> Any:
    return tree_map(lambda x: function(x) if isinstance(x, Tensor) else x, tree)


def _value(t: Tensor, level: int) -> Tensor:
    found = _C._unwrap(t, level)
    return found[0] if type(found) is tuple else found


def _batch_dim(t: Any, level: int) -> int | None:
    found = _C._unwrap(t, level) if isinstance(t, Tensor) else None
    return found[1] if type(found) is tuple else None


class _Rewrapped:
    """Wraps results for a layer; a result that is an argument stays the same object."""

    def __init__(self, wrapped: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        self._known = {id(v): w for w, v in zip(wrapped, values, strict=True) if isinstance(v, Tensor)}

    def __call__(self, result: Tensor, wrap: Callable[[Tensor], Tensor]) -> Tensor:
        known = self._known.get(id(result))
        return wrap(result) if known is None else known


# --- gradient layers ----------------------------------------------------------------------------------------


def _recorded(cls: Any, args: tuple[Any, ...], level: int) -> Any:
    """One call on tensors of the layer, whose forward leaves the layer."""
    from flambeau.autograd.function import Function

    modes = _C._get_grad_modes()

    def forward(*operands: Any) -> Any:
        values = tuple(_map_tensors(lambda t: _value(t, level), operands))
        # Recording is off while forward runs, but the layers around record as they would the call itself.
        within = _C._get_grad_modes()
        _C._set_grad_modes(modes)
        try:
            output = _C._call_below(cls.apply, *values)
        finally:
            _C._set_grad_modes(within)
        rewrapped = _Rewrapped(operands, values)
        return _map_tensors(lambda t: rewrapped(t, lambda r: _C._make_tracked(r, level)), output)

    members = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(cls.setup_context),
        "backward": staticmethod(cls.backward),
        "jvp": staticmethod(cls.jvp),
    }
    layered = type(cls.__name__, (Function,), members)
    own = tuple(_own(a, level) if isinstance(a, Tensor) else a for a in args)
    return _C._apply_function(layered, own)


def _own(t: Tensor, level: int) -> Tensor:
    return t if _C._wrapper_level(t) == level else _C._make_tracked(t, level)


# --- vmap layers --------------------------------------------------------------------------------------------


def _batched(cls: Any, args: tuple[Any, ...], level: int, info: VmapInfo) -> Any:
    from flambeau.autograd.function import Function

    has_rule = cls.vmap is not Function.vmap
    if cls.generate_vmap_rule and has_rule:
        raise RuntimeError(
            f"{cls.__name__}: the class has both generate_vmap_rule=True and a vmap staticmethod; "
            "keep one of them"
        )
    if not cls.generate_vmap_rule and not has_rule:
        raise RuntimeError(
            f"{cls.__name__}: the class does not have vmap support; define a vmap staticmethod or set "
            "generate_vmap_rule=True"
        )
    dims = tuple(tree_map(lambda a: _batch_dim(a, level), args))
    values = tuple(_map_tensors(lambda t: _value(t, level), args))
    if all(d is None for d in tree_flatten(dims)[0]):
        return _C._call_below(cls.apply, *values)
    if not has_rule:
        return _mapped(cls, args, values, dims, level, info)
    returned = _C._call_below(cls.vmap, info, dims, *values)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            f"{cls.__name__}.vmap: expected a tuple (output, out_dims) to be returned, got {type(returned)}"
        )
    return _with_batch(cls, *returned, _Rewrapped(args, values), level)


def _with_batch(cls: Any, output: Any, out_dims: Any, rewrapped: _Rewrapped, level: int) -> Any:
    leaves, spec = tree_flatten(output)
    places = _broadcast_to_and_flatten(out_dims, spec)
    if places is None:
        raise RuntimeError(
            f"{cls.__name__}.vmap: expected out_dims that match the structure of the output, got {out_dims}"
        )
    batched = [
        rewrapped(leaf, lambda r, d=place: _C._make_batched(r, d, level))  # type: ignore[misc]
        if isinstance(leaf, Tensor) and place is not None
        else leaf
        for leaf, place in zip(leaves, places, strict=True)
    ]
    return spec.unflatten(batched)


# --- rules made from the Function's own methods -------------------------------------------------------------


class _InnerContext:
    """A Function's context inside of the map; tensors are kept outside of it, with their batch dimensions."""

    _own = ("_outer", "_level", "_notes", "saved_tensors")

    def __init__(self, outer: Any, level: int, notes: dict[str, Any]) -> None:
        for name, value in (("_outer", outer), ("_level", level), ("_notes", notes)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _InnerContext._own:
            object.__setattr__(self, name, value)
        else:
            setattr(self._outer, name, value)

    def _keep(self, method: str, tensors: tuple[Tensor | None, ...]) -> None:
        self._notes[method] = [_batch_dim(t, self._level) for t in tensors]
        getattr(self._outer, method)(*_map_tensors(lambda t: _value(t, self._level), tensors))

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        self._keep("save_for_backward", tensors)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        self._keep("save_for_forward", tensors)

    def mark_dirty(self, *tensors: Tensor) -> None:
        self._outer.mark_dirty(*(self._notes["values"].get(id(t), _value(t, self._level)) for t in tensors))

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        self._outer.mark_non_differentiable(*(_value(t, self._level) for t in tensors))


class _Map:
    """One vmap layer around a method of the Function."""

    def __init__(self, info: VmapInfo) -> None:
        self._info = info

    def __enter__(self) -> int:
        self.level = _C._push_layer("vmap", *self._info)
        return self.level

    def __exit__(self, *_: object) -> None:
        _C._pop_layer()


def _enter(t: Any, dim: int | None, level: int) -> Any:
    return t if dim is None or t is None else _C._make_batched(t, dim, level)


class _MappedMethods:
    """The methods of a Function that maps another one over a batch."""

    def __init__(self, cls: Any, dims: list[int | None], info: VmapInfo) -> None:
        self.cls = cls
        self.dims = dims  # of the arguments
        self.out_dims: Any = None  # known once forward has run
        self._info = info
        self._notes: dict[str, Any] = {}

    def forward(self, *operands: Any) -> Any:
        with _Map(self._info) as inner:
            batched = tuple(_enter(o, d, inner) for o, d in zip(operands, self.dims, strict=True))
            output = self.cls.forward(*batched)
            self.out_dims = tree_map(lambda t: _batch_dim(t, inner), output)
            rewrapped = _Rewrapped(operands, batched)
            return _map_tensors(lambda t: rewrapped(t, lambda r: _value(r, inner)), output)

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        with _Map(self._info) as inner:
            batched = tuple(_enter(o, d, inner) for o, d in zip(inputs, self.dims, strict=True))
            self._notes["values"] = {id(b): o for b, o in zip(batched, inputs, strict=True)}
            results = _enter_tree(output, self.out_dims, inner)
            self.cls.setup_context(_InnerContext(ctx, inner, self._notes), batched, results)
            self._notes.pop("values")

    def backward(self, ctx: Any, *grads: Any) -> Any:
        found = self._run(ctx, self.cls.backward, "save_for_backward", grads, _leaves(self.out_dims))
        return self._fitted(found, self.dims)

    def jvp(self, ctx: Any, *tangents: Any) -> Any:
        found = self._run(ctx, self.cls.jvp, "save_for_forward", tangents, self.dims)
        results = self._fitted(found, _leaves(self.out_dims))
        return results if isinstance(self.out_dims, tuple) else results[0]

    def _run(
        self, ctx: Any, method: Any, kept: str, given: tuple[Any, ...], given_dims: list[int | None]
    ) -> list[tuple[Any, int | None]]:
        """One method in a layer of its own: what it returns, and where the batch is."""
        with _Map(self._info) as inner:
            context = _InnerContext(ctx, inner, self._notes)
            saved_dims = self._notes.get(kept, self._notes.get("save_for_backward", []))
            context.saved_tensors = tuple(
                _enter(t, d, inner) for t, d in zip(ctx.saved_tensors, saved_dims, strict=True)
            )
            results = method(context, *(_enter(g, d, inner) for g, d in zip(given, given_dims, strict=True)))
            results = results if isinstance(results, tuple) else (results,)
            return [
                (_value(r, inner), _batch_dim(r, inner)) if isinstance(r, Tensor) else (r, None)
                for r in results
            ]

    def _fitted(self, found: list[tuple[Any, int | None]], dims: list[int | None]) -> tuple[Any, ...]:
        size = self._info.batch_size
        return tuple(_fitted(t, dim, wanted, size) for (t, dim), wanted in zip(found, dims, strict=True))


def _mapped(
    cls: Any,
    args: tuple[Any, ...],
    values: tuple[Any, ...],
    dims: tuple[Any, ...],
    level: int,
    info: VmapInfo,
) -> Any:
    """Call the Function that is `cls` mapped over the batch, below the layer."""
    from flambeau.autograd.function import Function

    methods = _MappedMethods(cls, list(dims), info)
    members: dict[str, Any] = {
        name: staticmethod(getattr(methods, name)) for name in ("forward", "setup_context", "backward", "jvp")
    }
    mapped: Any = type("Vmapped" + cls.__name__, (Function,), {**members, "generate_vmap_rule": True})
    output = _C._call_below(mapped.apply, *values)
    return _with_batch(cls, output, methods.out_dims, _Rewrapped(args, values), level)


def _leaves(dims: Any) -> list[int | None]:
    return list(dims) if isinstance(dims, tuple) else [dims]


def _enter_tree(output: Any, dims: Any, level: int) -> Any:
    if isinstance(output, tuple):
        return tuple(_enter(t, d, level) for t, d in zip(output, dims, strict=True))
    return _enter(output, dims, level)


def _fitted(grad: Any, dim: int | None, wanted: int | None, batch_size: int) -> Any:
    """Give a gradient the batch of what it belongs to: summed over it where that has none."""
    if grad is None:
        return None
    if wanted is None:
        return grad if dim is None else grad.sum(dim)
    if dim is None:
        return grad.unsqueeze(wanted).expand(*grad.shape[:wanted], batch_size, *grad.shape[wanted:])
    return grad.movedim(dim, wanted)
