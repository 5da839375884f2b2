"""An out-of-tree device whose memory the host cannot touch: what the core does with it.

A process can register one backend, so all programs run in a process of their own.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("sealed_program.py")
PROGRAMS = (
    "factories copies views reading operators_without_kernels writes_without_kernels autograd transforms "
    "modules_and_optimizers files random_numbers warnings_and_errors memory_is_given_back guards_and_threads "
    "accelerators custom_operators"
).split()


@pytest.fixture(scope="session")
def outcomes(build_root):
    folder = build_root / "sealed_device"
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(PROGRAM), str(folder), *PROGRAMS]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600)
    lines = [line for line in run.stdout.splitlines() if line.startswith("[")]
    assert run.returncode == 0, (lines[-1:], run.stderr)
    return dict(map(json.loads, lines))


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(outcomes, program):
    assert outcomes[program] == "ok", outcomes[program]
