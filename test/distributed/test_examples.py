"""The programs of examples/distributed: losses fall, equal PyTorch's, and are those of one process."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from distributed.ranks import ROOT, Job, environment, left_behind, segments

FOLDER = ROOT / "examples/distributed"
PROGRAMS = ["data_parallel", "sharded_parameters", "tensor_parallel", "two_dimensions", "checkpointed"]


def launched(size: int, script: Path, *arguments: object) -> str:
    """Return what the processes print that the launcher starts."""
    words = ["--standalone", "--nproc-per-node", str(size), str(script), *map(str, arguments)]
    command = [sys.executable, "-m", "flambeau.distributed.run", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


OF_PYTORCH = """
import runpy
sys.argv = {arguments!r}
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def of_pytorch(size: int, *words: object) -> str:
    """Return what rank 0 prints, without PyTorch's launcher, whose processes need seconds for imports."""
    code = OF_PYTORCH.format(arguments=[str(word) for word in words])
    for _ in range(3):  # now and then PyTorch's workers lose each other at their start or end
        ended = Job(size, code, "torch").ends(100)
        if not any(one.status for one in ended):
            break
    assert [one.status for one in ended] == [0] * size, [one.output[-3000:] for one in ended]
    return ended[0].output


def losses(output: str) -> list[float]:
    return [float(line.split()[1]) for line in output.splitlines() if line.startswith("loss ")]


# Processes need seconds to start, so they run all programs, with one group.
ALL = """
import os, runpy, sys
import flambeau.distributed as dist
dist.init_process_group("gloo")
dist.init_process_group = lambda backend: None
dist.destroy_process_group, end = lambda: None, dist.destroy_process_group
folder, until, *names = sys.argv[1:]
for name in names:
    print("program", name, flush=True) if os.environ["RANK"] == "0" else None
    sys.argv = [name, folder, until]
    runpy.run_path(os.path.join(os.path.dirname(__file__), name + ".py"), run_name="__main__")
end()
"""
# PyTorch's processes abort now and then on the way out of the interpreter.
END_OF_ORACLE = """
dist.barrier()
sys.stdout.flush()
os._exit(0)
"""


def all_losses(framework: str, folder: Path, until: int, programs: list[str]) -> dict[str, list[float]]:
    for path in FOLDER.glob("*.py"):
        folder.joinpath(path.name).write_text(as_of(framework, path.read_text()))
    script = folder / "all_of_them.py"
    script.write_text(as_of(framework, ALL))
    start = of_pytorch if framework == "torch" else launched
    output = start(4, script, folder / "checkpoint", until, *programs)
    return {part.split()[0]: losses(part) for part in f"\n{output}".split("\nprogram ")[1:]}


def as_of(framework: str, text: str) -> str:
    if framework == "flambeau":
        return text
    text = text.replace("import flambeau as torch", "import torch").replace("flambeau", "torch")
    return text.replace("\nend()\n", END_OF_ORACLE)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    before = segments()
    found = all_losses("flambeau", tmp_path_factory.mktemp("ours"), 12, [*PROGRAMS, "long_sequences"])
    assert left_behind(before) == set()
    return found


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The losses under PyTorch, and the folder of the checkpoint that it wrote at step 6."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("theirs")
    return all_losses("torch", folder, 7, PROGRAMS), folder / "checkpoint"


@pytest.mark.parametrize("name", [*PROGRAMS, "long_sequences"])
def test_losses_fall(ours, name):
    assert len(ours[name]) == (8 if name == "data_parallel" else 12)
    assert ours[name][-1] < 0.75 * ours[name][0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_pytorchs(ours, theirs, name):
    found = theirs[0][name]
    assert len(found) == (7 if name == "checkpointed" else len(ours[name]))
    assert ours[name][: len(found)] == pytest.approx(found, rel=1e-4)


@pytest.mark.parametrize("name", ["tensor_parallel", "two_dimensions", "checkpointed", "long_sequences"])
def test_the_division_does_not_change_the_losses(ours, name):
    assert ours[name] == pytest.approx(ours["sharded_parameters"], rel=1e-4)


@pytest.mark.parametrize("wrote", ["flambeau", "torch"])
def test_training_continues_with_another_number_of_processes(ours, request, tmp_path, wrote):
    folder = tmp_path / "checkpoint"
    if wrote == "torch":
        shutil.copytree(request.getfixturevalue("theirs")[1], folder)
    else:
        launched(1, FOLDER / "checkpointed.py", folder, 7)
    output = launched(2, FOLDER / "checkpointed.py", folder)
    assert output.startswith("continued at step 6\n")  # one and PyTorch's four processes wrote it
    assert losses(output) == pytest.approx(ours["checkpointed"][6:], rel=1e-4)
