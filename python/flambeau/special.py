"""Special functions."""

from typing import TYPE_CHECKING

from flambeau._loading.namespace import functions_of

if TYPE_CHECKING:
    from flambeau._special import *  # noqa: F403
else:
    globals().update(functions_of("special"))
