"""Kernels in the background and on disk: other processes, damaged files, no compiler, forks, exits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from flambeau.compiler.emit import background, compilation, disk_cache

PROGRAM = """
import flambeau as fb
from flambeau.compiler.emit import background
background.is_measured = False
x = fb.arange(6000.0)
def function(t): return (t * 2 + 1).relu() * t
compiled = fb.compile(function)
compiled(x)
{middle}
assert fb.equal(compiled(x), function(x))
counts = fb._dynamo.utils.counters["fusion"]
print([counts["kernels " + name] for name in ("compiled", "from the cache", "that were not compiled")])
"""
FINISH = "assert background.finish(240)"
needs_compiler = pytest.mark.skipif(compilation.compiler() is None, reason="needs a C++ compiler")


def started(
    cache: Path, middle: str = FINISH, path: str | None = None, **settings: str
) -> subprocess.Popen[str]:
    environment = {**os.environ, "FLAMBEAU_TIER": "1", "FLAMBEAU_CACHE_DIR": str(cache), **settings}
    if path is not None:
        environment["PATH"] = path
        environment.pop("CXX", None)
    return subprocess.Popen(
        [sys.executable, "-W", "always", "-c", PROGRAM.format(middle=middle)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    try:
        said, errors = process.communicate(timeout=280)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return said.strip(), errors


@needs_compiler
def test_a_later_process_takes_the_kernel_from_the_cache(tmp_path: Path) -> None:
    assert ended(started(tmp_path))[0] == "[1, 0, 0]"
    assert (tmp_path / "kernels").stat().st_mode & 0o777 == 0o700
    assert ended(started(tmp_path))[0] == "[0, 1, 0]"
    (file,) = (tmp_path / "kernels").iterdir()
    for damaged in (file.read_bytes()[:-100], b"", file.read_bytes()[:-1] + b"x"):
        file.write_bytes(damaged)
        assert ended(started(tmp_path))[0] == "[1, 0, 0]"
    assert ended(started(tmp_path))[0] == "[0, 1, 0]"


@needs_compiler
def test_processes_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    running = [started(tmp_path) for _ in range(3)]
    for process in running:
        assert ended(process)[0] in ("[1, 0, 0]", "[0, 1, 0]")
    assert len(list((tmp_path / "kernels").iterdir())) == 1
    assert ended(started(tmp_path))[0] == "[0, 1, 0]"


def test_without_a_compiler_a_warning_says_so_once(tmp_path: Path) -> None:
    again = "fb.compile(lambda t: (t * 3 - 1).relu() + t)(x)\n" + FINISH
    said, errors = ended(started(tmp_path, again, path=str(tmp_path)))
    assert said == "[0, 0, 0]"
    assert errors.count("compile: expected a C++ compiler (CXX, g++ or clang++) for kernels, got none") == 1


def test_a_compiler_that_fails_changes_nothing(tmp_path: Path) -> None:
    assert ended(started(tmp_path, CXX="false"))[0] == "[0, 0, 1]"


def test_the_end_of_a_program_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    compiles = 'echo $$ > "$0.pid"; exec sleep 1000'
    slow.write_text(f'#!/bin/sh\ncase "$1" in --version) echo slow;; *) {compiles};; esac\n')
    slow.chmod(0o700)
    middle = f"import os, time\nwhile not os.path.exists({str(slow) + '.pid'!r}): time.sleep(0.01)"
    assert ended(started(tmp_path, middle, CXX=str(slow)))[0] == "[0, 0, 0]"
    pid = int(Path(f"{slow}.pid").read_text())
    with pytest.raises(ProcessLookupError):
        while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            raise ProcessLookupError  # ended, and its parent is gone
        os.kill(pid, 0)


@needs_compiler
def test_a_forked_process_compiles_its_own_kernels(tmp_path: Path) -> None:
    middle = """
import os
child = os.fork()
y = x[:5000]
if child == 0:
    other = fb.compile(lambda t: (t * 5 + 3).relu() * t)
    other(y)
    fine = background.finish(240) and fb.equal(other(y), (y * 5 + 3).relu() * y)
    os._exit(0 if fine and fb._dynamo.utils.counters["fusion"]["kernels compiled"] >= 1 else 1)
assert os.waitpid(child, 0)[1] == 0
assert background.finish(240)
"""
    assert ended(started(tmp_path, middle))[0] == "[1, 0, 0]"


def test_the_cache_refuses_folders_that_others_can_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    key = disk_cache.key_of("a", "b")
    disk_cache.write(key, b"content")
    assert disk_cache.read(key) == b"content"
    place = disk_cache.folder()
    assert place is not None
    place.chmod(0o777)
    assert disk_cache.folder() is None and disk_cache.read(key) is None
    place.chmod(0o700)
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    assert disk_cache.folder() is None
    monkeypatch.setattr(os, "getuid", lambda: 12345678)
    place.unlink()
    assert disk_cache.folder() is None
    assert disk_cache.key_of("ab", "") != disk_cache.key_of("a", "b")


def test_the_oldest_files_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(disk_cache, "LIMIT", 3000)
    for i, name in enumerate(("a", "b", "c")):
        disk_cache.write(name, b"x" * 1000)
        place = disk_cache.folder()
        assert place is not None
        if i < 2:
            os.utime(place / f"{name}.kernel", (i, i))
    assert [disk_cache.read(name) is not None for name in ("a", "b", "c")] == [False, True, True]


def test_kernels_asked_for_within_a_compilation_begin_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    monkeypatch.setattr(background._worker, "add", begun.append)
    monkeypatch.setattr(compilation, "compiler", lambda: ("g++",))
    jobs = [[(object(), [background.NAME])] for _ in range(3)]
    with pytest.raises(ZeroDivisionError), background.deferred():
        background.compile_later(jobs[0])
        with background.deferred():
            background.compile_later(jobs[1])
        assert begun == []
        raise ZeroDivisionError
    assert [job.groups for job in begun] == jobs[:2]
    background.compile_later(jobs[2])
    assert [job.groups for job in begun] == jobs
