"""docs/compile.md: its program prints what the page shows."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compile.md"
BLOCK = re.compile(r"^```(python|)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_program_of_the_page_prints_what_it_shows():
    blocks = BLOCK.findall(PAGE.read_text())
    programs = "".join(text for language, text in blocks if language == "python")
    (shown,) = [text for language, text in blocks if not language]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(programs, str(PAGE), "exec"), {"__name__": "page"})
    printed = [line for line in output.getvalue().splitlines() if line.strip()]
    assert printed == [line for line in shown.splitlines() if line.strip()]
