"""Timing of statements: `Timer` measures, `Measurement` holds the times, `Compare` prints a table of them."""

from flambeau._loading.lazy import attributes
from flambeau.utils.benchmark.utils.common import Measurement, TaskSpec, ordered_unique, select_unit
from flambeau.utils.benchmark.utils.compare import Compare
from flambeau.utils.benchmark.utils.timer import Language, Timer, timer

__all__ = [
    "Compare",
    "Language",
    "Measurement",
    "TaskSpec",
    "Timer",
    "ordered_unique",
    "select_unit",
    "timer",
]

__getattr__, __dir__ = attributes(__name__)
