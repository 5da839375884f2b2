"""The random numbers that operators draw when no generator is given."""

from __future__ import annotations

import copyreg
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flambeau._state.generator  # noqa: F401  (gives Generator its methods)
from flambeau._C import Generator, Tensor, default_generator
from flambeau._loading.lazy import attributes


def manual_seed(seed: int) -> Generator:
    """Start the stream of random numbers at a seed; the numbers are PyTorch's.

    Args:
        seed: any integer of 64 bits; negative ones count from 2**64.
    Returns: the default generator.
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start the stream at a seed from the system, and return it."""
    value = int.from_bytes(os.urandom(8), "little")
    default_generator.manual_seed(value)
    return value


def initial_seed() -> int:
    """Return the seed that the stream was started at."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the generator's position as a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continue from a position that `get_rng_state` returned."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: object = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Restore the generator's position at the end of the block; that of the host is the only one."""
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


def thread_safe_generator() -> Generator | None:
    """Return the calling thread's own generator in a DataLoader whose workers are threads, else None.

    Workers are processes here, so that the default generator is theirs alone.
    """
    return None


def _continuing(state: Tensor) -> Generator:
    """Return a new generator that continues from a state."""
    out = Generator()
    out.set_state(state)
    return out


def _state_of(generator: Generator) -> tuple[Any, tuple[Tensor]]:
    return _continuing, (generator.get_state(),)


copyreg.pickle(Generator, _state_of)

__getattr__, __dir__ = attributes(__name__)
