"""Pictures of the memory in a profile: blocks, the peak, hostile names, and PyTorch's forms of JSON."""

import gzip
import json
import re
from html.parser import HTMLParser

import flambeau as fb
import pytest
from flambeau.profiler import profile
from flambeau.profiler._memory_page import _offsets, blocks_of, peak_of

KILO = 1 << 10


class Elements(HTMLParser):
    """Counts elements, and fails for scripts and links to other files."""

    def __init__(self, text):
        super().__init__()
        self.seen = []
        self.feed(text)
        assert not {"script", "iframe", "img", "link", "object"} & set(self.seen)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)


def recorded(program, **options):
    with profile(profile_memory=True, **options) as p:
        program()
    p.events()
    return p


def page_of(p, tmp_path):
    path = tmp_path / "memory.html"
    p.export_memory_timeline(str(path))
    text = path.read_text()
    Elements(text)
    return text


def test_blocks_live_from_allocation_to_release():
    before, kept = fb.zeros(64 * KILO), []

    def program():
        nonlocal before
        kept.append(fb.zeros(16 * KILO))
        gone = fb.zeros(32 * KILO)
        del gone
        before = None

    recording = recorded(program).profiler._recording
    blocks = {b.size: b for b in blocks_of(recording)}
    assert set(blocks) == {64 * KILO, 128 * KILO}, "blocks that were there before are not listed"
    assert blocks[64 * KILO].end == recording.end
    assert recording.start < blocks[128 * KILO].begin < blocks[128 * KILO].end < recording.end
    assert peak_of(recording) == (blocks[128 * KILO].begin, recording.first_bytes + 192 * KILO)


def test_bands_share_no_bytes_at_one_time():
    def program():
        alive = []
        for n in (5, 1, 7, 3, 9, 2, 8, 4) * 4:
            alive.append(fb.ones(n * KILO))
            if n % 3 == 0:
                del alive[: n // 3]

    blocks = blocks_of(recorded(program).profiler._recording)
    offsets = _offsets(blocks)
    assert len(blocks) >= 32
    for i, (a, at) in enumerate(zip(blocks, offsets, strict=True)):
        for b, bt in zip(blocks[:i], offsets[:i], strict=True):
            apart_in_time = a.end <= b.begin or b.end <= a.begin
            assert apart_in_time or at + a.size <= bt or bt + b.size <= at


def test_the_page_names_operators_and_callers(tmp_path):
    def the_caller_of_exp():
        return fb.ones(256 * KILO).exp()

    text = page_of(recorded(the_caller_of_exp, with_stack=True), tmp_path)
    assert text.count("<rect") >= 2 and "aten::exp" in text and "the_caller_of_exp" in text
    assert re.search(r"peak [\d.]+ MB", text)


def test_hostile_names_are_escaped(tmp_path):
    with profile(profile_memory=True, with_stack=True) as p, fb.profiler.record_function("<script>alert(1)"):
        code = compile("def f():\n    return g(100000)\n", "<img src=x onerror=alert(1)>", "exec")
        names = {"g": fb.ones}
        exec(code, names)
        kept = names["f"]()
    assert kept.numel() == 100000
    assert "<img" not in page_of(p, tmp_path)


@pytest.mark.parametrize(
    "program", [lambda: None, lambda: fb.ones(0), lambda: [fb.ones(9) for _ in range(4000)]]
)
def test_no_blocks_and_many_blocks(program, tmp_path):
    text = page_of(recorded(program), tmp_path)
    assert "<svg" in text and text.count("<rect") <= 3000


def test_json_has_the_forms_of_pytorch(tmp_path):
    p = recorded(lambda: fb.ones(100 * KILO).exp())
    plain, raw = tmp_path / "m.json", tmp_path / "m.raw.json.gz"
    p.export_memory_timeline(str(plain), "cpu")
    p.export_memory_timeline(str(raw))
    times, sizes = json.loads(plain.read_text())
    assert len(times) == len(sizes) and all(len(row) == 9 and row[0] == 0 for row in sizes)
    rows = json.loads(gzip.open(raw, "rt").read())
    assert {row[1] for row in rows} >= {1, 3} and all(row[2] > 0 and row[3] == 0 for row in rows)
    created = [row[2] for row in rows if row[1] == 1]
    assert created.count(400 * KILO) == 2


def test_what_is_refused(tmp_path):
    with profile() as p:
        fb.ones(1)
    with pytest.raises(ValueError, match="expected a profile with profile_memory=True"):
        p.export_memory_timeline(str(tmp_path / "a.html"))
    p = recorded(lambda: fb.ones(1))
    with pytest.raises(ValueError, match="expected device 'cpu', got 'cuda:0'"):
        p.export_memory_timeline(str(tmp_path / "a.html"), "cuda:0")
    with pytest.raises(OSError):
        p.export_memory_timeline(str(tmp_path / "missing" / "a.html"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(AssertionError, match="exporting memory"):
        profile(profile_memory=True).export_memory_timeline(str(tmp_path / "a.html"))
