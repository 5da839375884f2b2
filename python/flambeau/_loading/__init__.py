"""How names of the package are found: submodules on first use, tables of places, errors for missing names."""
