"""The text of masked tensors: values with four decimals, "--" for what is masked."""

from __future__ import annotations

from typing import Any

_MASKED = "--"


def _number(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _block(values: Any, mask: Any, dims: int) -> str:
    """The text of nested lists of values and of bools."""
    pairs = list(zip(values, mask, strict=True))
    if dims == 1:
        shown = [_number(value) if counts else None for value, counts in pairs]
        width = max([8, *(len(text) for text in shown if text)])
        return f"[{', '.join(_MASKED.rjust(width) if text is None else text for text in shown)}]"
    rows = ",\n".join(_block(v, m, dims - 1) for v, m in pairs)
    return f"[\n{_indented(rows)}\n]"


def text_of(data: Any, mask: Any) -> str:
    """Return what `repr` shows of dense data and the mask of the same shape."""
    if data.dim() == 0:
        shown = _number(data.item()) if mask.item() else _MASKED
        return f"MaskedTensor({shown}, {mask.item()})"
    return f"MaskedTensor(\n{_indented(_block(data.tolist(), mask.tolist(), data.dim()))}\n)"
