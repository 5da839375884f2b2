"""Profiles by steps: schedules, traces, metadata."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from flambeau._loading.lazy import attributes
from flambeau._state.profiling import record_function
from flambeau.autograd import profiler as prof
from flambeau.autograd.profiler import KinetoStepTracker, ProfilerActivity, kineto_available
from flambeau.autograd.profiler_util import EventList
from flambeau.profiler._execution_trace import ExecutionTraceObserver
from flambeau.profiler._steps import (
    ProfilerAction,
    _default_schedule_fn,
    _ExperimentalConfig,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

PROFILER_STEP_NAME = "ProfilerStep"
_cleared_events_told = False


def _parsed_activities(activities: Iterable[Any] | None) -> set[ProfilerActivity]:
    """Return the activities; a dict maps an activity to its filter, which is ignored."""
    if activities is None:
        return supported_activities()
    found: set[ProfilerActivity] = set()
    for one in activities:
        found |= set(one) if isinstance(one, dict) else {one}
    if not found:
        raise AssertionError(
            "profile: expected one activity or more, got none (no valid profiler activities)"
        )
    return found


class _KinetoProfile:
    """A profile without steps, which `start` and `stop` control.

    Args:
        activities: the kinds of work to record. Default: the CPU's.
        record_shapes: whether sizes and values of arguments are kept.
        profile_memory: whether memory that tensors allocate and release is recorded.
        with_stack: whether Python functions and calls of modules are recorded too.
        with_flops: whether floating-point operations are counted.
        with_modules: accepted; `with_stack` records calls of modules.
        experimental_config: accepted.
        execution_trace_observer: an `ExecutionTraceObserver`, which records as long as the profile does.
        acc_events: whether the events of earlier cycles are kept.
        custom_trace_id_callback: returns the name of a trace.
        post_processing_timeout_s: accepted.
    Raises: AssertionError if `activities` is empty.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = _parsed_activities(activities)
        self.record_shapes, self.with_flops = record_shapes, with_flops
        self.profile_memory, self.with_stack = profile_memory, with_stack
        self.with_modules, self.experimental_config = with_modules, experimental_config
        self.execution_trace_observer = (
            execution_trace_observer or ExecutionTraceObserver.build_execution_trace_obs_from_env()
        )
        self.acc_events, self.custom_trace_id_callback = acc_events, custom_trace_id_callback
        self.profiler: prof.profile | None = None
        self.preset_metadata: dict[str, str] = {}
        self._metadata: dict[str, str] = {}

    def start(self) -> None:
        """Start recording."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """End recording."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Prepare for `start_trace`."""
        if self.profiler is None or not self.acc_events:
            if self.profiler is not None and not self.acc_events:
                self._tell_cleared()
            self.profiler = prof.profile(
                use_cpu=ProfilerActivity.CPU in self.activities,
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_modules=self.with_modules,
                use_kineto=True,
                experimental_config=self.experimental_config,
                acc_events=self.acc_events,
                custom_trace_id_callback=self.custom_trace_id_callback,
            )
        self.profiler._prepare_trace()

    @staticmethod
    def _tell_cleared() -> None:
        global _cleared_events_told
        if not _cleared_events_told:
            _cleared_events_told = True
            warnings.warn(
                "profile: each cycle starts with an empty list of events, so the results contain only "
                "the last cycle; acc_events=True keeps the events of all cycles",
                stacklevel=4,
            )

    def _made(self, what: str) -> prof.profile:
        if self.profiler is None:
            raise AssertionError(
                f"profile: it must be initialized before {what}; enter the block or call start()"
            )
        return self.profiler

    def start_trace(self) -> None:
        """Start recording, after `prepare_trace`."""
        profiler, observer = self._made("starting trace"), self.execution_trace_observer
        profiler._keeps_results = observer is not None and observer.is_registered
        profiler._start_trace()
        if observer is not None and observer.is_registered:
            observer._begun()
        self._metadata |= self.preset_metadata

    def stop_trace(self) -> None:
        """End recording."""
        profiler = self._made("stopping trace")
        profiler.__exit__(None, None, None)
        if profiler._keeps_results and self.execution_trace_observer is not None:
            self.execution_trace_observer._finished(profiler._recording)

    def export_chrome_trace(self, path: str) -> None:
        """Write the trace for chrome://tracing and Perfetto; compressed if `path` ends in ``.gz``."""
        profiler = self._made("exporting chrome trace")
        if profiler._recording is not None:
            profiler._recording.metadata = dict(self._metadata)
        profiler.export_chrome_trace(path)

    def export_html(self, path: str) -> None:
        """Write an HTML page with the timeline and the memory curve; it needs no other file.

        Args:
            path: the file; an existing file is replaced.
        """
        from flambeau.profiler._timeline import write_page

        profiler = self._made("exporting a page")
        profiler._finished()
        if profiler._recording is not None:
            write_page(profiler._recording, path)

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write the lifetimes of memory blocks, and the blocks that are alive at the peak.

        The end of `path` chooses the format. A page (``.html``) draws bytes by category over time and each
        block as a band, marks the peak, and lists the blocks at the peak by operator and, with `with_stack`,
        by callers. A file ``.raw.json.gz`` has a row (time in ns, action, bytes, category) for each
        allocation (2) and release (4), and for each block that parameters and optimizers held before (1, at
        time -1). Any other file has the times, and the bytes by category at each time; it is compressed if
        its name ends in ``.gz``. Blocks that were allocated before the profile count until the profile ends.

        Categories are, by number: parameter, optimizer state, input, temporary, activation, gradient,
        autograd detail, unknown. Parameters, their gradients and the states of optimizers are those that
        exist when the profile ends. Other blocks that a backward pass allocates are autograd detail if a
        backward pass releases them, otherwise gradients. Any other block is an activation if a backward pass
        releases it, temporary if it is released elsewhere, and otherwise unknown. No block is an input.

        Args:
            path: the file; an existing file is replaced.
            device: "cpu", because memory of other devices is not recorded. Default: "cpu".
        Raises: ValueError if the profile was made without `profile_memory`, or for another device.

        Example:
            >>> with flambeau.profiler.profile(profile_memory=True) as p:
            ...     _ = flambeau.ones(1000).exp()
            >>> p.export_memory_timeline("/tmp/memory.html")
        """
        from flambeau.profiler._memory_timeline import write_memory

        if not self.profile_memory:
            raise ValueError("export_memory_timeline: expected a profile with profile_memory=True, got False")
        if device not in (None, "cpu"):
            raise ValueError(f"export_memory_timeline: expected device 'cpu', got {device!r}")
        profiler = self._made("exporting memory")
        profiler._finished()
        if profiler._recording is not None:
            write_memory(profiler._recording, path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write stacks with the sum of a metric; see `EventList.export_stacks`."""
        self._made("exporting stacks").export_stacks(path, metric)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Pause or resume recording; see `autograd.profiler.profile`."""
        self._made("toggling collection").toggle_collection_dynamic(enable, activities)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return the sums of events by name; see `EventList.key_averages`."""
        profiler = self._made("getting key averages")
        return profiler.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def events(self) -> EventList:
        """Return the events, in the order of their start."""
        return self._made("accessing events").function_events

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the trace, under a key."""
        self.add_metadata_json(key, json.dumps(value))

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value in JSON to the trace, under a key."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Add a value in JSON to every trace that starts later."""
        self.preset_metadata[key] = json.loads(value)


_Step = Callable[[int], ProfilerAction]
_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile(_KinetoProfile):
    """Context manager that records the operations of the thread, in the steps that a schedule chooses.

    Operators, functions of the backward graph and ranges become events with times and, on request, with
    memory, shapes, stacks and FLOPs. Other threads are not recorded.

    Args:
        activities: the kinds of work to record. Default: the CPU's. Other devices are ignored.
        schedule: maps the number of a step to a `ProfilerAction`; None records everything.
        on_trace_ready: called with the profile after each step `RECORD_AND_SAVE` and at the end.
        record_shapes: whether sizes and values of arguments are kept.
        profile_memory: whether memory that tensors allocate and release is recorded.
        with_stack: whether Python functions and calls of modules are recorded too.
        with_flops: whether floating-point operations are counted.
        with_modules: accepted; `with_stack` records calls of modules.
        experimental_config: accepted.
        execution_trace_observer: an `ExecutionTraceObserver`, which records as long as the profile does.
        acc_events: whether the events of earlier cycles are kept.
        use_cuda: accepted.
        custom_trace_id_callback: returns the name of a trace.
        post_processing_timeout_s: accepted.
    Raises: AssertionError if `activities` is empty, or if a method needs a trace that has not started.

    Example:
        >>> from flambeau.profiler import profile
        >>> with profile(record_shapes=True) as p:
        ...     _ = flambeau.ones(2, 3) @ flambeau.ones(3, 4)
        >>> [e.input_shapes for e in p.events() if e.name == "aten::mm"]
        [[[2, 3], [3, 4]]]
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: _Step | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.schedule: _Step = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.step_rec_fn: record_function | None = None

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)

    def start(self) -> None:
        """Start the first step."""
        KinetoStepTracker.init_step_count(PROFILER_STEP_NAME)
        self._change(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        """End the last step; call `on_trace_ready` if a trace was recorded."""
        self._end_step()
        self._change(self.current_action, None)

    def step(self) -> None:
        """End a step and start the next one."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._change(before, self.current_action)
        KinetoStepTracker.increment_step(PROFILER_STEP_NAME)
        self._begin_step()

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Set the function that names traces."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """Return the name of the trace, or None before the first."""
        return None if self.profiler is None else self.profiler.trace_id

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function(f"{PROFILER_STEP_NAME}#{self.step_num}")
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__(None, None, None)
            self.step_rec_fn = None

    def _change(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """Perform the transition between the actions of two steps; `after` is None at the end."""
        if before is ProfilerAction.RECORD_AND_SAVE or (before in _RECORDING and after is None):
            self.stop_trace()
            self._tell_ready()
            before = ProfilerAction.NONE
        if after in _RECORDING:
            if before is ProfilerAction.NONE:
                self.prepare_trace()
            if before not in _RECORDING:
                self.start_trace()
        elif after is ProfilerAction.WARMUP:
            if before in _RECORDING:
                self._drop()
            if before is not ProfilerAction.WARMUP:
                self.prepare_trace()
        elif before in _RECORDING:
            self._drop()

    def _drop(self) -> None:
        """Discard the recording, because the schedule does not save it."""
        warnings.warn("Incorrect schedule: RECORD followed by NONE or WARMUP", stacklevel=4)
        self.stop_trace()

    def _tell_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)


_KEPT = (_ExperimentalConfig,)
__getattr__, __dir__ = attributes(__name__)
