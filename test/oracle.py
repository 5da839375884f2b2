"""PyTorch for tests that compare with it: where CI asks for it, its absence fails instead of skipping."""

from __future__ import annotations

import os
from types import ModuleType

import pytest


def pytorch() -> ModuleType:
    """The module torch, or a skip."""
    if os.environ.get("FLAMBEAU_REQUIRE_ORACLE"):
        import torch

        return torch
    return pytest.importorskip("torch")
