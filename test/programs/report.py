"""The page docs/programs.md."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

HEAD = """# Programs and libraries that run

The command `make programs` installs the libraries below, as pinned in `pyproject.toml`, into an environment
without PyTorch, and runs each program twice: with flambeau under `python -m flambeau.compat`, and with
PyTorch 2.13. A program returns numbers: outputs, or a loss curve that must fall. **equal** means that both
sides agree to one part in a thousand of the largest number, **differs** that they do not, **runs** that the
run with PyTorch returned no numbers, **fails** that an exception ended the program. The programs are in
`test/programs/cases`. The loss curves of the programs in `examples/training` are compared by `make
test`.

"""


def page(table: dict[str, tuple[str, dict[str, Any]]]) -> str:
    """The page for a table of outcomes and results by program."""
    by_library: dict[str, list[str]] = defaultdict(list)
    for name in table:
        by_library[name.partition("/")[0]].append(name)
    run = sum(what != "fails" for what, _ in table.values())
    equal = sum(what == "equal" for what, _ in table.values())
    lines = [
        f"**{run} of {len(table)}** programs run; **{equal}** give PyTorch's numbers.",
        "",
        "| library | programs | run | equal |",
        "|---|---|---|---|",
    ]
    for library, members in by_library.items():
        outcomes = [table[name][0] for name in members]
        failing = outcomes.count("fails")
        lines.append(f"| {library} | {len(members)} | {len(members) - failing} | {outcomes.count('equal')} |")
    rest = [name for name in table if table[name][0] != "equal"]
    if rest:
        lines += [
            "",
            "## What does not, or is not compared",
            "",
            "| program | outcome | cause |",
            "|---|---|---|",
        ]
        lines += [f"| {name} | {table[name][0]} | {_cause(table[name][1])} |" for name in rest]
    return HEAD + "\n".join(lines) + "\n"


def _cause(result: dict[str, Any]) -> str:
    if "error" in result:
        text = result["error"].splitlines()[0][:160]
        return str(text.replace("|", "\\|"))
    if "difference" in result:
        return f"largest difference {result['difference']:.2g}"
    theirs = str(result.get("oracle", {}).get("error", "PyTorch is not installed")).splitlines()[0][:160]
    return "without PyTorch's numbers: " + theirs.replace("|", "\\|")
