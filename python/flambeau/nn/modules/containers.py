"""Modules that hold modules: in order, as a list, by name."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from flambeau.nn.modules.module import Module


def position(who: str, index: Any, count: int) -> int:
    """Return an index of a sequence of `count` entries, counted from its start."""
    place = operator.index(index)
    if not -count <= place < count:
        raise IndexError(
            f"{who}: index {place} is out of range: expected {-count} to {count - 1}, got {place}"
        )
    return place % count


def pairs_of(entries: Any, owner: str) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a mapping, or of an iterable of pairs.

    Raises: TypeError for a value that is not an iterable, ValueError for an item that is not a pair.
    """
    if not isinstance(entries, Iterable):
        raise TypeError(
            f"{owner}.update: expected a mapping or an iterable of pairs, got {type(entries).__name__}"
        )
    if isinstance(entries, Mapping | Module) and hasattr(entries, "items"):
        yield from list(entries.items())
        return
    for i, pair in enumerate(entries):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{owner}.update: expected pairs, got a {type(pair).__name__} as item {i}")
        parts = list(pair)
        if len(parts) != 2:
            raise ValueError(
                f"{owner}.update: expected pairs, got length {len(parts)} of item {i}; 2 is required"
            )
        yield parts[0], parts[1]


class Container(Module):
    """Deprecated form of `Module` that takes submodules by keyword."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn("Container is deprecated: subclass Module", FutureWarning, stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Numbered(Module):
    """What lists of modules share: access by position, with the positions as names."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]

    def _name_at(self, index: Any) -> str:
        names = list(self._modules)
        return names[position(type(self).__name__, index, len(names))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        gone = names[index] if isinstance(index, slice) else [self._name_at(index)]
        self._renumber([module for name, module in self._modules.items() if name not in gone])

    def _renumber(self, modules: Iterable[Module | None]) -> None:
        numbered = {str(i): module for i, module in enumerate(modules)}
        self._modules.clear()
        self._modules.update(numbered)

    def pop(self, key: int) -> Any:
        """Remove the module at a position and return it."""
        module = self[key]  # type: ignore[index]
        del self[key]
        return module

    def append(self: Any, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self


class Sequential(_Numbered):
    """Chain of modules: each is called with the result of the one before.

    Indices and slices give modules and shorter chains; `+` joins chains, `*` repeats one.

    Args:
        *args: the modules, named by their positions, or one mapping of names to modules.
    See also: ModuleList

    Example:
        >>> chain = flambeau.nn.Sequential(flambeau.nn.Flatten(), flambeau.nn.Linear(4, 2))
        >>> chain(flambeau.zeros(3, 2, 2)).shape
        flambeau.Size([3, 2])
    """

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, layer in enumerate(args):
                self.add_module(str(i), layer)  # type: ignore[arg-type]

    def forward(self, input: Any) -> Any:
        """Pass `input` through all modules."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential.__add__: expected a Sequential, got {type(other).__name__}")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential.__iadd__: expected a Sequential, got {type(other).__name__}")
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*(list(self) * _checked_times(times)))

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        return self.extend(list(self) * (_checked_times(times) - 1))

    def insert(self, index: int, module: Module) -> Sequential:
        """Insert a module before `index`.

        Raises: AssertionError for a value that is not a module, IndexError beyond the end.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"insert: expected a Module, got {type(module).__name__}")
        if not -len(self) <= index <= len(self):
            raise IndexError(
                f"Sequential.insert: Index out of range: expected {-len(self)} to {len(self)}, got {index}"
            )
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Add modules at the end."""
        for module in list(sequential):
            self.append(module)
        return self


def _checked_times(times: Any) -> int:
    if not isinstance(times, int):
        raise TypeError(
            "Sequential.__mul__: unsupported operand type(s) for *: expected an int, got "
            f"{type(times).__name__}"
        )
    if times <= 0:
        raise ValueError(f"Sequential.__mul__: expected 1 or more, got {times}")
    return times


class ModuleList(_Numbered):
    """List of modules whose parameters belong to the module that holds it.

    Indices, slices, `append`, `extend`, `insert`, `pop` and `+` work as for a Python list. The list itself
    cannot be called.

    Args:
        modules: the modules. None means none yet.
    See also: ModuleDict, Sequential

    Example:
        >>> layers = flambeau.nn.ModuleList([flambeau.nn.Linear(2, 2) for _ in range(3)])
        >>> len(layers), len(list(layers.parameters()))
        (3, 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._name_at(index)]

    def _get_abs_string_index(self, idx: int) -> str:
        return self._name_at(idx)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def _children_shown(self) -> list[tuple[str, str]]:
        """Modules that look alike and follow each other are shown once."""
        shown: list[tuple[str, str]] = []
        first = 0
        for text, run in groupby(map(repr, self)):
            last = first + len(list(run)) - 1
            alike = f"{last - first + 1} x {text}"
            shown.append((str(first), text) if first == last else (f"{first}-{last}", alike))
            first = last + 1
        return shown

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before `index`."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend: expected an iterable, got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self


class ModuleDict(Module):
    """Dictionary of modules whose parameters belong to the module that holds it.

    It keeps the order of insertion. The dictionary itself cannot be called.

    Args:
        modules: a mapping of names to modules, or pairs of both. None means none yet.
    See also: ModuleList

    Example:
        >>> choices = flambeau.nn.ModuleDict({"relu": flambeau.nn.ReLU(), "tanh": flambeau.nn.Tanh()})
        >>> choices["relu"](flambeau.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove a module and return it."""
        module = self[key]
        del self[key]
        return module

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        """Return the modules."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        """Return names and modules."""
        return self._modules.items()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace modules."""
        for name, module in pairs_of(modules, "ModuleDict"):
            self[name] = module
