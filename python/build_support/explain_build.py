"""Say what a build will compile, and why, before it: explain_build.py NINJA FOLDER [TARGET...]."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

_COMPILED = re.compile(r"Building \w+ object (\S+\.o)")
_NEWER = re.compile(r"output (\S+\.(?:o|gch)) older than most recent input (\S+)")
_OTHER = (
    (re.compile(r"output (\S+\.(?:o|gch)) doesn't exist"), "never compiled"),
    (re.compile(r"command line changed for (\S+\.(?:o|gch))"), "the compiler's options changed"),
    (re.compile(r"deps for '(\S+\.o)' are missing"), "never compiled"),
)
_MOST_REASONS = 8


def reasons(lines: Iterable[str], root: str) -> dict[str, str]:
    """Return object file -> why ninja compiles it, from the output of `ninja -n -d explain`."""
    given: dict[str, str] = {}
    objects: list[str] = []
    for line in lines:
        if match := _COMPILED.search(line):
            objects.append(match[1])
        elif match := _NEWER.search(line):
            name = match[2].removeprefix(f"{root}/").removeprefix("../")
            given.setdefault(match[1], f"{name} changed")
        else:
            for pattern, why in _OTHER:
                if match := pattern.search(line):
                    given.setdefault(match[1], why)
    # ninja gives no reason of their own to files whose precompiled header is made again.
    header = next((why for name, why in given.items() if name.endswith(".gch")), "what it depends on changed")
    return {name: given.get(name, header) for name in objects if not name.endswith(".gch")}


def summary(found: dict[str, str]) -> list[str]:
    """Return one line per reason, the most frequent first."""
    if not found:
        return ["nothing to compile"]
    counted = Counter(found.values()).most_common()
    lines = [f"compiling {len(found)}:"]
    lines += [f"  {count} because {why}" for why, count in counted[:_MOST_REASONS]]
    if rest := counted[_MOST_REASONS:]:
        lines.append(f"  {sum(count for _, count in rest)} for {len(rest)} other reasons")
    return lines


def main() -> int:
    """Ask ninja without building."""
    ninja, folder, *targets = sys.argv[1:]
    # By its whole name the file of rules is not a target of its own, which a dry run would stop at.
    rules = str(Path(folder).resolve() / "build.ninja")
    command = [ninja, "-C", folder, "-f", rules, "-n", "-d", "explain", *targets]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = (asked.stderr + asked.stdout).splitlines()
    root = str(Path(folder).resolve().parent)
    print("\n".join(summary(reasons(lines, root))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
