"""Snapshots of the CPU's allocator: categories, the page, pickles, and the tools of PyTorch."""

import pickle
import subprocess
import sys
import textwrap
from html.parser import HTMLParser

import flambeau as fb
import pytest
from flambeau.cpu import memory
from oracle import pytorch

LARGE = 600_000  # elements; their block is a large one
SMALL = 1_000


@pytest.fixture(autouse=True)
def without_history():
    yield
    memory._record_memory_history(None, clear_history=True)


def begin():
    memory._record_memory_history(clear_history=True)


class Elements(HTMLParser):
    """Fails for scripts and for links to other files."""

    def __init__(self, text):
        super().__init__()
        self.seen = []
        self.feed(text)
        assert not {"script", "iframe", "img", "link", "object"} & set(self.seen)

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)


def page(tmp_path, snapshot=None):
    path = tmp_path / "memory.html"
    memory._dump_snapshot(path, snapshot=snapshot)
    text = path.read_text(encoding="utf-8")
    assert Elements(text).seen.count("svg") == 3
    return text


def trained():
    model = fb.nn.Sequential(fb.nn.Linear(64, 300), fb.nn.ReLU(), fb.nn.Linear(300, 7))
    optimizer = fb.optim.Adam(model.parameters())
    x = fb.ones(32, 64)
    for _ in range(2):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    return model, optimizer


def test_categories_of_a_training_program():
    begin()
    model, optimizer = trained()
    snapshot = memory._snapshot()
    expected = sum(p.nbytes for p in model.parameters())
    sums = {}
    for s in snapshot["segments"]:
        for b in s["blocks"]:
            if b["state"] == "active_allocated":
                sums[b["category"]] = sums.get(b["category"], 0) + b["requested_size"]
    assert sums["parameter"] == sums["gradient"] == expected
    assert sums["optimizer state"] == 2 * expected + 4 * 4
    assert {e["category"] for e in snapshot["device_traces"][0] if e["action"] == "alloc"} >= {
        "activation",
        "autograd detail",
    }
    assert optimizer.state


def test_a_page_shows_the_whole_picture(tmp_path):
    begin()
    kept = trained()
    text = page(tmp_path)
    for shown in (
        "peak ",
        "parameter ",
        "optimizer state ",
        "gradient ",
        "Linear.__init__",
        "kept for reuse",
    ):
        assert shown in text
    assert "At the peak" in text and "Blocks of the allocator" in text and kept


def test_a_page_of_nothing(tmp_path):
    text = page(tmp_path, {"segments": [], "device_traces": []})
    assert "0 blocks" in text
    page(tmp_path)  # without a history


def test_hostile_names_are_escaped(tmp_path):
    place = "<img src=x onerror=alert(1)>\udcff"
    scope = {"fb": fb}
    exec(compile("def f():\n    return fb.ones(100000)", place, "exec"), scope)
    scope["f"].__code__ = scope["f"].__code__.replace(
        co_name="</title><script>alert(2)</script>", co_qualname="</title><script>alert(3)</script>"
    )
    begin()
    kept = scope["f"]()
    text = page(tmp_path)
    assert "<script" not in text and "<img" not in text
    assert "alert(1)" in text and "alert(3)" in text
    assert kept.numel() == 100000


def test_a_pickle_reads_without_flambeau(tmp_path):
    begin()
    kept = trained()
    path = tmp_path / "s.pickle"
    memory._dump_snapshot(path)
    program = f"""
    import pickle, sys
    s = pickle.load(open({str(path)!r}, "rb"))
    assert "flambeau" not in sys.modules
    print(len(s["segments"]), len(s["device_traces"][0]))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    segments, rows = map(int, done.stdout.split())
    assert segments > 5 and rows > 20 and kept
    assert page(tmp_path, pickle.loads(path.read_bytes()))


def test_tools_of_pytorch_read_a_snapshot():
    pytorch()
    import torch.cuda._memory_viz as tools

    begin()
    kept = [fb.ones(30 << 20), fb.ones(SMALL)]
    fb.ones(LARGE)
    snapshot = memory._snapshot()
    assert f"segments: {len(snapshot['segments'])}" in tools.segsum(snapshot)
    assert "120.0MiB" in tools.trace(snapshot)
    for plot in (tools.trace_plot, tools.segment_plot):
        assert len(plot(snapshot)) > 1000
    assert sum(map(tools.calc_active, snapshot["segments"])) >= 120 << 20 and kept


def test_a_snapshot_of_another_allocator(tmp_path):
    frames = [{"filename": "a.py", "line": 3, "name": "f"}]
    block = {
        "address": 512,
        "size": 512,
        "requested_size": 500,
        "state": "active_allocated",
        "frames": frames,
    }
    rest = {"address": 1024, "size": 1536, "requested_size": 0, "state": "inactive", "frames": []}
    segment = {"address": 512, "total_size": 2048, "allocated_size": 512, "blocks": [block, rest]}
    rows = [
        {"action": "alloc", "addr": 512, "size": 500, "frames": frames, "stream": 0},
        {"action": "alloc", "addr": 1024, "size": 64, "frames": [], "stream": 0},
        {"action": "free_completed", "addr": 1024, "size": 64, "frames": [], "stream": 0},
        {"action": "free_completed", "addr": 4096, "size": 32, "frames": [], "stream": 0},
        {"action": "oom", "size": 9, "device_free": 3, "frames": [], "stream": 0},
        {"action": "alloc", "addr": 512, "size": 400, "frames": frames, "stream": 0},
    ]
    text = page(tmp_path, {"segments": [segment], "device_traces": [rows, []]})
    assert "4 blocks" in text and "a.py(3): f" in text and "peak 596 B" in text


@pytest.mark.parametrize(
    "snapshot",
    [
        None.__class__,
        [],
        {},
        {"segments": []},
        {"segments": [{}], "device_traces": []},
        {"segments": 3, "device_traces": []},
        {"segments": [], "device_traces": [[{"action": "alloc"}]]},
        {"segments": [], "device_traces": [[{"action": "alloc", "addr": "x", "size": "y"}]]},
        {"segments": [], "device_traces": [3]},
        {"segments": [{"address": 1, "total_size": 2, "blocks": [3]}], "device_traces": []},
    ],
)
def test_other_objects_are_refused_as_snapshots(snapshot, tmp_path):
    path = tmp_path / "x.html"
    with pytest.raises(ValueError, match="_dump_snapshot: expected"):
        memory._dump_snapshot(path, snapshot=snapshot)
    assert not path.exists()


def test_files_that_cannot_be_written(tmp_path):
    for name in ("a.html", "a.pickle"):
        with pytest.raises(OSError):
            memory._dump_snapshot(tmp_path / "missing" / name)
