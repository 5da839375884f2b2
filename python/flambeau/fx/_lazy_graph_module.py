"""Constructors of GraphModules that passes call. They generate code at once, not lazily."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flambeau.fx.graph_module import GraphModule

_LazyGraphModule = GraphModule


@contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    yield


def _force_skip_lazy_graph_module() -> Any:
    return _use_lazy_graph_module(False)


def _get_graph_module_cls() -> type[GraphModule]:
    return GraphModule


def _make_graph_module(*args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any) -> Any:
    return (graph_module_cls or GraphModule)(*args, **kwargs)
