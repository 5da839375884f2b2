"""Sample calls of the specification's `test` key, and how their results are compared with references.

A sample is the text of an argument list: `t(2, 3)` is a tensor of the dtype under test, `tp` positive,
`ti(5, 2, 3)` int64 below 5, `tb` bool, `tc` complex; `.definite()` makes square matrices Hermitian and
positive-definite, `.factor()` lower triangular.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import flambeau as fb

CATEGORIES = {
    "bool": ["bool"],
    "integral": ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"],
    "floating": ["float16", "bfloat16", "float32", "float64"],
    "complex": ["complex64", "complex128", "complex32"],
}
CATEGORY_OF = {name: category for category, names in CATEGORIES.items() for name in names}
NUMPY_LACKS = {"bfloat16": np.float32, "complex32": np.complex64}  # -> the dtype that holds their values
MAIN = {"bool": "bool", "integral": "int64", "floating": "float32", "complex": "complex64"}


@dataclass(frozen=True)
class Shape:
    """A tensor to be made: how it is made, its sizes, and what is done to its values then."""

    kind: str
    sizes: tuple[int, ...]
    below: int = 0
    steps: tuple[Callable[[Any], Any], ...] = ()
    kind_of_matrix: str = ""  # hermitian or triangular; tests of derivatives keep the kind

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
    """The record of an operator that the generator writes (codegen/targets/op_tests.py)."""

    record: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        return self.record[name]

    @property
    def tensor_names(self) -> list[str]:
        """The arguments that are, or hold, tensors."""
        return [a["name"] for a in self.arguments if a["kind"] != "plain"]

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

    bound = eval(f"f({sample})", {"__builtins__": {}}, _SAMPLE_NAMES | {"f": f})
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


def flat(result: Any) -> list[Any]:
    """The results of an operator as a list, sparse ones as strided tensors."""
    if isinstance(result, list | tuple) and not isinstance(result, fb.Size):
        return [item for part in result for item in flat(part)]
    return [result.to_dense() if is_tensor(result) and result.is_sparse else result]


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value, fb.Tensor)


# --- references -----------------------------------------------------------------------------------

# Relative error allowed per dtype: a few roundings, more for sums.
TOLERANCE = {
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float32": 2e-5,
    "float64": 1e-11,
    "complex32": 4e-3,
    "complex64": 4e-5,
    "complex128": 1e-11,
}


def wide(value: Any) -> Any:
    """References compute in double precision."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            return value.astype(np.float64)
        if value.dtype.kind == "c":
            return value.astype(np.complex128)
        return value.astype(np.int64) if value.dtype.kind in "iu" else value
    if isinstance(value, fb.dtype):
        return getattr(np, str(value).split(".")[-1])
    return [wide(v) for v in value] if isinstance(value, list) else value


def default_of(text: str) -> Any:
    """A schema default as a Python value."""
    words = {
        "None": None,
        "Mean": 0,
        "Sum": 0,  # as PyTorch's Python functions have them
        "inf": np.inf,
        "contiguous_format": None,
    }
    if text in words:
        return words[text]
    return eval(text, vars(np).copy())  # dtypes by NumPy's names


def expected_of(op: Op, arguments: dict[str, Any], references: Any) -> list[Any]:
    """Evaluate the reference over the arguments in double precision, defaults included.

    `references` is the module of that name.
    """
    values: dict[str, Any] = {}
    for arg in op.arguments:
        if arg["name"] in arguments:
            values[arg["name"]] = arguments[arg["name"]]
        elif arg["default"] is not None:
            values[arg["name"]] = default_of(arg["default"])
    scope = {"references": references, "np": np, "fb": fb}
    if "sp." in op.reference:
        import scipy.special as sp

        scope["sp"] = sp
    with np.errstate(all="ignore"):
        try:
            result = eval(op.reference, scope | values)
        except TypeError:
            result = None
        if result is None or getattr(result, "dtype", None) == np.float16:  # NumPy knows little of bool
            numbers = {k: v * 1 if getattr(v, "dtype", None) == np.bool_ else v for k, v in values.items()}
            result = eval(op.reference, scope | numbers)
    return list(result) if isinstance(result, tuple | list) else [result]


def assert_values(op: Op, got: Any, want: Any, dtype: str, where: str, slack: Any = 0.0) -> None:
    """One result against one reference value; `slack` is further error that is allowed, per element."""
    if not is_tensor(got):
        assert got == want or np.allclose(got, want, equal_nan=True), where
        return
    have = to_array(got)
    want = np.asarray(want)
    assert have.shape == want.shape, f"{where}: shape {have.shape}, expected {want.shape}"
    if have.dtype.kind in "biu":
        with np.errstate(all="ignore"):
            assert np.array_equal(have, want.astype(have.dtype)), f"{where}: {have} != {want}"
        return
    name = str(got.dtype).split(".")[-1]
    tolerance = TOLERANCE[name]
    if op.tolerance is not None:
        tolerance = max(tolerance, op.tolerance * tolerance / TOLERANCE["float32"])
    scale = np.max(np.abs(want[np.isfinite(want)]), initial=1.0) if want.size else 1.0
    limit = np.finfo(np.float16).max if name == "float16" else np.inf
    if want.dtype.kind == "f":
        want = np.where(np.abs(want) > limit, np.copysign(np.inf, want), want)
    slack = slack + tolerance * min(scale, 100.0)
    close = np.isclose(have, want, rtol=tolerance, atol=slack, equal_nan=True)
    assert close.all(), f"{where}: {have[~close][:4]} expected {want[~close][:4]}"
