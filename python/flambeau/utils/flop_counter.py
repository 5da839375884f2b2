"""Counts the floating-point operations of matrix products, convolutions and attention.

A product of an (m, k) and a (k, n) matrix counts 2 m k n. `FlopCounterMode` counts what runs within its
``with`` block, forward and backward, by module and operator. Products of a matrix with a vector, pointwise
operators and reductions are not counted, as in PyTorch. The formulas are those of native_functions.yaml.

>>> import flambeau as fb
>>> with FlopCounterMode(display=False) as counter:
...     y = fb.ones(3, 4) @ fb.ones(4, 5)
>>> counter.get_total_flops()
120
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau import ops
from flambeau._C import Tensor
from flambeau._overrides.inventory import resolve_name
from flambeau.overrides import TorchFunctionMode
from flambeau.utils import _flops
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils._pytree import tree_map
from flambeau.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

aten = ops.aten
Shape = Sequence[int]
flop_registry: dict[Any, Callable[..., int]] = {}


def get_shape(value: Any) -> Any:
    """Return the shape of a tensor, and anything else as it is."""
    return value.shape if isinstance(value, Tensor) else value


def shape_wrapper(formula: Callable[..., int]) -> Callable[..., int]:
    """Let a formula of shapes be called with tensors: `out_val` becomes `out_shape`."""

    @functools.wraps(formula)
    def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out_shape = tree_map(get_shape, (args, kwargs, out_val))
        return formula(*args, out_shape=out_shape, **kwargs)

    return counted


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Any], Any]:
    """Decorate a function that counts the operations of custom operators for `FlopCounterMode`.

    Matrix products, convolutions and attention have formulas already; other operators of aten are not
    counted.

    Args:
        targets: an operator of `flambeau.ops`, or a list of them.
        get_raw: whether the function receives the arguments and `out_val` themselves instead of their shapes
            and `out_shape`.
    Returns: the decorator.
    Raises: ValueError if a target is not an operator of `flambeau.ops`, RuntimeError if it has a formula
        already.

    Example:
        >>> from flambeau.utils.flop_counter import FlopCounterMode, register_flop_formula
        >>> @flambeau.library.custom_op("docs::total", mutates_args=())
        ... def total(x: flambeau.Tensor) -> flambeau.Tensor:
        ...     return x.sum()
        >>> @register_flop_formula(flambeau.ops.docs.total)
        ... def total_flops(x_shape, out_shape=None, **kwargs):
        ...     return x_shape[0] - 1
        >>> with FlopCounterMode(display=False) as counter:
        ...     _ = total(flambeau.ones(5))
        >>> counter.get_total_flops()
        4
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for target in targets if isinstance(targets, list | tuple) else [targets]:
            if not isinstance(target, ops.OverloadPacket):
                raise ValueError(f"register_flop_formula: expected operators of flambeau.ops, got {target!r}")
            if target in flop_registry:
                raise RuntimeError(f"register_flop_formula: duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else shape_wrapper(formula)
        return formula

    return register


# --- formulas of the specification ----------------------------------------------------------------

_OPERATORS: dict[Any, Any] = {}  # operator -> the one under which its calls are counted
for _name, (_shown, _formula) in _flops.COUNTED.items():
    flop_registry[getattr(aten, _name)] = shape_wrapper(_formula)
    _OPERATORS[getattr(aten, _name)] = getattr(aten, _shown)


def _of(name: str, *shapes: Any, out_shape: Any = None) -> int:
    """Return the operations of an operator's call with tensors of these sizes."""
    return _flops.COUNTED[name][1](*shapes, out_shape=out_shape)


def _check_equal(function: str, what: str, first: int, second: int) -> None:
    if first != second:
        raise AssertionError(f"{function}: expected equal {what}, got {first} and {second}")


def mm_flop(a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Return the operations of a product of two matrices."""
    _check_equal("mm_flop", "inner sizes", a_shape[1], b_shape[0])
    return _of("mm", a_shape, b_shape)


def addmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """Return the operations of a matrix plus a product: those of the product."""
    _check_equal("addmm_flop", "inner sizes", a_shape[1], b_shape[0])
    return _of("addmm", self_shape, a_shape, b_shape)


def bmm_flop(a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """Return the operations of a batch of products."""
    _check_equal("bmm_flop", "batch sizes", a_shape[0], b_shape[0])
    _check_equal("bmm_flop", "inner sizes", a_shape[2], b_shape[1])
    return _of("bmm", a_shape, b_shape)


def baddbmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """Return the operations of a batch plus products: those of the products."""
    _check_equal("baddbmm_flop", "batch sizes", a_shape[0], b_shape[0])
    _check_equal("baddbmm_flop", "inner sizes", a_shape[2], b_shape[1])
    return _of("baddbmm", self_shape, a_shape, b_shape)


def conv_flop_count(x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False) -> int:
    """Return the operations of a convolution: 2 per entry of the weight and place of the window."""
    options = (None, (), (), (), transposed, (), 1)
    return _of("convolution", x_shape, w_shape, *options, out_shape=out_shape)


def conv_flop(
    x_shape: Shape,
    w_shape: Shape,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Return the operations of a convolution, with the operator's arguments."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def conv_backward_flop(
    grad_out_shape: Shape,
    x_shape: Shape,
    w_shape: Shape,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Return the operations of a convolution's gradients in the input and in the weight.

    The gradient in the weight counts as that of a convolution in one group, as PyTorch counts it.
    """
    options = (bias, stride, padding, dilation, transposed, output_padding, groups, output_mask)
    return _of("convolution_backward", grad_out_shape, x_shape, w_shape, *options)


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Return the operations of attention: scores of queries and keys, and their product with the values."""
    return _of("_attention", query_shape, key_shape, value_shape, None, 1.0, False)


def sdpa_flop(
    query_shape: Shape, key_shape: Shape, value_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Return the operations of attention, with the operator's arguments."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(
    grad_out_shape: Shape, query_shape: Shape, key_shape: Shape, value_shape: Shape
) -> int:
    """Return the operations of attention's gradients by a kernel that computes the scores again."""
    (*lead, queries, width), keys = query_shape, key_shape[-2]
    again = _of("bmm", (math.prod(lead), queries, width), (math.prod(lead), width, keys))
    given = (grad_out_shape, query_shape, key_shape, value_shape)
    return again + _of("_attention_backward_blocks", *given, None, (), (), 1.0, False)


def sdpa_backward_flop(
    grad_out_shape: Shape,
    query_shape: Shape,
    key_shape: Shape,
    value_shape: Shape,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Return the operations of attention's gradients, with the operator's arguments."""
    return sdpa_backward_flop_count(grad_out_shape, query_shape, key_shape, value_shape)


# --- counting ------------------------------------------------------------------------------------


class _Operators(TorchDispatchMode):
    """Counts every operator that runs below autograd: in forward, in backward, and under transforms."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        formula = self.counter.formulas.get(func.overloadpacket)
        if formula is not None:
            self.counter.add(func.overloadpacket, formula(*args, **kwargs, out_val=out))
        return out


class _Composites(TorchFunctionMode):
    """Names the operator that is counted where a call consists of others, such as `addmm` with a scale."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        shown = _composite(func)
        if shown is not None:
            return self.counter.count_composite(shown, func, args, kwargs)
        inner = getattr(func, "__wrapped__", None)
        if inner is None:
            return func(*args, **kwargs)
        with self:  # a function written in Python calls others
            return inner(*args, **kwargs)


def _composite(func: Any) -> tuple[Any, bool] | None:
    """Return the operator under which the parts of a call are counted, and whether they are counted at all.

    PyTorch counts no in-place forms.
    """
    if isinstance(func, ops.Overload | ops.OverloadPacket):
        packet = func.overloadpacket if isinstance(func, ops.Overload) else func
        name = packet.__name__ if packet.namespace == "aten" else ""
    else:
        name = str(resolve_name(func) or getattr(func, "__name__", "")).rpartition(".")[2]
    base = name.removesuffix("_")
    return (getattr(aten, _flops.COMPOSITES[base]), base == name) if base in _flops.COMPOSITES else None


class FlopCounterMode:
    """Context manager that counts floating point operations, by module and operator.

    Every operator with a formula counts, also in ``backward``, in transforms and within other operators.
    Operations of ``backward`` inside the block count for the modules whose backward runs.

    Args:
        mods: no effect; modules are found when they are called.
        depth: the number of levels of modules in the table.
        display: whether the table is printed at the end of the block.
        custom_mapping: a dict from operators to formulas, in addition to those of `register_flop_formula`.

    Example:
        >>> from flambeau.utils.flop_counter import FlopCounterMode
        >>> with FlopCounterMode(display=False) as counter:
        ...     _ = flambeau.ones(2, 3) @ flambeau.ones(3, 4)
        >>> counter.get_total_flops()
        48
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn("FlopCounterMode: `mods` is not needed and ignored", stacklevel=2)
        self._custom = {
            packet: formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
            for packet, formula in (custom_mapping or {}).items()
        }
        self.formulas = flop_registry | self._custom
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.mod_tracker = ModuleTracker()
        self._modes: contextlib.ExitStack | None = None
        self._parts_of: tuple[Any, bool] | None = None  # the composite that runs

    def __enter__(self) -> FlopCounterMode:
        if self._modes is not None:
            raise RuntimeError("FlopCounterMode: expected a counter outside of its own block, got one within")
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self._modes = contextlib.ExitStack()
        self._modes.enter_context(_Operators(self))
        self._modes.enter_context(_Composites(self))
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._modes is None:
            raise RuntimeError("FlopCounterMode: the block was left before it was entered")
        self._modes.close()
        self._modes = None
        self.mod_tracker.__exit__(*exception)
        if self.display:
            print(self.get_table(self.depth))

    def add(self, packet: Any, count: int) -> None:
        """Add operations of an operator to the modules that run."""
        shown, is_counted = self._parts_of or (_OPERATORS.get(packet, packet), True)
        for name in self.mod_tracker.parents if is_counted else ():
            self.flop_counts[name][shown] += count

    def count_composite(
        self, composite: tuple[Any, bool], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a function whose parts are counted as one operator, or by the formula that a program gave."""
        packet, is_counted = composite
        given = self._custom.get(packet)
        before, self._parts_of = self._parts_of, (packet, is_counted and given is None)
        try:
            out = func(*args, **kwargs)
        finally:
            self._parts_of = before
        if given is not None and is_counted:
            self.add(packet, given(*args, **kwargs, out_val=out))
        return out

    def get_total_flops(self) -> int:
        """Return the number of operations counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return module -> operator -> operations; all together are under "Global"."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the counts as a table of modules down to a depth, and their operators."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        rows = [("Module", "FLOP", "% Total")]
        modules = sorted(name for name in self.flop_counts if name != "Global")
        for name in ["Global", *modules]:
            level = 0 if name == "Global" else name.count(".") + 1
            if level > depth:
                continue
            counts, indent = self.flop_counts[name], " " * level
            rows.append((indent + name, *_share(sum(counts.values()), total)))
            rows += [(f"{indent} - {packet}", *_share(n, total)) for packet, n in counts.items()]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [f"{a:<{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}" for a, b, c in rows]
        lines.insert(1, "  ".join("-" * n for n in wide))
        return "\n".join(lines)


def _share(count: int, total: int) -> tuple[str, str]:
    """Write operations in thousands, millions ... and their share of all."""
    power = min((len(str(count)) - 1) // 3, 4)
    text = f"{count / 1000**power:.3f}{('', 'K', 'M', 'B', 'T')[power]}" if power else str(count)
    return text, f"{100 * count / total if total else 0:.2f}%"
