"""Pictures of the memory in a profile: blocks, the peak, hostile names, and PyTorch's forms of JSON."""

import gzip
import importlib
import json
import os
import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser

import flambeau as fb
import pytest
from flambeau.profiler import profile
from flambeau.profiler._memory_blocks import offsets, owners, peak_of
from flambeau.profiler._memory_timeline import blocks_of
from oracle import pytorch

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
    peak = peak_of(blocks.values(), recording.start, recording.first_bytes)
    assert peak == (blocks[128 * KILO].begin, recording.first_bytes + 192 * KILO)


def test_bands_share_no_bytes_at_one_time():
    def program():
        alive = []
        for n in (5, 1, 7, 3, 9, 2, 8, 4) * 4:
            alive.append(fb.ones(n * KILO))
            if n % 3 == 0:
                del alive[: n // 3]

    blocks = blocks_of(recorded(program).profiler._recording)
    places = offsets(blocks)
    assert len(blocks) >= 32
    for i, (a, at) in enumerate(zip(blocks, places, strict=True)):
        for b, bt in zip(blocks[:i], places[:i], strict=True):
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
    assert text.count("<svg") == 2 and text.count("<rect") <= 3000


def test_json_has_times_and_categories(tmp_path):
    p = recorded(lambda: fb.ones(100 * KILO).exp())
    plain, raw = tmp_path / "m.json", tmp_path / "m.raw.json.gz"
    p.export_memory_timeline(str(plain), "cpu")
    p.export_memory_timeline(str(raw))
    times, sizes = json.loads(plain.read_text())
    assert len(times) == len(sizes) and all(len(row) == 9 and row[0] == 0 for row in sizes)
    assert times == sorted(set(times))
    rows = json.loads(gzip.open(raw, "rt").read())
    assert {row[1] for row in rows} >= {2, 4} and all(row[2] > 0 for row in rows)
    created = [row[2] for row in rows if row[1] == 2]
    assert created.count(400 * KILO) == 2


def train(package, folder):
    """Write the bytes by category over two steps, and the actions with their categories."""
    torch = importlib.import_module(package)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8))
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.ones(64, 256)
    with torch.profiler.profile(profile_memory=True, with_stack=True, record_shapes=True) as p:
        for _ in range(2):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    for name in ("m.json", "m.raw.json.gz"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p.export_memory_timeline(f"{folder}/{name}", "cpu")


def trained(package, folder):
    """Return what `train` writes in its own process: the categories count all parameters of one."""
    folder.mkdir()
    places = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, __file__, package, str(folder)], env=places, check=True, timeout=120)
    totals = json.loads((folder / "m.json").read_text())[1]
    return totals, json.loads(gzip.open(folder / "m.raw.json.gz", "rt").read())


PARAMETER, OPTIMIZER_STATE, ACTIVATION, GRADIENT, DETAIL = 0, 1, 4, 5, 6


def test_categories_are_those_of_pytorch(tmp_path):
    ours = trained("flambeau", tmp_path / "ours")
    theirs = trained(pytorch().__name__, tmp_path / "theirs")
    for category in (PARAMETER, OPTIMIZER_STATE, GRADIENT):
        assert ours[0][-1][1 + category] == theirs[0][-1][1 + category] > 0
    assert ours[0][0][1 + PARAMETER] == theirs[0][0][1 + PARAMETER]
    assert {row[3] for row in ours[1]} >= {PARAMETER, OPTIMIZER_STATE, ACTIVATION, GRADIENT, DETAIL}
    there, here = (
        sorted(row for row in side[1] if row[1] == 1 and row[3] == PARAMETER) for side in (theirs, ours)
    )
    assert here == there and len(here) == 4, "blocks that were there before: at time -1, with the action 1"


def test_owners_without_memory_and_hostile_objects():
    class Quarrelsome(fb.nn.Parameter):
        is_ready = False

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if cls.is_ready:
                raise ValueError("no calls")
            return super().__torch_function__(function, types, args, kwargs or {})

    class Liar:
        @property
        def __class__(self):
            raise RuntimeError("no class")

    plain = fb.nn.Parameter(fb.ones(3))
    optimizer = fb.optim.SGD([plain], lr=0.1)
    optimizer.state["self"] = optimizer.state
    optimizer.state[plain] = {"deep": [{"buffer": fb.ones(5)}]}
    kept = [
        Liar(),
        fb.nn.LazyLinear(3),
        fb.nn.Parameter(fb.ones(3, device="meta")),
        fb.nn.Parameter(fb.ones(3, 3).to_sparse()),
        fb.nn.Parameter(fb.ones(0)),
        Quarrelsome(fb.ones(7)),
    ]
    Quarrelsome.is_ready = True
    found = owners()
    buffer = optimizer.state[plain]["deep"][0]["buffer"]
    assert found[plain.data_ptr()] == (PARAMETER, 12) and found[buffer.data_ptr()] == (OPTIMIZER_STATE, 20)
    Quarrelsome.is_ready = False
    assert found[kept[-1].data_ptr()] == (PARAMETER, 28)


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


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2])
