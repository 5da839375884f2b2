"""Tensors with symbolic sizes: operators run at several sample sizes, and expressions are fitted to the results."""
