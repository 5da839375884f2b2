"""Data sets that are chained: a registered method makes a new data set from the one that it is called on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

from flambeau.utils.data.datapipes._single import single
from flambeau.utils.data.dataset import Dataset, IterableDataset

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]


class _Chained:
    """Registered functions as methods."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}
    getstate_hook: ClassVar[Callable[..., Any] | None] = None
    reduce_ex_hook: ClassVar[Callable[..., Any] | None] = None

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """Let ``hook_fn(instance)`` give what is pickled; RuntimeError if another hook does."""
        if _Chained.__dict__["getstate_hook"] is not None and hook_fn is not None:
            raise RuntimeError("set_getstate_hook: there is a getstate_hook; set None first")
        _Chained.getstate_hook = hook_fn

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[..., Any] | None) -> None:
        """Let ``hook_fn(instance)`` say how an instance is pickled; RuntimeError if another hook does."""
        if _Chained.__dict__["reduce_ex_hook"] is not None and hook_fn is not None:
            raise RuntimeError("set_reduce_ex_hook: there is a reduce_ex_hook; set None first")
        _Chained.reduce_ex_hook = hook_fn

    def __getstate__(self) -> Any:
        hook = _Chained.__dict__["getstate_hook"]
        return vars(self) if hook is None else hook(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        hook = _Chained.__dict__["reduce_ex_hook"]
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(protocol)

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Add a method to the data sets of this class."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Add a method that makes another data set from a data set."""
        if function_name in cls.functions:
            raise Exception(
                f"functional_datapipe: the function name {function_name!r} is already taken; choose another"
            )

        @functools.wraps(cls_to_register, assigned=("__doc__",), updated=())
        def function(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        cls.functions[function_name] = function


class IterDataPipe(_Chained, IterableDataset[Any]):
    """A stream of samples, which has one iterator at a time: another one makes the first raise RuntimeError.

    >>> @functional_datapipe("doubled_for_doctest")
    ... class Doubled(IterDataPipe):
    ...     def __init__(self, source): self.source = source
    ...     def __iter__(self): return (2 * x for x in self.source)
    >>> class Numbers(IterDataPipe):
    ...     def __iter__(self): return iter(range(3))
    >>> list(Numbers().doubled_for_doctest())
    [0, 2, 4]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    _valid_iterator_id: int | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__iter__" in vars(cls):
            cls.__iter__ = single(vars(cls)["__iter__"])  # type: ignore[method-assign]

    @single
    def __iter__(self) -> Any:
        return self

    def __repr__(self) -> str:
        return type(self).__qualname__

    def reset(self) -> None:
        """Start again; called when an iterator begins."""

    def _begin(self) -> int:
        """Return the number of an iterator that begins; `_is_current` is False for those before."""
        last = self._valid_iterator_id
        self._valid_iterator_id = 0 if last is None else last + 1
        self.reset()
        return self._valid_iterator_id

    def _is_current(self, number: int) -> bool:
        return self._valid_iterator_id == number


class DFIterDataPipe(IterDataPipe):
    """A stream of rows of a table."""


class MapDataPipe(_Chained, Dataset[Any]):
    """Samples by index."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class DataChunk(list[Any]):
    """A list of samples that a data set yields as one."""

    def __init__(self, items: Any) -> None:
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """Return the samples as text."""
        return indent + "[" + ", ".join(map(str, self)) + "]"

    def raw_iterator(self) -> Any:
        """Return an iterator over the samples."""
        return iter(self.items)


class functional_datapipe:
    """Register a class as a method of data sets.

    Args:
        name: of the method.
        enable_df_api_tracing: for tables.
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        for base in (IterDataPipe, MapDataPipe):
            if isinstance(cls, type) and issubclass(cls, base):
                base.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
                return cls
        raise TypeError(
            "functional_datapipe: `functional_datapipe` can only decorate IterDataPipe or "
            f"MapDataPipe: expected such a class, got {cls}"
        )
