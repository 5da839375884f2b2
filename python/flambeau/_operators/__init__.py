"""Operators that are written in Python over those of the specification.

The docstring of each module says why: what its functions take or return is outside the language of
native_functions.yaml. Everything else is an entry there.
"""
