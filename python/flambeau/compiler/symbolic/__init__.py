"""Graphs that are valid for several sizes: numbers that depend on sizes, and a check of new sizes."""
