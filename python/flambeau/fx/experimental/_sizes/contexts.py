"""How the sizes of an input become symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class DimDynamic(Enum):
    """How a dimension is treated.

    DYNAMIC: a symbol of its own. DUCK: a symbol that dimensions of equal size share. STATIC: a constant.
    SIZE_LIKE_UNBACKED: a symbol without an example value.
    """

    DYNAMIC = 0
    DUCK = 1
    STATIC = 2
    SIZE_LIKE_UNBACKED = 3
    INFER_STRIDE = 4
    OBLIVIOUS_SIZE = 5


class SymbolicContext:
    """The base of descriptions of how a tensor's sizes become symbols."""


@dataclass(frozen=True)
class StatelessSymbolicContext(SymbolicContext):
    """How each dimension of a tensor is treated.

    Args:
        dynamic_sizes: a `DimDynamic` per dimension; None: DUCK for all.
        dynamic_strides: accepted.
        constraint_sizes: accepted.
        constraint_strides: accepted.
        specialize_on: accepted.
        view_base_context: accepted.

    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
        >>> from flambeau.fx.experimental.symbolic_shapes import StatelessSymbolicContext
        >>> context = StatelessSymbolicContext([DimDynamic.STATIC, DimDynamic.DYNAMIC])
        >>> env = ShapeEnv()
        >>> x = flambeau.ones(3, 3)
        >>> env.create_symbolic_sizes_strides_storage_offset(x, "x", symbolic_context=context)
        ((3, s0), (s0, 1), 0)
    """

    dynamic_sizes: Sequence[DimDynamic] | None = None
    dynamic_strides: Any = None
    constraint_sizes: Any = None
    constraint_strides: Any = None
    specialize_on: Any = None
    view_base_context: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    def treatment(self, dim: int) -> DimDynamic:
        """Return how a dimension is treated."""
        return DimDynamic.DUCK if self.dynamic_sizes is None else self.dynamic_sizes[dim]
