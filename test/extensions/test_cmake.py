"""The package of CMake: a program without Python, versions, and refusals with their reason."""

import re
import shutil
import subprocess
from pathlib import Path

import flambeau
import pytest
from flambeau.utils import cmake_prefix_path, cpp_extension
from flambeau.utils.cpp_extension import _compilers

PROGRAM = Path(__file__).with_name("program")


@pytest.fixture(scope="session")
def cmake():
    """Return a function that runs cmake and returns its status and what it prints."""
    found = shutil.which("cmake")
    if found is None:
        pytest.skip("cmake is not installed")

    def run(*arguments):
        result = subprocess.run([found, *map(str, arguments)], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    return run


@pytest.fixture
def configure(cmake, tmp_path):
    """Return a function that configures a project with these lines, for any compiler that they claim."""

    def run(*lines, languages="NONE"):
        head = ("cmake_minimum_required(VERSION 3.25)", f"project(p LANGUAGES {languages})")
        (tmp_path / "CMakeLists.txt").write_text("\n".join((*head, *lines)) + "\n")
        options = [f"-DCMAKE_PREFIX_PATH={cmake_prefix_path}"]
        status, text = cmake("-S", tmp_path, "-B", tmp_path / "build", *options)
        return status, " ".join(text.split())

    return run


COMPILER = ("set(CMAKE_CXX_COMPILER_LOADED 1)", "set(CMAKE_CXX_COMPILE_FEATURES cxx_std_20)")


def test_the_prefix_is_in_the_package():
    assert Path(cmake_prefix_path) == Path(flambeau.__file__).parent / "share" / "cmake"


@pytest.mark.parametrize("package", ["Torch", "flambeau"])
def test_a_program_without_python(cmake, build_root, tmp_path, package):
    if not cpp_extension.is_ninja_available():
        pytest.skip("ninja is not installed")
    options = [f"-DCMAKE_PREFIX_PATH={cmake_prefix_path}", f"-DPACKAGE={package}"]
    status, text = cmake("-S", PROGRAM, "-B", tmp_path, *options)
    assert status == 0, text
    status, text = cmake("--build", tmp_path)
    assert status == 0, text
    program = tmp_path / "program"
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "6\n"
    linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    assert "libflambeau.so" in linked and "libpython" not in linked


@pytest.mark.parametrize("package", ["Torch", "flambeau"])
def test_an_old_compiler_is_refused(configure, package):
    lines = ("set(CMAKE_CXX_COMPILER_ID GNU)", "set(CMAKE_CXX_COMPILER_VERSION 9.4.0)")
    status, text = configure(*COMPILER, *lines, f"find_package({package} REQUIRED)")
    assert status != 0
    assert "expected g++ 11.0.0 or newer for C++20, got 9.4.0" in text
    assert "CXX names another compiler" in text


def test_a_compiler_without_cpp20_is_refused(configure):
    lines = ("set(CMAKE_CXX_COMPILER_ID Other)", "set(CMAKE_CXX_COMPILER_VERSION 1.0)")
    status, text = configure(
        COMPILER[0], "set(CMAKE_CXX_COMPILE_FEATURES cxx_std_17)", *lines, "find_package(Torch REQUIRED)"
    )
    assert status != 0 and "expected a compiler for C++20, got Other 1.0" in text


def test_a_project_without_cpp_is_refused(configure):
    status, text = configure("find_package(flambeau REQUIRED)")
    assert status != 0 and "expected a project with the language CXX" in text


def test_an_optional_package_is_not_found_quietly(configure):
    status, text = configure(
        "find_package(Torch QUIET)", "message(STATUS found=${Torch_FOUND},${TORCH_FOUND})"
    )
    assert status == 0 and re.search(r"found=(0|FALSE),FALSE", text)


@pytest.mark.parametrize(
    ("asked", "found"), [("2.1", True), ("2.13", True), ("2.14", False), ("1.13", False)]
)
def test_the_version_is_that_of_the_interface(configure, asked, found):
    status, text = configure(*COMPILER, f"find_package(Torch {asked} REQUIRED)")
    assert (status == 0) is found, text
    assert found or "version: 2.13.0" in text


def test_the_names_that_projects_use(configure):
    names = "${TORCH_LIBRARIES} | ${TORCH_CXX_FLAGS} | ${TORCH_INCLUDE_DIRS} | ${TORCH_INSTALL_PREFIX}"
    check = "if(NOT TARGET c10 OR NOT TARGET torch_cpu)\n message(FATAL_ERROR missing)\nendif()"
    status, text = configure(
        *COMPILER,
        "find_package(Torch REQUIRED)",
        "find_package(Torch)",
        check,
        f'message(STATUS "[{names}]")',
    )
    assert status == 0, text
    libraries, flags, folders, prefix = re.search(r"\[(.*?)\]", text)[1].split(" | ")
    assert libraries == "torch"
    assert folders.split(";") == cpp_extension.include_paths()
    assert Path(prefix) == Path(flambeau.__file__).parent
    # CMake sets the standard and the optimisation itself.
    assert flags.split() == [f for f in _compilers.CXX_FLAGS if not f.startswith(("-std", "-O"))]


def test_the_oldest_compiler_is_that_of_load():
    text = (Path(cmake_prefix_path) / "flambeau" / "flambeauConfig.cmake").read_text()
    (version,) = re.findall(r"set\(FLAMBEAU_MINIMUM_GCC ([\d.]+)\)", text)
    assert tuple(map(int, version.split("."))) == _compilers.MINIMUM_GCC


EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp"


@pytest.fixture(scope="module")
def examples(cmake, build_root, run_python, tmp_path_factory):
    """Return the folder of the built programs of examples/cpp, with digits.txt."""
    pytest.importorskip("sklearn")
    folder = tmp_path_factory.mktemp("examples")
    options = [f"-DCMAKE_PREFIX_PATH={cmake_prefix_path}"]
    for command in (("-S", EXAMPLE, "-B", folder, *options), ("--build", folder)):
        status, text = cmake(*command)
        assert status == 0, text
    run_python(EXAMPLE / "write_digits.py", folder / "digits.txt")
    return folder


def output_of(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout


def test_the_example_trains_both_networks(examples):
    text = output_of(examples / "digits", examples / "digits.txt")
    accuracy = dict(re.findall(r"^(mlp|convolutional) ([\d.]+)$", text, re.M))
    assert float(accuracy["mlp"]) >= 0.95
    assert float(accuracy["convolutional"]) >= 0.97  # what examples/digits.py asks for


def test_the_example_continues_in_other_processes_and_in_python(examples, run_python, tmp_path):
    program, digits = examples / "checkpoint", examples / "digits.txt"
    whole, parts, continued = (tmp_path / name for name in ("whole.pt", "parts.pt", "continued.pt"))
    expected = output_of(program, whole, digits, 4)
    assert expected.startswith("epochs 4 right ") and int(expected.split()[-1]) >= 0.95 * 360
    output_of(program, parts, digits, 1)
    text = output_of(program, parts, digits, 2)
    assert run_python(EXAMPLE / "read_checkpoint.py", parts, digits) == text
    assert output_of(program, parts, digits, 1) == expected
    assert parts.read_bytes() == whole.read_bytes()
    # One of the epochs in Python, whose sums may end in other bits.
    text = run_python(EXAMPLE / "read_checkpoint.py", parts, digits, continued)
    assert text.startswith("epochs 5 ") and output_of(program, continued, digits, 0) == text
