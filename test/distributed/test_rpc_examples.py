"""The programs of examples/distributed that use remote calls: losses fall and equal PyTorch's."""

from pathlib import Path

import pytest
from distributed.test_examples import FOLDER, as_of, launched, losses, of_pytorch

PROGRAMS = {"parameter_server": 8, "remote_recurrent": 8, "batched_updates": 12, "remote_pipeline": 8}

# Processes need seconds to start, so they run all programs, one after the other, with new workers for each.
ALL = """
import os, runpy, sys
import flambeau
for name in sys.argv[1:]:
    print("program", name, flush=True) if os.environ["RANK"] == "0" else None
    runpy.run_path(os.path.join(os.path.dirname(__file__), name + ".py"), run_name="__main__")
sys.stdout.flush()
os._exit(0)
"""


def all_losses(framework: str, folder: Path, size: int, names: list[str]) -> dict[str, list[float]]:
    for path in FOLDER.glob("*.py"):
        folder.joinpath(path.name).write_text(as_of(framework, path.read_text()))
    script = folder / "all_of_them.py"
    script.write_text(as_of(framework, ALL))
    start = of_pytorch if framework == "torch" else launched
    output = start(size, script, *names)
    return {part.split()[0]: losses(part) for part in output.split("program ")[1:]}


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return all_losses("flambeau", tmp_path_factory.mktemp("ours"), 3, list(PROGRAMS))


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_fall(ours, name):
    """With two trainers, steps of parameter_server come in any order, so the last losses vary."""
    assert len(ours[name]) == PROGRAMS[name] and sum(ours[name][-3:]) / 3 < 0.85 * ours[name][0]


# PyTorch's workers can't start again at once: a late message of the first life fails. One launch each.
@pytest.mark.parametrize("name", PROGRAMS)
def test_losses_are_pytorchs(ours, tmp_path, name):
    pytest.importorskip("torch")
    found, size = ours[name], 3
    if name == "parameter_server":  # one trainer
        folder, size = tmp_path / "ours", 2
        folder.mkdir()
        found = all_losses("flambeau", folder, size, [name])[name]
    assert len(found) == PROGRAMS[name]
    assert found == pytest.approx(all_losses("torch", tmp_path, size, [name])[name], rel=1e-4)
