"""docs/adding-an-operator.md, tried exactly as it is written: its blocks are put where the page says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from build_support.kernel_heads import problems

from codegen.load import load

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "adding-an-operator.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SOURCES = ("codegen", "aten/ops", "aten/core")
OPERATORS = ("squareplus", "geometric_mean", "standardize", "hadamard_transform")


@dataclass(frozen=True)
class Block:
    """One fenced block; `target` is the last file that the paragraph above it names."""

    language: str
    text: str
    target: str


def blocks() -> list[Block]:
    page, found = PAGE.read_text(), []
    for match in BLOCK.finditer(page):
        above = page[: match.start()].rstrip().rpartition("\n\n")[2]
        files = re.findall(r"`([\w/]+\.(?:yaml|cpp|py))`", above)
        found.append(Block(match.group(1), match.group(2), files[-1] if files else ""))
    return found


def put(repository: Path, block: Block) -> None:
    """Follow the page: a new file, a new section, or the end of the section of the entry's family."""
    path = repository / block.target
    if block.language != "yaml":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)
        return
    text = path.read_text()
    if block.text.startswith("# ===="):
        path.write_text(f"{text}\n{block.text}")
        return
    name = re.search(r"- (?:func|name): (\w+)", block.text).group(1)
    family = re.search(rf"func: {name}\(.*\n  family: (\w+)", PAGE.read_text()).group(1)
    banner = f"# ==== {family} ====\n"
    assert banner in text, f"the page speaks of a section that {block.target} does not have: {family}"
    before, _, after = text.partition(banner)
    section, mark, rest = after.partition("\n# ==== ")
    path.write_text(f"{before}{banner}{section.rstrip()}\n\n{block.text}{mark}{rest}")


def codegen(repository: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "codegen", *args]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)


def repository_at(root: Path, languages: tuple[str, ...]) -> Path:
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("native_functions.yaml", "derivatives.yaml"):
        shutil.copy(ROOT / name, root / name)
    for block in blocks():
        if block.language in languages:
            put(root, block)
    return root


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the generator reads, with every block of the page in its place."""
    root = repository_at(tmp_path_factory.mktemp("page") / "repository", ("yaml", "cpp", "python"))
    result = codegen(root, "generate", "--manifest")
    assert result.returncode == 0, result.stderr
    return root


def test_the_page_has_four_complete_examples():
    targets = [block.target for block in blocks() if block.language != "console"]
    assert targets.count("native_functions.yaml") == 4
    assert targets.count("derivatives.yaml") == 2
    assert targets[-2:] == ["aten/ops/transform/hadamard_cpu.cpp", "test/ops/test_transform.py"]
    assert len(targets) == 8


def test_the_kernel_file_opens_with_the_items_of_every_kernel_file():
    (text,) = [block.text for block in blocks() if block.target.endswith("_cpu.cpp")]
    assert list(problems(text)) == []


def test_no_example_exists_already():
    model, _ = load(keep_going=True)
    names = {op.schema.name.base for op in model.operators}
    assert not names & set(OPERATORS), "choose another example"


def test_check_accepts_the_examples(repository: Path):
    result = codegen(repository, "check")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("name", OPERATORS)
def test_every_example_is_generated(repository: Path, name: str):
    out = repository / "torchgen_out"
    family = re.search(rf"func: {name}\(.*\n  family: (\w+)", PAGE.read_text()).group(1)
    for path in ("docs/{}.md", "tests/{}.json", "aten/{}_ops_*.h", "python/{}*.cpp"):
        assert any(name in file.read_text() for file in out.glob(path.format(family))), path


def assert_answers(repository: Path, shown: str) -> None:
    """What a console block shows below a command are parts of the answer, in that order."""
    command, *lines = shown.splitlines()
    program = command.removeprefix("$ python -m codegen ").split()
    assert command.startswith("$ python -m codegen "), command
    result = codegen(repository, *program)
    answer = result.stdout + result.stderr
    at = 0
    for line in lines:
        assert line.strip() in answer[at:], f"{command}: {line}\n{answer}"
        at = answer.index(line.strip(), at)


def test_explain_answers_as_shown(repository: Path):
    (shown,) = [b.text for b in blocks() if b.language == "console" and "explain" in b.text]
    assert_answers(repository, shown)


def test_check_asks_for_the_functions_that_are_missing(tmp_path: Path):
    root = repository_at(tmp_path / "repository", ("yaml",))
    (shown,) = [b.text for b in blocks() if b.language == "console" and "codegen check" in b.text]
    assert_answers(root, shown)


OUTPUTS = (
    "aten/ops/transform/hadamard_cpu.cpp",
    "torchgen_out/aten/transform_impl.cpp",
    "torchgen_out/aten/transform_ops.cpp",
    "torchgen_out/autograd/transform.cpp",
    "torchgen_out/aten/norm_impl.cpp",
    "torchgen_out/cpu/activation_loops*.cpp",
    "torchgen_out/cpu/reduction_loops*.cpp",
)


@pytest.mark.parametrize("path", OUTPUTS)
def test_cpp_of_the_examples_compiles(repository: Path, path: str):
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    isa = ["-DFLAMBEAU_ISA=x86_64"]
    names = "|".join(OPERATORS)
    found = [file for file in sorted(repository.glob(path)) if re.search(names, file.read_text())]
    assert found, "no example is in these files"
    for file in found:
        command = ["g++", *flags, *isa, f"-I{repository}", f"-I{ROOT}", str(file)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


def test_python_of_the_page_is_python(repository: Path):
    path = repository / "test" / "ops" / "test_transform.py"
    compile(path.read_text(), str(path), "exec")
