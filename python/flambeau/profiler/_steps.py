"""Steps of a profile: the action in each step, and the files of traces."""

from __future__ import annotations

import enum
import os
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flambeau.autograd.profiler import ProfilerActivity


def supported_activities() -> set[ProfilerActivity]:
    """Return the activities that a profile can record: the CPU's.

    Returns: a set of activities.

    Example:
        >>> flambeau.profiler.supported_activities()
        {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


class ProfilerAction(enum.Enum):
    """The action of a profile in one step.

    - `NONE`: do nothing.
    - `WARMUP`: record, and discard the events.
    - `RECORD`: record.
    - `RECORD_AND_SAVE`: record, and call `on_trace_ready` after the step.
    - `DEVICE_STOPPED`: for devices that stop by themselves; not used.

    Example:
        >>> flambeau.profiler.ProfilerAction.RECORD.value
        2
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3
    DEVICE_STOPPED = 4


class _ExperimentalConfig:
    """Settings of PyTorch's profiler: accepted, without effect.

    Args:
        settings: the settings, by name.
    """

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Return a function that maps the number of a step to the action of `profile` in it.

    After `skip_first` steps, cycles of `wait`, `warmup` and `active` steps follow.

    Args:
        wait: steps that are not recorded, in each cycle.
        warmup: steps that are recorded and discarded.
        active: steps that are recorded and kept; the last one ends the trace.
        repeat: the number of cycles; 0: cycles repeat until the profile ends.
        skip_first: steps before the first cycle.
        skip_first_wait: if not 0, the first cycle has no `wait` steps.
    Returns: the function.
    Raises: AssertionError for negative numbers, or 0 active steps.

    Example:
        >>> from flambeau.profiler import schedule
        >>> [schedule(wait=1, warmup=1, active=1)(step).name for step in range(4)]
        ['NONE', 'WARMUP', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"schedule: expected numbers of steps (need >= 0) and an active one (need > 0), got wait={wait}, "
            f"warmup={warmup}, active={active}, repeat={repeat}, skip_first={skip_first}"
        )
    if warmup == 0:
        warnings.warn(
            "schedule: without warmup the first recorded step includes the time of starting to record",
            stacklevel=2,
        )

    def action_of(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"schedule: expected a non-negative step, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        cycle, place = divmod(step, wait + warmup + active)
        if (repeat > 0 and cycle >= repeat) or place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        is_last = place == wait + warmup + active - 1
        return ProfilerAction.RECORD_AND_SAVE if is_last else ProfilerAction.RECORD

    return action_of


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Return the action of a profile without a schedule in each step: RECORD."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[Any], None]:
    """Return a function for `on_trace_ready` that writes each trace to a new file.

    Args:
        dir_name: the folder, which is made if it does not exist.
        worker_name: the first part of the file's name. Default: the host's name and the process's number.
        use_gzip: whether files are compressed.
    Returns: the function.
    Raises: RuntimeError, where the function is called, if the folder cannot be made.

    Example:
        >>> import pathlib, tempfile
        >>> from flambeau.profiler import profile, tensorboard_trace_handler
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with profile(on_trace_ready=tensorboard_trace_handler(folder)):
        ...         _ = flambeau.ones(2)
        ...     print(len(list(pathlib.Path(folder).glob("*.json"))))
        1
    """

    def write(profile: Any) -> None:
        folder = Path(dir_name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".gz" if use_gzip else ""
        profile.export_chrome_trace(str(folder / f"{worker}.{time.time_ns()}.pt.trace.json{ending}"))

    return write
