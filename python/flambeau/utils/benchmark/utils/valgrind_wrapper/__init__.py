"""Counts of instructions by Callgrind."""
