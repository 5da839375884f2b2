"""Fuzzers for operators of one and of two arguments, dense and sparse, and for Fourier transforms."""
