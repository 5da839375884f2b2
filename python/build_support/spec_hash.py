"""Write a C++ file with the fingerprint of the YAML files: spec_hash.py TEMPLATE OUTPUT."""

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
    template, output = map(Path, sys.argv[1:])
    text = template.read_text(encoding="utf-8")
    output.write_text(text.replace("@FLAMBEAU_SPEC_HASH@", module.fingerprint(str(ROOT))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
