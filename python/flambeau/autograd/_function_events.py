"""Single events of a profile, and sums of them."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple
from warnings import warn

from flambeau.autograd._event_table import format_time


class DeviceType(enum.IntEnum):
    """Kinds of devices on which an event can run."""

    CPU = 0
    CUDA = 1
    MKLDNN = 2
    OPENGL = 3
    OPENCL = 4
    IDEEP = 5
    HIP = 6
    FPGA = 7
    MAIA = 8
    XLA = 9
    Vulkan = 10
    Metal = 11
    XPU = 12
    MPS = 13
    Meta = 14
    HPU = 15
    VE = 16
    Lazy = 17
    IPU = 18
    MTIA = 19
    PrivateUse1 = 20

    def __str__(self) -> str:
        return f"DeviceType.{self.name}"


class Kernel(NamedTuple):
    """Work of a device that an operator started.

    Args:
        name: of the kernel.
        device: the index of the device.
        duration: microseconds.

    Example:
        >>> from flambeau.autograd.profiler_util import Kernel
        >>> Kernel("copy", 0, 2.5).duration
        2.5
    """

    name: str
    device: int
    duration: float


class Interval:
    """A time from `start` to `end`, in microseconds since the profile began.

    Args:
        start: microseconds.
        end: microseconds.

    Example:
        >>> from flambeau.autograd.profiler_util import Interval
        >>> Interval(2.0, 5.0).elapsed_us()
        3.0
    """

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Return the length in microseconds."""
        return self.end - self.start


def _renamed(old: str, new: str) -> property:
    """A property under its earlier name, which warns."""

    def get(self: Any) -> Any:
        warn(f"{old} is deprecated: use {new} instead", FutureWarning, stacklevel=2)
        return getattr(self, new)

    return property(get, doc=f"`{new}`, under its earlier name.")


class FormattedTimesMixin:
    """Times of an event as text, in ms or s where they are long, and averages per call.

    Example:
        >>> from flambeau.autograd.profiler_util import FunctionEvent
        >>> FunctionEvent(0, "f", 1, 0, 2500).cpu_time_str
        '2.500ms'
    """

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float

    @property
    def cpu_time(self) -> float:
        """Microseconds of a call, on average."""
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Microseconds of a call on a device other than the CPU, on average."""
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    cuda_time = _renamed("cuda_time", "device_time")

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` with its unit."""
        return format_time(self.cpu_time)

    @property
    def device_time_str(self) -> str:
        """`device_time` with its unit."""
        return format_time(self.device_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` with its unit."""
        return format_time(self.cpu_time_total)

    @property
    def device_time_total_str(self) -> str:
        """`device_time_total` with its unit."""
        return format_time(self.device_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` with its unit."""
        return format_time(self.self_cpu_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        """`self_device_time_total` with its unit."""
        return format_time(self.self_device_time_total)


class FunctionEvent(FormattedTimesMixin):
    """One call of an operator, function of the backward graph, or range.

    Args:
        id: a number that no other call of an operator in the profile has.
        name: such as ``"aten::add"``.
        thread: the number of the thread.
        start_us: microseconds since the profile began.
        end_us: microseconds since the profile began.
        overload_name: of the operator, such as ``"Tensor"``.
        fwd_thread: the thread of the forward operator, for functions of the backward graph; else 0.
        input_shapes: a list of sizes per argument; empty for what is not a tensor.
        stack: lines of Python code, the innermost first.
        scope: 0: operator, 1: function of the backward graph, 7: range of the user.
        use_device: the name of another device that was recorded; None for the CPU alone.
        cpu_memory_usage: bytes allocated minus bytes released, including those of `cpu_children`.
        device_memory_usage: the same on a device other than the CPU.
        is_async: whether the event ended after the call returned.
        is_remote: whether it ran in another process.
        sequence_nr: of the node that the operator made, or that ran; -1 for others.
        node_id: the rank of the process, where there are several; -1 for others.
        device_type: the kind of the device that ran it.
        device_index: the number of the device.
        device_resource_id: the number of the device's queue; None: the thread.
        is_legacy: whether it is of PyTorch's older profiler.
        flops: floating-point operations; 0 if the operator has no formula.
        trace_name: the name in traces; None: `name`.
        **kwargs: further facts, each an attribute of its name, such as `concrete_inputs` and
            `is_user_annotation`.

    Example:
        >>> from flambeau.autograd.profiler_util import FunctionEvent
        >>> outer, inner = FunctionEvent(0, "f", 1, 0, 10), FunctionEvent(1, "g", 1, 2, 5)
        >>> outer.append_cpu_child(inner)
        >>> outer.self_cpu_time_total
        7
    """

    concrete_inputs: Any = None  # the values of arguments that are not tensors
    kwinputs: dict[str, Any] | None = None  # named arguments of kernels
    is_user_annotation: bool = False  # whether it is a range of `record_function`
    is_python_function: bool = False  # whether it is a call of Python code, of a profile with stacks
    structured_input_shapes: Any = None  # as `input_shapes`, with a list per list of tensors
    structured_input_strides: Any = None
    input_dtypes: Any = None  # PyTorch's names of the types of arguments
    activity_type: str | None = None  # the category in traces, such as "cpu_op"
    external_id: int = 0  # `id` as in traces; 0 for calls of Python code
    flow_id: int | None = None  # the same number for an operator and the node it made; 0 for others
    flow_type: int | None = None  # 1 for an end of such a pair; 0 for others
    flow_start: bool | None = None  # whether it is the operator of the pair
    linked_correlation_id: int = 0  # of the call that started work of a device
    python_id: int = -1  # a number for calls of Python code
    python_parent_id: int = -1  # the `python_id` of the caller
    python_module_id: int = -1  # the number in the name of a module's call
    self_cpu_percent = total_cpu_percent = total_device_percent = -1  # filled in by tables of PyTorch
    event_metadata: Any = None  # facts that the recorder of a device added
    _metadata_json: str | None = None

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: Any = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.id, self.node_id, self.name, self.thread = id, node_id, name, thread
        self.fwd_thread, self.sequence_nr, self.flops = fwd_thread, sequence_nr, flops
        self.overload_name = overload_name
        self.trace_name = name if trace_name is None else trace_name
        self.time_range = Interval(start_us, end_us)
        self.input_shapes, self.stack, self.scope = input_shapes, stack or [], scope
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote, self.is_legacy = is_async, is_remote, is_legacy
        self.use_device, self.device_type, self.device_index = use_device, device_type, device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self._begin_tree()
        self._metadata_json = kwargs.pop("metadata_json", None)
        self.__dict__.update(kwargs)

    def _begin_tree(self) -> None:
        self.count = 1
        self.kernels: list[Kernel] = []
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self._may_use_devices = True

    @property
    def key(self) -> str:
        """The name, by which events are averaged."""
        return self.name

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Add work of a device that the event started."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event that ran within this one, on the same thread."""
        if not isinstance(child, FunctionEvent):
            raise AssertionError(f"append_cpu_child: expected a FunctionEvent, got {type(child).__name__}")
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the event within which this one ran."""
        if not isinstance(parent, FunctionEvent):
            raise AssertionError(f"set_cpu_parent: expected a FunctionEvent, got {type(parent).__name__}")
        self.cpu_parent = parent

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """Microseconds from the start to the end; 0 for events of other devices."""
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """`cpu_time_total` without that of `cpu_children`."""
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of `kernels` and of those of `cpu_children`."""
        if not self._may_use_devices:
            return 0
        own = sum(kernel.duration for kernel in self.kernels)
        return own + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of `kernels`."""
        return sum((kernel.duration for kernel in self.kernels), 0)

    @property
    def self_cpu_memory_usage(self) -> int:
        """`cpu_memory_usage` without that of `cpu_children`."""
        if self.is_async or self.device_type != DeviceType.CPU:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """`device_memory_usage` without that of `cpu_children`."""
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    cuda_time_total = _renamed("cuda_time_total", "device_time_total")
    self_cuda_time_total = _renamed("self_cuda_time_total", "self_device_time_total")
    self_cuda_memory_usage = _renamed("self_cuda_memory_usage", "self_device_memory_usage")
    metadata_json = _renamed("metadata_json", "_metadata_json")

    def __repr__(self) -> str:
        span, device = self.time_range, self.use_device
        return (
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={span.start} end_us={span.end} cpu_children={[c.id for c in self.cpu_children]} "
            f"{device}_time={self.device_time_str} name={self.name} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr} is_legacy={self.is_legacy}>"
        )


_SUMMED = (
    "cpu_time_total",
    "device_time_total",
    "self_cpu_time_total",
    "self_device_time_total",
    "cpu_memory_usage",
    "device_memory_usage",
    "self_cpu_memory_usage",
    "self_device_memory_usage",
)
_OF_THE_FIRST = (
    "key",
    "node_id",
    "is_async",
    "is_remote",
    "use_device",
    "input_shapes",
    "overload_name",
    "stack",
    "scope",
    "cpu_parent",
    "device_type",
    "is_legacy",
    "is_user_annotation",
)


class FunctionEventAvg(FormattedTimesMixin):
    """The sum of events with one key: times and memory of all, facts of the first.

    Example:
        >>> from flambeau.autograd.profiler_util import FunctionEvent, FunctionEventAvg
        >>> sums = FunctionEventAvg()
        >>> for call in range(3):
        ...     _ = sums.add(FunctionEvent(call, "f", 1, 0, 10))
        >>> sums.count, sums.cpu_time_total
        (3, 30)
    """

    def __init__(self) -> None:
        for name in _OF_THE_FIRST:
            setattr(self, name, None)
        for name in _SUMMED:
            setattr(self, name, 0)
        self.key: str | None = None
        self.count = 0
        self.is_async = self.is_remote = self.is_legacy = False
        self.cpu_children: list[FunctionEvent] | None = None
        self.device_type = DeviceType.CPU
        self.flops = 0

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event, or another sum of events with the same key."""
        if self.key is None:
            for name in _OF_THE_FIRST:
                setattr(self, name, getattr(other, name))
            self.cpu_children = other.cpu_children
        if not isinstance(other, FunctionEvent | FunctionEventAvg):
            raise AssertionError(f"add: expected an event, got {type(other).__name__}")
        if other.key != self.key:
            raise AssertionError(f"add: expected an event with the key {self.key}, got {other.key}")
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.count += other.count
        self.flops = (self.flops or 0) + (other.flops or 0)
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        device = self.use_device or "cuda"  # type: ignore[attr-defined]
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes or ''} "  # type: ignore[attr-defined]
            f"cpu_memory_usage={self.cpu_memory_usage} "  # type: ignore[attr-defined]
            f"{device}_memory_usage={self.device_memory_usage}>"  # type: ignore[attr-defined]
        )
