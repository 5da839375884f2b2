"""Ahead-of-time autograd: forward and backward graphs of a captured graph."""
