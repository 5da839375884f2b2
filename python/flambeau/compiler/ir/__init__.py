"""Graphs of operators below autograd, and what their nodes need from each other."""

#: The key in a graph's `meta` that tells whether a backend makes it faster, at these or other sizes.
GAIN = "gain"
