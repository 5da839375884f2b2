"""`is_compiling`, under the path from which libraries import it."""

from flambeau.compiler import is_compiling

__all__ = ["is_compiling"]
