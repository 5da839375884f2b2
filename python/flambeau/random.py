"""The random numbers that operators draw when no generator is given."""

from __future__ import annotations

import copyreg
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flambeau._state.generator  # noqa: F401  (gives Generator its methods)
from flambeau import _C
from flambeau._C import Generator, Tensor, default_generator
from flambeau._loading.lazy import attributes


def manual_seed(seed: int) -> Generator:
    """Set the seed of the default generator; it then yields the same numbers as PyTorch's.

    Args:
        seed: an integer of 64 bits; a negative one counts from 2**64.
    Returns: the default generator.

    Example:
        >>> _ = flambeau.random.manual_seed(0)
        >>> flambeau.rand(2)
        tensor([0.4963, 0.7682])
    """
    for generator in _device_generators():
        generator.manual_seed(int(seed))
    return default_generator.manual_seed(int(seed))


def _device_generators() -> list[Generator]:
    """Return the default generators of an out-of-tree device."""
    return [_C._privateuse1_generator(index) for index in range(_C._privateuse1_device_count())]


def seed() -> int:
    """Set the default generator to a seed from the operating system.

    Returns: the seed.

    Example:
        >>> flambeau.random.seed() == flambeau.random.initial_seed()
        True
    """
    value = int.from_bytes(os.urandom(8), "little")
    default_generator.manual_seed(value)
    return value


def initial_seed() -> int:
    """Return the seed that the default generator was set to last.

    Returns: the seed.

    Example:
        >>> _ = flambeau.manual_seed(7)
        >>> flambeau.random.initial_seed()
        7
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the default generator.

    Returns: a tensor of bytes, for `set_rng_state`.

    Example:
        >>> flambeau.random.get_rng_state().dtype
        flambeau.uint8
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Set the state of the default generator.

    Args:
        new_state: a state that `get_rng_state` returned.
    Returns: None.
    Raises: RuntimeError for a tensor that is no such state.

    Example:
        >>> state = flambeau.random.get_rng_state()
        >>> first = flambeau.rand(2)
        >>> flambeau.random.set_rng_state(state)
        >>> bool((flambeau.rand(2) == first).all())
        True
    """
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(
    devices: object = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Restore the state of the default generator at the end of a block.

    Args:
        devices: no effect; the default generator is the only one.
        enabled: whether to restore the state.
        _caller: no effect.
        _devices_kw: no effect.
        device_type: no effect.
    Returns: a context manager.

    Example:
        >>> before = flambeau.random.get_rng_state()
        >>> with flambeau.random.fork_rng():
        ...     _ = flambeau.rand(3)
        >>> bool((flambeau.random.get_rng_state() == before).all())
        True
    """
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


def thread_safe_generator() -> Generator | None:
    """Return the calling thread's generator in a `DataLoader` whose workers are threads.

    Returns: None: workers are processes in flambeau, and each has its own default generator.

    Example:
        >>> flambeau.random.thread_safe_generator() is None
        True
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
