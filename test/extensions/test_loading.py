"""`load` and `load_inline`: caching, locks, errors, paths."""

import os
import signal
import subprocess
import time
from pathlib import Path

import flambeau as torch
import pytest
from flambeau.utils import cpp_extension

# Without pybind11 a source compiles in a second or two.
PLAIN = r"""
#include <Python.h>
static PyObject* value(PyObject*, PyObject*) { return PyLong_FromLong(VALUE); }
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "plain", nullptr, -1, methods};
#define INIT_2(name) PyInit_##name
#define INIT(name) INIT_2(name)
PyMODINIT_FUNC INIT(TORCH_EXTENSION_NAME)() { return PyModule_Create(&definition); }
"""


def plain(value):
    return PLAIN.replace("VALUE", str(value))


def load_plain(folder, value, name="plain", **options):
    return cpp_extension.load_inline(
        name, plain(value), build_directory=folder, no_implicit_headers=True, **options
    )


def test_functions_of_inline_code(build_root):
    code = """
        at::Tensor sin_add(at::Tensor x, at::Tensor y) { return x.sin() + y.sin(); }
        int64_t rank(const at::Tensor& x) { return x.dim(); }
    """
    module = cpp_extension.load_inline(
        "inline_functions",
        [code],
        functions={"sin_add": "sin(x) + sin(y)", "rank": ""},
        build_directory=build_root / "inline_functions",
    )
    x, y = torch.rand(3), torch.rand(3)
    assert torch.allclose(module.sin_add(x, y), x.sin() + y.sin())
    assert module.rank(x) == 1
    assert "sin(x) + sin(y)" in module.sin_add.__doc__


def test_compile_errors_have_the_text_of_the_compiler(build_root, tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)Error building extension 'plain(_v\d+)?'.*nonsense"):
        cpp_extension.load_inline(
            "plain", "int x = nonsense;", build_directory=tmp_path, no_implicit_headers=True
        )
    assert load_plain(tmp_path, 5).value() == 5  # the folder can be used again


def test_link_errors_are_reported(build_root, tmp_path):
    with pytest.raises(RuntimeError, match="no_such_library"):
        load_plain(tmp_path, 1, extra_ldflags=["-lno_such_library"])


def test_equal_code_is_compiled_once(build_root, tmp_path):
    first = load_plain(tmp_path, 1)
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.so")}
    assert load_plain(tmp_path, 1) is first
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.so")} == times


def test_changed_code_is_another_module(build_root, tmp_path):
    first = load_plain(tmp_path, 1, "changing")
    second = load_plain(tmp_path, 2, "changing")
    third = load_plain(tmp_path, 2, "changing", extra_cflags=["-DUNUSED"])
    assert [module.value() for module in (first, second, third)] == [1, 2, 2]
    names = [Path(module.__file__).stem for module in (first, second, third)]
    assert names == ["changing", "changing_v1", "changing_v2"]


def test_a_changed_header_is_seen(build_root, run_python, tmp_path):
    (tmp_path / "value.h").write_text("#define VALUE 3\n")
    source = tmp_path / "source.cpp"
    source.write_text('#include "value.h"\n' + PLAIN)
    command = (
        "from flambeau.utils.cpp_extension import load; import sys; "
        "print(load('plain', sys.argv[1], build_directory=sys.argv[2]).value())"
    )

    def value():
        return run_python("-c", command, source, tmp_path / "build").split()

    assert value() == ["3"]
    (tmp_path / "value.h").write_text("#define VALUE 4\n")
    assert value() == ["4"]


@pytest.mark.parametrize("folder", ["with spaces", "mit Umläuten ß", "日本", "a$b", "it's", 'quo"te', "a:b"])
def test_strange_paths(build_root, tmp_path, folder):
    place = tmp_path / folder
    place.mkdir()
    source = place / f"{folder}.cpp"
    (place / "value.h").write_text("#define VALUE 6\n")
    source.write_text("#include <value.h>\n" + PLAIN)
    module = cpp_extension.load(
        "plain", source, build_directory=place / "build", extra_include_paths=[str(place)]
    )
    assert module.value() == 6


def test_four_processes_compile_it_once(build_root, start_python, tmp_path):
    source = tmp_path / "source.cpp"
    source.write_text(plain(7))
    command = (
        "from flambeau.utils.cpp_extension import load; import sys; "
        "print(load('plain', sys.argv[1], build_directory=sys.argv[2], verbose=True).value())"
    )
    running = [start_python("-c", command, source, tmp_path / "build") for _ in range(4)]
    outputs = [process.communicate()[0] for process in running]
    assert [output.split()[-1] for output in outputs] == ["7"] * 4
    assert sum("-shared" in output for output in outputs) == 1


def test_a_killed_build_leaves_no_lock(build_root, start_python, tmp_path):
    """A compiler that never ends is killed with the process that waits for it."""
    slow = tmp_path / "slow-compiler"
    slow.write_text('#!/bin/sh\ntouch "$STARTED"\nexec sleep 600\n')
    slow.chmod(0o755)
    source = tmp_path / "source.cpp"
    source.write_text(plain(8))
    command = (
        "from flambeau.utils.cpp_extension import load; import sys; "
        "load('plain', sys.argv[1], build_directory=sys.argv[2])"
    )
    started = tmp_path / "started"
    env = {"CXX": str(slow), "STARTED": str(started)}
    process = start_python("-c", command, source, tmp_path / "build", env=env)
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert cpp_extension.load("plain", source, build_directory=tmp_path / "build").value() == 8


def test_a_truncated_result_is_made_again(build_root, tmp_path):
    source = tmp_path / "source.cpp"
    source.write_text(plain(9))
    folder = tmp_path / "build"
    folder.mkdir()
    (folder / "plain.so").write_bytes(b"\x7fELF, and no more")
    (folder / "source_0.o").write_bytes(b"")
    assert cpp_extension.load("plain", source, build_directory=folder).value() == 9


def test_two_extensions_in_one_process(build_root, tmp_path):
    one, two = load_plain(tmp_path / "1", 1, "plain_one"), load_plain(tmp_path / "2", 2, "plain_two")
    assert (one.value(), two.value()) == (1, 2)


def test_a_program_without_python(build_root, tmp_path):
    source = tmp_path / "program.cpp"
    source.write_text(
        "#include <torch/torch.h>\n#include <iostream>\n"
        "int main() {\n"
        "  auto x = torch::tensor({1.0, 2.0}, torch::requires_grad());\n"
        "  (x * x).sum().backward();\n"
        "  std::cout << x.grad().sum().item<double>() << '\\n';\n"
        '  try { x.view({3}); } catch (const c10::Error& e) { std::cout << "refused\\n"; }\n'
        "}\n"
    )
    path = cpp_extension.load(
        "program", source, build_directory=tmp_path / "build", is_standalone=True, is_python_module=False
    )
    assert subprocess.run([path], capture_output=True, text=True, check=True).stdout.split() == [
        "6",
        "refused",
    ]


def test_missing_sources_and_bad_names():
    with pytest.raises(ValueError, match="identifier"):
        cpp_extension.load("no-name", ["x.cpp"])


def test_a_missing_source_is_named(build_root, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        cpp_extension.load("plain", tmp_path / "nowhere.cpp", build_directory=tmp_path / "build")


def test_ninja_is_asked_for(monkeypatch):
    monkeypatch.setattr("flambeau.utils.cpp_extension._compilers.ninja", lambda: None)
    with pytest.raises(RuntimeError, match="Ninja is required"):
        cpp_extension.verify_ninja_availability()


def test_folders_of_the_package():
    headers, implementation = map(Path, cpp_extension.include_paths())
    assert (headers / "torch" / "extension.h").exists()
    assert (implementation / "api" / "tensor.h").exists()
    (libraries,) = map(Path, cpp_extension.library_paths())
    assert (libraries / "libflambeau.so").exists()
    assert (libraries / "libflambeau_api.so").exists()


def test_compilers_are_examined(tmp_path):
    fake = tmp_path / "g++"
    fake.write_text("#!/bin/sh\nexit 0\n")
    fake.chmod(0o755)
    assert not cpp_extension.check_compiler_ok_for_platform(str(fake))
    assert cpp_extension.get_compiler_abi_compatibility_and_version(str(fake)) == (False, (0, 0, 0))
