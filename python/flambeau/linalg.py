"""Linear algebra."""

from flambeau._namespace import functions_of

globals().update(functions_of("linalg"))
