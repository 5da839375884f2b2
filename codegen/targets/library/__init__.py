"""The outputs that only an extension has, one module each: emit(model, ...) -> files."""
