"""Averages of the models of several processes."""
