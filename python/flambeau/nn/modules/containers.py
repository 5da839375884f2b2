"""Modules that hold modules or parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from flambeau import Tensor
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import Parameter


def _position(index: Any, count: int) -> int:
    place = operator.index(index)
    if not -count <= place < count:
        raise IndexError(f"index {place} is beyond {count} entries")
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
            for i, layer in enumerate(args):
                self.add_module(str(i), layer)  # type: ignore[arg-type]

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
        return self._modules[names[_position(index, len(names))]]

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
        return self._modules[key]

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


def _described(parameters: dict[str, Any], kind: Callable[[Tensor], str]) -> str:
    """One line for each parameter: its type and sizes."""
    return "\n".join(
        f"  ({name}): Parameter containing: [{kind(p)} of size {'x'.join(map(str, p.shape))}]"
        for name, p in parameters.items()
        if p is not None
    )


class ParameterList(Module):
    """A list of parameters; tensors become parameters."""

    def extra_repr(self) -> str:
        """Show dtypes and sizes."""
        return _described(self._parameters, lambda p: str(p.dtype))

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        for value in values or ():
            self.append(value)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int) -> Parameter:
        return self._parameters[str(_position(index, len(self)))]

    def append(self, value: Tensor) -> ParameterList:
        """Add a parameter at the end."""
        parameter = value if isinstance(value, Parameter) else Parameter(value)
        self.register_parameter(str(len(self)), parameter)
        return self


class ParameterDict(Module):
    """Parameters by name; tensors become parameters.

    Args:
        parameters: a mapping, or pairs of names and tensors.
    """

    def extra_repr(self) -> str:
        """Show types and sizes."""
        return _described(self._parameters, lambda p: p.type())

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self.update({} if parameters is None else parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._parameters))

    def __contains__(self, key: str) -> bool:
        return key in self._parameters

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def __setitem__(self, key: str, value: Tensor | None) -> None:
        made = value if value is None or isinstance(value, Parameter) else Parameter(value)
        self.register_parameter(key, made)

    def __delitem__(self, key: str) -> None:
        del self._parameters[key]

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self._parameters.keys()

    def values(self) -> Iterable[Any]:
        """Return the parameters."""
        return self._parameters.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return pairs of names and parameters."""
        return self._parameters.items()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the parameter of a name, or `default`."""
        return self._parameters.get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the parameter of a name, which becomes `default` where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Remove a parameter and return it."""
        value = self[key]
        del self[key]
        return value

    def clear(self) -> None:
        """Remove all parameters."""
        self._parameters.clear()

    def copy(self) -> ParameterDict:
        """Return another dictionary of the same parameters."""
        return ParameterDict(dict(self._parameters))

    def update(self, parameters: Any) -> None:
        """Add parameters, in the given order."""
        pairs = parameters.items() if isinstance(parameters, Mapping | ParameterDict) else parameters
        for key, value in pairs:
            self[key] = value
