"""The older name of `load_state_dict_from_url` in `flambeau.hub`, and the progress bar that goes with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flambeau.hub import load_state_dict_from_url
from flambeau.hub import load_state_dict_from_url as load_url

__all__ = ["load_state_dict_from_url", "load_url"]


class _Silent:
    """Replaces tqdm where that package is not installed: it counts and shows nothing."""

    def __init__(self, iterable: Any = None, total: int | None = None, **options: Any) -> None:
        self.iterable, self.total, self.n = iterable, total, 0

    def __iter__(self) -> Iterator[Any]:
        for item in self.iterable:
            yield item
            self.n += 1

    def update(self, n: int = 1) -> None:
        """Count `n` more steps."""
        self.n += n

    def set_description(self, *args: Any, **options: Any) -> None:
        """Take a description, which is not shown."""

    def close(self) -> None:
        """End the count."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *exception: Any) -> None:
        return None


def __getattr__(name: str) -> Any:
    if name != "tqdm":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from tqdm import tqdm  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return _Silent
    return tqdm
