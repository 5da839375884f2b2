"""One call that Python code outside of the framework takes over: subclasses, modes, custom operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.overrides import TorchFunctionMode
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten

Function = Callable[..., Any]


class Plain(Tensor):
    """A subclass with the default ``__torch_function__``."""


class Seen(Tensor):
    """A subclass that takes over each call and passes it on."""

    @classmethod
    def __torch_function__(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Look at the arguments, then do as Tensor does."""
        repr(types)
        return super().__torch_function__(func, types, args, kwargs)


class Wrapper(Tensor):
    """A tensor without memory that owns another one, on which its operators run."""

    __slots__ = ("inner",)
    inner: Tensor

    @staticmethod
    def __new__(cls: Any, inner: Tensor) -> Any:
        """Wrap a tensor: its sizes and dtype are shown to callers."""
        made = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=inner.device,
            requires_grad=inner.requires_grad,
        )
        made.inner = inner.detach()
        return made

    @classmethod
    def __torch_dispatch__(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator on the owned tensors."""
        args, kwargs = tree_map(unwrapped, (args, kwargs or {}))
        return tree_map(wrapped, func(*args, **kwargs))


def unwrapped(value: Any) -> Any:
    """The owned tensor of a wrapper, a plain tensor of a subclass, or the value."""
    if isinstance(value, Wrapper):
        return value.inner
    return value.as_subclass(Tensor) if isinstance(value, Plain | Seen) else value


def wrapped(value: Any) -> Any:
    """A wrapper around a strided tensor, or the value."""
    is_strided = isinstance(value, Tensor) and value.layout is flambeau.strided
    return Wrapper(value) if is_strided and not isinstance(value, Wrapper) else value


class FunctionMode(TorchFunctionMode):
    """A mode that hands each call of a public function on."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function as it was called."""
        return func(*args, **(kwargs or {}))


class DispatchMode(TorchDispatchMode):
    """A mode that hands each operator on."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the operator as it was called."""
        return func(*args, **(kwargs or {}))


def of_class(make: Callable[[Tensor], Tensor]) -> Callable[[Function], Function]:
    """The call with arguments of a subclass; its results are unwrapped."""

    def taken(function: Function) -> Function:
        return lambda *tensors: tree_map(unwrapped, function(*map(make, tensors)))

    return taken


def under(mode: Callable[[], Any]) -> Callable[[Function], Function]:
    """The call while a mode is active."""

    def taken(function: Function) -> Function:
        def within(*tensors: Tensor) -> Any:
            with mode():
                return function(*tensors)

        return within

    return taken


_running: list[Function] = []
_structures: list[Any] = []


def _run(tensors: list[Tensor]) -> list[Tensor]:
    leaves, structure = tree_flatten(_running[-1](*tensors))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    _structures.append((structure, leaves, places))
    return [leaves[i].clone() for i in places]  # results share no memory with arguments


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[0])


def _zeros(ctx: Any, grads: Any) -> Any:
    return [flambeau.zeros_like(x) for x in ctx.saved_tensors]


def through_operator(function: Function) -> Function:
    """The call inside of a custom operator, whose gradients are zeros."""
    operator = flambeau.ops.fuzz.run

    def called(*tensors: Tensor) -> Any:
        _running.append(function)
        depth = len(_structures)
        try:
            found = operator(list(tensors))
            structure, leaves, places = _structures[-1]
            filled = list(leaves)
            for place, tensor in zip(places, found, strict=True):
                filled[place] = tensor
            return tree_unflatten(filled, structure)
        finally:
            _running.pop()
            del _structures[depth:]

    return called


_LIBRARY = flambeau.library.Library("fuzz", "DEF")
_LIBRARY.define("run(Tensor[] tensors) -> Tensor[]")
_LIBRARY.impl("run", _run, "CompositeExplicitAutograd")
flambeau.library.register_autograd("fuzz::run", _zeros, setup_context=_keep, lib=_LIBRARY)

INTERPOSED: dict[str, tuple[Callable[[Function], Function], ...]] = {
    "subclass": (of_class(lambda x: x.as_subclass(Plain)),),
    "overriding subclass": (of_class(lambda x: x.as_subclass(Seen)),),
    "wrapper": (of_class(wrapped),),
    "function mode": (under(FunctionMode),),
    "dispatch mode": (under(DispatchMode),),
    "custom operator": (through_operator,),
    "autocast": (under(lambda: flambeau.autocast("cpu", dtype=flambeau.bfloat16)),),
    "functionalize": (flambeau.func.functionalize,),
}
