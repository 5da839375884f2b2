"""Timing of statements: `Timer` measures, `Measurement` holds the times, `Compare` prints a table of them.

`Fuzzer` draws tensors to measure with.
"""

from flambeau._loading.lazy import attributes
from flambeau.utils.benchmark.utils.common import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    set_torch_threads,
    trim_sigfig,
    unit_to_english,
)
from flambeau.utils.benchmark.utils.compare import Colorize, Compare
from flambeau.utils.benchmark.utils.fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
from flambeau.utils.benchmark.utils.sparse_fuzzer import FuzzedSparseTensor
from flambeau.utils.benchmark.utils.timer import Language, Timer, timer
from flambeau.utils.benchmark.utils.valgrind_wrapper.timer_interface import (
    CallgrindStats,
    CopyIfCallgrind,
    FunctionCount,
    FunctionCounts,
)

__all__ = [
    "CallgrindStats",
    "Colorize",
    "Compare",
    "CopyIfCallgrind",
    "FunctionCount",
    "FunctionCounts",
    "FuzzedParameter",
    "FuzzedSparseTensor",
    "FuzzedTensor",
    "Fuzzer",
    "Language",
    "Measurement",
    "ParameterAlias",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "set_torch_threads",
    "timer",
    "trim_sigfig",
    "unit_to_english",
]

__getattr__, __dir__ = attributes(__name__)
