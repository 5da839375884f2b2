"""`functional_call` under its first name."""

from __future__ import annotations

import warnings
from typing import Any

from flambeau import func
from flambeau._loading.lazy import attributes

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: Any = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Deprecated alias of `func.functional_call`."""
    warnings.warn(
        "nn.utils.stateless.functional_call is deprecated; use func.functional_call",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


__getattr__, __dir__ = attributes(__name__)
