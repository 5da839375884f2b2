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
    """Record nothing within the block: results do not require gradients.

    >>> import flambeau as fb
    >>> x = fb.tensor([1.0], requires_grad=True)
    >>> with fb.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    _off = _GRAD

    def __new__(cls, orig_func: Any = None) -> Any:
        """Decorate at once, if it is written without parentheses."""
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


class enable_grad(_SetsModes):
    """Record again, within a block where recording is off."""

    _on = _GRAD

    def __new__(cls, orig_func: Any = None) -> Any:
        """Decorate at once, if it is written without parentheses."""
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)


class set_grad_enabled(_Decorator):
    """Switch recording on or off: at once, and back at the end of the block if it is one.

    Args:
        mode: whether to record.
    """

    def __init__(self, mode: bool) -> None:
        self._previous = is_grad_enabled()
        self.mode = mode
        _C._set_grad_enabled(mode)

    def __call__(self, function: _F) -> _F:
        """Decorate; the mode that was set at once is put back."""
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
    """Record nothing, and let nothing that is made here be recorded later.

    Tensors made within the block are inference tensors: they know neither views nor versions, which
    makes them cheaper than those of ``no_grad``.

    Args:
        mode: False switches inference mode off within a block where it is on.
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
    """Accepted for PyTorch's programs; the engine always runs in the calling thread."""

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
    """Whether an accumulated gradient must have the strides of its tensor; here it has them always.

    False permits other strides and does not ask for them, so that it changes nothing.

    Args:
        enable: whether it must.
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
