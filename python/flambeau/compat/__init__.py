"""Programs that `import torch` and get flambeau.

``python -m flambeau.compat script.py`` runs a program that was written for PyTorch, `install` does the same
from code, ``-p flambeau.compat.pytest`` in pytest and ``%load_ext flambeau`` in a notebook. The rules are in
docs/compat.md.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["install", "is_installed", "load_ipython_extension"]


def is_installed() -> bool:
    """Tell whether `import torch` returns flambeau in this process.

    Returns: a bool.

    Example:
        >>> import flambeau.compat
        >>> flambeau.compat.is_installed()
        False
    """
    from flambeau._types import naming

    return naming.root == "torch"


def install(*, replace: bool = True) -> bool:
    """Make `import torch` return flambeau from now on, in this process and in those that it starts.

    ``torch.__version__`` names the version of PyTorch whose behaviour flambeau follows, and
    ``importlib.metadata.version("torch")`` returns the same.

    Args:
        replace: whether an installed PyTorch is hidden. With False, the call has no effect if PyTorch is
            installed.
    Returns: whether `import torch` returns flambeau.
    Raises: RuntimeError if PyTorch itself is already imported; one name cannot stand for two frameworks.

    Example:
        >>> import subprocess, sys
        >>> program = "import flambeau.compat; print(flambeau.compat.install()); import torch"
        >>> print(subprocess.check_output([sys.executable, "-c", program], text=True).strip())
        True
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
    """Load flambeau as torch in a notebook; IPython calls this function for ``%load_ext flambeau``.

    Args:
        shell: the shell of IPython, which is not used.
    Returns: None.
    See also: compat.install

    Example:
        >>> import flambeau.compat
        >>> callable(flambeau.compat.load_ipython_extension)
        True
    """
    install()
