"""Discrete Fourier transforms."""

from typing import TYPE_CHECKING

from flambeau._namespace import functions_of

if TYPE_CHECKING:
    from flambeau._fft import *  # noqa: F403
else:
    globals().update(functions_of("fft"))
