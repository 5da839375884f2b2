"""Context managers that decorate functions, generators and classes as well."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def _wrap_generator(ctx_factory: Callable[[], Any], func: Callable[..., Any]) -> Callable[..., Any]:
    """Run each piece of a generator, from one value to the next, within a context."""

    @functools.wraps(func)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = func(*args, **kwargs)
        resume: Callable[[], Any] = lambda: next(inner)  # noqa: E731
        try:
            while True:
                try:
                    with ctx_factory():
                        value = resume()
                except StopIteration as stop:
                    return stop.value
                try:
                    sent = yield value
                except GeneratorExit:
                    with ctx_factory():
                        inner.close()
                    raise
                except BaseException as error:
                    resume = functools.partial(inner.throw, error)
                else:
                    resume = functools.partial(inner.send, sent)
        finally:
            inner.close()

    return generator


def context_decorator(ctx: Any, func: Any) -> Any:
    """Return a function that runs within a context, or a class whose objects are made within it.

    Args:
        ctx: a context manager that can be entered again and again, or what makes one.
        func: what to decorate.
    """
    if callable(ctx) and hasattr(ctx, "__enter__"):
        raise AssertionError(
            "context_decorator: expected a context manager or a function that makes one, got an object that "
            f"is both: {ctx}"
        )
    factory = ctx if callable(ctx) else lambda: ctx
    if inspect.isclass(func):
        raise RuntimeError(f"{func.__name__}: Cannot decorate classes; decorate their methods instead")
    if inspect.isgeneratorfunction(func):
        return _wrap_generator(factory, func)

    @functools.wraps(func)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with factory():
            return func(*args, **kwargs)

    return decorated


class _DecoratorContextManager:
    """A context manager that decorates: each call runs within a copy of it."""

    def __call__(self, orig_func: Any) -> Any:
        if inspect.isclass(orig_func):
            message = f"Decorating the class {orig_func.__name__} is deprecated: decorate its methods"
            warnings.warn(message, FutureWarning, stacklevel=2)
            setattr(orig_func, "__init__", self(orig_func.__init__))  # noqa: B010  (mypy refuses the other)
            return orig_func
        return context_decorator(self.clone, orig_func)

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """Return a new context manager with the same options."""
        return self.__class__()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """A context manager without options, which decorates without parentheses: ``@no_grad``."""

    def __new__(cls, orig_func: Any = None) -> Any:
        """Decorate `orig_func`, or make the context manager."""
        if orig_func is None:
            return super().__new__(cls)
        return cls()(orig_func)
