"""Whether mixed precision on CUDA is possible."""

import flambeau

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device."""
    return not flambeau.cuda.is_available()
