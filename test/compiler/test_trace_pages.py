"""The pages of FLAMBEAU_TRACE: their contents, escaping, and errors."""

import html.parser
import os
import subprocess
import sys
import threading
from pathlib import Path

import flambeau as fb
import pytest
from flambeau.compiler import trace
from flambeau.compiler.passes import fusion

EMPTY = {"meta", "!doctype"}
PARTS = (
    "User code",
    "Captured graph",
    "Guards",
    "Forward and backward below autograd",
    "Backward",
    "transpose_products",
    "Program and groups",
    "group_",
    "record below autograd",
    "in all",
)


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """Return the directory of the pages; fuse groups of any size."""
    monkeypatch.setattr(fusion, "_LEAST_ELEMENTS", 1)
    monkeypatch.setenv("FLAMBEAU_TRACE", str(tmp_path))
    yield tmp_path
    fb.compiler.reset()


class Reader(html.parser.HTMLParser):
    """Checks that tags are closed, and collects tags and text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in EMPTY:
            self.open.append(tag)
        assert not {name for name, _ in attributes} & {"src", "onclick", "onload"}

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def read(directory):
    return [Reader(p.read_text("utf-8")) for p in sorted(directory.glob("*_*_*.html"))]


def model(x, w):
    # <script>alert("markup & text")</script>
    y = (x @ w * 2 + 1).sigmoid()
    fb._dynamo.graph_break()
    return (y * x * 2).tanh().sum()


def inputs():
    return fb.randn(4, 4, requires_grad=True), fb.randn(4, 4, requires_grad=True)


def test_a_page_per_graph_with_all_parts(pages):
    compiled = fb.compile(model)
    for _ in range(3):
        compiled(*inputs()).backward()
    first, second = read(pages)
    for page in (first, second):
        for text in PARTS:
            assert text in page.text, text
    line = model.__code__.co_firstlineno
    assert f"{line + 3:5d}      fb._dynamo.graph_break()" in first.text
    assert "The graph ends:" in first.text and "mark" in first.tags
    assert "The graph ends:" not in second.text
    index = Reader((pages / "index.html").read_text())
    assert index.tags.count("a") == 2


def test_markup_in_programs_is_text(pages):
    fb.compile(model)(*inputs())
    for page in read(pages):
        assert "script" not in page.tags
        assert '<script>alert("markup & text")</script>' in page.text
    for path in pages.iterdir():
        assert "http" not in path.read_text()


def test_hostile_names(pages):
    def program(x):
        return (x * 2 + 1).sin()

    program.__qualname__ = "../../<b>\x00\ud800 up" + "x" * 500
    compiled = fb.compile(program)
    compiled(fb.ones(4))
    (page,) = [p for p in pages.iterdir() if p.name != "index.html"]
    assert page.parent == pages and len(page.name) < 120
    assert "b" not in Reader(page.read_text("utf-8")).tags


def test_programs_without_source(pages):
    names = {"fb": fb}
    exec("def f(x):\n    return (x * 2 + 1).sin()", names)
    assert fb.equal(fb.compile(names["f"])(fb.ones(4)), names["f"](fb.ones(4)))
    (page,) = read(pages)
    assert "Captured graph" in page.text and "User code" not in page.text


def test_errors_of_backends_are_on_the_page(pages):
    def refuse(graph, given):
        raise ValueError("told <i>")

    with pytest.raises(fb._dynamo.exc.BackendCompilerFailed, match="told"):
        fb.compile(lambda x: x + 1, backend=refuse)(fb.ones(2))
    (page,) = read(pages)
    assert "told <i>" in page.text and "i" not in page.tags
    assert getattr(trace._thread, "page", None) is None


def test_an_unwritable_directory_gives_a_warning(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("FLAMBEAU_TRACE", str(file))
    compiled = fb.compile(lambda x: (x * 2 + 1).sin())
    with pytest.warns(UserWarning, match="FLAMBEAU_TRACE: expected a directory to write to"):
        found = compiled(fb.ones(4))
    assert fb.equal(found, (fb.ones(4) * 2 + 1).sin())


def test_without_the_variable_nothing_is_written(pages, monkeypatch):
    monkeypatch.delenv("FLAMBEAU_TRACE")
    fb.compile(model)(*inputs())
    assert list(pages.iterdir()) == []


def test_the_option_of_one_function(pages, monkeypatch):
    monkeypatch.delenv("FLAMBEAU_TRACE")
    fb.compile(model)(*inputs())
    fb.compile(model, options={"trace": str(pages / "deep" / "er")})(*inputs())
    assert len(read(pages / "deep" / "er")) == 2
    assert [p.name for p in pages.iterdir()] == ["deep"]


def test_graphs_for_other_sizes_have_pages(pages):
    compiled = fb.compile(lambda x: (x * 2 + 1).sin(), dynamic=True)
    for rows in (2, 3, 3, 3):
        compiled(fb.ones(rows, 4))
    assert any("graph for other sizes" in page.text for page in read(pages))


def test_threads_write_separate_pages(pages):
    def work(k):
        names = {"fb": fb}
        exec(f"def program_{k}(x):\n    return (x * {k} + 1).sin()", names)
        fb.compile(names[f"program_{k}"])(fb.ones(4))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = read(pages)
    assert len(found) == 8
    for k in range(8):
        (page,) = [p for p in found if f"program_{k}" in p.text]
        assert f"* {k}" in page.text
    assert not list(pages.glob("*.part"))


def test_processes_share_a_directory(pages):
    program = "import flambeau as fb\ndef f(x):\n    return (x * 2 + 1).sin()\nfb.compile(f)(fb.ones(4))\n"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    running = [subprocess.Popen([sys.executable, "-c", program], env=env) for _ in range(3)]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0]
    assert len(read(pages)) == 3
    assert Reader((pages / "index.html").read_text()).tags.count("a") >= 1
    assert Path(pages / "index.html").stat().st_mode & 0o777 == 0o644
