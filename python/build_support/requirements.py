"""Print pinned requirements out of pyproject.toml: ``requirements.py build test`` (groups, or "build").

The build's own requirements stand in [build-system], the others in [dependency-groups]; the
Makefile installs from here, so no version is written twice.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def requirements(groups: list[str]) -> list[str]:
    """Return the requirement lines of the named groups, in order, without repeats."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    tables = {"build": project["build-system"]["requires"], **project["dependency-groups"]}
    unknown = [name for name in groups if name not in tables]
    if unknown:
        raise SystemExit(
            f"requirements: no group {unknown[0]!r} in pyproject.toml; there are {', '.join(tables)}"
        )
    return list(dict.fromkeys(line for name in groups for line in tables[name]))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1:])))
