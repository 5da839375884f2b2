"""Discrete Fourier transforms."""

from typing import TYPE_CHECKING

from flambeau._loading.lazy import attributes
from flambeau._loading.namespace import functions_of

if TYPE_CHECKING:
    from flambeau._fft import *  # noqa: F403
else:
    globals().update(functions_of("fft"))

__getattr__, __dir__ = attributes(__name__)
