"""`load_inline(use_pch=True)`: one compiled header for all extensions with equal flags."""

import os
import signal
import time
from pathlib import Path

import flambeau as torch
import pytest
from flambeau.utils import cpp_extension
from flambeau.utils.cpp_extension import _ninja, _precompiled

# Builds an extension over a small header, so that a compiled header takes a second.
PROGRAM = """
import sys
from pathlib import Path
from flambeau.utils.cpp_extension import _loading
folder, place, *flags = map(str, sys.argv[1:])
parts = _loading._parts(f"{folder}/source.cpp", flags, None, None, [folder])
parts |= {"is_module": True, "is_executable": False}
print(_loading._load("plain", place, True, parts, "value.h").value())
"""
SOURCE = r"""
#include <value.h>
static PyObject* value(PyObject*, PyObject*) { return PyLong_FromLong(VALUE); }
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "plain", nullptr, -1, methods};
PyMODINIT_FUNC PyInit_plain() { return PyModule_Create(&definition); }
"""
HEADER = "#pragma once\n#include <Python.h>\n#define VALUE {}\n"
MAKES_HEADER = "-x c++-header"


@pytest.fixture
def sources(build_root, tmp_path, monkeypatch):
    """Return a folder with a header and a source; compiled headers go to a folder beside them."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "root"))
    (tmp_path / "source.cpp").write_text(SOURCE)
    (tmp_path / "value.h").write_text(HEADER.format(3))
    return tmp_path


def compiled_headers(folder):
    return sorted((folder / "root" / "precompiled").rglob("*.gch"))


def reads_compiled_header(output, folder):
    """Whether g++ says, by its flag -H, that it read the compiled header."""
    found = [line for line in output.splitlines() if line.startswith("! ")]
    return any(Path(line[2:]) in compiled_headers(folder) for line in found)


def test_extensions_share_a_header(build_root, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "root"))
    results = []
    for name, operation in (("doubles", "x * 2"), ("halves", "x / 2")):
        code = "#include <torch/extension.h>\n" if name == "halves" else ""
        code += f"at::Tensor {name}(const at::Tensor& x) {{ return {operation}; }}"
        module = cpp_extension.load_inline(
            name, code, functions=name, extra_cflags=["-H"], use_pch=True, verbose=True
        )
        results.append(getattr(module, name)(torch.ones(1)).item())
        output = capfd.readouterr().out
        assert reads_compiled_header(output, tmp_path)
        assert (MAKES_HEADER in output) == (name == "doubles")
    assert results == [2.0, 0.5]
    assert len(compiled_headers(tmp_path)) == 1


def test_a_changed_header_is_compiled_again(sources, run_python):
    def built(*flags):
        output = run_python("-c", PROGRAM, sources, sources / "build", "-H", *flags)
        return output.split()[-1], reads_compiled_header(output, sources), MAKES_HEADER in output

    assert built() == ("3", True, True)
    assert built() == ("3", False, False)  # nothing is compiled
    (sources / "value.h").write_text(HEADER.format(4))
    assert built() == ("4", True, True)
    assert len(compiled_headers(sources)) == 1
    (sources / "value.h").write_text(HEADER.format("5 + OTHER"))
    assert built("-DOTHER=1") == ("6", True, True)  # other flags, another header
    assert built("-DOTHER=2") == ("7", True, True)
    assert len(compiled_headers(sources)) == 3


@pytest.mark.parametrize("again", ["#include <value.h>", '#include "value.h"', '#include "other.h"'])
@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_source_includes_the_header_again(sources, run_python, again, is_guarded):
    (sources / "other.h").write_text("#include <value.h>\n")
    (sources / "source.cpp").write_text(SOURCE.replace("#include <value.h>", f"#include <value.h>\n{again}"))
    if not is_guarded:
        (sources / "value.h").write_text("#include <Python.h>\n#undef VALUE\n#define VALUE 3\n")
    output = run_python("-c", PROGRAM, sources, sources / "build", "-H")
    assert output.split()[-1] == "3" and reads_compiled_header(output, sources)


def test_four_processes_compile_the_header_once(sources, start_python):
    running = [start_python("-c", PROGRAM, sources, sources / f"build{i}", "-H") for i in range(4)]
    outputs = [process.communicate()[0] for process in running]
    assert [output.split()[-1] for output in outputs] == ["3"] * 4
    assert sum(MAKES_HEADER in output for output in outputs) == 1
    assert all(reads_compiled_header(output, sources) for output in outputs)


def test_a_killed_compiler_leaves_no_part(sources, start_python, run_python, monkeypatch):
    """The compiler writes a part of the header, and is killed with the process that waits for it."""
    slow, started = sources / "slow-compiler", sources / "started"
    slow.write_text(
        '#!/bin/sh\ncase "$*" in *-header*) ;; *) exec g++ "$@" ;; esac\n'
        '[ -e "$STARTED" ] && exec g++ "$@"\n'
        'for word; do last="$word"; done\n'
        'echo part >"$last"; touch "$STARTED"; exec sleep 600\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("CXX", str(slow))
    monkeypatch.setenv("STARTED", str(started))
    process = start_python("-c", PROGRAM, sources, sources / "build")
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert compiled_headers(sources) == []
    output = run_python("-c", PROGRAM, sources, sources / "build", "-H")
    assert output.split()[-1] == "3" and reads_compiled_header(output, sources)


def test_a_damaged_header_is_made_again(sources, run_python):
    command = ("-c", PROGRAM, sources, sources / "build", "-H")
    assert run_python(*command).split()[-1] == "3"
    (compiled,) = compiled_headers(sources)
    for content in (b"", b"no header", compiled.read_bytes()[:1000]):
        compiled.write_bytes(content)
        output = run_python(*command)
        assert output.split()[-1] == "3"
        assert MAKES_HEADER in output and reads_compiled_header(output, sources)


def test_errors_in_a_header_are_reported(sources, start_python):
    (sources / "value.h").write_text("nonsense\n")
    process = start_python("-c", PROGRAM, sources, sources / "build")
    assert process.wait() == 1
    assert compiled_headers(sources) == []


@pytest.mark.parametrize("text", ["#!/bin/sh\necho 'clang version 17' >&2\n", "#!/bin/sh\nexit 1\n", None])
def test_other_compilers_read_the_header_itself(sources, monkeypatch, text):
    other = sources / "other-compiler"
    if text is not None:
        other.write_text(text)
        other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    plan = _ninja.Plan("plain", (), (), (), (), (), sources, True, False)
    assert _precompiled.with_header(plan, "value.h", False) is plan
    assert not (sources / "root").exists()


def test_folders_with_strange_names(build_root, tmp_path, run_python, monkeypatch):
    place = tmp_path / "a $b 'c' ü:d"
    place.mkdir()
    (place / "source.cpp").write_text(SOURCE)
    (place / "value.h").write_text(HEADER.format(8))
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(place / "root"))
    output = run_python("-c", PROGRAM, place, place / "build", "-H")
    assert output.split()[-1] == "8" and MAKES_HEADER in output
    assert len(compiled_headers(place)) == 1
