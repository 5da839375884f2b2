"""Random arguments, good and bad, for every operator through its Python binding: `make fuzz`."""
