"""Functions and members written in Python that __torch_function__ can override."""
