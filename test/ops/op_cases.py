"""The generated operator tests' data: torchgen_out/tests/<family>.json has one record per operator.

`flambeau.utils.operator_tests` turns their sample calls into tensors.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import flambeau as fb
from flambeau.utils.operator_tests import _samples
from flambeau.utils.operator_tests._samples import (
    CATEGORIES,
    CATEGORY_OF,
    MAIN,
    NUMPY_LACKS,
    Call,
    Shape,
    bind,
    calls,
    flat,
    generator,
    is_tensor,
    make_array,
    round_to_bfloat16,
    split_arguments,
    tensors,
    to_array,
    to_tensor,
)

from codegen.reading.keys import OUT_TAGS

__all__ = [
    "CATEGORIES",
    "CATEGORY_OF",
    "DATA",
    "MAIN",
    "NUMPY_LACKS",
    "Call",
    "Op",
    "Shape",
    "bind",
    "calls",
    "flat",
    "generator",
    "is_tensor",
    "make_array",
    "names",
    "not_claimed",
    "operators",
    "round_to_bfloat16",
    "run",
    "split_arguments",
    "tensors",
    "to_array",
    "to_tensor",
]

DATA = Path(__file__).resolve().parents[2] / "torchgen_out" / "tests"


class Op(_samples.Op):
    """One record, and the function that it is about."""

    @property
    def is_fixed(self) -> bool:
        """Whether the arguments' values decide the result, whatever their strides and from call to call."""
        return not set(self.record["tags"]) - set(OUT_TAGS)

    def function(self) -> Any:
        """The function, or a call of the method where there is no function."""
        if not self.is_function:
            return lambda own, *args, **kwargs: getattr(own, self.call)(*args, **kwargs)
        module = getattr(fb._C, f"_{self.namespace}" if self.namespace else "_functions")
        return getattr(module, self.call)


@cache
def operators() -> dict[str, Op]:
    """Every operator that has a record."""
    records = [r for path in sorted(DATA.glob("*.json")) for r in json.loads(path.read_text())]
    return {r["name"]: Op(r) for r in records}


def names(condition: Any = lambda op: True) -> list[str]:
    """The operators to test, as pytest parameters."""
    return [name for name, op in operators().items() if condition(op)]


def run(op: Op, arguments: dict[str, Any]) -> Any:
    """Call the operator; in-place ones write to a copy."""
    positional, keywords = split_arguments(op, arguments)
    if op.declared_inplace:
        positional[0] = positional[0].clone()
    return op.function()(*positional, **keywords)


def not_claimed(error: Exception) -> bool:
    """Whether an operator refused a dtype: a clean answer, with PyTorch's words."""
    text = str(error)
    return isinstance(error, RuntimeError | NotImplementedError | TypeError) and (
        "not implemented for" in text
        or "is only supported for" in text
        or "dtypes not supported" in text
        or "expected" in text
        and "dtype" in text.lower()
    )
