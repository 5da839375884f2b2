"""`functional_call` under its first name."""

from __future__ import annotations

from flambeau.func import functional_call

__all__ = ["functional_call"]
