"""`python -m codegen`: exit codes, formats, idleness, and every command's answer."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codegen.commands.matrix import LOOPS, loops
from codegen.load import load
from codegen.reading.primitives import TABLE, load_primitives
from codegen.source.diagnostics import CODES, Collector

ROOT = Path(__file__).parents[2]
FIXTURE = Path(__file__).parent / "fixture"


def codegen(*args: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **env}
    command = [sys.executable, "-m", "codegen", *args]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of the generator with the fixture as its specification."""
    root = tmp_path / "repository"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "codegen", root / "codegen", ignore=ignore)
    shutil.copytree(FIXTURE, root, dirs_exist_ok=True)
    (root / "torchgen_out").mkdir()
    (root / "torchgen_out" / "README.md").write_text("kept\n")
    return root


def run_in(repository: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return codegen(*args, cwd=repository, PYTHONPATH=str(repository), **env)


def outputs(folder: Path) -> dict[str, str]:
    kept = (".stamp", ".entries", "README.md", "MANIFEST")
    files = [p for p in folder.rglob("*") if p.is_file() and p.name not in kept]
    return {p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


# --- check -------------------------------------------------------------------------------------


def test_the_specification_is_sound():
    result = codegen("check")
    assert result.returncode == 0, result.stdout
    assert result.stdout.startswith("ok: ")


def test_check_answers_in_json(repository: Path):
    native = repository / "native_functions.yaml"
    native.write_text(native.read_text().replace("sigmoid(self)", "sigmod(self)"))
    result = run_in(repository, "check", "--format", "json")
    assert result.returncode == 1
    (found,) = json.loads(result.stdout)
    assert set(found) == {"file", "line", "column", "code", "message", "hint"}
    assert found["file"] == "native_functions.yaml"
    assert native.read_text().splitlines()[found["line"] - 1][found["column"] - 1 :].startswith("sigmod")


def test_check_of_sound_files_is_an_empty_list():
    native, derivatives = FIXTURE / "native_functions.yaml", FIXTURE / "derivatives.yaml"
    result = codegen(
        "check", "--native-functions", str(native), "--derivatives", str(derivatives), "--format", "json"
    )
    assert (result.returncode, json.loads(result.stdout)) == (0, [])


def test_check_shows_line_and_caret(repository: Path):
    native = repository / "native_functions.yaml"
    native.write_text(native.read_text().replace("sigmoid(self)", "sigmod(self)"))
    lines = run_in(repository, "check").stdout.splitlines()
    assert lines[0].startswith("native_functions.yaml:")
    assert lines[1].split("| ")[1].index("sigmod") == lines[2].split("| ")[1].index("^")
    assert "^~~~~~" in lines[2]
    assert lines[3].strip() == "hint: did you mean 'sigmoid'?"
    assert lines[-1] == "1 mistake"


def test_a_missing_file_is_a_diagnostic(tmp_path: Path):
    result = codegen("check", "--native-functions", str(tmp_path / "no.yaml"), "--format", "json")
    assert result.returncode == 1
    assert "FB0005" in {d["code"] for d in json.loads(result.stdout)}


def test_a_wrong_row_of_the_primitive_table(tmp_path: Path):
    path = tmp_path / "primitives.yaml"
    path.write_text(TABLE.read_text().replace("domains:", "domain:", 1))
    collector = Collector()
    load_primitives(collector, path)
    found = collector.sorted()
    assert {d.code for d in found} == {"FB0601"}
    assert any("did you mean 'domains'" in d.hint for d in found)


def test_codes_are_documented():
    text = (ROOT / "docs" / "spec-language.md").read_text()
    assert [code for code in CODES if f"| {code} |" not in text] == []


# --- generate ------------------------------------------------------------------------------------


def test_generate_writes_once_and_is_idle_after(repository: Path):
    first = run_in(repository, "generate", "--manifest")
    assert first.returncode == 0, first.stderr
    before = {p: p.stat().st_mtime_ns for p in (repository / "torchgen_out").rglob("*") if p.is_file()}
    assert "up to date" in run_in(repository, "generate", "--manifest").stdout
    assert before == {
        p: p.stat().st_mtime_ns for p in (repository / "torchgen_out").rglob("*") if p.is_file()
    }


def test_generate_repairs_edits_and_removes_orphans(repository: Path):
    out = repository / "torchgen_out"
    run_in(repository, "generate")
    expected = outputs(out)
    edited = out / next(iter(expected))
    edited.write_text("edited by hand\n")
    (out / "orphan" / "deep").mkdir(parents=True)
    (out / "orphan" / "deep" / "old.cpp").write_text("old\n")
    result = run_in(repository, "generate")
    assert "1 written, 1 removed" in result.stdout
    assert outputs(out) == expected
    assert not (out / "orphan").exists()
    assert (out / "README.md").read_text() == "kept\n"


def test_one_formula_changes_its_family_only(repository: Path):
    out, native = repository / "torchgen_out", repository / "native_functions.yaml"
    run_in(repository, "generate")
    before = outputs(out)
    native.write_text(native.read_text().replace("self * sigmoid(self)", "sigmoid(self) * self"))
    said = run_in(repository, "generate").stdout
    assert "  changed: native_functions.yaml: silu\n" in said
    assert "cpu/activation_loops" in said.split("  written: ")[1]
    after = outputs(out)
    changed = [name for name in after if before.get(name) != after[name]]
    # The documentation, and the header that programs compile while they run, hold all families.
    shared = {
        n
        for n in changed
        if n.startswith("stubs/") or n in ("package/_operator_texts.txt", "cells/loop_cells.h")
    }
    assert set(changed) - shared
    assert all("activation" in name for name in set(changed) - shared)


def test_lines_that_move_in_the_specification_move_nothing_in_the_outputs(repository: Path):
    out, native = repository / "torchgen_out", repository / "native_functions.yaml"
    run_in(repository, "generate")
    before = outputs(out)
    native.write_text("# One line\n# and another.\n" + native.read_text())
    run_in(repository, "generate")
    assert outputs(out) == before


def test_check_of_the_manifest(repository: Path):
    run_in(repository, "generate", "--manifest")
    assert run_in(repository, "generate", "--check").returncode == 0
    native = repository / "native_functions.yaml"
    native.write_text(native.read_text().replace("self * sigmoid(self)", "sigmoid(self) * self"))
    result = run_in(repository, "generate", "--check")
    assert result.returncode == 1
    assert "differs" in result.stderr and "make codegen" in result.stderr


def test_a_manifest_of_other_files_is_written_anew(repository: Path):
    run_in(repository, "generate", "--manifest")
    path = repository / "torchgen_out" / "MANIFEST"
    expected = path.read_text()
    path.write_text("merged wrongly\n")
    assert "up to date" in run_in(repository, "generate").stdout
    run_in(repository, "generate", "--manifest")
    assert path.read_text() == expected


def test_keep_going_is_idle_after_a_full_run_but_not_the_reverse(repository: Path):
    native = repository / "native_functions.yaml"
    sound = native.read_text()
    run_in(repository, "generate")
    assert "up to date" in run_in(repository, "generate", "--keep-going").stdout
    native.write_text(sound.replace("sigmoid(self)", "sigmod(self)"))
    assert "removed" in run_in(repository, "generate", "--keep-going").stdout
    assert "up to date" in run_in(repository, "generate", "--keep-going").stdout
    assert run_in(repository, "generate").returncode == 1


def test_generate_refuses_mistakes(repository: Path):
    native = repository / "native_functions.yaml"
    native.write_text(native.read_text().replace("sigmoid(self)", "sigmod(self)"))
    result = run_in(repository, "generate")
    assert result.returncode == 1
    assert "FB0303" in result.stderr
    assert not (repository / "torchgen_out" / ".stamp").exists()


def test_outputs_do_not_depend_on_hash_seed_or_folder(repository: Path, tmp_path: Path):
    elsewhere = tmp_path / "else" / "where"
    shutil.copytree(repository, elsewhere)
    seen = []
    for seed, root, cwd in (
        ("0", repository, tmp_path),
        ("1", elsewhere, elsewhere),
        ("12345", elsewhere, Path("/")),
    ):
        result = codegen("generate", cwd=cwd, PYTHONPATH=str(root), PYTHONHASHSEED=seed)
        assert result.returncode == 0, result.stderr
        seen.append(outputs(root / "torchgen_out"))
        shutil.rmtree(root / "torchgen_out")
    assert seen[0] == seen[1] == seen[2]
    assert seen[0]


# --- the others ----------------------------------------------------------------------------------


def test_explain_tells_provenance(repository: Path):
    text = run_in(repository, "explain", "mul_.Scalar").stdout
    assert "mul_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)" in text
    assert "self: mul.Tensor(grad, other)   (given)" in text
    assert "numbers    derived" in text
    missing = run_in(repository, "explain", "softmax.int").stdout
    assert "cuda       missing" in missing
    assert "aten/ops/softmax/softmax_cpu.cpp:12: softmax.int: CPU kernel softmax_cpu" in missing


def test_where_gives_file_and_line(repository: Path):
    run_in(repository, "generate")
    lines = run_in(repository, "where", "softmax").stdout.splitlines()
    places = [line.split(": ")[0] for line in lines]
    for place in places:
        file, number = place.rsplit(":", 1)
        assert len((repository / file).read_text().splitlines()) >= int(number)
    files = {place.rsplit(":", 1)[0] for place in places}
    assert {"native_functions.yaml", "derivatives.yaml", "aten/ops/softmax/softmax_cpu.cpp"} <= files
    assert any(file.startswith("torchgen_out/") for file in files)


def test_where_follows_an_operator_to_its_internal_parts(repository: Path):
    native = repository / "native_functions.yaml"
    text = native.read_text().replace("func: softmax.int(", "func: _softmax(")
    text = text.replace("variants: [function, method, out]\n  kernels: {CPU: soft", "kernels: {CPU: soft")
    entry = """
- func: softmax.int(Tensor self, int dim) -> Tensor
  family: softmax
  composite: _softmax(self, dim)
  doc: Softmax.
  test: {samples: ["t(2, 3), 1", "t(5), 0"], reference: "sp.softmax(self, axis=dim)"}
"""
    native.write_text(text + entry)
    derivatives = repository / "derivatives.yaml"
    derivatives.write_text(derivatives.read_text().replace("name: softmax.int", "name: _softmax"))
    lines = run_in(repository, "where", "softmax").stdout
    assert "_softmax: CPU kernel softmax_cpu" in lines
    assert "_softmax: derivative" in lines


def test_unknown_operator_gets_a_hint(repository: Path):
    result = run_in(repository, "where", "sofmax")
    assert result.returncode == 1
    assert "did you mean 'softmax'?" in result.stderr


def test_matrix_counts(repository: Path):
    text = run_in(repository, "matrix").stdout
    assert text.startswith("artefact        given  derived  missing\n")
    assert "missing cuda: " in text
    assert "autocast" not in text, "rows that no operator uses are left out"
    assert re.search(r"^flops +0 +[1-9]", text, re.MULTILINE), "those of composites are those of their parts"
    assert "softmax.int" in run_in(repository, "matrix", "--all").stdout


def test_page_of_loops_is_up_to_date():
    model, _ = load()
    assert model is not None
    assert LOOPS.read_text(encoding="utf-8") == loops(model), "run python -m codegen matrix --loops"


@pytest.mark.parametrize("kind", ["pointwise", "composite", "reduce", "kernels"])
def test_new_scaffolds_an_operator_that_passes_check(repository: Path, kind: str):
    result = run_in(repository, "new", "brandnew", "--kind", kind, "--new-family")
    assert result.returncode == 0, result.stderr
    assert run_in(repository, "check").stdout.startswith("ok: ")
    assert "def test_" in (repository / "test" / "ops" / "test_brandnew.py").read_text()
    again = run_in(repository, "new", "brandnew", "--kind", kind)
    assert again.returncode == 1
    assert "exists already" in again.stderr


REFUSED = {
    ("silu_", "activation"): "'silu_' is a form of 'silu'",
    ("add", "arithmetic"): "operator 'add' exists already",
    ("_foreach_silu", "activation"): "make 'silu' with `foreach:`",
    ("softmax_out", "softmax"): "put `out` into its variants",
    ("brandnew_", "activation"): "put `inplace` into its variants",
    ("expand_copy", "view"): "put `copy` into its variants",
    ("Brandnew", "activation"): "lower-case identifier",
    ("class", "activation"): "keyword",
    ("brandnew", "activaton"): "did you mean 'activation'?",
    ("brandnew", "zzz"): "add --new-family",
}


@pytest.mark.parametrize(("name", "family"), REFUSED)
def test_new_refuses_names_of_forms_and_unknown_families(repository: Path, name: str, family: str):
    before = (repository / "native_functions.yaml").read_text()
    result = run_in(repository, "new", name, "--family", family)
    assert result.returncode == 1
    assert REFUSED[name, family] in result.stderr
    assert (repository / "native_functions.yaml").read_text() == before


def test_new_asks_for_a_family(repository: Path):
    assert "one of activation, arithmetic" in run_in(repository, "new", "brandnew").stderr
    both = run_in(repository, "new", "brandnew", "--family", "softmax", "--new-family")
    assert "exists already: leave --new-family out" in both.stderr


def test_a_scaffolded_kernel_compiles(repository: Path):
    run_in(repository, "new", "brandnew", "--kind", "kernels", "--new-family")
    assert run_in(repository, "generate").returncode == 0
    kernel = repository / "aten" / "ops" / "brandnew" / "brandnew_cpu.cpp"
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
    command = ["g++", *flags, f"-I{repository}", f"-I{ROOT}", str(kernel)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_diff_names_what_changed(repository: Path):
    def git(*args: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t")
        subprocess.run(["git", *identity, *args], cwd=repository, check=True, capture_output=True)

    run_in(repository, "generate", "--manifest")
    git("init", "-q")
    git("add", "-f", "native_functions.yaml", "derivatives.yaml", "torchgen_out/MANIFEST")
    git("commit", "-qm", "before")
    native = repository / "native_functions.yaml"
    native.write_text(native.read_text().replace("self * sigmoid(self)", "sigmoid(self) * self"))
    run_in(repository, "new", "brandnew", "--family", "activation")
    text = run_in(repository, "diff", "HEAD").stdout
    assert "~ silu: body" in text
    assert "+ brandnew" in text
    assert "activation" in text and "outputs change" in text
    assert run_in(repository, "diff", "nosuchrevision").returncode == 2


def test_json_schemas_follow_the_key_tables():
    assert codegen("schemas", "--check").returncode == 0


def test_json_schemas_accept_the_specification():
    jsonschema = pytest.importorskip("jsonschema")
    yaml = pytest.importorskip("yaml")
    for name in ("native_functions", "derivatives"):
        schema = json.loads((ROOT / "codegen" / "schemas" / f"{name}.json").read_text())
        for folder in (ROOT, FIXTURE):
            jsonschema.validate(yaml.safe_load((folder / f"{name}.yaml").read_text()), schema)


def test_json_schema_refuses_what_check_refuses():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "codegen" / "schemas" / "native_functions.json").read_text())
    entry = {"func": "f(Tensor self) -> Tensor", "family": "f", "doc": "F.", "pointwise": "self"}
    jsonschema.validate([entry], schema)
    for wrong in (
        {"famly": "f"},
        {"variants": ["inplce"]},
        {"composite": "self"},
        {"dtype": "promot"},
        {"let": {}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate([{**entry, **wrong}], schema)


@pytest.mark.parametrize("command", [("check",), ("matrix", "--all"), ("where", "softmax")])
def test_a_reader_that_leaves_early_sees_no_traceback(command: tuple[str, ...]):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "codegen", *command],
            cwd=ROOT,
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
    assert done.returncode == 128 + signal.SIGPIPE


def test_help_and_unknown_commands():
    assert "check" in codegen("--help").stdout
    result = codegen("chek")
    assert result.returncode == 2
    assert "did you mean 'check'?" in result.stderr


def test_loading_reads_the_repository_by_default():
    model, found = load(keep_going=True)
    assert model is not None and len(model.operators) > 100
    assert isinstance(found, list)


def test_a_changed_generator_uses_no_earlier_answer(repository: Path):
    """A changed generator or primitive is never answered by what an earlier one found."""
    assert run_in(repository, "check").stdout.startswith("ok: ")
    bodies = repository / "codegen" / "reading" / "bodies.py"
    text = bodies.read_text()
    assert "if name not in set(read):" in text
    bodies.write_text(text.replace("if name not in set(read):", "if name:"))
    assert "is never read" in run_in(repository, "check").stdout
    bodies.write_text(text)
    assert run_in(repository, "check").returncode == 0
    table = repository / "codegen" / "primitives.yaml"
    assert "- name: exp\n" in table.read_text()
    table.write_text(table.read_text().replace("- name: exp\n", "- name: exponential\n"))
    assert "unknown primitive 'exp'" in run_in(repository, "check").stdout


def test_check_and_matrix_count_alike():
    counts = codegen("check").stdout.removeprefix("ok: ").strip()
    assert re.fullmatch(r"\d+ operators, \d+ forms, \d+ primitives", counts)
    matrix = codegen("matrix").stdout
    assert counts in matrix
