"""The specification's language: schemas, both levels of expressions, their types, overloads and C++ names."""
