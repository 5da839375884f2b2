"""Partitions for single backends."""
