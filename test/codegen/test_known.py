"""A check that remembers sound entries answers exactly as one that remembers nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from mutations import MUTATIONS, Mutation
from test_mistakes import CASES, FIXTURE, Case, file_of
from test_one_message import entries, mutated

from codegen.reading.files import DERIVATIVES, NATIVE, ROOT, Read, read_files
from codegen.reading.known import Known
from codegen.source.diagnostics import Diagnostic

Messages = list[tuple[Diagnostic, str, int]]


def messages(read: Read) -> Messages:
    return [(d, d.hint, d.length) for d in read.found]


def check(root: Path, memory: Path | None) -> Read:
    known = None if memory is None else Known(memory)
    return read_files(root / "native_functions.yaml", root / "derivatives.yaml", root, known)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The fixture, which is known to be sound."""
    shutil.copytree(FIXTURE, tmp_path / "root")
    for _ in range(2):
        read = check(tmp_path / "root", tmp_path / "memory")
        assert not read.found
    assert not read.operators, "nothing is recalled"
    return tmp_path / "root"


def assert_same(root: Path) -> Read:
    """Both answers are the same, also of a run after one that has remembered more."""
    memory = root.parent / "memory"
    plain = check(root, None)
    before = remembered(memory)
    recalled = check(root, memory)
    assert messages(recalled) == messages(plain)
    if remembered(memory) != before:
        assert messages(check(root, memory)) == messages(plain)
    return recalled


def remembered(memory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in memory.iterdir()}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_slip_after_a_sound_run(mutation: Mutation, root: Path):
    native = root / "native_functions.yaml"
    text = native.read_text()
    for entry in entries(text):
        change = mutated(text, entry, mutation)
        if change is not None:
            native.write_bytes(change[0].encode("utf-8", "surrogateescape"))
            assert_same(root)
    native.write_text(text)
    assert not assert_same(root).found


@pytest.mark.parametrize("case", [c for c in CASES if not c.alone], ids=lambda case: case.title)
def test_a_mistake_after_a_sound_run(case: Case, root: Path):
    for name, lines in case.files.items():
        path = root / file_of(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = path.read_text() + "\n" if file_of(name) != name else ""
        path.write_text(head + "\n".join(lines) + "\n")
    assert assert_same(root).found


@pytest.mark.parametrize("name", ["native_functions.yaml", "derivatives.yaml"])
def test_every_line_may_be_lost(name: str, root: Path):
    path = root / name
    lines = path.read_text().splitlines(keepends=True)
    for number, line in enumerate(lines):
        if line.strip():
            path.write_text("".join(lines[:number] + lines[number + 1 :]))
            assert messages(check(root, root.parent / "memory")) == messages(check(root, None))


def replaced(old: str, new: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert old in text, old
        return text.replace(old, new, 1)

    return change


# An edit of one entry of the specification that others ask for, and whether it leaves all of them sound.
UNREDUCE = "- func: _unreduce(Tensor(a) reduced, int[] sizes, int[1]? dim, bool keepdim) -> Tensor(a)"
EDITS = {
    "an operator of others is renamed": (replaced("- func: _unreduce(", "- func: _unreduced("), False),
    "others give too many arguments": (replaced(UNREDUCE, UNREDUCE.replace(", bool keepdim", "")), False),
    "a symbol is taken away": (replaced('  infix: "/"\n', ""), False),
    "a text": (replaced("  doc: |\n    ", "  doc: |\n    Now: "), True),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edits_of_the_specification(name: str, specification: Path):
    change, sound = EDITS[name]
    native = specification / "native_functions.yaml"
    text = native.read_text()
    native.write_text(change(text))
    memory = specification.parent / "memory"
    recalled = read_files(native, specification / "derivatives.yaml", ROOT, Known(memory))
    assert messages(recalled) == messages(read_files(native, specification / "derivatives.yaml", ROOT))
    assert sound == (not recalled.found)
    assert len(recalled.operators) < 800, "all were read again"
    native.write_text(text)


@pytest.fixture(scope="module")
def specification(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("specification")
    root = folder / "root"
    root.mkdir()
    shutil.copy(NATIVE, root)
    shutil.copy(DERIVATIVES, root)
    read = read_files(root / NATIVE.name, root / DERIVATIVES.name, ROOT, Known(folder / "memory"))
    assert not read.found
    return root


def test_a_kernel_of_other_types(root: Path):
    path = root / "aten" / "ops" / "copy" / "copy_cpu.cpp"
    text = path.read_text()
    assert "void fill_cpu(Tensor& self" in text
    path.write_text(text.replace("void fill_cpu(Tensor& self", "void fill_cpu(const Tensor& self"))
    assert assert_same(root).found
    path.unlink()
    assert assert_same(root).found


def test_a_text_reads_one_entry_again(root: Path):
    native = root / "native_functions.yaml"
    native.write_text(native.read_text().replace("summary: Sum of two tensors.", "summary: The sum."))
    read = check(root, root.parent / "memory")
    assert not read.found
    assert [op.name for op in read.operators] == ["add.Tensor"]


def test_a_body_reads_its_callers_again(root: Path):
    """The categories that a pointwise operator accepts follow from its expression."""
    native = root / "native_functions.yaml"
    text = native.read_text()
    assert "pointwise: self + alpha * other" in text
    native.write_text(text.replace("pointwise: self + alpha * other", "pointwise: self - alpha * other"))
    read = check(root, root.parent / "memory")
    names = {op.name for op in read.operators}
    plain = check(root, None)
    callers = {d.name for d in plain.drafts if " + " in str(d.fields.text("composite"))}
    assert callers | {"add.Tensor"} <= names < {d.name for d in plain.drafts}


def test_a_damaged_cache_is_ignored(root: Path):
    for path in (root.parent / "memory").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    read = check(root, root.parent / "memory")
    assert not read.found
    assert len(read.operators) == len(read.drafts)
