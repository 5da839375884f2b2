"""Member: what a `ParameterGroup` gathers, frees and reduces."""

from __future__ import annotations

from typing import Any, Protocol

import flambeau
from flambeau import Tensor
from flambeau.distributed.fsdp._layout import Layout
from flambeau.nn.modules.module import Module


class Member(Protocol):
    """A parameter, or several that are divided as one."""

    name: str
    dtype: flambeau.dtype
    resharded: Tensor | None
    places: list[tuple[Module, str]]

    @property
    def requires_grad(self) -> bool:
        """Whether it needs gradients."""

    @property
    def device(self) -> Any:
        """The device of the part."""

    @property
    def has_grad(self) -> bool:
        """Whether the whole has a gradient."""

    def use_whole(self) -> None:
        """Let the modules have the whole."""

    def use_part(self) -> None:
        """Let the modules have the part."""

    def keep_part(self) -> None:
        """Let the modules have a part in a smaller layout."""

    def refresh(self) -> None:
        """Take over what a conversion or loading has given the modules."""

    def part(self) -> Tensor:
        """Return this process's part."""

    def chunk(self, layout: Layout) -> int:
        """Return the number of elements of the largest part."""

    def fill(self, parts: Tensor, layout: Layout, dtype: flambeau.dtype) -> None:
        """Give the whole its memory and its elements: one row per process."""

    def free(self) -> None:
        """Free the memory of the whole."""

    def take_grad(self) -> Any:
        """Return the gradient of the whole, and forget it."""

    def keep_grad(self, dtype: flambeau.dtype) -> None:
        """Keep the gradient of the whole, in the dtype of the reduction, for a later pass."""

    def drop_grad(self) -> None:
        """Forget the gradient of the whole."""

    def write_parts(self, grad: Any, rows: Tensor) -> None:
        """Write a gradient to a matrix with one row per process; None: zeros."""

    def add_grad(self, reduced: Tensor) -> None:
        """Add this process's part of the reduced gradient to that of the part."""
