"""The question whether a graph is being captured, at the place where libraries ask it."""

from flambeau.compiler import is_compiling

__all__ = ["is_compiling"]
