"""`python -m codegen COMMAND`: the generator's command line."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module

COMMANDS = {
    "generate": "write torchgen_out/ (only what changed); --check verifies the MANIFEST",
    "extend": "write the code of an extension from an author's YAML; also `codegen --extend FILE`",
    "check": "validate both YAML files, or an author's: --extend FILE; --format json for tools",
    "explain": "everything derived from an operator's entry, with provenance",
    "matrix": "operators by artefact: given, derived, missing",
    "where": "every place of an operator or family, as file:line",
    "diff": "operators and outputs that changed against a git revision",
    "new": "scaffold an entry, a derivative and a test",
    "schemas": "write the JSON schemas of both YAML files",
}


def main(argv: list[str]) -> int:
    """Run one command; each is imported alone, so that `generate` starts quickly."""
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: python -m codegen COMMAND [options]\n")
        for name, summary in COMMANDS.items():
            print(f"  {name:<10} {summary}")
        return 0
    if argv[0] == "--extend":
        argv = ["extend", *argv[1:]]
    if argv[0] not in COMMANDS:
        from codegen.source.diagnostics import did_you_mean

        hint = did_you_mean(argv[0], COMMANDS, "commands")
        print(f"codegen: unknown command '{argv[0]}'; {hint}", file=sys.stderr)
        return 2
    gc.disable()  # a run lives for a second and keeps nearly all that it makes
    try:
        code: int = import_module(f"codegen.commands.{argv[0]}").run(argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
