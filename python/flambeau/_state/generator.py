"""The part of Generator that is written in Python: seeds, copies, pickles."""

from __future__ import annotations

import copyreg
import secrets
from typing import Any

from flambeau import _C
from flambeau._C import Generator


def _seed(self: Generator) -> int:
    """Restart the stream at a seed that the system draws; return the seed."""
    seed = secrets.randbits(63)
    self.manual_seed(seed)
    return seed


def _clone_state(self: Generator) -> Generator:
    """Return another generator at the same position of the stream."""
    return _rebuilt(self.device, self.get_state())


def _rebuilt(device: Any, state: Any) -> Generator:
    out = Generator(device)
    out.set_state(state)
    return out


def _reduced(generator: Generator) -> tuple[Any, tuple[Any, ...]]:
    return _rebuilt, (generator.device, generator.get_state())


def _install() -> None:
    methods: dict[str, Any] = {"seed": _seed, "clone_state": _clone_state}
    for name, method in methods.items():
        setattr(_C.Generator, name, method)
    copyreg.pickle(Generator, _reduced)


_install()
