"""The generated operator tests' data and how their sample calls become tensors.

torchgen_out/tests/<family>.json has one record per operator. A sample is the text of an argument list:
`t(2, 3)` is a tensor of the dtype under test, `tp` positive, `ti(5, 2, 3)` int64 below 5, `tb` bool,
`tc` complex; `.definite()` makes square matrices Hermitian and positive-definite,
`.factor()` lower triangular.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import flambeau as fb
import numpy as np

from codegen.reading.keys import OUT_TAGS

DATA = Path(__file__).resolve().parents[2] / "torchgen_out" / "tests"
CATEGORIES = {
    "bool": ["bool"],
    "integral": ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"],
    "floating": ["float16", "bfloat16", "float32", "float64"],
    "complex": ["complex64", "complex128", "complex32"],
}
CATEGORY_OF = {name: category for category, names in CATEGORIES.items() for name in names}
NUMPY_LACKS = {"bfloat16": np.float32, "complex32": np.complex64}  # and what holds their values
MAIN = {"bool": "bool", "integral": "int64", "floating": "float32", "complex": "complex64"}


@dataclass(frozen=True)
class Shape:
    """A tensor to be made: how it is made, its sizes, and what is done to its values then."""

    kind: str
    sizes: tuple[int, ...]
    below: int = 0
    steps: tuple[Callable[[Any], Any], ...] = ()
    kind_of_matrix: str = ""  # hermitian or triangular: it stays so where derivatives are tested

    def _then(self, step: Callable[[Any], Any]) -> Shape:
        return replace(self, steps=(*self.steps, step))

    def __add__(self, other: Any) -> Shape:
        return self._then(lambda values: values + other)

    def __sub__(self, other: Any) -> Shape:
        return self._then(lambda values: values - other)

    def __mul__(self, other: Any) -> Shape:
        return self._then(lambda values: values * other)

    def t(self) -> Shape:
        """The transposed matrix."""
        return self._then(lambda values: values.T)

    def definite(self) -> Shape:
        """The Hermitian part of square matrices, with a diagonal that makes it positive-definite."""

        def step(values: Any) -> Any:
            part = (values + np.swapaxes(values.conj(), -1, -2)) / 2
            size = part.shape[-1]
            return (part + np.diag(np.arange(1, size + 1) * 2.0 + 5 * size)).astype(values.dtype)

        return replace(self._then(step), kind_of_matrix="hermitian")

    def factor(self) -> Shape:
        """Lower triangular matrices with a large diagonal."""
        return replace(self.definite()._then(np.tril), kind_of_matrix="triangular")

    def sorted(self) -> Shape:
        """Ascending along the last dimension."""
        return self._then(lambda values: np.sort(values))


@dataclass
class Op:
    """One record."""

    record: dict[str, Any]
    samples: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return self.record[name]

    @property
    def tensor_names(self) -> list[str]:
        """The arguments that are, or hold, tensors."""
        return [a["name"] for a in self.arguments if a["kind"] != "plain"]

    @property
    def is_fixed(self) -> bool:
        """Whether the arguments' values decide the result, whatever their strides and from call to call."""
        return not set(self.record["tags"]) - set(OUT_TAGS)

    def dtypes(self) -> list[str]:
        """Every dtype that the operator claims."""
        return [name for category in self.record["dtypes"] for name in CATEGORIES[category]]

    def main_dtype(self) -> str:
        """The dtype in which shapes and forms are tested."""
        claimed = self.record["dtypes"]
        for category in ("floating", "integral", "bool", "complex"):
            if category in claimed:
                return MAIN[category]
        return "float32"

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


# --- sample calls ----------------------------------------------------------------------------------


class _Names(dict[str, Any]):
    """What sample texts may call; anything else is an attribute of the package."""

    def __missing__(self, name: str) -> Any:
        return getattr(fb, name)


def _maker(kind: str) -> Any:
    if kind == "ti":
        return lambda below, *sizes: Shape("ti", tuple(sizes), below)
    return lambda *sizes: Shape(kind, tuple(sizes))


_SAMPLE_NAMES = _Names({kind: _maker(kind) for kind in ("t", "tp", "ti", "tb", "tc")})
_SAMPLE_NAMES |= {"inf": float("inf"), "nan": float("nan"), "bool": bool, "int": int, "float": float}
_SAMPLE_NAMES |= {"fb": fb}


@dataclass
class Call:
    """A sample call with argument names; tensors are still Shapes."""

    op: Op
    arguments: dict[str, Any]

    def materialise(self, dtype: str, seed: int = 0, **how: Any) -> dict[str, Any]:
        """Make the tensors, each from its own random numbers."""
        return {name: self._value(name, value, dtype, seed, how) for name, value in self.arguments.items()}

    def _value(self, name: str, value: Any, dtype: str, seed: int, how: dict[str, Any]) -> Any:
        if isinstance(value, Shape):
            interval = self.op.intervals.get(name, (-4.0, 4.0))
            key = f"{self.op.name}/{name}/{seed}"
            made = np.asarray(make_array(value, dtype, interval, key, **how))
            for step in value.steps:
                made = np.asarray(step(made))
            return made
        if isinstance(value, list | tuple) and any(isinstance(v, Shape) for v in value):
            return [self._value(f"{name}", v, dtype, seed + i + 1, how) for i, v in enumerate(value)]
        return value


def bind(op: Op, sample: str) -> Call:
    """Parse a sample's text and give each value its argument's name."""

    def f(*args: Any, **kwargs: Any) -> dict[str, Any]:
        positional = [a["name"] for a in op.arguments if not a["keyword_only"]]
        own = {"input": "self"}
        named = {
            own.get(k, k) if own.get(k, k) in {a["name"] for a in op.arguments} else k: v
            for k, v in kwargs.items()
        }
        return dict(zip(positional, args, strict=False)) | named

    bound = eval(f"f({sample})", {"__builtins__": {}}, _SAMPLE_NAMES | {"f": f})  # noqa: S307  our own YAML
    return Call(op, bound)


def calls(op: Op) -> list[Call]:
    """All sample calls of an operator."""
    return [bind(op, sample) for sample in op.record["samples"]]


# --- values ----------------------------------------------------------------------------------------


def generator(key: str) -> np.random.Generator:
    """Random numbers that depend on nothing but the key."""
    return np.random.default_rng(zlib.crc32(key.encode()))


def make_array(shape: Shape, dtype: str, interval: tuple[float, float], key: str) -> np.ndarray:
    """Sample values in the dtype that NumPy uses for it; where it has none, rounded values of a wider one."""
    rng = generator(key)
    if shape.kind == "ti":
        return (
            rng.integers(0, shape.below, shape.sizes, dtype=np.int64)
            if shape.below
            else np.zeros(shape.sizes, np.int64)
        )
    if shape.kind == "tb":
        return rng.random(shape.sizes) < 0.5
    if shape.kind == "tc":
        parts = rng.uniform(-2, 2, (2, *shape.sizes))
        return (parts[0] + 1j * parts[1]).astype(np.complex128 if dtype == "float64" else np.complex64)
    low, high = (0.1, 4.0) if shape.kind == "tp" else interval
    category = CATEGORY_OF[dtype]
    if category == "bool":
        return rng.random(shape.sizes) < 0.5
    if category == "integral":
        info = np.iinfo(dtype)
        first, last = max(int(np.ceil(low)), info.min, -100), min(int(np.floor(high)), info.max, 100)
        return rng.integers(first, max(last, first) + 1, shape.sizes).astype(dtype)
    values = rng.uniform(low, high, shape.sizes)
    if category == "complex":
        values = values + 1j * rng.uniform(min(low, 0.5), min(high, 2.0), shape.sizes)
    if dtype == "bfloat16":
        return round_to_bfloat16(np.asarray(values, np.float32))
    if dtype == "complex32":
        return (values.real.astype(np.float16) + 1j * values.imag.astype(np.float16)).astype(np.complex64)
    return np.asarray(values, dtype)


def round_to_bfloat16(values: np.ndarray) -> np.ndarray:
    """The nearest bfloat16 values, as float32 (ties to even)."""
    bits = values.view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    return (rounded & 0xFFFF0000).astype(np.uint32).view(np.float32)


def to_tensor(value: Any, dtype: str) -> Any:
    """NumPy arrays (also in lists) become tensors; floating ones of the dtype under test."""
    if isinstance(value, np.ndarray):
        tensor = fb.from_numpy(np.array(value))  # owns its memory
        narrow = NUMPY_LACKS.get(dtype)
        return tensor.to(getattr(fb, dtype)) if narrow and value.dtype == narrow else tensor
    if isinstance(value, list) and any(isinstance(v, np.ndarray) for v in value):
        return [to_tensor(v, dtype) for v in value]
    return value


def to_array(value: Any) -> Any:
    """Tensors become NumPy arrays; halves become float32, sparse tensors strided."""
    if isinstance(value, fb.Tensor):
        strided = value.to_dense() if value.is_sparse else value
        plain = strided.detach().resolve_conj().resolve_neg()
        wider = {fb.bfloat16: fb.float32, fb.float16: fb.float32, fb.complex32: fb.complex64}
        return plain.to(wider.get(plain.dtype, plain.dtype)).numpy()
    return value


def tensors(arguments: dict[str, Any], dtype: str) -> dict[str, Any]:
    """All arguments of a call, arrays made tensors."""
    return {name: to_tensor(value, dtype) for name, value in arguments.items()}


def split_arguments(op: Op, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments, as the schema has them."""
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    gap = False
    for arg in op.arguments:
        if arg["name"] not in arguments:
            gap = True
        elif gap or arg["keyword_only"]:
            name = "input" if arg["name"] == "self" and op.is_function else arg["name"]
            keywords[name] = arguments[arg["name"]]
        else:
            positional.append(arguments[arg["name"]])
    return positional, keywords


def run(op: Op, arguments: dict[str, Any]) -> Any:
    """Call the operator; in-place ones write to a copy."""
    positional, keywords = split_arguments(op, arguments)
    if op.declared_inplace:
        positional[0] = positional[0].clone()
    return op.function()(*positional, **keywords)


def flat(result: Any) -> list[Any]:
    """The results of an operator as a list, sparse ones as strided tensors."""
    if isinstance(result, list | tuple) and not isinstance(result, fb.Size):
        return [item for part in result for item in flat(part)]
    return [result.to_dense() if is_tensor(result) and result.is_sparse else result]


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, fb.Tensor)


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
