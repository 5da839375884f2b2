"""Modules that hold modules or parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flambeau import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def _position(index: Any, count: int) -> int:
    place = operator.index(index)
    if not -count <= place < count:
        raise IndexError(f"index {place} is out of range for {count} entries")
    return place % count


class Sequential(Module):
    """Call modules one after the other, each on the result of the one before.

    Args:
        args: the modules, or one ordered mapping of names to modules.
    """

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)  # type: ignore[arg-type]

    def forward(self, input: Any) -> Any:
        """Pass `input` through all modules."""
        for module in self._modules.values():
            input = module(input)
        return input

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: int | slice) -> Module:
        names = list(self._modules)
        if isinstance(index, slice):
            return type(self)(OrderedDict((name, self._modules[name]) for name in names[index]))
        return self._modules[names[_position(index, len(names))]]  # type: ignore[no-any-return]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[list(self._modules)[_position(index, len(self))]] = module

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)
        gone = names[index] if isinstance(index, slice) else [names[_position(index, len(names))]]
        kept = [module for name, module in self._modules.items() if name not in gone]
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(kept))

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Sequential:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self


class ModuleList(Module):
    """A list of modules whose parameters are found."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[str(_position(index, len(self)))]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[str(_position(index, len(self)))] = module

    def _renumber(self, modules: list[Module]) -> None:
        self._modules.clear()
        self.extend(modules)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        del modules[index]
        self._renumber(modules)

    def insert(self, index: int, module: Module) -> None:
        """Insert a module before `index`."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self


class ModuleDict(Module):
    """A dict of modules whose parameters are found; keeps the order of insertion."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]  # type: ignore[no-any-return]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

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
        for name, module in modules.items() if isinstance(modules, Mapping) else modules:
            self[name] = module


class ParameterList(Module):
    """A list of parameters; tensors become parameters."""

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        for value in values or ():
            self.append(value)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int) -> Parameter:
        return self._parameters[str(_position(index, len(self)))]  # type: ignore[no-any-return]

    def append(self, value: Tensor) -> ParameterList:
        """Add a parameter at the end."""
        parameter = value if isinstance(value, Parameter) else Parameter(value)
        self.register_parameter(str(len(self)), parameter)
        return self
