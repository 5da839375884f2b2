"""Functions with a gradient of the user's own."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau import _C
from flambeau._C import FunctionCtx, Tensor
from flambeau._loading.lazy import attributes
from flambeau._overrides.lanes import program_of

__all__ = ["Function", "FunctionCtx", "once_differentiable"]

# The engine names the node of a Function by the class of its context.
BackwardCFunction = FunctionCtx


class FunctionMeta(type):
    """Gives every Function its class of contexts."""

    _backward_cls: type[FunctionCtx]

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        cls._backward_cls = type(name + "Backward", (FunctionCtx,), {"_forward_cls": cls})


@staticmethod  # type: ignore[misc]
def _refuse_both(ctx: Any, *grad_outputs: Any) -> Any:
    raise RuntimeError(f"{type(ctx).__name__}: Implementing both 'backward' and 'vjp': keep one of them")


class Function(metaclass=FunctionMeta):
    """Base class of differentiable operations with a handwritten backward; call one with ``apply``.

    A subclass defines static methods. ``forward(ctx, *args)`` computes the outputs and passes tensors that
    backward needs to ``ctx.save_for_backward``. ``backward(ctx, *grad_outputs)`` returns one gradient per
    argument of ``forward``, or None. A subclass that also defines ``setup_context(ctx, inputs, output)``
    defines ``forward`` without ``ctx``. ``jvp(ctx, *tangents)`` supports forward mode, ``vmap(info, in_dims,
    *args)`` supports `vmap`.

    Args:
        *args: no effect; the operation is called by ``apply``, and instances serve no purpose.
        **kwargs: no effect.
    Raises: NotImplementedError if a subclass lacks ``forward`` or ``backward``, RuntimeError if the number or
        the shapes of the gradients do not fit the arguments.

    Example:
        >>> class Double(flambeau.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> x = flambeau.tensor([1.0], requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad
        tensor([2.])
    """

    _sets_up_context = False
    generate_vmap_rule = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._sets_up_context = cls.setup_context is not Function.setup_context
        if cls.vjp is not Function.vjp:
            both = cls.backward is not Function.backward and cls.backward is not cls.vjp
            cls.backward = _refuse_both if both else cls.vjp  # type: ignore[method-assign]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self).__name__} should not be instantiated: call its apply()",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse: Functions with state are no more."""
        raise RuntimeError(
            "Function: Legacy autograd function: forward must be a static method; define it so and "
            "call apply()"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs: ``forward(ctx, *args)``, or ``forward(*args)`` beside setup_context."""
        raise NotImplementedError(
            "Function.forward: a Function must implement the forward function; define it in the subclass"
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep what backward needs, after a forward that takes no ``ctx``."""
        raise NotImplementedError(
            "Function.setup_context: setup_context is not implemented; define it in the subclass"
        )

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of each argument of forward, given those of its outputs."""
        raise NotImplementedError(
            "Function.backward: a Function needs a backward or a vjp for reverse mode; define one"
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Return what backward does, under another name."""
        raise NotImplementedError("Function.vjp: vjp is not implemented; define it in the subclass")

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangent of each output, given those of the arguments."""
        raise NotImplementedError(
            "Function.jvp: a Function needs a jvp for forward mode; define it in the subclass"
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Return the outputs for a batch and their batch dimensions; ``info`` has batch_size and randomness.

        Where it is not defined and ``generate_vmap_rule`` is True, forward, backward and jvp are mapped.
        """
        raise NotImplementedError(
            "Function.vmap: a Function needs a vmap staticmethod to be mapped; define it in the subclass"
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the operation and record it."""
        if cls._sets_up_context:
            if kwargs or len(args) < cls._parameter_count():
                args = cls._bind(*args, **kwargs)
        elif kwargs:
            raise TypeError(
                f"{cls.__name__}.apply: apply() takes no keyword arguments: expected positional arguments "
                f"only, got {sorted(kwargs)}"
            )
        program = program_of(args)
        if program is not None:
            return program.call(cls.apply, args)
        if _C._transform_depth():
            from flambeau.autograd._function_layers import apply_in_layer

            return apply_in_layer(cls, args)
        return _C._apply_function(cls, args)

    @classmethod
    def _parameter_count(cls) -> int:
        return len(inspect.signature(cls.forward).parameters)

    @classmethod
    def _bind(cls, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args


class NestedIOFunction(Function):
    """A Function whose arguments were nested; its instances are not called, as those of Function are not."""

    _saved: tuple[Any, ...] = ()

    def forward(self, *args: Any) -> Any:  # type: ignore[override]
        """Compute the outputs by `forward_extended`."""
        return self.forward_extended(*args)

    def backward(self, *gradients: Any) -> Any:  # type: ignore[override]
        """Compute the gradients by `backward_extended`."""
        return self.backward_extended(*gradients)

    def forward_extended(self, *input: Any) -> None:
        """Compute the outputs; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} must define forward_extended")

    def backward_extended(self, *grad_output: Any) -> None:
        """Compute the gradients; subclasses define it."""
        raise NotImplementedError(f"{type(self).__name__} must define backward_extended")

    def save_for_backward(self, *args: Any) -> None:
        """Keep what backward needs."""
        self._saved = args

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given."""
        return self._saved

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Note arguments that are changed in place."""
        self.dirty_tensors = args, kwargs

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Note outputs without gradients."""
        self.non_differentiable = args, kwargs


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the backward of a `Function` whose gradients must not be differentiated again.

    The backward runs without recording.

    Args:
        function: the static method ``backward(ctx, *grad_outputs)``.
    Returns: the decorated function; differentiating its results raises a RuntimeError.

    Example:
        >>> class Square(flambeau.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     @flambeau.autograd.function.once_differentiable
        ...     def backward(ctx, grad):
        ...         return 2 * ctx.saved_tensors[0] * grad
        >>> x = flambeau.tensor(3.0, requires_grad=True)
        >>> flambeau.autograd.grad(Square.apply(x), x)
        (tensor(6.),)
    """

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with flambeau.no_grad():
            outputs = function(ctx, *args)
        wanted = any(isinstance(a, Tensor) and a.requires_grad for a in args)
        if not flambeau.is_grad_enabled() or not wanted:
            return outputs
        single = not isinstance(outputs, tuple)
        items = (outputs,) if single else outputs
        # Leaves that want a gradient, so that the refusing node is reached.
        leaves = [t.detach().requires_grad_() if isinstance(t, Tensor) else None for t in items]
        refusing = _C._delayed_error(
            "a backward marked with @once_differentiable was differentiated again", leaves
        )
        return refusing[0] if single else refusing

    return wrapper


__getattr__, __dir__ = attributes(__name__)
