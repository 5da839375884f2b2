"""functionalize: the same function without in-place changes of its own tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function with the values and effects of `func`.

    In PyTorch a tracer below it sees no in-place operators, and with "mutations_and_views" no views. Here no
    tracer runs below transforms, so that nothing tells the two functions apart: `func` runs as it is.

    Args:
        func: a function of tensors. Changes of its arguments remain.
        remove: "mutations" or "mutations_and_views".
    Raises: RuntimeError for another `remove`.
    """
    kinds = ("mutations", "mutations_and_views")
    if remove not in kinds:
        raise RuntimeError(f"functionalize: expected remove to be one of {kinds}, got {remove!r}")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped
