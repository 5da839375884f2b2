"""`schemas`: write the JSON schemas of both YAML files, which editors complete and check with."""

from __future__ import annotations

import argparse
import sys

from codegen.reading.jsonschema import texts


def run(argv: list[str]) -> int:
    """Write codegen/schemas/*.json; with --check only compare."""
    parser = argparse.ArgumentParser(prog="codegen schemas", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if they differ")
    options = parser.parse_args(argv)
    stale = [(p, t) for p, t in texts().items() if not p.is_file() or p.read_text(encoding="utf-8") != t]
    for path, text in stale:
        if options.check:
            print(f"{path.name} is stale: run `python -m codegen schemas`", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.name}")
    return 1 if stale and options.check else 0
