"""PyTorch's names of files and classes, also under the runner, and the table of divergences."""

from __future__ import annotations

import importlib
import subprocess
import sys

import flambeau as fb
import pytest
from flambeau.distributions import _FILES
from oracle import pytorch


@pytest.mark.parametrize("file", list(_FILES))
def test_files_hold_what_pytorchs_hold(file):
    pytorch()
    theirs = importlib.import_module(f"torch.distributions.{file}")
    ours = importlib.import_module(f"flambeau.distributions.{file}")
    assert not set(theirs.__all__) - set(vars(ours)), file
    for item in _FILES[file]:
        assert hasattr(theirs, item.__name__)
    shared = ("Distribution", "Tensor", "TransformedDistribution", "broadcast_all", "constraints")
    shared += ("lazy_property", "logits_to_probs", "probs_to_logits", "_size", "torch")
    assert not [name for name in shared if hasattr(theirs, name) and not hasattr(ours, name)]
    assert ours.constraints is fb.distributions.constraints


def test_all_names_and_divergences_are_there():
    pytorch()
    theirs = importlib.import_module("torch.distributions")
    ours = fb.distributions
    assert set(theirs.__all__) == set(ours.__all__) - {"constraints", "transforms"}
    for module in ("constraints", "transforms", "constraint_registry", "kl", "utils", "exp_family"):
        names = getattr(importlib.import_module(f"torch.distributions.{module}"), "__all__", ())
        assert not set(names) - set(dir(getattr(ours, module)))
    pairs = [{(p.__name__, q.__name__) for p, q in m.kl._KL_REGISTRY} for m in (ours, theirs)]
    assert pairs[0] == pairs[1]


def test_the_runner_finds_files():
    program = (
        "import flambeau.compat; flambeau.compat.install()\n"
        "from torch.distributions.normal import Normal\n"
        "import torch.distributions.kl, torch.distributions.multivariate_normal as m\n"
        "import torch\n"
        "assert Normal is torch.distributions.Normal and m._batch_mv\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
