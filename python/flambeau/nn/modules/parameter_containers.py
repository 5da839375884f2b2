"""Modules that hold parameters by position and by name, and any other objects along with them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from flambeau import Tensor
from flambeau.nn.modules.containers import pairs_of, position
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def _as_parameter(value: Any) -> Any:
    """Return tensors as parameters, anything else as it is."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _described(entries: Iterable[tuple[Any, Any]], kind: Callable[[Tensor], str]) -> str:
    """One line for each entry: its type, and the sizes of a parameter."""
    lines = []
    for name, value in entries:
        if isinstance(value, Tensor):
            owner = "Parameter" if isinstance(value, Parameter) else "Tensor"
            text = f"{owner} containing: [{kind(value)} of size {'x'.join(map(str, value.shape))}]"
        else:
            text = f"Object of type: {type(value).__name__}"
        lines.append(f"  ({name}): {text}")
    return "\n".join(lines)


class ParameterList(Module):
    """List of parameters that belong to the module that holds it.

    Tensors become parameters; other objects stay as they are.

    Args:
        values: the tensors or other objects. None means none yet.
    See also: ParameterDict, ModuleList

    Example:
        >>> flambeau.nn.ParameterList([flambeau.zeros(2), flambeau.zeros(3, 4)])
        ParameterList(
            (0): Parameter containing: [flambeau.float32 of size 2]
            (1): Parameter containing: [flambeau.float32 of size 3x4]
        )
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def extra_repr(self) -> str:
        """Show dtypes and sizes."""
        return _described(enumerate(self), lambda p: str(p.dtype))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _get_abs_string_index(self, idx: Any) -> str:
        return str(position(type(self).__name__, idx, len(self)))

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(*index.indices(len(self))))
        return getattr(self, self._get_abs_string_index(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._get_abs_string_index(index), _as_parameter(value))

    def append(self, value: Any) -> ParameterList:
        """Add a parameter or an object at the end."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters and objects at the end."""
        iterable = isinstance(values, Container | Iterator) and not isinstance(values, Tensor)
        if not iterable:
            raise TypeError(f"ParameterList.extend: expected an iterable, got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    __iadd__ = extend

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "ParameterList: ParameterList should not be called, since it has no forward; use its parameters"
        )


class ParameterDict(Module):
    """Dictionary of parameters that belong to the module that holds it.

    Tensors become parameters; other objects stay as they are. It keeps the order of insertion.

    Args:
        parameters: a mapping of names to tensors or other objects, or pairs of both. None means none yet.
    See also: ParameterList, ModuleDict

    Example:
        >>> table = flambeau.nn.ParameterDict({"scale": flambeau.ones(2)})
        >>> type(table["scale"]).__name__
        'Parameter'
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def extra_repr(self) -> str:
        """Show types and sizes."""
        return _described(self.items(), lambda p: p.type())

    def _key_to_attr(self, key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: expected names that are strings, got {key!r}")
        return key

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._key_to_attr(key)
        setattr(self, name, _as_parameter(value))
        self._keys[name] = None

    def __delitem__(self, key: str) -> None:
        name = self._key_to_attr(key)
        del self._keys[name]
        delattr(self, name)

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._keys.keys()

    def values(self) -> Iterable[Any]:
        """Return the values."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of names and values."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a name, or `default`."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a name, which becomes `default` where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove an entry and return its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last entry and return it."""
        key, _ = self._keys.popitem()
        value = getattr(self, key)
        delattr(self, key)
        return key, value

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """Return another dictionary of the same values."""
        return ParameterDict({key: self[key] for key in self._keys})

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new dictionary with these names, whose values are all `default`."""
        return ParameterDict({key: default for key in keys})

    def update(self, parameters: Any) -> None:
        """Add or replace entries, in the given order."""
        for key, value in pairs_of(parameters, "ParameterDict"):
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ror__(self, other: Mapping[str, Any]) -> ParameterDict:
        out = ParameterDict(other)
        out.update(self)
        return out

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def __call__(self, input: Any) -> Any:
        raise RuntimeError(
            "ParameterDict: ParameterDict should not be called, since it has no forward; use its parameters"
        )
