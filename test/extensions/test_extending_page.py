"""docs/extending.md: every block of code is run as it is written, or names the test that runs it.

Where another test builds the same extension, the block uses that test's folder, so nothing is compiled twice.
"""

import functools
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import flambeau
import pytest
from flambeau.utils import cmake_prefix_path, cpp_extension

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "docs/extending.md").read_text(), re.M | re.S)
# A phrase of each block, in the order of the page, and the test that runs it: of this file, or of another.
RUN_BY = {
    '"squares"': "test_code_in_a_string",
    'load("lltm_cpp"': "test_a_module_with_pybind",
    'm.def("shrink': "test_an_operator",
    'load("shrink"': "test_an_operator",
    "m.class_<Window>": "test/extensions/test_public_styles.py::test_the_program_of_the_page",
    "window.push(x)": "test/extensions/test_public_styles.py::test_the_program_of_the_page",
    "- extension: signals": "test_the_file_of_operators",
    "codegen explain soft_clip": "test/codegen/test_extension.py::test_the_commands_of_the_page_work",
    "load_operators(": "test_operators_from_yaml",
    "OperatorExtension(": "test_packages_of_setuptools",
    "flambeau_add_operators(": "test_operators_in_cmake",
    "pytest generated/tests": "test/extensions/test_yaml_operators.py::test_the_generated_tests_pass",
    "CppExtension(": "test_packages_of_setuptools",
    "find_package(Torch REQUIRED)": "test_a_project_of_cmake",
    "cmake -S . -B build": "test_a_project_of_cmake",
    "torch::save(net": "test_files",
    'flambeau.load("checkpoint.pt")': "test_files",
    "checkpoint net.pt digits.txt 2": "test_the_commands_of_the_checkpoint",
    "c10::DeviceBackend": "test_the_code_of_a_device",
    "aten, PrivateUse1": "test_the_code_of_a_device",
    "make opencl": "test_the_commands_of_opencl",
}


def block(phrase):
    (found,) = [text for _, text in BLOCKS if phrase in text]
    return found


def test_every_block_is_run():
    assert len(BLOCKS) == len(RUN_BY)
    for (_, text), (phrase, test) in zip(BLOCKS, RUN_BY.items(), strict=True):
        assert phrase in text
        path, _, name = test.rpartition("::")
        assert f"\ndef {name}(" in (ROOT / path if path else Path(__file__)).read_text()


@pytest.fixture
def built_elsewhere(build_root, monkeypatch):
    """Return a function that lets `load` and the like use a folder that other tests build in."""

    def use(function, folder):
        whole = functools.partial(getattr(cpp_extension, function), build_directory=build_root / folder)
        (build_root / folder).mkdir(exist_ok=True)
        monkeypatch.setattr(cpp_extension, function, whole)

    return use


def executed(text, **names):
    """The names after running a block of Python."""
    found = {"flambeau": flambeau, **names}
    exec(compile(text, "docs/extending.md", "exec"), found)
    return found


def test_code_in_a_string(build_root, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(build_root / "page"))
    module = executed(block('"squares"'))["module"]
    assert module.square(flambeau.tensor([2.0, -3.0])).tolist() == [4.0, 9.0]


def test_a_module_with_pybind(built_elsewhere, monkeypatch):
    built_elsewhere("load", "lltm")
    monkeypatch.chdir(ROOT)
    native = executed(block('load("lltm_cpp"'))["native"]
    assert callable(native.forward) and callable(native.backward)


def test_an_operator(built_elsewhere, monkeypatch):
    folder = EXAMPLES / "extensions" / "operator"
    source = (folder / "shrink.cpp").read_text()
    assert all(line in source for line in block('m.def("shrink').splitlines())
    built_elsewhere("load", "shrink")
    monkeypatch.chdir(folder)
    x = flambeau.tensor([-1.0, 0.1, 1.0], dtype=flambeau.float64, requires_grad=True)
    *_, call = block('load("shrink"').splitlines()
    executed(block('load("shrink"'), load=cpp_extension.load, x=x)
    found = eval(call, {"flambeau": flambeau, "x": x})
    assert found.tolist() == pytest.approx([-0.7, 0.0, 0.7])
    assert flambeau.autograd.gradcheck(lambda x: eval(call, {"flambeau": flambeau, "x": x}), (x,))


def test_the_file_of_operators(run_python, tmp_path):
    """The excerpt is a file of its own; what it shows is in the package too."""
    (tmp_path / "signals.yaml").write_text(block("- extension: signals"))
    shutil.copytree(EXAMPLES / "extension_yaml" / "kernels", tmp_path / "kernels")
    text = run_python("-m", "flambeau.codegen", "check", "--extend", "signals.yaml", cwd=tmp_path)
    assert text == "ok: 1 operators, 3 forms\n"
    whole = (EXAMPLES / "extension_yaml" / "signals.yaml").read_text()
    lines = [line for line in block("- extension: signals").splitlines() if not line.startswith("  doc:")]
    assert all(line in whole for line in lines)


def test_operators_from_yaml(built_elsewhere, monkeypatch):
    built_elsewhere("load_operators", "signals")
    monkeypatch.chdir(EXAMPLES / "extension_yaml")
    x = flambeau.tensor([-10.0, 0.0, 10.0])
    executed(block("load_operators("), x=x)
    assert flambeau.ops.signals.soft_clip(x, 2.0).abs().max() < 2


def described(extension):
    return type(extension).__name__, extension.name, extension.sources


@pytest.mark.parametrize(
    ("phrase", "example"), [("OperatorExtension(", "extension_yaml"), ("CppExtension(", "extensions/package")]
)
def test_packages_of_setuptools(phrase, example, build_root, monkeypatch, tmp_path):
    """The block describes the package that other tests build from the example's setup.py."""
    setuptools = pytest.importorskip("setuptools")
    shutil.copytree(EXAMPLES / example, tmp_path / "package")
    monkeypatch.chdir(tmp_path / "package")
    calls = []
    monkeypatch.setattr(setuptools, "setup", lambda **options: calls.append(options))
    executed(block(phrase))
    runpy.run_path("setup.py")
    page, built = calls
    extensions = [[described(one) for one in options.pop("ext_modules")] for options in calls]
    assert extensions[0] == extensions[1]
    assert page.items() <= built.items() and page["cmdclass"] == {"build_ext": cpp_extension.BuildExtension}


def test_operators_in_cmake():
    built = (EXAMPLES / "extension_yaml" / "CMakeLists.txt").read_text()
    lines = [line.partition(" #")[0] for line in block("flambeau_add_operators(").splitlines()]
    assert len(lines) == 2 and all(f"\n{line}\n" in built for line in lines)


def test_a_project_of_cmake(build_root, tmp_path):
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed")
    head = "cmake_minimum_required(VERSION 3.25)\nproject(program LANGUAGES CXX)\n"
    (tmp_path / "CMakeLists.txt").write_text(head + block("find_package(Torch REQUIRED)"))
    shutil.copy(Path(__file__).with_name("program") / "program.cpp", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(Path(flambeau.__file__).parents[1]), *sys.path]),
    }
    command = block("cmake -S . -B build")
    result = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    cache = (tmp_path / "build" / "CMakeCache.txt").read_text()
    assert f"CMAKE_PREFIX_PATH:UNINITIALIZED={cmake_prefix_path}\n" in cache
    assert "Torch_DIR:PATH=/" in cache


PROGRAM = """\
#include <torch/torch.h>
struct NetImpl : torch::nn::Module {
  NetImpl() { out = register_module("out", torch::nn::Linear(3, 2)); }
  torch::nn::Linear out = nullptr;
};
TORCH_MODULE(Net);
int main() {
  Net net;
%s}
"""


def test_files(build_root, tmp_path, monkeypatch):
    source = tmp_path / "program.cpp"
    source.write_text(PROGRAM % block("torch::save(net"))
    path = cpp_extension.load(
        "page_program", source, build_directory=tmp_path, is_standalone=True, is_python_module=False
    )
    subprocess.run([path], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    net = flambeau.nn.Sequential()
    net.add_module("out", flambeau.nn.Linear(3, 2))
    checkpoint = executed(block('flambeau.load("checkpoint.pt")'), net=net)["checkpoint"]
    assert checkpoint["epochs"] == 3
    saved = flambeau.load("net.pt")
    assert {name: value.tolist() for name, value in net.state_dict().items()} == {
        name: value.tolist() for name, value in saved.items()
    }


def test_the_commands_of_the_checkpoint():
    """test_cmake.py runs the program twice, and then the script in Python."""
    first, second, third = block("checkpoint net.pt digits.txt 2").splitlines()
    assert first.split("#")[0] == second.split("#")[0] == "checkpoint net.pt digits.txt 2" + " " * 26
    program, script, *arguments = third.split("#")[0].split()
    assert program == "python" and (ROOT / script).is_file() and arguments == ["net.pt", "digits.txt"]
    run = (ROOT / "test/extensions/test_cmake.py").read_text()
    assert "def test_the_example_continues_in_other_processes_and_in_python" in run


def test_the_code_of_a_device(build_root, tmp_path):
    """The compiler finds every function that the block overrides, and the forms of registration."""
    backend, register = block("c10::DeviceBackend").split("};\n")
    source = tmp_path / "device.cpp"
    source.write_text(
        f"{backend}}};\nvoid started(Backend* whole) {{\n"
        f"  {register.replace('new Backend', 'whole')}}}\n"
        "#include <torch/library.h>\nat::Tensor neg_kernel(const at::Tensor& self);\n"
        + block("aten, PrivateUse1")
    )
    folders = [f"-I{folder}" for folder in cpp_extension.include_paths()]
    compiler = cpp_extension.get_cxx_compiler()
    command = [compiler, "-std=c++20", "-fsyntax-only", *folders, str(source)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    source.write_text(source.read_text().replace("set_device(int device) override", "set_device() override"))
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_the_commands_of_opencl(run_python):
    """`make opencl` runs where OpenCL is installed; here the target and the option must exist."""
    lines = [line.split("#")[0].strip() for line in block("make opencl").splitlines()]
    _, target, example = lines
    assert f"\n{target.removeprefix('make ')}: " in (ROOT / "Makefile").read_text()
    _, script, option, name = example.split()
    text = run_python(ROOT / script, "--help")
    assert option in text and name == "opencl"
