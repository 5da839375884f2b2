"""Tables, pictures, traces and the command line of the simulator."""

import gzip
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from distributed.ranks import environment
from distributed.simulated_steps import layers, node, step
from flambeau.distributed.simulate import Plan, preset, simulate_step, transformer
from flambeau.distributed.simulate._command import main, parser

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def result():
    model = transformer("1b", layers=4, sequence=256)
    plan = Plan(schedule="fsdp", tensor=2, pipeline=2, micro_batches=3)
    return simulate_step(model, preset("h100", 16), plan)


def test_the_table_names_what_was_simulated(result):
    text = str(result)
    assert "on 16 ranks of h100: fsdp, tensor 2, pipeline 2, parts 4, 1f1b, batch 12" in text
    for word in ("step", "utilisation", "exposed communication", "waiting (bubble)", "optimizer", "fits"):
        assert word in text
    rows = re.findall(r"^ +8 +(\d+) +(\d) +[\d.]+% +[\d.]+% +[\d.]+% +[\d.]+ GB$", text, re.M)
    assert rows == [("0", "0"), ("8", "1")]
    full = simulate_step(transformer("70b"), preset("h100", 8), Plan())
    assert "does not fit" in str(full) and not full.fits


def test_many_classes_are_cut_off():
    text = str(step(layers(32), node(32), pipeline=32, micro_batches=2))
    assert "and 16 more classes of ranks" in text and len(text.splitlines()) < 40


def test_a_step_of_nothing_has_a_table():
    text = str(step(layers(1, (0.0, 0.0, 0.0)), node(1)))
    assert "0.000us" in text


def test_the_picture_is_well_formed_and_shows_each_stream(result, tmp_path):
    path = tmp_path / "step.svg"
    result.save_timeline(path)
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg" and "http://" not in path.read_text().replace(
        "http://www.w3.org/2000/svg", ""
    )
    words = [t.text for t in root.iter(f"{SVG}text")]
    assert words.count("compute") == words.count("node") == 2
    assert words.count("send on") == words.count("send back") == 1
    bars = [r for r in root.iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]
    shown = sum(len([e for e in rank.events if e.stream]) for rank in result.ranks)
    assert 0 < len(bars) <= shown
    width = float(root.attrib["viewBox"].split()[2])
    assert all(float(r.attrib["x"]) + float(r.attrib["width"]) <= width for r in bars)


def test_a_picture_of_a_long_step_stays_small(tmp_path):
    path = tmp_path / "step.svg"
    step(layers(64, output=1.0), node(8), pipeline=8, micro_batches=64).save_timeline(path)
    assert path.stat().st_size < 3_000_000


def test_names_are_escaped(tmp_path):
    from flambeau.distributed.simulate import Layer, Model

    model = Model((Layer(name='<a & "b">', forward=1.0),), name="<model>")
    path = tmp_path / "step.svg"
    step(model, node(1)).save_timeline(path)
    titles = [t.text for t in ElementTree.parse(path).getroot().iter(f"{SVG}title")]
    assert any('<a & "b">' in text for text in titles)


@pytest.mark.parametrize("name", ["step.json", "step.json.gz"])
def test_the_trace_has_each_event(result, tmp_path, name):
    path = tmp_path / name
    result.save_trace(path)
    read = gzip.open if name.endswith("gz") else open
    with read(path, "rt") as file:
        trace = json.load(file)
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    own = [(rank.first, e) for rank in result.ranks for e in rank.events if e.stream]
    assert len(events) == len(own)
    assert {e["pid"] for e in events} == {0, 8}
    ends = max(e["ts"] + e["dur"] for e in events)
    assert ends == pytest.approx(result.step * 1e6)
    gathers = [e for e in events if e["cat"] == "all_gather"]
    assert gathers and all(e["args"]["bytes"] > 0 and e["args"]["ranks"] == 4 for e in gathers)
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert names == {"rank 0 and 7 more, stage 0", "rank 8 and 7 more, stage 1"}


# --- the command line ----------------------------------------------------------------------------------


def test_the_command_prints_what_python_prints(tmp_path):
    words = ["--model", "7b", "--ranks", "64", "--schedule", "fsdp", "--tensor", "8", "--micro_batches", "2"]
    files = [tmp_path / "step.svg", tmp_path / "step.json"]
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "flambeau.distributed.simulate",
            *words,
            "--timeline",
            files[0],
            "--trace",
            files[1],
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    plan = Plan(schedule="fsdp", tensor=8, micro_batches=2)
    assert ended.stdout == f"{simulate_step(transformer('7b'), preset('h100', 64), plan)}\n"
    assert all(path.stat().st_size > 1000 for path in files)


def test_options_reach_the_plan(capsys):
    words = "--model 1b --layers 4 --device a100 --ranks 16 --pipeline 2 --pipeline-schedule interleaved"
    words += " --chunks 2 --micro-batches 4 --recompute --slow 3:1.5 --algorithms ring"
    words += " --no-reshard-after-forward --dtype bfloat16"
    assert main(words.split()) == 0
    text = capsys.readouterr().out
    assert "16 ranks of a100: fsdp, pipeline 2, parts 8, interleaved, batch 32" in text
    plan = Plan(
        schedule="fsdp",
        pipeline=2,
        pipeline_schedule="interleaved",
        chunks=2,
        micro_batches=4,
        recompute=True,
        reshard_after_forward=False,
    )
    model = transformer("1b", layers=4, dtype="bfloat16")
    assert text == f"{simulate_step(model, preset('a100', 16, ('ring',)), plan, slow={3: 1.5})}\n"


@pytest.mark.parametrize(
    "words, message",
    [
        ("--ranks 12", "preset: expected at most 8 ranks or a multiple of 8, got 12"),
        ("--ranks 8 --tensor 3", "expected ranks of a multiple of tensor"),
        ("--model 7c", "transformer: expected one of 1b, 7b"),
        ("--layers 0", "expected an integer of at least 1 as layers, got 0"),
        ("--heads 33", "heads that divides the width, got 33 and 4096"),
        ("--schedule zero", "expected one of ddp, fsdp as schedule, got 'zero'"),
        ("--algorithms tree", "expected one of ring, recursive, hierarchical as algorithm, got 'tree'"),
        ("--slow 3", "expected RANK:FACTOR as --slow, got '3'"),
        ("--bucket-cap-mb nan", "as bucket_cap_mb, got nan"),
        ("--timeline /nowhere/a.svg", "No such file or directory"),
    ],
)
def test_options_that_do_not_fit_end_the_command(words, message, capsys):
    assert main(words.split()) == 1
    assert message in capsys.readouterr().err


def test_every_option_has_help():
    assert all(action.help for action in parser()._actions)
    with pytest.raises(SystemExit):
        main(["--ranks", "many"])
