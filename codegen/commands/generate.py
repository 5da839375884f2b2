"""`generate`: both YAML files -> torchgen_out/."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from codegen.writing import entry_digests, output

_PARTIAL = "without the operators that have mistakes"
# More names than these are counted only.
_MOST_NAMES = 12


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="codegen generate", description=__doc__)
    parser.add_argument("--native-functions", type=Path, default=output.ROOT / "native_functions.yaml")
    parser.add_argument("--derivatives", type=Path, default=output.ROOT / "derivatives.yaml")
    parser.add_argument("--output", type=Path, default=output.OUTPUT)
    parser.add_argument("--check", action="store_true", help="write nothing; verify the MANIFEST")
    parser.add_argument("--manifest", action="store_true", help="write the MANIFEST too")
    parser.add_argument("--keep-going", action="store_true", help="leave out operators with mistakes")
    return parser.parse_args(argv)


def run(argv: list[str]) -> int:
    """Write what changed. Nothing is loaded or rendered when the inputs are those of the last run."""
    options = _arguments(argv)
    start = time.perf_counter()
    inputs = (options.native_functions, options.derivatives)
    stamp = output.input_hash(inputs)
    # Of sound inputs --keep-going makes the same outputs; what it leaves out shows in its stamp.
    stamps = (stamp, f"{stamp} {_PARTIAL}") if options.keep_going else (stamp,)
    if not options.check and output.is_current(options.output, stamps, options.manifest):
        print(f"{options.output.name}: up to date")
        return 0
    files, sound = _render(options)
    if files is None:
        return 1
    if options.check:
        return output.verify(options.output, files, "run `make codegen` and commit torchgen_out/MANIFEST")
    options.output.mkdir(parents=True, exist_ok=True)
    changes = output.write_files(options.output, files)
    if options.manifest:
        output.write_manifest(options.output, files)
    output.write_stamp(options.output, stamp if sound else f"{stamp} {_PARTIAL}", files)
    seconds = time.perf_counter() - start
    counts = f"{len(changes.written)} written, {len(changes.removed)} removed, {changes.unchanged} unchanged"
    print(f"{options.output.name}: {len(files)} files: {counts} ({seconds:.2f} s)")
    _report_causes(options.output, inputs, changes.written)
    return 0


def _report_causes(folder: Path, inputs: tuple[Path, ...], written: tuple[str, ...]) -> None:
    """Name the entries that changed since the last run and the files written for them, if they are few."""
    before, after = entry_digests.read(folder), entry_digests.digests(inputs)
    entry_digests.write(folder, after)
    if before:
        for title, names in (
            ("changed", entry_digests.changed(before, after)),
            ("written", [path for path in written if path.endswith((".h", ".cpp"))]),
        ):
            if 0 < len(names) <= _MOST_NAMES:
                print(f"  {title}: {', '.join(names)}")


def _render(options: argparse.Namespace) -> tuple[dict[str, str] | None, bool]:
    """Return the outputs, and whether no mistake was found."""
    from codegen.commands.check import print_text
    from codegen.load import load
    from codegen.targets import emit_all

    model, found = load(options.native_functions, options.derivatives, keep_going=options.keep_going)
    if found:
        print_text(found, sys.stderr)
    return (None if model is None else emit_all(model)), not found
