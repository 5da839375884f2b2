"""Tensors with symbolic sizes: operators run at sample sizes, and expressions are fitted to results."""
