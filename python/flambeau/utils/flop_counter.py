"""Counts the floating-point operations of matrix products, convolutions and attention.

A product of an (m, k) and a (k, n) matrix counts 2 m k n. `FlopCounterMode` counts what runs within its
``with`` block, forward and backward, by module and operator. Products with a vector, pointwise operators and
reductions are not counted, as in PyTorch.

>>> import flambeau as fb
>>> with FlopCounterMode(display=False) as counter:
...     y = fb.ones(3, 4) @ fb.ones(4, 5)
>>> counter.get_total_flops()
120
"""

from __future__ import annotations

import functools
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau import ops
from flambeau._C import Tensor
from flambeau.overrides import TorchFunctionMode
from flambeau.utils import _products
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
    Raises: ValueError if a target is no operator of `flambeau.ops`, RuntimeError if it has a formula already.

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


# --- formulas ------------------------------------------------------------------------------------


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Return the operations of a product of two matrices."""
    (m, k), (inner, n) = a_shape, b_shape
    if k != inner:
        raise AssertionError(f"mm_flop: expected equal inner sizes, got {k} and {inner}")
    return 2 * m * k * n


@register_flop_formula(aten.addmm)
def addmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """Return the operations of a matrix plus a product: those of the product."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """Return the operations of a batch of products."""
    batch, *a = a_shape
    if batch != b_shape[0]:
        raise AssertionError(f"bmm_flop: expected equal batch sizes, got {batch} and {b_shape[0]}")
    return batch * mm_flop(a, b_shape[1:])


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """Return the operations of a batch plus products: those of the products."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False) -> int:
    """Return the operations of a convolution: 2 per entry of the weight and place of the window."""
    places = x_shape if transposed else out_shape
    return 2 * x_shape[0] * math.prod(places[2:]) * math.prod(w_shape)


@register_flop_formula(aten.convolution)
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


@register_flop_formula(aten.convolution_backward)
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
) -> int:
    """Return the operations of a convolution's gradients in the input and in the weight.

    The gradient in the weight counts as that of a convolution in one group, as PyTorch counts it.
    """
    window, batch = math.prod(w_shape[2:]), x_shape[0]
    forward = conv_flop_count(x_shape, w_shape, grad_out_shape, transposed)
    places = math.prod((x_shape if transposed else grad_out_shape)[2:])
    weight = 2 * batch * x_shape[1] * grad_out_shape[1] * window * places
    return forward * bool(output_mask[0]) + weight * bool(output_mask[1])


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Return the operations of attention: scores of queries and keys, and their product with the values."""
    (batch, heads, queries, width), keys = query_shape, key_shape[-2]
    return 2 * batch * heads * queries * keys * (width + value_shape[-1])


def sdpa_flop(
    query_shape: Shape, key_shape: Shape, value_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Return the operations of attention, with the operator's arguments."""
    return sdpa_flop_count(query_shape, key_shape, value_shape)


def sdpa_backward_flop_count(
    grad_out_shape: Shape, query_shape: Shape, key_shape: Shape, value_shape: Shape
) -> int:
    """Return the operations of attention's gradients by a kernel that computes the scores again."""
    (batch, heads, queries, width), keys = query_shape, key_shape[-2]
    return 2 * batch * heads * queries * keys * (3 * width + 2 * value_shape[-1])


# --- counting ------------------------------------------------------------------------------------


class _Observer(TorchFunctionMode):
    """Sees every call of a public function, and the calls within those that are written in Python."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        packet = func._packet if isinstance(func, ops.Overload) else func
        formula = self.counter.formulas.get(packet) if isinstance(packet, ops.OverloadPacket) else None
        if formula is not None:
            out = func(*args, **kwargs)
            self.counter.add([(packet, formula(*args, out_val=out, **kwargs))])
            return out
        products = _products.of_call(func)
        if products is None:
            inner = getattr(func, "__wrapped__", None)
            if inner is None:
                return func(*args, **kwargs)
            with self:
                return inner(*args, **kwargs)
        out = func(*args, **kwargs)
        forward, backward = products(out, *args, **kwargs)
        self.counter.add(forward)
        first = out[0] if isinstance(out, tuple) else out
        if isinstance(first, Tensor) and first.grad_fn is not None and backward:
            self.counter.add_in_backward(first.grad_fn, backward)
        return out


class FlopCounterMode:
    """Context manager that counts floating point operations, by module and operator.

    Operations of ``backward`` inside the block count for the module whose forward needs the gradient.
    Gradients of gradients are not counted.

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
        custom = custom_mapping or {}
        raw = {packet: getattr(formula, "_get_raw", False) for packet, formula in custom.items()}
        self.formulas = flop_registry | {p: f if raw[p] else shape_wrapper(f) for p, f in custom.items()}
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.mod_tracker = ModuleTracker()
        self._observer: _Observer | None = None

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self._observer = _Observer(self)
        self._observer.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        if self._observer is None:
            raise RuntimeError("FlopCounterMode: the block was left before it was entered")
        self._observer.__exit__(*exception)
        self._observer = None
        self.mod_tracker.__exit__(*exception)
        if self.display:
            print(self.get_table(self.depth))

    def add(self, counts: Iterable[tuple[Any, int]], parents: Iterable[str] | None = None) -> None:
        """Add operations of operators to modules; by default to those that run."""
        for name in self.mod_tracker.parents if parents is None else parents:
            for packet, count in counts:
                self.flop_counts[name][packet] += count

    def add_in_backward(self, node: Any, counts: list[tuple[Any, int]]) -> None:
        """Add operations when a node of the graph runs, if that is within the same block."""
        parents, observer = set(self.mod_tracker.parents), self._observer

        def count(gradients: Any) -> None:
            if self._observer is observer:
                self.add(counts, parents)

        node.register_prehook(count)

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
