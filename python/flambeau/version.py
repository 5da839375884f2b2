"""Versions: flambeau's own, that of the API it follows, and of accelerator libraries (None: not built in)."""

from __future__ import annotations

from flambeau._loading.lazy import attributes

__version__ = "0.1.0"
torch_api = "2.13.0"  # the version of PyTorch whose behaviour is followed
torch_version = f"{torch_api}+flambeau"  # what `torch.__version__` says in programs that flambeau.compat runs
debug = False
cuda = hip = rocm = xpu = None
git_version = "unknown"

__getattr__, __dir__ = attributes(__name__)
