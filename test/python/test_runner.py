"""python -m flambeau.compat: programs that import torch, run as Python itself would run them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[2] / "python"
WHO = "import torch; print(torch.nn.Linear.__module__, torch.__version__)"
OURS = "torch.nn.modules.linear 2.13.0+flambeau"


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return {**kept, "PYTHONPATH": str(PACKAGES), **more}


def python(*arguments, cwd, stdin=None, **env):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=environment(**env), capture_output=True, text=True, input=stdin, timeout=300
    )


def runner(*arguments, cwd, **options):
    return python("-m", "flambeau.compat", *arguments, cwd=cwd, **options)


def script(folder, text, name="program.py"):
    path = folder / name
    path.write_text(text)
    return path


def output(done):
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_script_a_module_and_code(tmp_path):
    script(tmp_path, WHO + "\nimport sys; print(sys.argv, __name__)")
    for arguments, argv in (
        (["program.py", "-x", "1"], "['program.py', '-x', '1']"),
        (["-m", "program", "-x", "1"], f"['{tmp_path / 'program.py'}', '-x', '1']"),
        (["-c", (tmp_path / "program.py").read_text(), "-x", "1"], "['-c', '-x', '1']"),
    ):
        lines = output(runner(*arguments, cwd=tmp_path)).splitlines()
        assert lines == [OURS, f"{argv} __main__"]


def test_what_the_program_sees_is_what_python_shows_it(tmp_path):
    text = (
        "import sys, os\n"
        "main = sys.modules['__main__']\n"
        "print(vars(main) is globals(), __file__, __package__, __spec__ and __spec__.name)\n"
        "print(sys.path[0], sys.argv)\n"
        "print(sorted(k for k in globals() if k != 'main'))\n"
    )
    (tmp_path / "pack" / "inner").mkdir(parents=True)
    for name in (
        "program.py",
        "pack/__init__.py",
        "pack/mod.py",
        "pack/inner/__init__.py",
        "pack/inner/__main__.py",
    ):
        script(tmp_path, "" if "init" in name else text, name)
    for arguments in (
        ["program.py", "a"],
        [tmp_path / "program.py"],
        ["-m", "pack.mod", "b"],
        ["-m", "pack.inner"],
    ):
        assert output(runner(*arguments, cwd=tmp_path)) == output(python(*arguments, cwd=tmp_path))


@pytest.mark.parametrize(
    "end", ["sys.exit(3)", "sys.exit('text')", "sys.exit()", "os._exit(7)", "1 / 0", "pass"]
)
@pytest.mark.parametrize("kind", ["script", "-m", "-c"])
def test_how_a_program_ends(tmp_path, end, kind):
    text = f"import sys, os\n{end}\n"
    script(tmp_path, text)
    arguments = {"script": ["program.py"], "-m": ["-m", "program"], "-c": ["-c", text]}[kind]
    ours, pythons = runner(*arguments, cwd=tmp_path), python(*arguments, cwd=tmp_path)
    assert ours.returncode == pythons.returncode
    if kind != "-m":  # Python shows frames of runpy there
        assert ours.stderr.replace(str(tmp_path) + "/", "") == pythons.stderr.replace(str(tmp_path) + "/", "")


def test_a_traceback_begins_at_the_program_and_shows_its_line(tmp_path):
    script(tmp_path, "import torch\n\ndef wrong():\n    torch.ones(2) @ torch.ones(3)  # here\n\nwrong()\n")
    for arguments in (["program.py"], ["-m", "program"]):
        text = runner(*arguments, cwd=tmp_path).stderr
        lines = text.splitlines()
        assert lines[0] == "Traceback (most recent call last):"
        assert "program.py" in lines[1] and "line 6" in lines[1]
        assert "# here" in text and "flambeau/compat" not in text and "RuntimeError" in lines[-2]


def test_what_cannot_be_run(tmp_path):
    script(tmp_path, "if True\n", "wrong.py")
    script(tmp_path, "import no_such_thing\n", "needs.py")
    cases = [["-m", "no_such_module"], ["-m", "json.no_such"], ["no_such.py"], ["wrong.py"], ["-m", "needs"]]
    for arguments in cases:
        ours, pythons = runner(*arguments, cwd=tmp_path), python(*arguments, cwd=tmp_path)
        assert ours.returncode == pythons.returncode, arguments
        assert (
            ours.stderr.splitlines()[-1].rpartition(":")[2]
            == pythons.stderr.splitlines()[-1].rpartition(":")[2]
        )
        assert "flambeau/compat" not in ours.stderr
    assert runner(cwd=tmp_path).returncode == 2
    assert "usage" in runner(cwd=tmp_path).stderr
    assert runner("-m", cwd=tmp_path).returncode == runner("--no-such-option", cwd=tmp_path).returncode == 2
    assert "usage" in output(runner("--help", cwd=tmp_path))


def test_a_folder_with_a_main_file(tmp_path):
    (tmp_path / "app").mkdir()
    script(tmp_path / "app", WHO + "\nimport beside", "__main__.py")
    script(tmp_path / "app", "print('beside')", "beside.py")
    assert output(runner("app", cwd=tmp_path)).splitlines() == [OURS, "beside"]


def test_a_script_named_torch(tmp_path):
    script(tmp_path, "if __name__ == '__main__':\n    " + WHO, "torch.py")
    assert output(runner("torch.py", cwd=tmp_path)) == OURS


SPAWN = """
import multiprocessing, sys, torch

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.full((2,), float(i)), torch.nn.Linear.__module__ + " " + torch.__version__

def child(queue):
    queue.put(f"{torch.nn.Linear.__module__} {torch.__version__}")

if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(queue.get(timeout=120))
        process.join()
    options = {"num_workers": 1, "multiprocessing_context": "spawn"}
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=2, **options)
    print(*{name for _, names in loader for name in names})
"""


@pytest.mark.parametrize("name", ["program.py", "torch.py"])
def test_children_of_multiprocessing_inherit(tmp_path, name):
    script(tmp_path, SPAWN, name)
    assert output(runner(name, cwd=tmp_path)).splitlines() == [OURS] * 3


def test_children_of_launchers_inherit_and_pay_only_if_they_import(tmp_path):
    child = "import importlib.metadata as m, sys; before = 'flambeau' in sys.modules; " + WHO
    child += "; print(before, m.version('torch'), torch.Tensor)"
    text = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}], check=True)"
    lines = output(runner("-c", text, cwd=tmp_path)).splitlines()
    assert lines == [OURS, "False 2.13.0+flambeau <class 'torch.Tensor'>"]


def test_install_from_code(tmp_path):
    text = (
        "import flambeau.compat as c; print(c.is_installed(), c.install(), c.install(), c.is_installed())\n"
        + WHO
    )
    assert output(python("-c", text, cwd=tmp_path)).splitlines() == ["False True True True", OURS]


def imitation(folder):
    """A folder in which a package torch, which is not flambeau, is installed."""
    (folder / "site" / "torch").mkdir(parents=True)
    script(folder / "site" / "torch", "__version__ = '1.0'", "__init__.py")
    return os.pathsep.join([str(PACKAGES), str(folder / "site")])


def test_an_installed_pytorch_is_hidden_by_the_runner_alone(tmp_path):
    paths = imitation(tmp_path)
    who = "import torch; print(torch.__version__)"
    assert output(python("-c", "import flambeau;" + who, cwd=tmp_path, PYTHONPATH=paths)) == "1.0"
    kept = "import flambeau.compat as c; print(c.install(replace=False), c.is_installed());"
    assert output(python("-c", kept + who, cwd=tmp_path, PYTHONPATH=paths)).split() == [
        "False",
        "False",
        "1.0",
    ]
    assert output(runner("-c", who, cwd=tmp_path, PYTHONPATH=paths)) == "2.13.0+flambeau"
    late = python("-c", "import torch, flambeau.compat as c; c.install()", cwd=tmp_path, PYTHONPATH=paths)
    assert late.returncode == 1
    assert "RuntimeError: flambeau.compat.install: PyTorch 1.0 is imported already" in late.stderr


NAMES = """
import pickle, sys, torch
from importlib import metadata, util

print(torch.float32, torch.strided, torch.preserve_format, torch.randn(2).shape, torch.Tensor, torch.device)
print(torch.randn(2).type(), torch.FloatStorage(2).type())
print(torch.typename(torch.nn.Linear(1, 1)), type(torch.optim.SGD).__name__, torch.optim.SGD.__module__)
for thing in (torch.float32, torch.nn.Linear, torch.nn.functional.relu, torch.Size([1]), torch.optim.SGD):
    text = pickle.dumps(thing, 2)
    assert b"flambeau" not in text and pickle.loads(text) == thing, text
assert torch is sys.modules["torch"] and sys.modules["torch.nn"] is torch.nn
import torch.nn.utils.prune, torch.distributions.kl
assert sys.modules["torch.nn.utils.prune"] is sys.modules["flambeau.nn.utils.prune"] is torch.nn.utils.prune
assert torch.distributions.Normal.__module__.startswith("torch.distributions"), torch.distributions.Normal
print(metadata.version("torch"), metadata.distribution("torch").metadata["Name"])
assert "torch" in metadata.packages_distributions()
assert util.find_spec("torch") and util.find_spec("torch.nn.functional")
assert util.find_spec("torch.no_such") is None
version = torch.__version__
assert isinstance(version, str) and (1, 10) <= version < "2.14" and version > "2.9" and version >= "2.13.0"
print(type(version), torch.version.__version__ == version)
"""


def test_names_read_torch(tmp_path):
    assert output(runner("-c", NAMES, cwd=tmp_path)).splitlines() == [
        "torch.float32 torch.strided torch.preserve_format torch.Size([2]) "
        "<class 'torch.Tensor'> <class 'torch.device'>",
        "torch.FloatTensor torch.FloatStorage",
        "torch.nn.modules.linear.Linear type torch.optim.sgd",
        "2.13.0+flambeau torch",
        "<class 'torch.torch_version.TorchVersion'> True",
    ]


def test_without_the_runner_names_read_flambeau(tmp_path):
    text = "import flambeau as f; print(f.float32, f.ones(1).type(), f.ones(1).shape, f.nn.Linear.__module__)"
    found = output(python("-c", text, cwd=tmp_path)).split(maxsplit=3)
    assert found[:3] == ["flambeau.float32", "flambeau.FloatTensor", "flambeau.Size([1])"]
    assert found[3].startswith("flambeau.nn")


MISSING = [
    ("import torch; torch.arrange", "AttributeError: module 'torch' BY has no attribute 'arrange'", "arange"),
    ("from torch.nn import Lineer", "ImportError: module 'torch.nn' BY has no name 'Lineer'", "Linear"),
    (
        "import torch.optim.lr_schedule",
        "ModuleNotFoundError: No module named 'torch.optim.lr_schedule' BY",
        "lr_scheduler",
    ),
    (
        "import torch; torch.optim.lr_scheduler.StepLRs",
        "AttributeError: module 'torch.optim.lr_scheduler' BY has no attribute 'StepLRs'",
        "StepLR",
    ),
    ("from torch.zzz import qqq", "ModuleNotFoundError: No module named 'torch.zzz' BY", None),
]


@pytest.mark.parametrize(("text", "message", "near"), MISSING)
def test_a_missing_name_tells_the_nearest(tmp_path, text, message, near):
    done = runner("-c", text, cwd=tmp_path)
    assert done.returncode == 1
    expected = message.replace("BY", "(answered by flambeau)")
    last = done.stderr.splitlines()[-1]
    assert last.startswith(expected + (f"; the nearest name is '{near}'" if near else "")), last


def test_questions_about_missing_names_are_answered(tmp_path):
    text = (
        "import torch, sys\nprint(hasattr(torch, 'no_such'), getattr(torch.nn, 'NoSuch', None))\n"
        "try:\n    import torch.no_such\nexcept ImportError as e:\n    print(e.name)\n"
        "try:\n    from torch import no_such\nexcept ImportError as e:\n    print(e.name)\n"
    )
    assert output(runner("-c", text, cwd=tmp_path)).split() == ["False", "None", "torch.no_such", "torch"]


def test_the_plugin_of_pytest(tmp_path):
    script(tmp_path, "import torch\nkind = torch.nn.Linear.__module__", "conftest.py")
    script(tmp_path, "import torch\ndef test_it():\n    assert 'flambeau' in torch.__version__", "test_it.py")
    done = python("-m", "pytest", "-p", "flambeau.compat.pytest", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 passed" in output(done) and "answered by flambeau" in done.stdout


def test_a_notebook_loads_it_as_an_extension(tmp_path):
    text = "import importlib; importlib.import_module('flambeau').load_ipython_extension(None)\n" + WHO
    assert output(python("-c", text, cwd=tmp_path)) == OURS


def test_the_metadata_say_the_version():
    from flambeau.version import torch_version

    folder = PACKAGES / "flambeau" / "compat" / "answer" / f"torch-{torch_version}.egg-info"
    assert f"\nVersion: {torch_version}\n" in (folder / "PKG-INFO").read_text()


def test_a_module_of_torch_is_run_by_name(tmp_path):
    done = runner("-m", "torch.no_such_tool", cwd=tmp_path)
    assert done.returncode == 1 and "No module named torch.no_such_tool" in done.stderr


@pytest.mark.parametrize("module", ["torch.distributed.run", "torch.distributed.launch"])
def test_launchers_start_distributed_programs(tmp_path, module):
    text = (
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(1) * dist.get_rank()\n"
        "dist.all_reduce(x)\n"
        "os.write(1, f'sum {x.item()} {torch.__name__}\\n'.encode())\n"
    )
    script(tmp_path, text)
    words = ["--standalone", "--nproc_per_node", "2", "program.py"]
    child = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', '{module}', *{words}]))"
    for arguments in (["-m", module, *words], ["-c", child]):
        done = runner(*arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout.count("sum 1.0 torch")) == (0, 2), done.stderr


def test_a_module_of_tables_without_a_main_function_does_nothing(tmp_path):
    assert output(runner("-m", "torch.nn.modules.batchnorm", cwd=tmp_path)) == ""


SPAWNED = """
import sys, torch, torch.multiprocessing as mp

def child(index, queue, shared):
    shared[index] += index + 1
    queue.put((index, torch.__version__, type(shared).__module__))

def wrong(index):
    raise ValueError(f"child {index}")

if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        queue, shared = mp.get_context(method).SimpleQueue(), torch.zeros(2).share_memory_()
        mp.start_processes(child, args=(queue, shared), nprocs=2, start_method=method)
        print(sorted(queue.get() for _ in range(2)), shared.tolist())
    try:
        mp.spawn(wrong, nprocs=1)
    except mp.ProcessRaisedException as error:
        print(str(error).splitlines()[-1], error.error_index)
    numbers = torch.utils.data.TensorDataset(torch.arange(4.0))
    for method in ("forkserver", "spawn"):
        print([b[0].tolist() for b in torch.utils.data.DataLoader(
            numbers, 2, num_workers=2, multiprocessing_context=method)])
"""


def test_processes_of_torch_multiprocessing(tmp_path):
    script(tmp_path, SPAWNED)
    who = [(i, "2.13.0+flambeau", "torch") for i in range(2)]
    lines = output(runner("program.py", cwd=tmp_path)).splitlines()
    assert lines == [f"{who} [1.0, 2.0]"] * 3 + ["ValueError: child 0 0"] + ["[[0.0, 1.0], [2.0, 3.0]]"] * 2
