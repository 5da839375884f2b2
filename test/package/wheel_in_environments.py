"""The distributions of ``make wheel``: what is in them, and fresh environments that they are installed into.

Run by ``make wheel`` with the folder of the distributions in FLAMBEAU_DIST; not part of the test suite,
which needs no distribution.
"""

import base64
import csv
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
DIST = Path(os.environ.get("FLAMBEAU_DIST", ROOT / "dist"))
LEVELS = ("x86_64", "v3", "v4")  # one library of loops each
SIZE_OF_PYTORCH = 192e6  # bytes of the CPU wheel of PyTorch 2.13 for Linux


def the_one(pattern):
    (found,) = DIST.glob(pattern)
    return found


@pytest.fixture(scope="module")
def wheel():
    return the_one("flambeau-*.whl")


@pytest.fixture(scope="module")
def sdist():
    return the_one("flambeau-*.tar.gz")


@pytest.fixture(scope="module")
def members(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


# --- content ---------------------------------------------------------------------------------------------


def test_the_wheel_is_small(wheel):
    assert wheel.stat().st_size <= 0.16 * SIZE_OF_PYTORCH


def test_the_tag_names_the_oldest_glibc(wheel):
    """glibc 2.36 is Debian 12's: a wheel made there must not ask for more."""
    tag = re.search(
        r"-cp311-cp311-manylinux_2_(\d+)_x86_64\.whl$|-cp3\d+-cp3\d+-manylinux_2_(\d+)_", wheel.name
    )
    assert tag, wheel.name
    assert int(tag[1] or tag[2]) <= 36


def test_the_wheel_holds_the_package_and_nothing_else(members):
    tops = {name.split("/")[0] for name in members}
    info = next(top for top in tops if top.endswith(".dist-info"))
    assert tops == {"flambeau", "flambeau.libs", info}
    strange = re.compile(
        r"(^|/)(tests?|conftest|__pycache__|build|\.[^/]*)(/|$)|\.(pyc|o|a|cpp|h|j2|yaml|in)$"
    )
    headers = {name for name in members if re.match(r"flambeau/include/.*\.h$", name)}
    assert {"flambeau/include/torch/extension.h", "flambeau/include/flambeau/api/tensor.h"} <= headers
    generator = {name for name in members if name.startswith("flambeau/_generator/")}
    assert [name for name in members.keys() - headers - generator if strange.search(name)] == []
    assert sorted(name for name in members if re.search(r"\.so(\.|$)", name)) == sorted(
        [
            *(
                name
                for name in members
                if re.fullmatch(r"flambeau/(?:_C|distributed/_engine)\.[\w-]+\.so", name)
            ),
            "flambeau/lib/libdnnl.so.3",
            "flambeau/lib/libflambeau.so",
            "flambeau/lib/libflambeau_api.so",
            *(f"flambeau/lib/libflambeau_loops_{isa}.so" for isa in LEVELS),
            "flambeau/lib/libscipy_openblas.so",
            *(name for name in members if re.fullmatch(r"flambeau\.libs/libgomp-\w+\.so[\d.]+", name)),
        ]
    )
    assert sum(name.endswith(".so") and "/_C." in name for name in members) == 1


def test_the_wheel_has_every_module_of_the_checkout(members):
    listed = subprocess.run(["git", "ls-files", "python/flambeau"], cwd=ROOT, capture_output=True, text=True)
    tracked = {name.removeprefix("python/") for name in listed.stdout.split()}
    assert tracked and tracked <= members.keys()


def test_the_wheel_has_the_generator_and_what_it_reads(members):
    listed = subprocess.run(["git", "ls-files", "codegen"], cwd=ROOT, capture_output=True, text=True)
    wanted = {name for name in listed.stdout.split() if name.endswith((".py", ".j2", ".yaml"))}
    wanted |= {"native_functions.yaml", "derivatives.yaml", "aten/core/shape_rules.cpp"}
    assert {f"flambeau/_generator/{name}" for name in wanted} == {
        name for name in members if name.startswith("flambeau/_generator/")
    }


def test_stubs_and_the_mark_of_types_are_there(members):
    outputs = ROOT / "torchgen_out"
    found = ((outputs / folder, suffix) for folder, suffix in (("stubs", "*.pyi"), ("package", "*.py")))
    generated = {p.relative_to(at).as_posix() for at, suffix in found for p in at.rglob(suffix)}
    assert len(generated) > 3
    wanted = {f"flambeau/{name}" for name in generated} | {"flambeau/py.typed", "flambeau/_C.pyi"}
    assert wanted <= members.keys()


def test_licences_are_there(members):
    phrases = {
        r"flambeau/lib/LICENSE\.openblas": [b"OpenBLAS", b"LAPACK", b"GCC RUNTIME LIBRARY EXCEPTION"],
        r"flambeau/lib/LICENSE\.onednn": [b"Apache License"],
        r"flambeau/lib/NOTICES\.onednn": [b"Copyright"],
        r"flambeau/include/pybind11/LICENSE": [b"Wenzel Jakob", b"Redistribution and use"],
        r"[^/]*\.dist-info/licenses/LICENSE": [b"Redistribution and use"],
        r"[^/]*\.dist-info/licenses/.*THIRD-PARTY\.md": [
            b"libgomp",
            b"OpenBLAS",
            b"oneDNN",
            b"Kuo",
            b"pybind11",
        ],
        r"[^/]*\.dist-info/licenses/.*LICENSE\.joe_kuo": [b"Frances Y. Kuo"],
    }
    for pattern, texts in phrases.items():
        (name,) = [name for name in members if re.fullmatch(pattern, name)]
        assert [text for text in texts if text not in members[name]] == [], name


def test_metadata(members):
    (name,) = [name for name in members if name.endswith(".dist-info/METADATA")]
    metadata = message_from_bytes(members[name])
    assert metadata["Name"] == "flambeau"
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert len(metadata.get_all("License-File")) == 3
    required = metadata.get_all("Requires-Dist") or []
    assert all("extra ==" in line for line in required), "the package needs no other one"
    assert "## Measured" in metadata.get_payload(), "README"


def test_the_record_is_true(members):
    (name,) = [name for name in members if name.endswith(".dist-info/RECORD")]
    rows = list(csv.reader(io.StringIO(members[name].decode())))
    assert {row[0] for row in rows} == set(members)
    for path, digest, size in rows:
        if path != name:
            own = base64.urlsafe_b64encode(hashlib.sha256(members[path]).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={own}", len(members[path])), path


def test_the_sdist_holds_what_a_build_reads_and_nothing_else(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()} - {"", "PKG-INFO"}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    assert names <= set(listed.stdout.split()), "a file that git does not know"
    read = re.compile(
        r"(api/|aten/(?!cuda/)|c10/|cmake/|codegen/|python/csrc/|python/flambeau/)"
        r"|python/build_support/(compile\.sh|locate_wheels\.py|spec_hash\.py|THIRD-PARTY\.md)$"
        r"|(pyproject\.toml|CMakeLists\.txt|LICENSE|README\.md|native_functions\.yaml|derivatives\.yaml)$"
    )
    assert names == {name for name in listed.stdout.split() if read.match(name)}


# --- installation ----------------------------------------------------------------------------------------


def clean_environ(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "FLAMBEAU", "VIRTUAL_ENV"))}
    return {**kept, **more}


class Environment:
    """A virtual environment outside the checkout, filled by the pip of the interpreter that runs this."""

    def __init__(self, folder):
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python = folder / "bin" / "python"
        (self.site,) = (folder / "lib").glob("python3.*/site-packages")

    def pip(self, *arguments, check=True):
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "--disable-pip-version-check"]
        run = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, env=clean_environ(), cwd=self.folder
        )
        assert run.returncode == 0 or not check, run.stdout + run.stderr
        return run

    def install(self, distribution, *options):
        self.pip("install", "--quiet", "--no-index", "--no-deps", *options, str(distribution))
        return self

    def smoke(self, before=(), env=None):
        command = [*before, str(self.python), "-I", str(SMOKE)]
        environ = clean_environ() if env is None else env
        run = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=environ)
        assert run.returncode == 0, run.stdout + run.stderr
        assert "checks passed" in run.stdout
        return run.stdout

    def run(self, program):
        command = [str(self.python), "-I", "-c", program]
        run = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=clean_environ())
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()


@pytest.fixture(scope="module")
def bare(wheel, tmp_path_factory):
    """An environment with the wheel alone: no NumPy."""
    return Environment(tmp_path_factory.mktemp("bare") / "venv").install(wheel)


def test_the_wheel_works_alone(bare):
    bare.smoke()


@pytest.mark.parametrize("capped", LEVELS)
def test_the_wheel_works_with_fewer_instructions(bare, capped):
    environ = clean_environ(FLAMBEAU_CPU_ISA=capped)
    probe = [str(bare.python), "-I", "-c", "import flambeau; flambeau.ones(2) + 1"]
    tried = subprocess.run(probe, capture_output=True, text=True, cwd=bare.folder, env=environ)
    if f"this processor lacks {capped}" in tried.stderr:
        pytest.skip(tried.stderr.strip().splitlines()[-2])
    out = bare.smoke(env=environ)
    assert "checks passed with" in out


def test_a_program_in_cpp_is_built_against_the_wheel(bare, tmp_path):
    """By find_package(Torch) of the installed wheel; the program loads no Python."""
    prefix = bare.run("import flambeau; print(flambeau.utils.cmake_prefix_path)")
    assert prefix == str(bare.site / "flambeau" / "share" / "cmake")
    source = ROOT / "test" / "extensions" / "program"
    environ = clean_environ()
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DPACKAGE=Torch"]
    for command in (
        ["cmake", "-S", str(source), "-B", str(tmp_path), *options],
        ["cmake", "--build", str(tmp_path)],
    ):
        made = subprocess.run(command, capture_output=True, text=True, env=environ)
        assert made.returncode == 0, made.stdout + made.stderr
    run = subprocess.run([str(tmp_path / "program")], capture_output=True, text=True, env=environ)
    assert run.stdout == "6\n", run.stderr


def test_operators_of_an_author_are_built_against_the_wheel(wheel, tmp_path):
    """By CMake, with the generator in the wheel; the checkout is not on any path."""
    environment = Environment(tmp_path / "venv").install(wheel)
    environment.pip("install", "--quiet", "jinja2==3.1.6", "pyyaml==6.0.3")
    prefix = environment.run("import flambeau; print(flambeau.utils.cmake_prefix_path)")
    source, build = ROOT / "examples" / "extension_yaml", tmp_path / "build"
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DPython_EXECUTABLE={environment.python}", "-G", "Ninja"]
    before = sorted(path for path in environment.site.rglob("*") if "__pycache__" not in path.parts)
    environ = clean_environ(HOME=str(tmp_path))
    for command in (["cmake", "-S", source, "-B", build, *options], ["cmake", "--build", build]):
        made = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environ)
        assert made.returncode == 0, made.stdout + made.stderr
    after = sorted(path for path in environment.site.rglob("*") if "__pycache__" not in path.parts)
    assert after == before, "the generator writes nothing beside itself"
    folder = str(build / "signals")
    program = f"import sys; sys.path.insert(0, {folder!r}); import flambeau, _operators\n"
    program += "print(_operators.smooth(flambeau.tensor([0.0, 4.0, 4.0]), 0.5).tolist())"
    assert environment.run(program) == "[0.0, 2.0, 3.0]"


def test_the_wheel_works_in_a_folder_that_cannot_be_written(bare):
    """Without a home, too. The superuser is held back from writing by dropping all capabilities."""
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
    before = sorted(str(path) for path in bare.site.rglob("*"))
    folders = [path for path in (bare.site, *bare.site.rglob("*")) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        refused = subprocess.run([*drop, "touch", str(bare.site / "flambeau" / "x")], capture_output=True)
        assert refused.returncode != 0, "the folder can be written"
        bare.smoke(drop, env=clean_environ(HOME="/nonexistent"))
        assert sorted(str(path) for path in bare.site.rglob("*")) == before
    finally:
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.parametrize("numpy", ["1.26.4", "2.4.6"])
def test_the_wheel_works_with_another_numpy(wheel, tmp_path, numpy):
    environment = Environment(tmp_path / "venv").install(wheel)
    environment.pip("install", "--quiet", f"numpy=={numpy}")
    environment.smoke()
    assert environment.run("import numpy, flambeau; print(numpy.__version__)") == numpy


def test_the_wheel_works_beside_pytorch(wheel, tmp_path):
    """Both compute in one process, in either order of import, and `torch` stays PyTorch's name."""
    pytorch = os.environ.get("FLAMBEAU_PYTORCH_SITE", "")
    if not pytorch:
        pytest.skip("no PyTorch: FLAMBEAU_PYTORCH_SITE names no folder")
    environment = Environment(tmp_path / "venv").install(wheel)
    (environment.site / "pytorch.pth").write_text(pytorch + "\n")
    for order in ("import torch, flambeau", "import flambeau, torch"):
        program = f"""{order}
        assert torch.__name__ == "torch" and torch.__file__.endswith("/torch/__init__.py"), torch.__file__
        assert {str(environment.site)!r} in flambeau.__file__, flambeau.__file__
        for _ in range(3):
            for module in (torch, flambeau):
                a = module.ones(300, 300)
                assert (a @ a).sum().item() == 300**3
                module.linalg.svdvals(module.eye(40))
                module.nn.functional.conv2d(module.ones(1, 1, 9, 9), module.ones(1, 1, 3, 3))
        print("ok")"""
        assert environment.run(re.sub(r"\n {8}", "\n", program)) == "ok"


def test_the_wheel_works_under_a_strange_path(wheel, tmp_path):
    environment = Environment(tmp_path / "mit Leerzeichen" / "Ünïcödé 日本 'x'").install(wheel)
    environment.smoke()
    assert environment.run("import locale, flambeau; print(len(flambeau.__file__))")


def test_the_wheel_works_in_an_ascii_locale(wheel, tmp_path):
    environment = Environment(tmp_path / "ünïcode").install(wheel)
    environment.smoke(env=clean_environ(LC_ALL="C", PYTHONUTF8="0"))


def test_another_minor_version_of_python_refuses_the_wheel(bare, wheel, tmp_path):
    minor = f"3.{sys.version_info.minor + 1}"
    options = ["--python-version", minor, "--only-binary=:all:", "--target", str(tmp_path / "other")]
    run = bare.pip("install", "--no-index", "--no-deps", *options, str(wheel), check=False)
    assert run.returncode != 0 and "not a supported wheel" in run.stderr + run.stdout


def test_uninstalling_leaves_nothing(wheel, tmp_path):
    environment = Environment(tmp_path / "venv")
    before = {path for path in environment.folder.rglob("*") if "__pycache__" not in path.parts}
    environment.install(wheel)
    environment.smoke()
    environment.pip("uninstall", "--quiet", "--yes", "flambeau")
    left = {path for path in environment.folder.rglob("*") if "__pycache__" not in path.parts} - before
    assert left == set()
    assert not (environment.site / "flambeau").exists()


def test_the_sdist_installs_and_works(sdist, tmp_path):
    """As ``pip install flambeau-*.tar.gz`` does for users: requirements of the build come from PyPI."""
    environment = Environment(tmp_path / "venv")
    environment.pip("install", "--quiet", "--no-deps", str(sdist))
    environment.smoke()
