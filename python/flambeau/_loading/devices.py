"""Functions for devices of a kind that this build lacks, with their signatures and documentation.

A row of a table is a function's name, its signature as a lambda that returns the result for no devices, and
the summary. A glossary has for each parameter its description and the value that examples pass.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from flambeau._loading.absence import absent_class

Table = Mapping[str, tuple[Callable[..., Any], str]]


@dataclass(frozen=True, slots=True)
class AbsentDevices:
    """A package of functions for devices: how they are documented, and how they refuse.

    Attributes:
        module: the package's name.
        glossary: parameter -> its description and its value in examples.
        error: the exception that functions raise which need a device.
        message: its text, which begins with ``{name}: `` for the function.
    """

    module: str
    glossary: Mapping[str, tuple[str, str]]
    error: type[Exception]
    message: str

    def idle(self, table: Table) -> dict[str, Callable[..., Any]]:
        """Return the functions of a table that apply to all devices, and so return without an effect."""
        for name, (function, summary) in table.items():
            value = function(*[None] * len(_required(function)))
            function.__module__, function.__name__, function.__qualname__ = self.module, name, name
            end = f"Returns: {value!r}, as this build has no device."
            shown = "" if value is None else f"{value!r}"
            function.__doc__ = self._text(name, summary, function, end, shown)
        return {name: function for name, (function, _) in table.items()}

    def refusing(self, table: Table) -> dict[str, Callable[..., NoReturn]]:
        """Return the functions of a table that need a device, and so raise the package's error."""
        return {name: self._function(name, *row) for name, row in table.items()}

    def classes(self, table: Table) -> dict[str, type]:
        """Return classes of a table that raise RuntimeError instead of making an instance."""
        return {name: self._class(name, *row) for name, row in table.items()}

    def _function(self, name: str, signature: Callable[..., Any], summary: str) -> Callable[..., NoReturn]:
        error, message = self.error, self.message.format(name=name)

        def function(*args: Any, **kwargs: Any) -> NoReturn:
            signature(*args, **kwargs)  # raises TypeError for arguments that do not fit
            raise error(message)

        signature.__name__ = signature.__qualname__ = name
        function.__module__, function.__name__, function.__qualname__ = self.module, name, name
        function.__wrapped__ = signature  # type: ignore[attr-defined]  # what `help` shows
        end = f"Returns: nothing in this build.\nRaises: {error.__name__}, as this build has no device."
        function.__doc__ = self._text(name, summary, signature, end, _raised(error, message))
        return function

    def _class(self, name: str, signature: Callable[..., Any], summary: str) -> type:
        missing = self.message.removeprefix("{name}: ")
        message = f"{self.module}.{name}: {missing}"
        end = "Raises: RuntimeError, as this build has no device."
        made = absent_class(name, self.module, missing, __signature__=inspect.signature(signature))
        made.__doc__ = self._text(name, summary, signature, end, _raised(RuntimeError, message))
        return made

    def _text(self, name: str, summary: str, signature: Callable[..., Any], end: str, shown: str) -> str:
        """Return a docstring whose example calls with the required arguments and prints `shown`."""
        listed = "".join(f"\n    {p}: {self.glossary[p][0]}" for p in _listed(signature))
        values = ", ".join(self.glossary[p][1] for p in _required(signature))
        example = "".join(f"\n    {line}" for line in shown.splitlines())
        arguments = f"Args:{listed}\n" if listed else ""
        return f"{summary}\n\n{arguments}{end}\n\nExample:\n    >>> {self.module}.{name}({values}){example}"


def _raised(error: type[Exception], message: str) -> str:
    return f"Traceback (most recent call last):\n{error.__name__}: {message}"


def _listed(signature: Callable[..., Any]) -> list[str]:
    """Return the names of all parameters, as docstrings write them."""
    parameters = inspect.signature(signature).parameters.values()
    return [f"**{p.name}" if p.kind is p.VAR_KEYWORD else p.name for p in parameters]


def _required(signature: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters without a default."""
    parameters = inspect.signature(signature).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
