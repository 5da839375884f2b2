"""Processes that a program starts find flambeau under torch's name as well.

Every child of a process inherits PYTHONPATH, however it starts: multiprocessing by spawn or forkserver,
subprocess, launchers. The folder `answer` goes to its front. It holds a package torch, which installs
flambeau.compat when it is imported, and torch's metadata. A child that does not import torch has no cost,
and no start-up hook of Python's is taken.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path

from flambeau.compat._finder import ANSWER

PACKAGES = ANSWER.parents[2]  # the folder from which flambeau itself is imported


def inherit() -> None:
    """Put the folders that a child needs into PYTHONPATH and, for children by spawn, into `sys.path`."""
    known = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    needed = [str(ANSWER)]
    if str(PACKAGES) not in (*site.getsitepackages(), site.getusersitepackages()):
        needed.append(str(PACKAGES))
    os.environ["PYTHONPATH"] = os.pathsep.join([*needed, *(e for e in known if e not in needed)])
    # A child by spawn takes over `sys.path`, in which a file torch.py beside the script would come first.
    first = Path(sys.path[0] if sys.path else "")
    hidden = (first / "torch.py").exists() or (first / "torch").exists()
    if str(ANSWER) not in sys.path:
        sys.path.insert(0 if hidden else 1, str(ANSWER))
