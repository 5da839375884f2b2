"""Graphs of operators below autograd, and what their nodes need from each other."""
