"""What marks compiled modules and functions."""

from __future__ import annotations

from flambeau.compiler import disable
from flambeau.nn import Module

__all__ = ["OptimizedModule", "disable", "is_dynamo_supported"]


class OptimizedModule(Module):
    """The class of compiled modules, for `isinstance`. No object of it exists yet."""

    def __init__(self, mod: Module, dynamo_ctx: object = None) -> None:
        raise RuntimeError("OptimizedModule: flambeau has no compiler yet")


def is_dynamo_supported() -> bool:
    """Whether graphs can be captured from bytecode: False."""
    return False
