"""Found in processes that inherit flambeau.compat: becomes flambeau. Never imported where it is installed."""

import sys

del sys.modules["torch"]

from flambeau.compat import install  # noqa: E402

install()
