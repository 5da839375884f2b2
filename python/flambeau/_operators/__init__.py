"""Operators that are written in Python over those of the specification."""
