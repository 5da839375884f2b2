"""One module per kind of output, each with `emit(model) -> files`; they never import each other."""
