"""Print the fingerprint of the YAML files, which the build puts into the extension."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Load the package's own function from its file: the package cannot be imported yet."""
    path = ROOT / "python" / "flambeau" / "_loading" / "staleness.py"
    spec = importlib.util.spec_from_file_location("staleness", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    print(module.fingerprint(str(ROOT)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
