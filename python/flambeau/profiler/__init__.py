"""Profiles: the operators that ran, their times and their memory (docs/profiling.md).

>>> import flambeau as fb
>>> from flambeau.profiler import profile
>>> with profile() as p:
...     _ = (fb.ones(4) + 1).sum()
>>> [average.key for average in p.key_averages()][:2]
['aten::ones', 'aten::add']
"""

from flambeau._loading.lazy import attributes
from flambeau._state.profiling import record_function
from flambeau.autograd.profiler import KinetoStepTracker, ProfilerActivity, kineto_available
from flambeau.autograd.profiler_util import DeviceType
from flambeau.profiler import itt
from flambeau.profiler._scopes import RecordScope
from flambeau.profiler.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    _ExperimentalConfig,
    _KinetoProfile,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "DeviceType",
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

_supported_activities = supported_activities
_KEPT = (KinetoStepTracker, RecordScope, _ExperimentalConfig, _KinetoProfile, itt)

__getattr__, __dir__ = attributes(__name__)
