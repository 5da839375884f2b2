"""Discrete Fourier transforms."""

from flambeau._namespace import functions_of

globals().update(functions_of("fft"))
