"""Linear algebra."""

from typing import TYPE_CHECKING

from flambeau._C import _LinAlgError as LinAlgError  # noqa: F401
from flambeau._loading.lazy import attributes
from flambeau._loading.namespace import functions_of

if TYPE_CHECKING:
    from flambeau._linalg import *  # noqa: F403
else:
    globals().update(functions_of("linalg"))

__getattr__, __dir__ = attributes(__name__)
