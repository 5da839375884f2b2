"""Passes that belong to one set of operators."""
