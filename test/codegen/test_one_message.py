"""One mistake, one message: single slips in every entry, and files that are not text of a specification.

What a slip brings about elsewhere - operators that call the broken one, its derivative, its kernels - must
not be reported as well, and no slip may end in a traceback.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from mutations import MUTATIONS, Mutation

from codegen.load import load
from codegen.reading.files import DERIVATIVES, NATIVE, ROOT
from codegen.source.diagnostics import Diagnostic

FIXTURE = Path(__file__).parent / "fixture"


def entries(text: str) -> list[tuple[int, int]]:
    """The lines of each entry: first, and one past the last."""
    lines = text.split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("- func")]
    ends = [next(i for i in range(s + 1, len(lines)) if not lines[i].startswith(" ")) for s in starts]
    return list(zip(starts, ends, strict=True))


def mutated(text: str, entry: tuple[int, int], mutation: Mutation) -> tuple[str, range] | None:
    """The text with one mistake, and the line numbers of its entry."""
    lines, (first, last) = text.split("\n"), entry
    changed = mutation.change(lines[first:last])
    if changed is None:
        return None
    return "\n".join(lines[:first] + changed + lines[last:]), range(first + 1, first + len(changed) + 2)


def found_in(folder: Path, text: str, derivatives: Path, root: Path) -> list[Diagnostic]:
    native = folder / "native_functions.yaml"
    native.write_bytes(text.encode("utf-8", "surrogateescape"))
    _, found = load(native, derivatives, root)
    return found


def shown(found: list[Diagnostic]) -> str:
    return "\n".join(f"{d.file}:{d.line}:{d.column} {d.code} {d.message}" for d in found)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_slip_in_any_entry_is_one_message(mutation: Mutation, tmp_path: Path):
    text = (FIXTURE / "native_functions.yaml").read_text()
    tried = 0
    for entry in entries(text):
        change = mutated(text, entry, mutation)
        if change is None:
            continue
        tried += 1
        found = found_in(tmp_path, change[0], FIXTURE / "derivatives.yaml", FIXTURE)
        if not mutation.one:
            assert len(found) <= 4, shown(found)
            continue
        assert len(found) == 1, f"{text.splitlines()[entry[0]]}\n{shown(found)}"
        assert found[0].file.endswith("native_functions.yaml")
        assert found[0].line in change[1], shown(found)
        assert found[0].hint
    assert tried


@pytest.mark.parametrize("part", range(4))
def test_a_slip_in_the_specification_is_one_message(part: int, tmp_path: Path):
    """Entries that many others call, each with another kind of slip."""
    text = NATIVE.read_text()
    places = entries(text)
    one = [m for m in MUTATIONS if m.one]
    tried = 0
    for number in range(part, 8, 4):
        entry = places[number * len(places) // 8]
        rotated = one[number % len(one) :] + one[: number % len(one)]
        change = next(c for m in rotated if (c := mutated(text, entry, m)) is not None)
        found = found_in(tmp_path, change[0], DERIVATIVES, ROOT)
        where = text.splitlines()[entry[0]]
        assert len(found) == 1, f"{where}\n{shown(found)}"
        assert found[0].line in change[1], f"{where}\n{shown(found)}"
        tried += 1
    assert tried == 2


# --- files -----------------------------------------------------------------------------------------

SUM = b"    summary: Sum of two tensors.\n"  # line 45 of the fixture
BODY = b"pointwise: self + alpha * other"  # line 43
FILES = {
    "empty": (lambda data: b"", (1, 1), "no operators"),
    "only comments": (lambda data: b"# nothing\n\n# here\n", (1, 1), "no operators"),
    "a mapping": (lambda data: b"func: f() -> ()\n", (1, 1), "list of entries"),
    "noise": (lambda data: bytes(range(256)) * 8, (1, 1), "control character"),
    "UTF-16": (lambda data: data.decode().encode("utf-16"), (1, 1), "UTF-16"),
    "byte order mark": (lambda data: b"\xef\xbb\xbf" + data, (1, 1), "byte order mark"),
    "CR LF": (lambda data: data.replace(b"\n", b"\r\n"), (1, 67), "CR LF"),
    "one CR LF": (lambda data: data.replace(SUM, SUM[:-1] + b"\r\n"), (45, 33), "CR LF"),
    "CR": (lambda data: data.replace(SUM, SUM.replace(b"two ", b"two\r")), (45, 24), "U+000D"),
    "byte that is not UTF-8": (lambda data: data.replace(b"Sum of two", b"Sum \xe9 two"), (45, 18), "0xE9"),
    "Latin-1 everywhere": (
        lambda data: data.replace(b"summary: ", b"summary: \xe9"),
        (11, 14),
        "18 more lines",
    ),
    "NUL": (lambda data: data.replace(b"self + alpha", b"self \0 alpha"), (43, 19), "U+0000"),
    "line separator": (lambda data: data.replace(b"Sum of two", "Sum\u2028two".encode()), (45, 17), "U+2028"),
    "mark that turns the line": (
        lambda data: data.replace(b"Sum of two", "Sum\u202etwo".encode()),
        (45, 17),
        "U+202E",
    ),  # fmt: skip
    "space of no width": (
        lambda data: data.replace(BODY, BODY.replace(b"alpha", "al\u200bpha".encode())),
        (43, 23),
        "U+200B",
    ),  # fmt: skip
    "escaped NUL": (lambda data: data.replace(BODY, b'pointwise: "self\\0"'), (43, 14), "U+0000"),
    "escaped surrogate": (lambda data: data.replace(SUM, b'    summary: "\\ud800"\n'), (45, 14), "Unicode"),
    "enormous value": (lambda data: data.replace(BODY, BODY + b" + other" * 9999), (43, 14), "at most 20000"),
    "long expression": (lambda data: data.replace(BODY, BODY + b" + other" * 999), (43, 14), "60 levels"),
    "deep expression": (
        lambda data: data.replace(BODY, BODY + b" * " + b"-" * 5000 + b"self"),
        (43, 14),
        "60",
    ),
    "deep lists": (
        lambda data: data.replace(SUM, b"    summary: " + b"[" * 9999 + b"]" * 9999 + b"\n"),
        (45, 1),
        "nested",
    ),
    "integer of 5000 digits": (
        lambda data: data.replace(b"alpha=1)", b"alpha=" + b"1" * 5000 + b")"),
        (38, 57),
        "Scalar",
    ),  # fmt: skip
    "integer beyond 64 bits": (
        lambda data: data.replace(BODY, BODY + b" * 9" + b"9" * 30),
        (43, 37),
        "64 bits",
    ),  # fmt: skip
    "anchor": (lambda data: data.replace(b"summary: Sum", b"summary: &sum Sum"), (45, 14), "anchor 'sum'"),
    "alias": (lambda data: data.replace(SUM, b"    summary: *sum\n"), (45, 14), "alias 'sum'"),
    "anchor and alias": (
        lambda data: data.replace(SUM, b"    summary: &d Sum\n").replace(
            b"summary: Product of two tensors.", b"summary: *d"
        ),
        (45, 14),
        "anchor",
    ),  # fmt: skip
    "anchor that holds itself": (
        lambda data: data.replace(SUM, b"    summary: &d [*d]\n"),
        (45, 14),
        "anchor 'd'",
    ),
    "merge key": (lambda data: data.replace(SUM, b"    <<: *common\n" + SUM), (45, 9), "alias 'common'"),
    "tag": (lambda data: data.replace(b"summary: Sum", b"summary: !!str Sum"), (45, 14), "tag '!!str'"),
    "several documents": (
        lambda data: data.replace(b"# ==== copy", b"---\n# ==== copy").replace(
            b"# ==== sort", b"---\n# ==== sort"
        ),
        (103, 1),
        "another document",
    ),  # fmt: skip
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_one_message(name: str, tmp_path: Path):
    change, place, phrase = FILES[name]
    root = tmp_path / "root"
    shutil.copytree(FIXTURE, root)
    native = root / "native_functions.yaml"
    data = native.read_bytes()
    assert change(data) != data
    native.write_bytes(change(data))
    _, found = load(native, root / "derivatives.yaml", root)
    assert len(found) == 1, shown(found)
    assert (found[0].line, found[0].column) == place, shown(found)
    assert phrase in found[0].message and found[0].hint, shown(found)


@pytest.mark.parametrize("name", ["native_functions.yaml", "derivatives.yaml"])
@pytest.mark.parametrize("what", ["missing", "a folder", "UTF-16", "a byte"])
def test_either_file_may_be_lost(name: str, what: str, tmp_path: Path):
    root = tmp_path / "root"
    shutil.copytree(FIXTURE, root)
    path = root / name
    data = path.read_bytes()
    path.unlink()
    if what == "a folder":
        path.mkdir()
    elif what == "UTF-16":
        path.write_bytes(data.decode().encode("utf-16"))
    elif what == "a byte":
        path.write_bytes(data.replace(b"# ", b"# \xff", 1))
    _, found = load(root / "native_functions.yaml", root / "derivatives.yaml", root)
    assert len(found) == 1, shown(found)
    assert found[0].file.endswith(name) and found[0].line == 1


def test_a_marker_at_the_top_begins_the_only_document(tmp_path: Path):
    root = tmp_path / "root"
    shutil.copytree(FIXTURE, root)
    native = root / "native_functions.yaml"
    native.write_text("# A comment.\n---\n" + native.read_text())
    _, found = load(native, root / "derivatives.yaml", root)
    assert not found, shown(found)


def test_an_empty_file_of_derivatives_is_one_message(tmp_path: Path):
    path = tmp_path / "derivatives.yaml"
    path.write_text("")
    _, found = load(FIXTURE / "native_functions.yaml", path, FIXTURE)
    assert len(found) == 1, shown(found)
    assert "10 operators need one" in found[0].message


def test_a_bad_default_does_not_make_its_callers_report(tmp_path: Path):
    """Once 30 messages that names of callers' `let` were never read."""
    text = NATIVE.read_text()
    assert "- func: add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)" in text
    text = text.replace("other, *, Scalar alpha=1)", "other, *, Scalar alpha=one)", 1)
    found = found_in(tmp_path, text, DERIVATIVES, ROOT)
    assert len(found) == 1, shown(found)
    assert found[0].code == "FB0205"


@pytest.mark.parametrize("name", ["mm", "clone", "index_select"])
def test_another_return_count_is_one_message(name: str, tmp_path: Path):
    """Kernel, derivative, vmap rule and up to 40 callers disagree with the schema."""
    text = NATIVE.read_text()
    (line,) = re.findall(rf"- func: {name}\(.*\) -> Tensor\n", text)
    found = found_in(
        tmp_path, text.replace(line, line.replace("-> Tensor", "-> (Tensor, Tensor)")), DERIVATIVES, ROOT
    )
    assert [d.code for d in found] == ["FB0210"], shown(found)
    assert found[0].line == text[: text.index(line)].count("\n") + 1


@pytest.mark.parametrize("returns", ["Tensor[]", "(Tensor, Tensor)"])
@pytest.mark.parametrize("name", ["cat", "stack"])
def test_another_return_count_over_a_body_is_one_message(name: str, returns: str, tmp_path: Path):
    """Callers of cat and stack say nothing: the body's own `return` contradicts the schema."""
    text = NATIVE.read_text()
    (line,) = re.findall(rf"- func: {name}\(.*\) -> Tensor\n", text)
    changed = text.replace(line, line.replace("-> Tensor\n", f"-> {returns}\n"))
    found = found_in(tmp_path, changed, DERIVATIVES, ROOT)
    assert [d.code for d in found] == ["FB0306"], shown(found)
    assert found[0].line > text[: text.index(line)].count("\n") + 1
    assert found[0].message.startswith(f"{name}: expected {returns}, got Tensor")


def test_mistakes_of_others_are_still_reported(tmp_path: Path):
    text = (FIXTURE / "native_functions.yaml").read_text()
    text = text.replace("alpha=1)", "alpha=one)").replace("exp(self - m)", "expp(self - m)")
    found = found_in(tmp_path, text, FIXTURE / "derivatives.yaml", FIXTURE)
    assert [d.code for d in found] == ["FB0205", "FB0303"], shown(found)
