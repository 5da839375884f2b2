"""`python -m api`: the share of PyTorch's public names that exist, and of callables with its parameters."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from api.compare import Row, compare
from api.walk import MODULES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "parity.md"
# Why names and parameters are left, by what they have in common.
REMARKS = """A name counts as existing if it can be looked up. Names of absent subsystems raise an error
on use that states what is missing: classes of TorchScript, quantized tensors,
`Library.fallback`, `wrap_triton`. The dtypes `int1` to `uint7`, and the
groups of `bits8` and `qint8`, exist and have their properties, but no tensor can have them.

The remaining differences have few causes. There are no compressed sparse layouts (`crow_indices`,
`sparse_csr_tensor` and others). `Tensor.index` raises an error, because there are no first-class
dimensions. PyTorch's stub files list parameters of `from_numpy`, `set_num_threads`, `tensor`,
`linspace`, `set_num_interop_threads`, `logspace`, `full`, `one_hot`, `requires_grad_`, `new_tensor`,
`contiguous`, `gelu`, `scaled_dot_product_attention`, `share_memory_` and `out=` of methods that its
functions refuse; flambeau refuses them too. `out_dtype` of `mm`, `bmm`, `addmm` and `baddbmm` is for
CUDA devices only.""".split("\n")
BEGIN, END = "<!-- api: begin -->", "<!-- api: end -->"


def walked(framework: str, modules: list[str], wanted: str | None = None) -> dict[str, Any]:
    """Walk a framework in a process of its own, or look there for wanted names."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(ROOT / "test")])}
    command = [sys.executable, "-W", "ignore", "-m", "api.walk", framework, *modules]
    done = subprocess.run(command, capture_output=True, text=True, env=env, input=wanted, check=False)
    if done.returncode:
        raise SystemExit(f"api: {framework} cannot be walked (make oracle installs PyTorch)\n{done.stderr}")
    return json.loads(done.stdout)


def percent(part: int, whole: int) -> str:
    """Return a share as text."""
    return f"{100 * part / whole:.1f}%" if whole else "-"


def table(rows: list[Row]) -> list[str]:
    """Return the lines of the Markdown table, with the totals last."""
    total = Row("all", sum(r.names for r in rows), sum(r.callables for r in rows))
    total.missing = [n for r in rows for n in r.missing]
    total.differing = [n for r in rows for n in r.differing]
    lines = ["| module | names | exist | | callables compared | same parameters | |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in [*rows, total]:
        here, same = row.names - len(row.missing), row.callables - len(row.differing)
        name = {".": "torch", "all": "**all**"}.get(row.module, row.module)
        shares = (percent(here, row.names), row.callables, same, percent(same, row.callables))
        lines.append(f"| {name} | {row.names} | {here} | " + " | ".join(map(str, shares)) + " |")
    return lines


def section(rows: list[Row]) -> str:
    """Return the generated part of docs/parity.md."""
    lines = [BEGIN, "## Names", ""]
    lines.append(
        "Public names of PyTorch 2.13, members of classes included, and callables that take the same"
    )
    lines += ["parameters. This section is written by `make api`.", ""]
    lines += [*table(rows), ""]
    lines += [*REMARKS, ""]
    for title, pick in (("Missing", "missing"), ("Other parameters", "differing")):
        lines += [f"**{title}.**", ""]
        for row in rows:
            if names := getattr(row, pick):
                name = "torch" if row.module == "." else row.module
                lines.append(f"- {name}: " + ", ".join(f"`{n}`" for n in names))
        lines.append("")
    return "\n".join([*lines[:-1], END, ""])


def write(text: str) -> None:
    """Put the section into the page, in place of the former one."""
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    after = rest.partition(END)[2] if begin else ""
    PAGE.write_text(before.rstrip("\n") + "\n\n" + text + after.lstrip("\n"))


def main() -> None:
    """Compare, print the table, and write the page if asked."""
    parser = argparse.ArgumentParser(prog="python -m api", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", help="modules such as nn.utils; those of the issue if none is given"
    )
    parser.add_argument("--page", action="store_true", help="write the section of docs/parity.md")
    parser.add_argument("--list", action="store_true", help="print what is missing or differs")
    options = parser.parse_args()
    modules = options.modules or MODULES
    theirs = walked("torch", modules)
    rows = compare(walked("flambeau", ["-"], json.dumps(theirs)), theirs)
    print("\n".join(table(rows)))
    for row in rows if options.list else ():
        for kind in ("missing", "differing"):
            if names := getattr(row, kind):
                print(f"\n{row.module} {kind}: {' '.join(names)}")
    if options.page:
        write(section(rows))


if __name__ == "__main__":
    main()
