"""Profiles of operators: what ran, how long, with which memory.

`flambeau.profiler.profile` has schedules and traces on top of the profile of this module.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any, NoReturn

from flambeau import _C
from flambeau._loading.lazy import attributes
from flambeau._state.profiling import record_function
from flambeau.autograd import _chrome_trace
from flambeau.autograd._recorded import Recording
from flambeau.autograd.profiler_util import (
    MEMORY_EVENT_NAME,
    OUT_OF_MEMORY_EVENT_NAME,
    DeviceType,
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    MemRecordsAcc,
)

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]

_KEPT = (DeviceType, MEMORY_EVENT_NAME, OUT_OF_MEMORY_EVENT_NAME)


class ProfilerState(enum.IntEnum):
    """Kinds of profiles in PyTorch; those here are of the kind KINETO."""

    Disabled = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5
    KINETO = 6
    KINETO_GPU_FALLBACK = 7
    KINETO_PRIVATEUSE1_FALLBACK = 8


class ProfilerActivity(enum.IntEnum):
    """What a profile can record: work of the CPU; other devices are accepted and record nothing."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5

    def __str__(self) -> str:
        return f"ProfilerActivity.{self.name}"


def kineto_available() -> bool:
    """Return False: profiles are made without the library Kineto."""
    return False


def _profiler_enabled() -> bool:
    return bool(_C._profiler_enabled())


class profile:
    """Context manager that records the operators of its thread.

    Args:
        enabled: False makes the block record nothing; `with` then gives None.
        use_cuda: accepted; only work of the CPU is recorded.
        use_device: the same.
        record_shapes: whether sizes and values of arguments are kept.
        with_flops: whether floating-point operations are counted.
        profile_memory: whether memory that tensors allocate and release is recorded.
        with_stack: whether functions of Python and calls of modules are recorded too.
        with_modules: accepted; calls of modules are recorded by `with_stack`.
        use_kineto: accepted.
        use_cpu: False is an error, because there is nothing else to record.
        experimental_config: accepted.
        acc_events: whether events of earlier blocks of the same object are kept.
        custom_trace_id_callback: returns the name of a trace.
        post_processing_timeout_s: accepted.
        activity_filters: accepted.
    Raises: AssertionError if `use_cpu` is False, RuntimeError if the block is entered again.

    Example:
        >>> from flambeau.autograd.profiler import profile
        >>> with profile() as p:
        ...     _ = flambeau.ones(2) + 1
        >>> p.key_averages()[0].key
        'aten::ones'
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        self.enabled = enabled
        self.use_cuda, self.use_device = use_cuda, use_device
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack, self.with_modules = with_stack, with_modules
        self.use_cpu, self.acc_events = use_cpu, acc_events
        self.experimental_config = experimental_config
        self.custom_trace_id_callback = custom_trace_id_callback
        self.trace_id = ""
        self.profiling_start_time_ns = self.profiling_end_time_ns = 0
        self._keeps_results = False  # for a graph of execution
        self._recording: Recording | None = None
        self._function_events: EventList | None = None
        self._earlier: list[Any] = []
        if enabled and not use_cpu:
            raise AssertionError(
                "profile: expected one activity or more, got none: use_cpu=False (No activities specified)"
            )

    def default_trace_id(self) -> str:
        """Return a new random name of a trace, 32 hexadecimal digits."""
        import uuid

        return uuid.uuid4().hex.upper()

    def create_trace_id(self) -> str:
        """Return the name of a trace, from `custom_trace_id_callback` if it was given."""
        given = self.custom_trace_id_callback
        return given() if given else self.default_trace_id()

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(
                "profile: expected to be entered once, got a second time; the block is not reentrant"
            )
        self._prepare_trace()
        self._start_trace()
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.enabled:
            return
        self.profiling_end_time_ns = perf_counter_ns()
        native = _C._profiler_stop()
        if native is None:
            warnings.warn(
                "profile: this thread is not recorded; another profile has taken its place, or the "
                "block was left on another thread than it was entered on",
                stacklevel=2,
            )
        if self.acc_events and self._function_events is not None:
            self._earlier = list(self._function_events)
        self._recording = Recording.of(native) if native else None
        if self._recording is not None and self.profile_memory:
            from flambeau.profiler._memory_blocks import owners

            self._recording.owners = owners()
        self._function_events = None

    def _prepare_trace(self) -> None:
        self.entered = True
        self.trace_id = self.create_trace_id()

    def _start_trace(self) -> None:
        self.entered = True
        self.profiling_start_time_ns = perf_counter_ns()
        if self.acc_events:
            self._ensure_function_events()
        shapes = self.record_shapes or self._keeps_results
        _C._profiler_start(shapes, self.profile_memory, self.with_stack, self._keeps_results)

    def toggle_collection_dynamic(self, enabled: bool, activities: Any) -> None:
        """Pause recording within the block, or go on; a range that ends meanwhile keeps its times.

        Args:
            enabled: whether to record.
            activities: those that are meant; no effect without `ProfilerActivity.CPU`.
        Raises: TypeError if `activities` is not a collection of `ProfilerActivity`.
        """
        wanted = set(activities)
        for one in wanted:
            if not isinstance(one, ProfilerActivity):
                raise TypeError(
                    f"toggle_collection_dynamic: expected ProfilerActivity objects, got {type(one).__name__}"
                )
        if ProfilerActivity.CPU in wanted:
            _C._profiler_collect(bool(enabled))

    def _ensure_function_events(self) -> EventList:
        if self._function_events is None:
            made = (
                self._recording.to_list(self.profile_memory, self.with_stack, self.with_flops)
                if self._recording
                else EventList([], profile_memory=self.profile_memory, with_flops=self.with_flops)
            )
            if self._earlier:
                made[:0] = self._earlier
                self._earlier = []
            self._function_events = made
        return self._function_events

    @property
    def function_events(self) -> EventList:
        """The events, after the block; within it, those of the block before."""
        return self._ensure_function_events()

    def _finished(self) -> EventList:
        if self._recording is None and self._function_events is None:
            raise RuntimeError("profile: expected a block that was left, got one that is not finished")
        return self.function_events

    def __repr__(self) -> str:
        if self._recording is None and self._function_events is None:
            return "<unfinished torch.autograd.profile>"
        return repr(self.function_events)

    def __str__(self) -> str:
        if self._recording is None and self._function_events is None:
            return "<unfinished torch.autograd.profile>"
        return str(self.function_events)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the events as a table; see `EventList.table`."""
        return self.function_events.table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
            time_unit,
        )

    def export_chrome_trace(self, path: str) -> None:
        """Write the trace for chrome://tracing and Perfetto, with arrows from forward to backward.

        Args:
            path: of the file, which is replaced; it is compressed if the name ends in ``.gz``.
        """
        self._finished()
        if self._recording is not None:
            flags = {
                "trace_id": self.trace_id,
                "record_shapes": int(self.record_shapes),
                "profile_memory": int(self.profile_memory),
                "with_stack": int(self.with_stack),
                "with_flops": int(self.with_flops),
                "with_modules": int(self.with_modules),
            }
            _chrome_trace.write(self._recording, path, flags)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with the sum of a metric; see `EventList.export_stacks`."""
        if not self.with_stack:
            raise AssertionError("export_stacks: it requires with_stack=True, got False")
        self._finished().export_stacks(path, metric)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return the sums of events by name; see `EventList.key_averages`."""
        events = self.function_events
        return events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each without its children."""
        return self.function_events.self_cpu_time_total


class _OfAbsentTool:
    _tool: str
    _error: type[Exception]

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        raise self._error(
            f"{type(self).__name__}: {self._tool} is not available in this build; "
            "flambeau.profiler.profile records operators without it"
        )

    def __exit__(self, *exception: object) -> None: ...


class emit_nvtx(_OfAbsentTool):
    """Ranges of NVIDIA's tools, which need CUDA: entering the block raises AssertionError.

    Args:
        enabled: False makes the block do nothing.
        record_shapes: whether ranges have the shapes of arguments.

    Example:
        >>> from flambeau.autograd.profiler import emit_nvtx
        >>> with emit_nvtx(enabled=False):
        ...     flambeau.ones(1).item()
        1.0
    """

    _tool, _error = "NVTX (not compiled with CUDA)", AssertionError


class emit_itt(_OfAbsentTool):
    """Ranges of Intel's VTune, whose library is not linked: entering the block raises RuntimeError.

    Args:
        enabled: False makes the block do nothing.
        record_shapes: whether ranges have the shapes of arguments.

    Example:
        >>> from flambeau.autograd.profiler import emit_itt
        >>> with emit_itt(enabled=False):
        ...     flambeau.ones(1).item()
        1.0
    """

    _tool, _error = "ITT", RuntimeError


def parse_nvprof_trace(path: str) -> NoReturn:
    """Refuse to read a file of nvprof, because nothing here can have written it.

    Args:
        path: of the file.
    Returns: nothing, because it always raises.
    Raises: RuntimeError.

    Example:
        >>> from flambeau.autograd.profiler import parse_nvprof_trace
        >>> try:
        ...     parse_nvprof_trace("old.nvprof")
        ... except RuntimeError:
        ...     print("needs CUDA")
        needs CUDA
    """
    raise RuntimeError(f"parse_nvprof_trace: expected a build with CUDA to read {path!r}, got one without")


load_nvprof = parse_nvprof_trace


class EnforceUnique:
    """Raises an error where a key is seen twice.

    Example:
        >>> from flambeau.autograd.profiler import EnforceUnique
        >>> unique = EnforceUnique()
        >>> unique.see("a", 1)
        >>> unique.see("a", 2)
    """

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Note a key; RuntimeError if it was noted before."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """Counts steps of several parties: the step of the program is the highest one.

    Example:
        >>> from flambeau.autograd.profiler import KinetoStepTracker
        >>> KinetoStepTracker.init_step_count("loop")
        >>> KinetoStepTracker.increment_step("loop") == KinetoStepTracker.current_step()
        True
    """

    _current_step = 0
    _steps: dict[str, int] = {}  # noqa: RUF012  (shared by all, as the step is)

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Let a party start at the current step."""
        cls._steps[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Forget a party; return whether it was known."""
        return cls._steps.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step of a party; return the current step."""
        if requester not in cls._steps:
            cls.init_step_count(requester)
        cls._steps[requester] += 1
        cls._current_step = max(cls._current_step, *cls._steps.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """Return the highest step of all parties."""
        return cls._current_step


__getattr__, __dir__ = attributes(__name__)
