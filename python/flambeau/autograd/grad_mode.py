"""Switches of recording: context managers that are decorators as well."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar

from flambeau import _C
from flambeau._C import is_grad_enabled, is_inference_mode_enabled

__all__ = [
    "enable_grad",
    "enforce_grad_layout_policy",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_GRAD, _INFERENCE, _FORWARD = 1, 2, 4


class _Decorator:
    """Makes a context manager decorate functions, generator functions and classes."""

    def __call__(self, function: _F) -> _F:
        if isinstance(function, type):
            warnings.warn(
                f"Decorating the class {function.__name__} is deprecated: decorate its methods",
                FutureWarning,
                stacklevel=2,
            )
            made: Any = function
            made.__init__ = self(made.__init__)
            return made
        if inspect.isgeneratorfunction(function):
            return _around_generator(self.clone, function)  # type: ignore[return-value]

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]

    def clone(self) -> Any:
        """Return a manager that does the same; each call of a decorated function has its own."""
        return type(self)()


def _around_generator(make: Callable[[], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Put each step of a generator, but not the time between steps, inside the manager."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with make():
                    value = step()
            except StopIteration as end:
                return end.value
            try:
                sent = yield value
                step = functools.partial(generator.send, sent)
            except GeneratorExit:
                with make():
                    generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)

    return inside


class _SetsModes(_Decorator):
    """Changes some modes at entry and puts all back at exit."""

    _on = 0
    _off = 0

    def __enter__(self) -> None:
        self._previous = _C._get_grad_modes()
        _C._set_grad_modes(self._previous & ~self._off | self._on)

    def __exit__(self, *_: object) -> None:
        _C._set_grad_modes(self._previous)


class no_grad(_SetsModes):
    """Context manager and decorator that disables recording: results do not require gradients.

    The mode belongs to the thread.

    Args:
        orig_func: the function to decorate, where the decorator is written without parentheses.
    See also: `inference_mode`, `enable_grad`

    Example:
        >>> x = flambeau.tensor([1.0], requires_grad=True)
        >>> with flambeau.no_grad():
        ...     (x * 2).requires_grad
        False
    """

    _off = _GRAD

    def __new__(cls, orig_func: Any = None) -> Any:
        """Decorate at once, if it is written without parentheses."""
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


class enable_grad(_SetsModes):
    """Context manager and decorator that enables recording inside a block where it is disabled.

    Args:
        orig_func: the function to decorate, where the decorator is written without parentheses.

    Example:
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> with flambeau.no_grad(), flambeau.enable_grad():
        ...     (x * 2).requires_grad
        True
    """

    _on = _GRAD

    def __new__(cls, orig_func: Any = None) -> Any:
        """Decorate at once, if it is written without parentheses."""
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


class set_grad_enabled(_Decorator):
    """Setting of recording; takes effect at once, and until the end of the block as a context manager.

    Args:
        mode: whether to record.

    Example:
        >>> x = flambeau.ones(1, requires_grad=True)
        >>> with flambeau.set_grad_enabled(False):
        ...     (x * 2).requires_grad
        False
    """

    def __init__(self, mode: bool) -> None:
        self._previous = is_grad_enabled()
        self.mode = mode
        _C._set_grad_enabled(mode)

    def __call__(self, function: _F) -> _F:
        """Decorate a function, and restore the mode that the constructor has changed."""
        _C._set_grad_enabled(self._previous)
        return super().__call__(function)

    def __enter__(self) -> None:
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *_: object) -> None:
        _C._set_grad_enabled(self._previous)

    def clone(self) -> Self:
        """Return a manager of the same mode."""
        return type(self)(self.mode)


class inference_mode(_Decorator):
    """Context manager and decorator that disables recording, also for later uses of the tensors made inside.

    Tensors made inside are inference tensors: they track neither views nor versions and cost less than those
    made under `no_grad`. Autograd refuses to save them later.

    Args:
        mode: whether inference mode is on; or the function to decorate, without parentheses.

    Example:
        >>> with flambeau.inference_mode():
        ...     y = flambeau.ones(1) * 2
        >>> y.is_inference()
        True
    """

    def __new__(cls, mode: Any = True) -> Any:
        """Decorate at once, if it is written without parentheses."""
        made = super().__new__(cls)
        if callable(mode):
            made.mode = True
            return made(mode)
        return made

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self._previous = _C._get_grad_modes()
        _C._set_grad_modes(_INFERENCE if self.mode else _GRAD | _FORWARD)

    def __exit__(self, *_: object) -> None:
        _C._set_grad_modes(self._previous)

    def clone(self) -> Self:
        """Return a manager of the same mode."""
        return type(self)(self.mode)


class set_multithreading_enabled(_Decorator):
    """Setting without effect, accepted for PyTorch's programs: backward always runs in the calling thread.

    Args:
        mode: no effect.

    Example:
        >>> with flambeau.autograd.set_multithreading_enabled(False):
        ...     print("one thread")
        one thread
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def clone(self) -> Self:
        """Return a manager of the same mode."""
        return type(self)(self.mode)


class enforce_grad_layout_policy(_Decorator):
    """Setting without effect, accepted for PyTorch's programs: gradients have the strides of their tensor.

    Args:
        enable: whether accumulated gradients must have the strides of their tensor. False permits other
            strides.

    Example:
        >>> from flambeau.autograd.grad_mode import enforce_grad_layout_policy
        >>> with enforce_grad_layout_policy(True):
        ...     print("strides agree")
        strides agree
    """

    def __init__(self, enable: bool = True) -> None:
        self.enable = enable

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def clone(self) -> Self:
        """Return a manager of the same policy."""
        return type(self)(self.enable)
