"""Graphs that hold for more than one size: numbers that follow from sizes, and a check of new sizes."""
