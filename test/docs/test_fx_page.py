"""docs/fx.md: its programs run in order and print what the page shows."""

import contextlib
import io
import linecache
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fx.md"
BLOCK = re.compile(r"^```(python|)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_programs_of_the_page_print_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope, shown, printed = {"__name__": "page"}, [], ""
    for number, (language, text) in enumerate(BLOCK.findall(PAGE.read_text())):
        if not language:
            assert printed == text
            shown.append(text)
            continue
        name = f"<docs/fx.md, block {number}>"  # where jit.save finds the source
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(text, name, "exec"), scope)
        printed = output.getvalue()
    assert len(shown) == 5
