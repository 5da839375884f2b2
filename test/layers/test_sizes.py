"""Handwritten files and functions are short, and lines are not copied. There is no exception list."""

import pytest
from build_support import sizes
from build_support.sizes import CPP, MOST_LINES_OF_A_FUNCTION, PYTHON, cpp_functions


@pytest.mark.parametrize("suffixes", [CPP, PYTHON], ids=["C++", "Python"])
def test_files_and_functions_are_short(suffixes):
    files = sizes.handwritten(suffixes)
    assert len(files) > 50, "the search has lost the sources"
    assert [line for path in files for line in sizes.too_long(path)] == []


def test_runs_of_lines_are_not_copied():
    for language, runs in sizes.runs_by_language().items():
        lines = sum(run.lines for run in runs)
        assert lines <= sizes.MOST_REPEATED_LINES[language], "\n".join(map(str, runs))


def test_every_file_of_the_product_is_in_a_layer():
    counted = sizes.lines_by_layer()
    assert set(sizes.LAYERS) <= set(counted), "a layer without files"
    assert {"native_functions.yaml", "derivatives.yaml"} <= set(counted)
    for folder in ("c10", "aten", "codegen", "python"):
        files = [p for p in sizes.handwritten(CPP | PYTHON) if p.is_relative_to(sizes.ROOT / folder)]
        assert [p for p in files if sizes.layer_of(p) is None] == []


def test_functions_of_cpp_are_seen():
    text = """
    #define OPEN {
    namespace a { // {
    struct alignas(16) S { int f() const { return '{'; } };
    constexpr int table[] = {g(1), 2};
    template <typename T>
    S::S(int x) : x_(x) {
      auto body = [&](int y) {
        return "}";
      };
    }
    }
    """
    assert [(f.head.split("(")[0].split()[-1], f.lines) for f in cpp_functions(text)] == [
        ("f", 1),
        ("S::S", 6),
    ]


def test_a_long_function_would_be_found():
    body = "".join(f"  f({i});\n" for i in range(MOST_LINES_OF_A_FUNCTION))
    (function,) = cpp_functions(f"\nvoid f(int n) {{\n{body}}}\n")
    assert (function.line, function.lines) == (2, MOST_LINES_OF_A_FUNCTION + 2)


def test_docstrings_do_not_count_as_code_but_have_a_limit_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "ROOT", tmp_path)
    path = tmp_path / "long.py"
    path.write_text('"""Module.\n' + "text\n" * 550 + '"""\nx = 1\n')
    assert sizes.docstring_lines(path.read_text()) == 552
    assert sizes.too_long(path) == []
    path.write_text('"""Module.\n' + "text\n" * 600 + '"""\nx = 1\n')
    assert sizes.too_long(path) == ["long.py: 603 lines"]
    path.write_text("x = 1\n" * 501)
    assert sizes.too_long(path) == ["long.py: 501 lines without docstrings"]


def test_a_copied_run_would_be_found():
    run = "".join(f"x{i} = f({i})\n" for i in range(10))
    first, second = f"a = 1\n{run}b = 2\n", f"import os\n\nc = 3\n{run}d = 4\n"
    found = list(sizes.repeated_runs({"first.py": first, "second.py": second}))
    assert found == [sizes.Run("second.py", 4, 10, "first.py:2")]
    short = "".join(run.splitlines(keepends=True)[: sizes.LINES_OF_A_RUN - 1])
    assert list(sizes.repeated_runs({"first.py": first, "second.py": f"c = 3\n{short}d = 4\n"})) == []


def test_lists_of_imported_names_are_not_copies():
    names = "".join(f"    Name{i},\n" for i in range(10))
    text = f"from a.b import (\n{names})\n"
    assert list(sizes.repeated_runs({"first.py": text, "second.py": text})) == []


def test_two_copied_runs_of_one_file_are_two():
    run = "".join(f"x{i} = f({i})\n" for i in range(8))
    other = "".join(f"y{i} = g({i})\n" for i in range(9))
    texts = {"first.py": f"{run}a = 1\n{other}", "second.py": f"{other}b = 2\n{run}"}
    assert [(r.line, r.lines) for r in sizes.repeated_runs(texts)] == [(1, 9), (11, 8)]
