"""Programs in Python and C++ that run graphs of operators."""
