"""Symbolic sizes: numbers that are expressions in the sizes of inputs, and conditions on them."""
