"""The compiled form of torch/extension.h, which extensions with equal flags share.

g++ looks for `torch/extension.h.gch` in each folder of headers before the header itself. It reads a compiled
header only if the compiler, the flags and the macros are those that it was made with; otherwise it reads the
header. So a compiled header that does not fit costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

from flambeau.utils.cpp_extension import _compilers, _folders, _ninja


def _is_gcc(compiler: str) -> bool:
    """Whether a command is g++; others have another form of compiled headers."""
    try:
        found = subprocess.run(
            [*shlex.split(compiler), "-v"], capture_output=True, text=True, errors="replace"
        )
    except (OSError, ValueError):
        return False
    return re.search(r"^gcc version", found.stderr, re.M) is not None


def _text_of(plan: _ninja.Plan, header: str) -> str:
    """Return the content of build.ninja. All headers are inputs, those of the system too."""
    return "\n".join(
        [
            "ninja_required_version = 1.3",
            f"cxx = {_compilers.get_cxx_compiler()}".replace("$", "$$"),
            f"cflags = {_ninja.compile_flags(plan)}",
            "rule compile",
            # A reader of the old file keeps it; a compiler that is killed leaves no part of the new one.
            "  command = $cxx -MD -MT $out -MF $out.d $cflags -x c++-header -c $in -o $out.new && "
            "mv -f $out.new $out",
            "  depfile = $out.d",
            "  deps = gcc",
            f"build {_ninja.compiled_form(Path('headers'), header)}: compile source.h",
            "",
        ]
    )


def with_header(plan: _ninja.Plan, header: str, verbose: bool) -> _ninja.Plan:
    """Compile a header for the flags of an extension, unless it is up to date.

    The folder is that of the flags, so that extensions share it; one process at a time builds in it.

    Returns: the plan with the compiled header; the plan itself where the compiler is not g++.
    """
    if not _is_gcc(_compilers.get_cxx_compiler()):
        return plan
    text = _text_of(plan, header)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = Path(_folders.get_default_build_root()).absolute() / "precompiled" / digest
    found = folder / "headers", header
    _ninja.compiled_form(*found).parent.mkdir(parents=True, exist_ok=True)
    with _folders.locked(folder):
        # g++ takes only the first header of a source in compiled form; this file is there for further ones.
        again = found[0] / header
        for file, word in ((folder / "source.h", "include"), (again, "include_next")):
            if not file.exists():
                file.write_text(f"#{word} <{header}>\n")
        _ninja.run_file(folder, text, f"the compiled form of {header}", verbose)
    return replace(plan, precompiled=found)
