"""Builtin functions in Python, which capture interprets where C code would call back into Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

_NOTHING = object()


def called(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call a function."""
    return function(*args)


def collected(kind: Callable[[list[Any]], Any], values: Iterable[Any]) -> Any:
    """Return a collection of the elements of any iterable."""
    found = []
    for value in values:
        found.append(value)
    return kind(found)


def extended(found: list[Any], values: Iterable[Any]) -> list[Any]:
    """Append the elements of any iterable to a list."""
    for value in values:
        found.append(value)
    return found


def attributes_of(value: Any, *paths: str) -> Any:
    """``operator.attrgetter(*paths)(value)``."""
    found = []
    for path in paths:
        result = value
        for name in path.split("."):
            result = getattr(result, name)
        found.append(result)
    return found[0] if len(found) == 1 else tuple(found)


def items_of(value: Any, *keys: Any) -> Any:
    """``operator.itemgetter(*keys)(value)``."""
    found = [value[key] for key in keys]
    return found[0] if len(found) == 1 else tuple(found)


def sum_of(values: Iterable[Any], start: Any = 0) -> Any:
    """``sum``."""
    for value in values:
        start = start + value
    return start


def any_of(values: Iterable[Any]) -> bool:
    """``any``."""
    for value in values:
        if value:
            return True
    return False


def all_of(values: Iterable[Any]) -> bool:
    """``all``."""
    for value in values:
        if not value:
            return False
    return True


def mapped(function: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
    """``map``."""
    for values in zip(*iterables):  # noqa: B905 - as map
        yield function(*values)


def mapped_one(function: Callable[..., Any], values: Iterable[Any]) -> Iterator[Any]:
    """``map`` over one iterable."""
    for value in values:
        yield function(value)


def filtered(function: Callable[..., Any] | None, values: Iterable[Any]) -> Iterator[Any]:
    """``filter``."""
    for value in values:
        if value if function is None else function(value):
            yield value


def reduced(function: Callable[..., Any], values: Iterable[Any], start: Any = _NOTHING) -> Any:
    """``functools.reduce``."""
    for value in values:
        start = value if start is _NOTHING else function(start, value)
    if start is _NOTHING:
        raise TypeError("reduce() of empty iterable with no initial value")
    return start


def enumerated(values: Iterable[Any], start: int = 0) -> Iterator[tuple[int, Any]]:
    """``enumerate``."""
    for value in values:
        yield start, value
        start += 1


def zipped(*iterables: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """``zip`` of any iterables."""
    iterators = [iter(values) for values in iterables]
    while iterators:
        found = []
        for one in iterators:
            value = next(one, _NOTHING)
            if value is _NOTHING:
                return
            found.append(value)
        yield tuple(found)


def ordered(values: Iterable[Any], *, key: Callable[[Any], Any], reverse: bool = False) -> list[Any]:
    """``sorted`` with a key."""
    found = [*values]
    keys = [key(value) for value in found]
    places = sorted(range(len(found)), key=keys.__getitem__, reverse=reverse)
    return [found[i] for i in places]


def extreme(pick: Callable[[list[Any]], Any], values: Iterable[Any], key: Callable[[Any], Any]) -> Any:
    """``min`` and ``max`` with a key."""
    found = [*values]
    keys = [key(value) for value in found]
    return found[keys.index(pick(keys))]


def contains(values: Iterable[Any], wanted: Any) -> bool:
    """``wanted in values`` for values that are compared by Python code."""
    for value in values:
        if value is wanted or value == wanted:
            return True
    return False


def lacks(values: Any, wanted: Any) -> bool:
    """``wanted not in values`` for an object with ``__contains__``."""
    return not type(values).__contains__(values, wanted)


def holds(values: Any, wanted: Any) -> bool:
    """``wanted in values`` for an object with ``__contains__``."""
    return bool(type(values).__contains__(values, wanted))


def iterated(values: Any) -> Iterator[Any]:
    """The elements of an object with ``__getitem__`` and no ``__iter__``."""
    i = 0
    while True:
        try:
            value = values[i]
        except IndexError:
            return
        yield value
        i += 1


def stepped(iterator: Any) -> Iterator[Any]:
    """The elements of an iterator whose ``__next__`` is Python code."""
    step = type(iterator).__next__
    while True:
        try:
            value = step(iterator)
        except StopIteration:
            return
        yield value


def next_or(iterator: Any, default: Any) -> Any:
    """``next`` with a default."""
    try:
        return next(iterator)
    except StopIteration:
        return default


def binary(a: Any, b: Any, name: str, reflected: str) -> Any:
    """A binary operator that the class of an operand defines in Python."""
    method = getattr(type(a), name, None)
    other = getattr(type(b), reflected, None)
    first = other if other is not None and type(a) is not type(b) and issubclass(type(b), type(a)) else None
    if first is not None:
        result = first(b, a)
        if result is not NotImplemented:
            return result
    if method is not None:
        result = method(a, b)
        if result is not NotImplemented:
            return result
    if other is not None and first is None:
        result = other(b, a)
        if result is not NotImplemented:
            return result
    return NotImplemented


def cached(value: Any, function: Callable[[Any], Any], name: str) -> Any:
    """``functools.cached_property``."""
    result = function(value)
    value.__dict__[name] = result
    return result


def constructed(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a class with a ``__new__`` in Python."""
    value = kind.__new__(kind, *args, **kwargs)
    if isinstance(value, kind):
        type(value).__init__(value, *args, **kwargs)
    return value
