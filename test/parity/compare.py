"""When two results are the same, for any operator."""

from __future__ import annotations

import math
from typing import Any

import torch

# Relative to the larger of the element and the result's root mean square: two libraries add in different
# orders, which moves an element that nearly cancels by the rounding of its terms.
RELATIVE = {
    torch.float64: 1e-7, torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-3,
    torch.complex128: 1e-7, torch.complex64: 1e-4,
}  # fmt: skip
ABSOLUTE = {torch.float64: 1e-8, torch.complex128: 1e-8}
ABSOLUTE_DEFAULT = 1e-5


class Different(AssertionError):
    """What differs, in a line."""


def same(ours: Any, theirs: Any, where: str = "result", values: bool = True) -> None:
    """Raise Different unless both are equal in kind, shape, dtype and, within rounding, in value."""
    if isinstance(theirs, torch.Tensor):
        _same_tensor(ours, theirs, where, values)
    elif isinstance(theirs, tuple | list) and not isinstance(theirs, torch.Size):
        if not isinstance(ours, tuple | list) or len(ours) != len(theirs):
            raise Different(f"{where}: {_kind(ours)} in place of {_kind(theirs)}")
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            same(a, b, f"{where}[{i}]", values)
    elif isinstance(theirs, float | complex) and not isinstance(theirs, bool):
        if not isinstance(ours, float | complex):
            raise Different(f"{where}: {_kind(ours)} in place of {_kind(theirs)}")
        if values:
            _same_tensor(torch.tensor(ours), torch.tensor(theirs), where, True)
    elif values and (ours != theirs or isinstance(ours, bool) != isinstance(theirs, bool)):
        raise Different(f"{where}: {ours!r} in place of {theirs!r}")


def _kind(value: Any) -> str:
    return (
        f"{type(value).__name__} of {len(value)}" if isinstance(value, tuple | list) else type(value).__name__
    )


def _same_tensor(ours: Any, theirs: torch.Tensor, where: str, values: bool) -> None:
    if not isinstance(ours, torch.Tensor):
        raise Different(f"{where}: {_kind(ours)} in place of a tensor")
    if ours.dtype != theirs.dtype:
        raise Different(f"{where}: dtype {ours.dtype} in place of {theirs.dtype}")
    if ours.shape != theirs.shape:
        raise Different(f"{where}: shape {list(ours.shape)} in place of {list(theirs.shape)}")
    if ours.layout != theirs.layout:
        raise Different(f"{where}: layout {ours.layout} in place of {theirs.layout}")
    if theirs.layout == torch.sparse_coo:
        a, b = ours.detach().coalesce(), theirs.detach().coalesce()
        _same_tensor(a.indices(), b.indices(), f"indices of {where}", values)
        return _same_tensor(a.values(), b.values(), f"values of {where}", values)
    if values and theirs.device.type == "cpu" and theirs.numel():
        _close(ours.detach(), theirs.detach().resolve_conj().resolve_neg(), where)


def _close(ours: torch.Tensor, theirs: torch.Tensor, where: str) -> None:
    if theirs.dtype not in RELATIVE:
        wrong = ours != theirs
        if wrong.any():
            _report(ours, theirs, wrong, where)
        return
    relative, absolute = RELATIVE[theirs.dtype], ABSOLUTE.get(theirs.dtype, ABSOLUTE_DEFAULT)
    wide = torch.complex128 if theirs.is_complex() else torch.float64
    a, b = ours.to(wide), theirs.to(wide)
    finite = b.abs()[torch.isfinite(b)]
    scale = math.sqrt(finite.square().mean().item()) if finite.numel() else 0.0
    bound = absolute + relative * b.abs().clamp(min=scale if math.isfinite(scale) else 0.0)
    equal = (a == b) | ((a - b).abs() <= bound) | (torch.isnan(a) & torch.isnan(b))
    if not equal.all():
        _report(ours, theirs, ~equal, where)


def same_choice(ours: Any, theirs: Any, of: Any) -> bool:
    """Whether results that hold indices differ in them only between equal elements of `of`, which an operator
    may choose from as it likes: what is at the indices is the same, and no index stands twice for two.
    """
    if not isinstance(theirs, torch.Tensor | tuple | list) or not isinstance(of, torch.Tensor):
        return False
    pairs = [(ours, theirs)] if isinstance(theirs, torch.Tensor) else list(zip(ours, theirs, strict=True))
    found = False
    for a, b in pairs:
        try:
            same(a, b)
        except Different:
            if not isinstance(b, torch.Tensor) or b.dtype != torch.int64:
                return False
            if not any(_equal_picks(a, b, of, dim) for dim in range(max(1, of.dim()))):
                return False
            found = True
    return found


def _equal_picks(a: torch.Tensor, b: torch.Tensor, of: torch.Tensor, dim: int) -> bool:
    if of.dim() == a.dim() + 1:  # the dimension is gone: one index for each fiber
        a, b = a.unsqueeze(dim), b.unsqueeze(dim)
    fits = of.dim() == a.dim() and all(d == dim or of.size(d) == a.size(d) for d in range(of.dim()))
    if not fits or of.dim() == 0 or a.min() < 0 or a.max() >= of.size(dim) or b.max() >= of.size(dim):
        return False
    mine, picked = of.detach().gather(dim, a), of.detach().gather(dim, b)
    equal = (mine == picked) | ((mine != mine) & (picked != picked))
    ordered = a.sort(dim).values
    return bool(equal.all()) and not bool((ordered.diff(dim=dim) == 0).any())


def _report(ours: torch.Tensor, theirs: torch.Tensor, wrong: torch.Tensor, where: str) -> None:
    first = wrong.flatten().nonzero()[0].item()
    a, b = ours.flatten()[first].item(), theirs.flatten()[first].item()
    raise Different(f"{where}: {int(wrong.sum())} of {wrong.numel()} differ, the first {a} in place of {b}")
