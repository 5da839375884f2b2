"""PyTorch's operator database, without two things that take most of the time of its samples.

Before each sample PyTorch searches the call stack, with the sources of all frames, for the method of a
`unittest.TestCase` that runs; the tests here are none, so that it never finds one. PyTorch then seeds its
generators, and for each kind of device that this machine lacks `torch.manual_seed` keeps a stack trace.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

__all__ = ["op_db"]


def _replaced(owner: Any, name: str) -> None:
    """Let a function of PyTorch return None; it must exist, so that its removal is noticed."""

    @functools.wraps(getattr(owner, name))
    def nothing(*_: Any) -> None:
        return None

    setattr(owner, name, nothing)


for _module in (common_utils, core):
    _replaced(_module, "extract_test_fn")
for _device in (torch.cuda, torch.xpu, torch.mtia):
    if not _device.is_available():
        _replaced(_device, "manual_seed_all")
