"""The programs of examples/training give PyTorch's loss curve from the same seed, unmodified."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from oracle import pytorch

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(str(path) for path in (ROOT / "examples/training").glob("*.py"))


def run(*command):
    driver = str(Path(__file__).with_name("run_programs.py"))
    # Tensors this small gain nothing by threads, and threads that wait for each other lose on a busy machine.
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command, driver, *SCRIPTS], capture_output=True, text=True, env=alone
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def ours():
    return run("-m", "flambeau.compat")


@pytest.fixture(scope="module")
def theirs():
    pytorch()
    return run()


def test_there_are_twenty_programs():
    assert len(SCRIPTS) >= 20


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: Path(script).stem)
def test_losses_fall(ours, script):
    losses = ours[script][:50]
    assert len(losses) == 50 and all(map(math.isfinite, losses))
    noisy = Path(script).stem in ("policy_gradient", "deep_q")  # their losses do not measure progress
    assert noisy or sum(losses[-5:]) < sum(losses[:5])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: Path(script).stem)
def test_losses_are_pytorchs(ours, theirs, script):
    assert ours[script] == pytest.approx(theirs[script], rel=1e-4, abs=1e-4)
