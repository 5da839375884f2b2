"""Answer `import torch` with flambeau.

``python -m flambeau.compat script.py`` runs a program that was written for PyTorch, `install` does the same
from code, ``-p flambeau.compat.pytest`` in pytest and ``%load_ext flambeau`` in a notebook. The rules are in
docs/compat.md.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["install", "is_installed", "load_ipython_extension"]


def is_installed() -> bool:
    """Whether `import torch` is answered by flambeau in this process."""
    from flambeau._types import naming

    return naming.root == "torch"


def install(*, replace: bool = True) -> bool:
    """Answer `import torch` with flambeau from now on, in this process and in those that it starts.

    ``torch.__version__`` says which version of PyTorch's API that is, and ``importlib.metadata`` agrees.

    Args:
        replace: whether an installed PyTorch is hidden. With False nothing happens where there is one.

    Returns:
        Whether flambeau answers.

    Raises:
        RuntimeError: if PyTorch itself is imported already; one name cannot stand for two frameworks.
    """
    import flambeau  # known under its own name before it gets a second one
    from flambeau._loading.backends import autoload_of_pytorch
    from flambeau.compat import _children, _finder, _names

    if is_installed():
        return True
    known: Any = sys.modules.get("torch")
    if known is not None and known is not flambeau:
        raise RuntimeError(
            f"flambeau.compat.install: PyTorch {getattr(known, '__version__', '')} is imported already, "
            "by this program or by a library; call install() before anything imports torch"
        )
    if not replace and _finder.pytorch_is_installed():
        return False
    _finder.install()
    _names.install()
    _children.inherit()
    autoload_of_pytorch()
    return True


def load_ipython_extension(shell: Any) -> None:
    """Install for a notebook: ``%load_ext flambeau``."""
    install()
