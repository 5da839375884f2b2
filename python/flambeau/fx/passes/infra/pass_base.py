"""PassBase: a pass with checks before and after."""

from __future__ import annotations

import abc
from typing import NamedTuple

from flambeau.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """The result of a pass.

    Attributes:
        graph_module: the module, changed or new.
        modified: whether anything changed.
    """

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """A pass; subclasses define `call` and optionally the checks `requires` and `ensures`."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Check, run, and check again."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change the module."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027  (a hook)
        """Raise an error if the module does not meet the pass's precondition."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027  (a hook)
        """Raise an error if the module does not meet the pass's postcondition."""
