"""Tools that look into saved files without running them, and the one that profiles a script."""

import collections
import io
import json
import pickle
import re
import subprocess
import sys

import flambeau as fb
import pytest
from flambeau.utils import model_dump, show_pickle
from oracle import pytorch


class Dangerous:
    def __reduce__(self):
        return (exec, ("raise SystemExit",))


def shown(show, path):
    out = io.StringIO()
    assert show.main(["show_pickle", str(path)], out) is None
    return out.getvalue()


def test_a_pickle_is_shown_as_by_pytorch(tmp_path):
    content = {"w": fb.ones(2), "n": [1, 2.5, "x", (3,)], "k": {"a": None}}
    fb.save(content, tmp_path / "m.pt")
    pytorch()
    import torch.utils.show_pickle as theirs

    member = f"{tmp_path / 'm.pt'}@*/data.pkl"
    text = shown(show_pickle, member)
    assert text == shown(theirs, member) and "torch._utils._rebuild_tensor_v2(pers.obj(" in text


def test_nothing_of_a_pickle_is_called(tmp_path):
    (tmp_path / "p.pkl").write_bytes(pickle.dumps([Dangerous(), collections.Counter("aab")]))
    text = shown(show_pickle, tmp_path / "p.pkl")
    assert "builtins.exec('raise SystemExit',)" in text and "collections.Counter" in text


def test_ordered_dicts_and_lists_of_stand_ins():
    data = pickle.dumps(collections.OrderedDict(a=1, b=[2]))
    assert repr(show_pickle.DumpUnpickler(io.BytesIO(data)).load()) == (
        "collections.OrderedDict()(items={'a': 1, 'b': [2]})"
    )


def test_text_that_is_not_text():
    data = b"\x80\x02X\x02\x00\x00\x00\xff\xfe."
    with pytest.raises(UnicodeDecodeError):
        show_pickle.DumpUnpickler(io.BytesIO(data)).load()
    found = show_pickle.DumpUnpickler(io.BytesIO(data), catch_invalid_utf8=True).load()
    assert isinstance(found, show_pickle.FakeObject) and found.name == "UnicodeDecodeError"


def test_wrong_arguments_of_show_pickle(tmp_path, capsys):
    assert show_pickle.main(["show_pickle"]) == 2 and "usage" in capsys.readouterr().err
    fb.save(1, tmp_path / "m.pt")
    with pytest.raises(FileNotFoundError, match="no member"):
        show_pickle.main(["show_pickle", f"{tmp_path / 'm.pt'}@nothing"])


def test_what_a_file_of_weights_consists_of(tmp_path):
    net = fb.nn.Linear(2, 3)
    fb.save({"net": net.state_dict(), "rows": (1, None)}, tmp_path / "m.pt")
    model = model_dump.get_model_info(tmp_path / "m.pt")["model"]
    data = dict(zip(model["model_data"]["keys"], model["model_data"]["values"], strict=True))
    weight = dict(zip(data["net"]["keys"], data["net"]["values"], strict=True))["weight"]
    assert weight == {"__tensor_v2__": [["Float", "0", "cpu", 6], 0, (3, 2), (2, 1), False]}
    assert data["rows"] == {"__tuple_values__": [1, None]}
    sizes = {entry["filename"].partition("/")[2]: entry["file_size"] for entry in model["zip_files"]}
    assert sizes["data/0"] == 24 and sizes["data/1"] == 12
    assert model["file_size"] == (tmp_path / "m.pt").stat().st_size
    with (tmp_path / "m.pt").open("rb") as file:
        assert model_dump.get_model_info(file, title=model["title"])["model"] == model


def test_what_a_file_of_pytorch_consists_of(tmp_path):
    torch = pytorch()
    from torch.utils import model_dump as theirs

    torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 3))).save(tmp_path / "m.pt")
    ours, expected = (m.get_model_info(str(tmp_path / "m.pt"))["model"] for m in (model_dump, theirs))
    same = ("title", "file_size", "version", "zip_files", "model_data", "constants", "extra_files_jsons")
    assert {key: ours[key] for key in same} == {key: expected[key] for key in same}
    assert ours.keys() == expected.keys() and ours["code_files"].keys() == expected["code_files"].keys()
    for name, pieces in expected["code_files"].items():
        assert ours["code_files"][name][0][0] == "".join(text for text, *_ in pieces)


def test_a_scripted_model_and_its_page(tmp_path):
    fb.jit.script(fb.nn.Sequential(fb.nn.Linear(2, 3), fb.nn.ReLU())).save(tmp_path / "m.pt")
    out = io.StringIO()
    model_dump.main(["model_dump", "--style=json", "--title=</script>", str(tmp_path / "m.pt")], stdout=out)
    info = json.loads(out.getvalue())
    assert info["model"]["title"] == "</script>" and "kind" in info["model"]["model_data"]["keys"]
    page = model_dump.burn_in_info(model_dump.get_inline_skeleton(), info)
    assert page.count("</script>") == 1 and '"title": "<\\/script>"' in page


def test_what_has_no_form_is_refused():
    with pytest.raises(ValueError, match="expected"):
        model_dump.hierarchical_pickle(show_pickle.FakeObject("x", "y", (1,)))
    with pytest.raises(ValueError, match="storage"):
        model_dump.get_storage_info(3)


def test_a_script_is_profiled(tmp_path):
    (tmp_path / "beside.py").write_text("def slow():\n    return sum(i * i for i in range(10**6))\n")
    (tmp_path / "run.py").write_text(
        "import sys\nfrom beside import slow\nprint(__name__, sys.argv[1:], slow())\nsys.exit(3)\n"
    )
    tool = [sys.executable, "-m", "flambeau.utils.bottleneck"]
    script = [*tool, str(tmp_path / "run.py"), "a", "--b"]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("__main__ ['a', '--b'] 333332833333500000\n")
    assert "beside.py:2(<genexpr>)" in done.stdout and "threads" in done.stdout
    assert "No operators were recorded." in done.stdout


def test_operators_of_a_script_are_profiled(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        "import flambeau as fb, threading\n"
        "print('once')\n"
        "x = fb.ones(3, 3, requires_grad=True)\n"
        "(x @ x).sum().backward()\n"
        "thread = threading.Thread(target=lambda: fb.zeros(2).cosh())\n"
        "thread.start(); thread.join()\n"
    )
    tool = [sys.executable, "-m", "flambeau.utils.bottleneck"]
    done = subprocess.run([*tool, str(script)], capture_output=True, text=True, check=True)
    assert done.stdout.count("once") == 1
    assert re.search(r"aten::mm .* 3 *$", done.stdout, re.M) and "MmBackward0" in done.stdout
    assert "Self CPU time total" in done.stdout and "aten::cosh" not in done.stdout
    script.write_text("import flambeau as fb\nfb.ones(2)\nraise KeyError('mine')\n")
    failed = subprocess.run([*tool, str(script)], capture_output=True, text=True)
    assert failed.returncode == 1 and "KeyError: 'mine'" in failed.stderr
    refused = subprocess.run(tool, capture_output=True, text=True)
    assert refused.returncode == 2 and "usage" in refused.stderr
