"""measure: the model of any module, from one forward and backward pass over tensors without elements."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed.simulate import _numbers as numbers
from flambeau.distributed.simulate._hardware import BYTES
from flambeau.distributed.simulate._work import Amount, Layer, Model, Weight
from flambeau.nn.modules.module import Module
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_leaves


@dataclass
class _Segment:
    """Operators that run one after another, in a unit or outside of all units."""

    name: str
    group: str
    forward: float = 0.0
    products_of_weights: float = 0.0  # operations of forward with a parameter as an operand
    backward: float = 0.0
    moved: float = 0.0
    kernels: list[int] = field(default_factory=lambda: [0, 0])
    saved: dict[int, int] = field(default_factory=dict)  # storage -> bytes
    output: float = 0.0
    weights: list[Weight] = field(default_factory=list)

    def layer(self, samples: int) -> Layer:
        weight_grads = min(self.products_of_weights, self.backward)
        return Layer(
            name=self.name,
            group=self.group,
            weights=tuple(self.weights),
            forward=self.forward / samples,
            input_grads=(self.backward - weight_grads) / samples,
            weight_grads=weight_grads / samples,
            moved=Amount(0.0, self.moved / samples),
            saved=Amount(0.0, sum(self.saved.values()) / samples),
            output=self.output / samples,
            kernels=(self.kernels[0], self.kernels[1]),
        )


def _extent(t: Any) -> int:
    """Return the bytes that a tensor spans in its storage."""
    reach = t.storage_offset() + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1
    return int(reach * t.element_size()) if t.numel() else 0


def _nbytes(values: Iterable[Any]) -> int:
    tensors = [value for value in values if isinstance(value, Tensor)]
    return sum(t.numel() * t.element_size() for t in tensors)


class _Recorder(TorchDispatchMode):
    """Attributes operators, and tensors that autograd keeps, to segments.

    Args:
        parameters: storage -> the name of the parameter.
        matrices: the names of those with several dimensions.
    """

    def __init__(self, parameters: dict[int, str], matrices: frozenset[str]) -> None:
        super().__init__()
        from flambeau.utils.flop_counter import flop_registry

        self.formulas, self.parameters, self.matrices = flop_registry, parameters, matrices
        self.segments: list[_Segment] = []
        self.current: _Segment | None = None
        self.users: dict[str, _Segment] = {}  # parameter -> where it is used first
        self.in_backward = False
        self.is_on = False
        self._known: dict[int, _Segment] = {}  # storage that is kept -> by which segment
        self._kept: list[Tensor] = []  # so that no storage of them is used again

    def at(self) -> _Segment:
        """Return the segment that runs; operators outside of units begin one."""
        if self.current is None:
            self.current = self.begin("outside", "")
        return self.current

    def begin(self, name: str, group: str) -> _Segment:
        """Begin a segment."""
        self.current = _Segment(name, group)
        self.segments.append(self.current)
        return self.current

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if self.is_on and not func.is_view:
            self._record(func, args, kwargs or {}, out)
        return out

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        segment, given = self.at(), tree_leaves((args, kwargs))
        segment.kernels[self.in_backward] += 1
        formula = self.formulas.get(func.overloadpacket)
        flops = formula(*args, **kwargs, out_val=out) if formula is not None else 0
        if self.in_backward:
            segment.backward += flops
            return
        segment.forward += flops
        names = [name for value in given if (name := self._parameter(value)) is not None]
        for name in names:
            self.users.setdefault(name, segment)
        if formula is None:
            written = _nbytes(tree_leaves(out))
            read = [value for value in given if self._parameter(value) is None]
            # An embedding reads as many rows of its table as it writes.
            tables = (_nbytes([value]) for value in given if self._parameter(value) is not None)
            segment.moved += written + _nbytes(read) + sum(min(n, written) for n in tables)
        elif any(name in self.matrices for name in names):
            segment.products_of_weights += flops

    def _parameter(self, value: Any) -> str | None:
        elem = getattr(value, "_elem", None)
        return None if elem is None else self.parameters.get(elem._storage_id())

    def keep(self, t: Any) -> Any:
        """Count a tensor that autograd saves, once per storage."""
        elem = getattr(t, "_elem", None)
        if self.is_on and elem is not None and self._parameter(t) is None:
            key = elem._storage_id()
            segment = self._known.setdefault(key, self.at())
            segment.saved[key] = max(segment.saved.get(key, 0), _extent(elem))
            self._kept.append(elem)
        return t


def _is_named(name: str, pattern: str) -> bool:
    """Whether a pattern names a module; ``*`` stands for anything between two dots."""
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


class _Units:
    """Hooks of the modules that are units, which tell the recorder what runs."""

    def __init__(self, module: Module, patterns: Sequence[str], recorder: _Recorder) -> None:
        self.recorder = recorder
        self.names: list[str] = []
        self.handles: list[Any] = []
        for name, inner in module.named_modules():
            if any(_is_named(name, pattern) for pattern in patterns):
                self._check(name)
                self.names.append(name)
                self._watch(name, inner)
        if patterns and not self.names:
            raise ValueError(f"measure: expected units that name modules, got {list(patterns)}")

    def _check(self, name: str) -> None:
        outer = [other for other in self.names if name.startswith(f"{other}.")]
        if outer or not name:
            raise ValueError(f"measure: expected units beside each other, got {name!r} within {outer or '.'}")

    def _watch(self, name: str, module: Module) -> None:
        recorder = self.recorder

        def before(_: Any, args: Any, kwargs: Any) -> None:
            if recorder.in_backward:  # forward is repeated for a checkpoint
                return
            outside = recorder.current
            inputs = tree_leaves((args, kwargs))
            if outside is not None:
                outside.output = _nbytes(inputs)
                self._on_gradients(inputs, outside)
            recorder.begin(name, name)

        def after(_: Any, args: Any, output: Any) -> None:
            if recorder.in_backward:
                return
            segment = recorder.at()
            segment.output = _nbytes(tree_leaves(output))
            self._on_gradients(tree_leaves(output), segment)
            recorder.current = None

        self.handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self.handles.append(module.register_forward_hook(after))

    def _on_gradients(self, values: Iterable[Any], segment: _Segment) -> None:
        """Let gradients of tensors announce the backward pass of a segment."""

        def announce(_: Tensor) -> None:
            self.recorder.current = segment

        for value in values:
            if isinstance(value, Tensor) and value.requires_grad:
                value.register_hook(announce)

    def group_of(self, parameter: str) -> str:
        """Return the unit that a parameter is in."""
        return next((name for name in self.names if parameter.startswith(f"{name}.")), "")

    def remove(self) -> None:
        """Take the hooks off."""
        for handle in self.handles:
            handle.remove()


def measure(
    module: Module, *inputs: Any, units: Sequence[str] = (), samples: int | None = None, name: str = "module"
) -> Model:
    """Describe a module by one forward and backward pass over fake tensors.

    Operations are those of the formulas of `utils.flop_counter`. Kept bytes are those of storages that
    autograd saves, without parameters. Moved bytes are those of arguments and results of all other operators
    except views. The module keeps its parameters and gradients, and no element is computed.

    Args:
        module: the module, whose parameters have one dtype and need gradients.
        *inputs: its arguments; tensors may be on the device "meta".
        units: patterns of names of modules, such as "blocks.*": each is a group of layers, as if
            `fully_shard` were applied to it. Operators outside of units are the group of the root.
        samples: the samples in the inputs. Default: the first size of the first tensor.
        name: what tables show.
    Returns: the model, for plans with tensor=1.
    Raises: ValueError for units that name no modules or are inside each other, parameters of several dtypes
        or without gradients, and modules without parameters; TypeError if `module` is no module.
    See also: distributed.simulate.transformer, utils.flop_counter.FlopCounterMode

    Example:
        >>> from flambeau.distributed.simulate import measure
        >>> net = flambeau.nn.Sequential(flambeau.nn.Linear(8, 16), flambeau.nn.ReLU())
        >>> model = measure(net, flambeau.ones(4, 8), units=["0"])
        >>> model.layers[0].name, model.layers[0].forward  # 2 * 8 * 16 operations per sample
        ('0', 256.0)
    """
    from flambeau._subclasses.fake_tensor import FakeTensorMode

    numbers.kind("measure", "module", module, Module)
    parameters = dict(module.named_parameters())
    dtype = _dtype_of(parameters)
    count = _samples(inputs) if samples is None else numbers.count("measure", "samples", samples)
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(value: Any) -> Any:
        return mode.from_tensor(value) if isinstance(value, Tensor) else value

    fakes = {key: fake(value) for key, value in parameters.items()}
    buffers = {key: fake(value) for key, value in module.named_buffers()}
    matrices = frozenset(key for key, value in parameters.items() if value.dim() > 1)
    recorder = _Recorder({value._elem._storage_id(): key for key, value in fakes.items()}, matrices)
    hooks = _Units(module, tuple(units), recorder)
    try:
        with mode, recorder:
            _run(module, fakes | buffers, tuple(fake(value) for value in inputs), recorder)
    finally:
        hooks.remove()
    _place_weights(parameters, recorder, hooks)
    layers = tuple(segment.layer(count) for segment in recorder.segments)
    return Model(layers, dtype, None, name, None)


def _dtype_of(parameters: Mapping[str, Tensor]) -> str:
    names = sorted({str(p.dtype).rpartition(".")[2] for p in parameters.values()})
    if len(names) != 1 or names[0] not in BYTES:
        raise ValueError(
            f"measure: expected parameters of one dtype among {', '.join(BYTES)}, got "
            f"{', '.join(names) or 'none'}"
        )
    frozen = [key for key, value in parameters.items() if not value.requires_grad]
    if frozen:
        raise ValueError(f"measure: expected parameters that need gradients, got {', '.join(frozen)} without")
    return names[0]


def _samples(inputs: tuple[Any, ...]) -> int:
    tensors = [value for value in tree_leaves(inputs) if isinstance(value, Tensor) and value.dim()]
    if not tensors or not tensors[0].size(0):
        raise ValueError("measure: expected samples, or a tensor with samples as an input, got neither")
    return tensors[0].size(0)


def _run(module: Module, state: dict[str, Any], inputs: tuple[Any, ...], recorder: _Recorder) -> None:
    """Run forward and backward; the sum of results that are no scalar does not count."""
    from flambeau.autograd.graph import saved_tensors_hooks

    with saved_tensors_hooks(recorder.keep, lambda t: t):
        recorder.is_on = True
        output = flambeau.func.functional_call(module, state, inputs)
        recorder.is_on = False
        results = [t for t in tree_leaves(output) if isinstance(t, Tensor) and t.requires_grad]
        if not results:
            raise ValueError("measure: expected results that need gradients, got none")
        last = recorder.segments[-1]
        last.output = last.output or _nbytes(results)
        totals = [t if t.dim() == 0 else t.sum() for t in results]
        recorder.current, recorder.in_backward, recorder.is_on = last, True, True
        flambeau.autograd.backward(totals)
        recorder.is_on = False


def _place_weights(parameters: Mapping[str, Tensor], recorder: _Recorder, hooks: _Units) -> None:
    """Give each parameter to the first segment of its group that uses it."""
    for key, value in parameters.items():
        group = hooks.group_of(key)
        of_group = [segment for segment in recorder.segments if segment.group == group]
        user = recorder.users.get(key)
        if user is None or user.group != group:
            if not of_group:
                raise ValueError(f"measure: expected a forward pass through {group or 'the root'}, got none")
            user = of_group[0]
        shape = tuple(value.shape)
        user.weights.append(Weight(key, shape if shape else (math.prod(shape),)))
