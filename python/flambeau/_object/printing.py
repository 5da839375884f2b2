"""How tensors print: aligned columns, few digits, the middle of long dimensions left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau import _C
from flambeau._C import Tensor
from flambeau._types import naming

__all__ = ["set_printoptions"]

Nested = Any  # numbers, or lists of them


def described(tensor: Tensor) -> str:
    """Return a tensor as messages show it: "float32[2, 3]"."""
    return f"{naming.short(tensor.dtype)}{list(tensor.shape)}"


@dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_options = _Options()
_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print.

    Args:
        precision: digits after the point (4 at first).
        threshold: the number of elements above which the middle is left out (1000).
        edgeitems: how many items of a shortened dimension are shown at each end (3).
        linewidth: characters of a line (80).
        profile: "default", "short" or "full": a set of the above.
        sci_mode: scientific notation always (True), never (False), or where it is needed (None).
    Returns: nothing.

    Example:
        >>> flambeau.set_printoptions(precision=2)
        >>> flambeau.tensor([1 / 3])
        tensor([0.33])
        >>> flambeau.set_printoptions(profile="default")
    """
    if profile is not None:
        chosen = _PROFILES[profile]
        _options.precision, _options.threshold = chosen.precision, chosen.threshold
        _options.edgeitems, _options.linewidth = chosen.edgeitems, chosen.linewidth
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in given.items():
        if value is not None:
            setattr(_options, name, value)
    _options.sci_mode = sci_mode


def _leaves(values: Nested) -> Iterator[Any]:
    if isinstance(values, list):
        for item in values:
            yield from _leaves(item)
    else:
        yield values


class _RealFormat:
    """One width and notation for all numbers of a tensor."""

    def __init__(self, values: Sequence[Any], floating: bool) -> None:
        self.floating = floating
        self.integers = True
        self.scientific = False
        self.width = 1
        if not floating:
            self.width = max(map(len, map(str, values)), default=1)
            return
        finite = [v for v in values if v != 0 and math.isfinite(v)]
        if finite:
            self._choose(finite)

    def _choose(self, values: Sequence[float]) -> None:
        low, high = min(map(abs, values)), max(map(abs, values))
        self.integers = all(v == math.ceil(v) for v in values)
        self.scientific = high / low > 1000 or high > 1e8 or (not self.integers and low < 1e-4)
        if _options.sci_mode is not None:
            self.scientific = _options.sci_mode
        if self.scientific:
            self.width = max(len(f"{v:.{_options.precision}e}") for v in values)
        elif self.integers:
            self.width = max(len(f"{v:.0f}") + 1 for v in values)
        else:
            self.width = max(len(f"{v:.{_options.precision}f}") for v in values)

    def text(self, value: Any) -> str:
        if not self.floating:
            return f"{value!s:>{self.width}}"
        if self.scientific:
            shown = f"{value:.{_options.precision}e}"
        elif self.integers:
            shown = f"{value:.0f}" + "." * math.isfinite(value)
        else:
            shown = f"{value:.{_options.precision}f}"
        return f"{shown:>{self.width}}"


class _ComplexFormat:
    """A real format for each part."""

    def __init__(self, values: Sequence[complex]) -> None:
        self.real = _RealFormat([v.real for v in values], floating=True)
        self.imag = _RealFormat([v.imag for v in values], floating=True)
        self.width = self.real.width + self.imag.width + 1

    def text(self, value: complex) -> str:
        imag = self.imag.text(value.imag).lstrip() + "j"
        return self.real.text(value.real) + (imag if imag[0] in "+-" else "+" + imag)


_Format = _RealFormat | _ComplexFormat


def _vector(values: list[Any], cut: bool, form: _Format, indent: int) -> str:
    shown = [form.text(v) for v in values]
    if cut:
        shown.insert(_options.edgeitems, " ..." if shown else "...")
    per_line = max(1, (_options.linewidth - indent) // (form.width + 2))
    lines = [", ".join(shown[i : i + per_line]) for i in range(0, len(shown), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _body(values: Nested, cuts: Sequence[bool], form: _Format, indent: int) -> str:
    if not cuts:
        return form.text(values)
    if len(cuts) == 1:
        return _vector(values, cuts[0], form, indent)
    parts = [_body(v, cuts[1:], form, indent + 1) for v in values]
    if cuts[0]:
        parts.insert(_options.edgeitems, "...")
    return "[" + ("," + "\n" * (len(cuts) - 1) + " " * (indent + 1)).join(parts) + "]"


def _elements(tensor: Tensor, indent: int) -> str:
    if tensor.numel() == 0:
        return "[]"
    if tensor.dtype is _C.float4_e2m1fn_x2:  # two numbers in each element: shown as the byte that they are
        tensor = tensor.view(_C.uint8).float()
    edge = _options.edgeitems
    summarised = tensor.numel() > _options.threshold
    values = tensor._nested(edge if summarised else -1)
    cuts = [summarised and size > 2 * edge for size in tensor.shape]
    leaves = list(_leaves(values))
    form: _Format = (
        _ComplexFormat(leaves) if tensor.is_complex() else _RealFormat(leaves, tensor.is_floating_point())
    )
    return _body(values, cuts, form, indent)


def _suffixes(tensor: Tensor) -> Iterator[str]:
    if tensor.device.type != "cpu":
        yield f"device='{tensor.device}'"
    unread = tensor.is_meta or _C._has_no_memory(tensor)
    hidden = unread or (_options.edgeitems == 0 and tensor.numel() > 0)
    if hidden or (tensor.numel() == 0 and tensor.dim() != 1):
        yield f"size={tuple(tensor.shape)}"
    default = _C.get_default_dtype()
    guessed = tensor.numel() > 0 and not unread  # tensor() would choose it for what is shown
    silent = {default} | ({default.to_complex(), _C.int64, _C.bool} if guessed else set())
    if tensor.dtype not in silent:
        yield f"dtype={tensor.dtype}"
    try:
        grad_fn = tensor.grad_fn
        shown = None if grad_fn is None else grad_fn.name()
    except RuntimeError:  # a view whose base has changed in a way that leaves it without history
        shown = "Invalid"
    if shown is not None:
        yield f"grad_fn=<{shown}>"
    elif tensor.requires_grad:
        yield "requires_grad=True"
    tangent = _C._unpack_dual(tensor)[1]
    if tangent is not None:
        yield f"tangent={show(tangent)}"


def _wrapped(tensor: Tensor, level: int) -> str:
    """The value inside a tensor of a function transform."""
    value, dim = _C._unwrap(tensor, level)
    inner = show(value).replace("\n", "\n    ")
    kind = f"GradTrackingTensor(lvl={level}" if dim is None else f"BatchedTensor(lvl={level}, bdim={dim}"
    return f"{kind}, value=\n    {inner}\n)"


def _add_suffixes(tensor_str: str, suffixes: Iterable[str], indent: int, force_newline: bool = False) -> str:
    """Return the text with what follows the elements, in lines that are not too long, and the bracket."""
    out, last = tensor_str, len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or last + len(suffix) + 2 > _options.linewidth:
            out += ",\n" + " " * indent + suffix
            last = indent + len(suffix)
            force_newline = False
        else:
            out += ", " + suffix
            last += len(suffix) + 2
    return out + ")"


def _sparse(tensor: Any, prefix: str) -> str:
    """The parts of a sparse tensor, each on lines of its own, and its sizes."""
    indent = " " * len(prefix)
    lines = []
    for name, part in (("indices", tensor._indices()), ("values", tensor._values())):
        start = f"{name}=tensor("
        text = start + _elements(part, len(prefix + start))
        if part.numel() == 0:
            text += f", size={tuple(part.shape)}"
        lines.append(text + ")")
    last = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    default = _C.get_default_dtype()
    if tensor.dtype not in (default, default.to_complex(), _C.int64, _C.bool):
        last.append(f"dtype={tensor.dtype}")
    last.append(f"layout={naming.root}.{naming.short(tensor.layout)}")
    last += [suffix for suffix in _suffixes(tensor) if not suffix.startswith(("size=", "dtype="))]
    parts = prefix + (",\n" + indent).join(lines)
    return _add_suffixes(parts, last, len(prefix), force_newline=True)


def show(tensor: Tensor, contents: str | None = None) -> str:
    """Return what `repr` says about a tensor.

    Args:
        tensor: any tensor.
        contents: text in place of the elements.
    """
    tensor = _C._unwrap_dead(tensor)
    level = _C._wrapper_level(tensor)
    if level:
        return _wrapped(tensor, level)
    plain = type(tensor) is Tensor or type(tensor).__name__ == "Parameter"
    prefix = "tensor(" if plain else f"{type(tensor).__name__}("
    if tensor.is_sparse and contents is None:
        return _sparse(tensor, prefix)
    unread = tensor.is_meta or _C._has_no_memory(tensor)
    body = contents if contents is not None else "..." if unread else _elements(tensor, len(prefix))
    out = _add_suffixes(prefix + body, _suffixes(tensor), len(prefix))
    if plain:
        return out
    from flambeau.nn.parameter import Parameter

    return f"Parameter({out})" if isinstance(tensor, Parameter) else out
