"""An author's YAML file beside flambeau's own: mistakes, commands, outputs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codegen.load import load
from codegen.reading.extension import Author
from codegen.source.diagnostics import Diagnostic
from codegen.targets import emit_library
from codegen.targets.library.registration import ISA_FLAGS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "extension_yaml"
HEAD = "- extension: mylib\n"
SOUND = """\
- func: twice(Tensor self) -> Tensor
  pointwise: self * 2
  doc: Twice the values.
"""


def found_in(folder: Path, text: str, derivatives: str | None = None) -> list[Diagnostic]:
    """Read an author's files; a sound entry stands after `text`."""
    native = folder / "my ops.yaml"
    native.write_text(text)
    other = None
    if derivatives is not None:
        other = folder / "my derivatives.yaml"
        other.write_text(derivatives)
    return load(author=Author(native, other))[1]


def codegen(*args: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "codegen", *map(str, args)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def entry(name: str, *lines: str) -> str:
    return "\n".join([f"- func: {name}", *(f"  {line}" for line in lines), "  doc: Text.", ""])


POINTWISE = "pointwise: self * 2"

TESTED = "test: {samples: ['t(2)', 't(3)'], no_reference: x}"
# The entry's lines, or the whole file; place and code of the mistake; words of message or remedy.
WHOLE = [
    ("", 1, 1, "FB0004", "begin it with '- extension: name'"),
    (SOUND, 1, 3, "FB0102", "missing key 'extension'"),
    ("- extension: mine\n  sourcs: []\n" + SOUND, 2, 3, "FB0101", "did you mean 'sources'"),
    ("- extension: My-Lib\n" + SOUND, 1, 14, "FB0103", "lower-case identifier"),
    ("- extension: lambda\n" + SOUND, 1, 14, "FB0108", "keyword"),
    ("- extension: aten\n" + SOUND, 1, 14, "FB0108", "flambeau itself uses the name 'aten'"),
    ("- extension: activation\n" + SOUND, 1, 14, "FB0108", "flambeau itself uses the name"),
    (HEAD + "  sources: [no/*.cpp]\n" + SOUND, 2, 13, "FB0005", "no file in C++"),
    (HEAD + "  sources: [../*.cpp]\n" + SOUND, 2, 13, "FB0005", "no file in C++"),
    (HEAD + SOUND + HEAD, 5, 3, "FB0003", "a second 'extension'"),
    (HEAD + SOUND + SOUND, 5, 9, "FB0107", "duplicate operator 'twice'"),
]
ENTRIES = [
    (("relu(Tensor self) -> Tensor", POINTWISE), 2, 9, "FB0107", "is an operator of flambeau"),
    (("f(Tensor self) -> Tensor", "family: mine", POINTWISE), 3, 3, "FB0106", "one family"),
    (("f(Tensor self) -> Tensor", "namespace: nn", POINTWISE), 3, 3, "FB0106", "'namespace'"),
    (("f(Tensor self) -> Tensor", "infix: '+'", POINTWISE), 3, 3, "FB0106", "'infix'"),
    (("f(Tensor self) -> Tensor", "aliases: [g]", POINTWISE), 3, 3, "FB0106", "composite"),
    (("f(Tensor(a) self) -> Tensor(a)", "view: t(self)", TESTED), 3, 3, "FB0106", "composite of views"),
    (("f(Tensor self) -> Tensor", "variants: [method]", POINTWISE), 3, 14, "FB0208", "no methods"),
    (("f(Tensor self, Tensor total) -> Tensor", "pointwise: self + total"), 2, 31, "FB0108", "choose"),
    *(
        ((f"f(Tensor self, Scalar {name}) -> Tensor", f"pointwise: self + {name}"), 2, 31, "FB0108", "choose")
        for name in ("output", "tangent", "self_t", "self_p", "grad_output")
    ),
    (("f(Tensor self) -> Tensor", "pointwise: slf * 2"), 3, 14, "FB0302", "did you mean 'self'"),
    (
        ("f(Tensor self) -> Tensor", "kernels: {CPU: f_cpu}", "shape: like(self)", TESTED),
        *(3, 18, "FB0501", "the files of `sources:`"),
    ),
]

# Names that no operator has are not reported beside entries whose own names could not be read.
UNKNOWN = entry("f(Tensor self) -> Tensor", "composite: sigmod(self)", TESTED)
WHOLE.append((HEAD + UNKNOWN, 3, 14, "FB0303", "'sigmoid'"))


def assert_answered(found: list[Diagnostic], line: int, column: int, code: str, words: str) -> None:
    places = [(d.file.endswith("my ops.yaml"), d.line, d.column, d.code) for d in found]
    assert (True, line, column, code) in places, found
    diagnostic = found[places.index((True, line, column, code))]
    assert words in f"{diagnostic.message} | {diagnostic.hint}"
    assert diagnostic.hint
    if code != "FB0501":  # an operator with a kernel also wants a derivative
        assert len(found) == 1, found


@pytest.mark.parametrize(("text", "line", "column", "code", "words"), WHOLE, ids=lambda v: str(v)[:30])
def test_a_mistake_is_answered_where_it_stands(tmp_path, text, line, column, code, words):
    assert_answered(found_in(tmp_path, text), line, column, code, words)


@pytest.fixture(scope="module")
def found_in_entries(tmp_path_factory: pytest.TempPathFactory) -> list[list[Diagnostic]]:
    """What is found in each of ENTRIES, which stand in one file under names of one letter.

    Their lines are counted as if each stood alone below the head.
    """
    letters = (letter for letter in "abcdefhijklmnopqrsuvwxyz")  # `t` is an operator, `g` an alias here
    text, ends = HEAD, [1]
    for lines, *_ in ENTRIES:
        name = next(letters)
        text += entry(*(re.sub(r"^f(?=\()", name, line) for line in lines))
        ends.append(text.count("\n"))
    found = found_in(tmp_path_factory.mktemp("entries"), text)
    parts = [[d for d in found if first < d.line <= last] for first, last in itertools.pairwise(ends)]
    assert sum(map(len, parts)) == len(found), "found outside of the entries"
    for first, part in zip(ends, parts, strict=False):
        part[:] = [dataclasses.replace(d, line=d.line - first + 1) for d in part]
    return parts


@pytest.mark.parametrize("number", range(len(ENTRIES)), ids=[lines[0][:30] for lines, *_ in ENTRIES])
def test_a_mistake_of_an_entry_is_answered_where_it_stands(found_in_entries, number):
    _, line, column, code, words = ENTRIES[number]
    assert_answered(found_in_entries[number], line, column, code, words)


REDUCTION = entry(
    "energy(Tensor self) -> Tensor",
    "reduce: {map: self * self, combine: sum}",
    "dtypes: [floating]",
    "test: {samples: ['t(2)', 't(3)'], reference: 'np.sum(self ** 2)'}",
)


def test_a_missing_derivative_is_asked_for_in_a_file_of_the_author(tmp_path):
    (found,) = found_in(tmp_path, HEAD + REDUCTION)
    assert found.code == "FB0402" and "given beside this one" in found.hint
    assert "derivatives.yaml" not in found.hint
    assert found_in(tmp_path, HEAD + REDUCTION, "- name: energy\n  self: grad * self * 2\n") == []


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("- name: energi\n  self: grad\n", "FB0401", "did you mean 'energy'"),
        ("- name: exp\n  self: grad\n", "FB0401", "an operator of flambeau"),
        ("- name: energy\n  slf: grad\n", "FB0409", "did you mean 'self'"),
        ("- name: energy\n  self: grad * self * too\n", "FB0302", "unknown name 'too'"),
    ],
)
def test_a_mistake_in_derivatives_is_reported_in_the_file_of_the_author(tmp_path, text, code, words):
    found = [d for d in found_in(tmp_path, HEAD + REDUCTION, text) if d.code == code]
    assert found and found[0].file.endswith("my derivatives.yaml")
    assert words in f"{found[0].message} | {found[0].hint}"


def test_kernels_are_compared_with_the_author_s_sources(tmp_path):
    (tmp_path / "mine.cpp").write_text(
        "namespace flambeau::ops {\nvoid f_cpu(const Tensor& self, int64_t n, Tensor& out) {\n}\n"
        "void stray_cpu(const Tensor& self) {\n}\n}\n"
    )
    text = "- extension: mylib\n  sources: ['*.cpp']\n" + entry(
        "f(Tensor self, float n) -> Tensor",
        "kernels: {CPU: f_cpu}",
        "shape: like(self)",
        "dtypes: [integral]",
        "test: {samples: ['t(2), 1.0', 't(3), 2.0'], no_reference: none}",
    )
    stray, wrong = found_in(tmp_path, text, "- name: f\n  self: none\n")
    assert (stray.code, wrong.code) == ("FB0502", "FB0505")
    assert "expected double, got int64_t" in wrong.message
    sound = (tmp_path / "mine.cpp").read_text().replace("int64_t n", "double n")
    (tmp_path / "mine.cpp").write_text(sound)
    (stray,) = found_in(tmp_path, text, "- name: f\n  self: none\n")
    assert stray.code == "FB0502" and stray.file.endswith("mine.cpp") and stray.line == 4


def test_the_example_is_sound():
    model, found = load(author=Author(EXAMPLE / "signals.yaml", EXAMPLE / "derivatives.yaml"))
    assert not found
    assert model is not None and model.library == "signals"


# --- commands ------------------------------------------------------------------------------------


def test_check_explain_and_where_know_the_author_s_file(tmp_path):
    native = tmp_path / "with space.yaml"
    native.write_text(HEAD + SOUND)
    assert codegen("check", "--extend", native).stdout == "ok: 1 operators, 1 forms\n"
    explained = codegen("explain", "twice", "--extend", native).stdout
    assert "mylib.twice" in explained and f"{native}:2" in explained and "flambeau.twice" not in explained
    places = codegen("where", "twice", "--extend", native).stdout.splitlines()
    assert places == [f"{native}:2: twice: entry"]
    native.write_text(HEAD + SOUND.replace("self * 2", "slf * 2"))
    result = codegen("check", "--extend", native.name, "--format", "json", cwd=tmp_path)
    (found,) = json.loads(result.stdout)
    assert (result.returncode, found["file"], found["line"], found["column"]) == (1, native.name, 3, 14)
    shown = codegen("check", "--extend", native.name, cwd=tmp_path).stdout.splitlines()
    assert "^~~" in shown[2] and shown[3].strip() == "hint: did you mean 'self'?"
    assert codegen("check", "--extend", native, native, native).returncode == 2


def test_the_commands_of_the_page_work(tmp_path):
    """Every line of docs/extending.md that runs the generator, as a user of the package types it."""
    text = (ROOT / "docs" / "extending.md").read_text()
    lines = re.findall(r"^python -m (flambeau\.codegen .*)$", text, re.MULTILINE)
    assert {line.split()[1] for line in lines} == {"check", "explain", "where", "--extend"}
    work = tmp_path / "work"
    shutil.copytree(EXAMPLE, work)
    for line in lines:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        command = [sys.executable, "-m", *line.split()]
        result = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        assert result.returncode == 0 and result.stdout, (line, result.stderr)
    assert (work / "generated" / "sources.json").is_file()


def test_outputs_are_written_only_if_they_change(tmp_path):
    work = tmp_path / "a folder"
    shutil.copytree(EXAMPLE, work, ignore=shutil.ignore_patterns("generated", "build"))
    arguments = ("--extend", work / "signals.yaml", work / "derivatives.yaml")
    assert codegen(*arguments, cwd=tmp_path).returncode == 0
    folder = work / "generated"
    first = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert codegen(*arguments).stdout == "generated: up to date\n"
    (folder / "orphan.cpp").write_text("")
    text = (work / "signals.yaml").read_text()
    (work / "signals.yaml").write_text(text.replace("tanh(self / limit)", "tanh(self / limit) + 0"))
    result = codegen(*arguments)
    assert result.returncode == 0 and " 1 removed" in result.stdout
    second = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    changed = {path.name for path in first if first[path] != second[path]} - {"MANIFEST", ".stamp"}
    assert changed == {"signals_loops.cpp", "_operators.py", "_operators.pyi", "signals.json"}
    assert codegen(*arguments, "--check").returncode == 0
    (work / "signals.yaml").write_text(text)
    assert codegen(*arguments, "--check").returncode == 1


def test_outputs_do_not_depend_on_where_the_files_lie(tmp_path):
    texts = []
    for name in ("one", "two"):
        work = tmp_path / name
        shutil.copytree(EXAMPLE, work, ignore=shutil.ignore_patterns("generated", "build"))
        assert codegen("--extend", "signals.yaml", "derivatives.yaml", cwd=work).returncode == 0
        texts.append((work / "generated" / "MANIFEST").read_text())
    assert texts[0] == texts[1]


def test_sources_may_be_read_only_and_other_files_are_never_removed(tmp_path):
    work = tmp_path / "sources"
    work.mkdir()
    (work / "ops.yaml").write_text(HEAD + SOUND)
    work.chmod(0o555)
    try:
        output = tmp_path / "out"
        assert codegen("--extend", work / "ops.yaml", "--output", output).returncode == 0
        assert (output / "mylib" / "operators.cpp").is_file()
    finally:
        work.chmod(0o755)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "precious.txt").write_text("kept")
    result = codegen("--extend", work / "ops.yaml", "--output", mine)
    assert result.returncode == 1 and "holds other files" in result.stderr
    assert (mine / "precious.txt").read_text() == "kept"


def test_a_file_with_mistakes_leaves_outputs_alone(tmp_path):
    native = tmp_path / "ops.yaml"
    native.write_text(HEAD + SOUND)
    assert codegen("--extend", native).returncode == 0
    before = (tmp_path / "generated" / "MANIFEST").read_text()
    native.write_text(HEAD + SOUND.replace("self * 2", "slf * 2"))
    result = codegen("--extend", native)
    assert result.returncode == 1 and "FB0302" in result.stderr
    assert (tmp_path / "generated" / "MANIFEST").read_text() == before
    native.write_text(HEAD)
    result = codegen("--extend", native)
    assert result.returncode == 1 and "no operators in the file" in result.stderr


# --- what is generated -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    model, found = load(author=Author(EXAMPLE / "signals.yaml", EXAMPLE / "derivatives.yaml"))
    assert model is not None and not found
    return emit_library(model, ["../kernels/smooth_cpu.cpp"], "flambeau 1")


def test_tests_name_the_author_s_references(tmp_path):
    (tmp_path / "references.py").write_text("def energy(x):\n    return (x ** 2).sum()\n")
    text = REDUCTION.replace("np.sum(self ** 2)", "references.energy(self)")
    (tmp_path / "ops.yaml").write_text(HEAD + text)
    (tmp_path / "d.yaml").write_text("- name: energy\n  self: grad * self * 2\n")
    output = tmp_path / "out"
    arguments = ("--extend", tmp_path / "ops.yaml", tmp_path / "d.yaml", "--output", output)
    assert codegen(*arguments).returncode == 0
    text = (output / "tests" / "test_mylib.py").read_text()
    assert 'FOLDER / "../../references.py"' in text
    (tmp_path / "references.py").write_text("def power(x):\n    return (x ** 2).sum()\n")
    result = codegen(*arguments)
    assert result.returncode == 1 and "references.energy" in result.stderr


def test_generated_code_includes_public_headers_alone(generated):
    public = re.compile(r"api/(generated|generated_loops|kernels)\.h|torchgen_out/aten/\w+_ops\.h|signals/.*")
    included = {
        name
        for path, text in generated.items()
        if path.endswith((".cpp", ".h"))
        for name in re.findall(r'#include "(.*)"', text)
    }
    assert not {name for name in included if not public.fullmatch(name)}
    assert "api/generated.h" in included and "api/generated_loops.h" in included


def test_flags_of_loops_are_those_of_flambeau():
    text = (ROOT / "CMakeLists.txt").read_text()
    for isa, flags in ISA_FLAGS.items():
        assert f"set(isa_flags_{isa} {' '.join(flags)})" in text


def test_names_lie_in_a_namespace_of_the_extension(generated):
    for path, text in generated.items():
        if path.endswith("signals_ops.h"):
            assert "namespace flambeau::ops::inline signals_library {" in text
    assert '"signals::soft_clip_"' in generated["signals/aten/signals_ops.cpp"]
    assert "flambeau operators built for: flambeau 1" in generated["signals/operators.cpp"]
