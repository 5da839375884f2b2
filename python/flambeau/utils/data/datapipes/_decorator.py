"""Checks around data sets that are chained: of arguments, of samples, and of determinism."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from flambeau.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

_switches = {"deterministic": False, "validating": True}


class _Switch:
    """Sets a switch within a block; whether decorated code finds it so depends on when it runs."""

    _name = ""
    _value = False

    def __init__(self) -> None:
        self._previous = _switches[self._name]
        _switches[self._name] = self._value

    def __enter__(self) -> Self:
        _switches[self._name] = self._value
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _switches[self._name] = self._previous


class guaranteed_datapipes_determinism(_Switch):
    """Refuse data sets that are marked as `non_deterministic`, from here to the end of the block."""

    _name, _value = "deterministic", True


class runtime_validation_disabled(_Switch):
    """Switch `runtime_validation` off, from here to the end of the block."""

    _name, _value = "validating", False


class non_deterministic:
    """Mark a data set whose order or samples may differ from pass to pass.

    Args:
        arg: the class, or a function of the constructor's arguments that says whether the instance is such.

    >>> @non_deterministic(lambda source, shuffle=False: shuffle)
    ... class Order(IterDataPipe):
    ...     def __init__(self, source, shuffle=False): self.source = source
    """

    cls: type[IterDataPipe] | None = None

    def __init__(self, arg: type[IterDataPipe] | Callable[..., bool]) -> None:
        if isinstance(arg, type):
            if not issubclass(arg, IterDataPipe):
                raise TypeError(f"non_deterministic: expected an IterDataPipe class, got {arg.__name__}")
            self.cls = arg
        elif not callable(arg):
            raise TypeError(
                f"non_deterministic: expected an IterDataPipe class or a function, got {arg}, which can "
                "not be decorated by non_deterministic"
            )
        else:
            self.deterministic_fn = arg

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is not None:
            self._refuse(self.cls)
            return self.cls(*args, **kwargs)
        given = args[0] if len(args) == 1 and not kwargs else None
        if not (isinstance(given, type) and issubclass(given, IterDataPipe)):
            raise TypeError(f"non_deterministic: expected an IterDataPipe class to decorate, got {given!r}")
        self.cls = given
        return self.deterministic_wrapper_fn

    def deterministic_wrapper_fn(self, *args: Any, **kwargs: Any) -> IterDataPipe:
        """Make an instance, if what was decided about its arguments is allowed."""
        assert self.cls is not None
        decided = self.deterministic_fn(*args, **kwargs)
        if not isinstance(decided, bool):
            raise TypeError(f"non_deterministic: expected a bool as decision, got {type(decided).__name__}")
        if decided:
            self._refuse(self.cls)
        return self.cls(*args, **kwargs)

    @staticmethod
    def _refuse(cls: type) -> None:
        if _switches["deterministic"]:
            raise TypeError(
                f"{cls.__name__}: expected a deterministic data pipe within "
                "guaranteed_datapipes_determinism, got one that is non-deterministic"
            )


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Check that arguments annotated as data sets are such; TypeError if one is not."""
    signature, hints = inspect.signature(f), typing.get_type_hints(f)

    @functools.wraps(f)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            hint = hints.get(name)
            kind = typing.get_origin(hint) or hint
            if isinstance(kind, type) and issubclass(kind, IterDataPipe | MapDataPipe):
                if not isinstance(value, kind):
                    raise TypeError(
                        f"{f.__name__}: Expected argument '{name}' to be a {kind.__name__}, got "
                        f"{type(value).__name__}"
                    )
        return f(*args, **kwargs)

    return wrapper


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Check the samples of an ``__iter__`` against the data set's ``type``, where it has one."""

    @functools.wraps(f)
    def wrapper(self: Any) -> Iterator[Any]:
        samples = f(self)
        check = getattr(getattr(self, "type", None), "issubtype_of_instance", None)
        if check is None or not _switches["validating"]:
            yield from samples
            return
        for sample in samples:
            if not check(sample):
                raise RuntimeError(
                    f"{type(self).__name__}: Expected an instance as subtype of {self.type}, got {sample!r}"
                )
            yield sample

    return wrapper
