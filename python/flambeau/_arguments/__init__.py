"""Checks of arguments for functions that are written in Python."""
