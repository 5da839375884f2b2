"""Runs the C++ compiler on kernels: which one, with which flags, and for how long."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import flambeau

if TYPE_CHECKING:  # a first call whose kernels are in the cache does not wait for this import
    import subprocess

TIME_LIMIT = 60.0  # seconds for one translation unit
_INCLUDE = Path(flambeau.__file__).parent / "include" / "flambeau"
_HEADERS = (
    "aten/core",
    "aten/core/special",
    "aten/cpu",
    "aten/cpu/vecmath",
    "c10/core",
    "torchgen_out/cells",
)
# As CMakeLists.txt compiles the eager loops, so that results are equal; but with the widest vectors, as
# kernels keep intermediate values in registers.
_FLAGS = (
    "-std=c++20 -O3 -fPIC -shared -fvisibility=hidden -fopenmp-simd -fno-math-errno -fno-trapping-math "
    "-ffp-contract=off -fwrapv -fno-exceptions -fno-asynchronous-unwind-tables -w"
).split()
_OF_GCC = ("-fno-thread-jumps",)
_OF_SET = {
    "x86_64": ("-march=x86-64", "-mtune=generic"),
    "v3": ("-march=x86-64-v3",),
    "v4": ("-march=x86-64-v4", "-mprefer-vector-width=512"),
    "generic": (),
}


class Failed(Exception):
    """A kernel was not compiled; the text says why."""


@functools.cache
def compiler() -> tuple[str, ...] | None:
    """Return the command of the C++ compiler: ``CXX``, ``g++`` or ``clang++``; None without one."""
    for command in (os.environ.get("CXX"), "g++", "clang++"):
        words = tuple(shlex.split(command or ""))
        if words and shutil.which(words[0]):
            return words
    return None


@functools.cache
def version() -> str:
    """Return what the compiler says of its version."""
    import subprocess

    command = compiler()
    assert command is not None
    done = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, timeout=TIME_LIMIT, check=False
    )
    return done.stdout


@functools.cache
def headers() -> str:
    """Return a text that differs whenever a header that kernels include was changed."""
    files = sorted(path for folder in _HEADERS for path in (_INCLUDE / folder).glob("*.h"))
    found = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return repr([flambeau.__version__, getattr(flambeau._C, "_spec_hash", ""), found])


def flags() -> list[str]:
    """Return the compiler's flags for this machine."""
    isa = flambeau._C._cpu_capability()
    own = [] if "clang" in version() else list(_OF_GCC)
    return [*_FLAGS, *own, *_OF_SET[isa], f"-DFLAMBEAU_ISA={isa}", f"-I{_INCLUDE}"]


class Run:
    """One run of the compiler, which another thread can stop."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def library(self, source: str) -> bytes:
        """Return the shared library of a translation unit.

        Raises: Failed if the compiler finds an error, takes too long, or is stopped.
        """
        command = compiler()
        assert command is not None
        with tempfile.TemporaryDirectory(prefix="flambeau-kernel-") as folder:
            unit, made = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
            unit.write_text(source)
            libraries = ["-lmvec", "-lm"] if os.uname().machine == "x86_64" else ["-lm"]
            said = self._run([*command, *flags(), str(unit), "-o", str(made), *libraries])
            if not made.exists():
                text = said.decode(errors="replace")[:2000]
                raise Failed(f"compile: the C++ compiler refused a kernel: {text}")
            return made.read_bytes()

    def _run(self, words: list[str]) -> bytes:
        import subprocess

        process = self._process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that the compiler's own processes can be ended with it
        )
        if self._is_stopped:
            self.stop()
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, 10)  # the program goes first
        try:
            return process.communicate(timeout=TIME_LIMIT)[0]
        except subprocess.TimeoutExpired:
            self.stop()
            process.communicate()
            raise Failed(f"compile: the C++ compiler took more than {TIME_LIMIT:g} seconds") from None

    def stop(self) -> None:
        """End the compiler."""
        self._is_stopped = True
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
