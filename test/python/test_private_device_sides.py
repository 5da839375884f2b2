"""The device kind of out-of-tree backends: its name, its module and the methods made for it.

A process can name it once, so each program runs in processes of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import flambeau as fb
import pytest
from forks import PYTORCH
from oracle import pytorch

PROGRAM = Path(__file__).with_name("private_device_program.py")
PROGRAMS = (
    "names name_of_a_kind_without_backend tensors_need_a_module methods overrides_are_asked "
    "a_failed_generation_changes_nothing one_of_many_threads_names_it the_name_reaches_checkpoints "
    "lists_of_devices_have_the_name kernels_are_registered_by_the_name"
).split()


def outcome(program):
    command = [sys.executable, "-W", "ignore", str(PROGRAM), "flambeau", program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


OF_PYTORCH = """
import runpy, sys, warnings
warnings.simplefilter("ignore")
sys.argv = {arguments!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def outcome_of_pytorch(program, folder):
    script, output = folder / "script.py", folder / "output"
    script.write_text(OF_PYTORCH.format(arguments=[str(PROGRAM), "torch", program]))
    assert PYTORCH.start(script, output, dict(os.environ)).wait(300) == 0, output.read_text()
    return json.loads(output.read_text().splitlines()[-1])


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_pytorch(program, tmp_path):
    pytorch()
    assert outcome(program) == outcome_of_pytorch(program, tmp_path)


@pytest.mark.parametrize("name", ["", "meta", "Abacus", "abacus2", "a-b", "a:b", "a\0b", "é"])
def test_names_that_no_device_could_have_are_refused(name):
    """PyTorch takes them, and then cannot read the device, or loses `meta`."""
    with pytest.raises(RuntimeError, match="rename_privateuse1_backend: expected a name"):
        fb.utils.rename_privateuse1_backend(name)
    assert fb._C._get_privateuse1_backend_name() == "privateuseone"


def test_a_missing_kernel_names_the_device():
    with pytest.raises(ModuleNotFoundError, match="privateuseone"):
        fb.empty(2, device="privateuseone")


def test_autocast_is_not_available_for_the_renamed_device():
    program = (
        "import flambeau as fb; fb.utils.rename_privateuse1_backend('abacus'); "
        "print(fb._C._is_autocast_available('abacus'), fb.is_autocast_enabled('abacus'))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stdout.split()) == (0, ["False", "False"]), run.stderr
