"""Small types and constants: dtypes and their limits, shapes, symbols, names, exceptions."""
