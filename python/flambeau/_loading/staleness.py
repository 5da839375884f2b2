"""Whether the extension was built from the YAML files that stand beside the package in a source checkout.

An edited operator that is called before `make build` would silently be the old one. The extension knows
the fingerprint of the files that it was made of; their times tell whether they need to be compared at all.
Installed packages have no YAML files beside them, and are never asked.
"""

from __future__ import annotations

import hashlib
import os

FILES = ("native_functions.yaml", "derivatives.yaml")


def fingerprint(root: str) -> str:
    """Hash the YAML files without comments and blank lines, which change nothing."""
    digest = hashlib.sha256()
    for name in FILES:
        with open(os.path.join(root, name), "rb") as file:  # noqa: PTH118, PTH123  pathlib costs an import
            lines = file.read().split(b"\n")
        digest.update(b"\n".join(line for line in lines if line.strip() and not line.startswith(b"#")))
        digest.update(b"\0")
    return digest.hexdigest()


def is_stale(root: str, extension: str, built_from: str) -> bool:
    """Whether a file is newer than the extension and says something else than what it was built from."""
    try:
        built = os.stat(extension).st_mtime_ns  # noqa: PTH116
        if all(os.stat(os.path.join(root, name)).st_mtime_ns <= built for name in FILES):  # noqa: PTH116, PTH118
            return False
        return fingerprint(root) != built_from
    except OSError:  # no source checkout
        return False


def warn_if_stale(extension: str, built_from: str) -> None:
    """Warn once, where the package is imported."""
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))  # noqa: PTH100, PTH118, PTH120
    if is_stale(root, extension, built_from):
        import warnings

        message = f"flambeau's extension is older than the YAML files in {root}: run `make build`"
        warnings.warn(message, UserWarning, stacklevel=3)
