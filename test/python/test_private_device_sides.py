"""The device kind of out-of-tree backends: its name, its module and the methods made for it.

A process can name it once, so each program runs in processes of its own.
"""

import json
import subprocess
import sys
from pathlib import Path

import flambeau as fb
import pytest
from oracle import pytorch

PROGRAM = Path(__file__).with_name("private_device_program.py")
PROGRAMS = (
    "names name_of_a_kind_without_backend tensors_need_a_module methods overrides_are_asked "
    "a_failed_generation_changes_nothing one_of_many_threads_names_it the_name_reaches_checkpoints "
    "lists_of_devices_have_the_name kernels_are_registered_by_the_name"
).split()


def outcome(framework, program):
    command = [sys.executable, "-W", "ignore", str(PROGRAM), framework, program]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_pytorch(program):
    pytorch()
    assert outcome("flambeau", program) == outcome("torch", program)


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
