"""Changes to graphs of operators."""
