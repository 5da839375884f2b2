"""A plugin of pytest: ``pytest -p flambeau.compat.pytest`` runs tests that import torch on flambeau."""

from __future__ import annotations

from flambeau.compat import install
from flambeau.version import __version__ as _version

install()


def pytest_report_header() -> str:
    """Say in pytest's header that flambeau answers `import torch`."""
    return f"torch: answered by flambeau {_version}"
