"""Random statements about tensors that share memory, drawn with a look at what the variables hold.

Variables `x0`, `x1`, ... are tensors, `s0`, ... sparse ones,
`n0`, ... NumPy arrays, `c0` is a DLPack capsule; `t` is the framework.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from .sparse_statements import sparse

TENSORS, ARRAYS = 5, 2
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool", "complex64", "int16", "float16")
REAL = ("float32", "float64", "int32", "int64", "uint8")


class Source:
    """Draws statements; `names` has the variables' values."""

    def __init__(self, seed: int, names: dict[str, Any]) -> None:
        self.random = random.Random(seed)
        self.names = names
        self.choice = self.random.choice

    def tensors(self) -> list[str]:
        """The names of tensors."""
        return [name for name in self.names if name[0] == "x" and name[1:].isdigit()]

    def arrays(self) -> list[str]:
        """The names of arrays."""
        return [name for name in self.names if name[0] == "n" and name[1:].isdigit()]

    def new(self) -> str:
        """A tensor's name to assign to."""
        return f"x{self.random.randrange(TENSORS)}"

    def integer(self, low: int, high: int) -> int:
        """A number from low to high."""
        return self.random.randint(low, max(low, high))

    def shape(self) -> tuple[int, ...]:
        """Sizes of few elements."""
        return tuple(self.choice((0, 1, 1, 2, 2, 3, 4)) for _ in range(self.choice((0, 1, 1, 1, 2, 2, 3))))

    def number(self) -> str:
        """A number."""
        return self.choice(("0", "1", "2", "3", "-1", "0.5", "True", "7"))

    def dim(self, x: Any) -> int:
        """A dimension, seldom one that does not exist."""
        return self.integer(-x.dim(), x.dim() - 1) if x.dim() else self.choice((0, -1, 1))

    def statement(self) -> str:
        """The next statement."""
        if not self.tensors() or (len(self.tensors()) < 3 and self.random.random() < 0.5):
            return _create(self, "", None)
        kind = self.random.choices(KINDS, WEIGHTS)[0]
        name = self.choice(self.tensors())
        return kind(self, name, self.names[name])


def _create(s: Source, name: str, x: Any) -> str:
    dtype = s.choice(DTYPES)
    grad = ", requires_grad=True" if dtype[:5] == "float" and s.random.random() < 0.3 else ""
    made = s.choice(
        (
            f"t.arange({s.integer(0, 8)}, dtype=t.{dtype if dtype != 'bool' else 'uint8'})",
            f"t.zeros({s.shape()}, dtype=t.{dtype})",
            f"t.ones({s.shape()}, dtype=t.{dtype}{grad})",
            f"t.full({s.shape()}, {s.choice((2, 3, 5))}, dtype=t.{dtype})",
            f"t.tensor([{s.integer(0, 3)}, {s.integer(-3, 300)}, 2, 1], dtype=t.{s.choice(REAL)})",
            f"t.tensor([1.5, -2.0, 3.0]{grad})",
        )
    )
    return f"{s.new()} = {made}"


def _strided(s: Source, x: Any) -> str:
    have = x.untyped_storage().nbytes() // x.element_size()
    offset = s.integer(0, have // 2)
    sizes = tuple(s.integer(0, 3) for _ in range(s.integer(0, 2)))
    strides = tuple(s.choice((0, 1, 1, 2, 3)) for _ in sizes)
    return f"{sizes}, {strides}, {offset}"


def _slice(s: Source, x: Any) -> str:
    if not x.dim() or s.random.random() < 0.1:
        return s.choice(("...", "None", "0", "()"))
    n = x.shape[0]
    options = (
        str(s.integer(-n, n - 1)),
        f"{s.integer(0, n)}:{s.integer(0, n + 1)}",
        f"::{s.integer(1, 3)}",
        f"..., {s.integer(0, x.shape[-1] - 1)}",
        f"{s.integer(0, n)}:",
        "None, ...",
    )
    return s.choice(options)


def _view_of(s: Source, x: Any) -> str:
    numel = max(1, x.numel())
    factor = s.choice([d for d in range(1, numel + 1) if numel % d == 0])
    return s.choice(
        (
            f"[{_slice(s, x)}]",
            f"[{_slice(s, x)}]",
            f".as_strided({_strided(s, x)})",
            f".as_strided({_strided(s, x)})",
            f".view({s.choice(('-1', f'-1, {factor}', '()', 't.bool', 't.uint8', 't.int32', 't.float16'))})",
            f".view(t.{s.choice(('bool', 'uint8', 'int8', x.dtype.__str__().partition('.')[2]))})",
            f".transpose({s.dim(x)}, {s.dim(x)})",
            f".narrow({s.dim(x)}, {s.integer(0, 2)}, {s.integer(0, 2)})",
            f".select({s.dim(x)}, {s.integer(0, 2)})",
            f".unsqueeze({s.dim(x)})",
            ".squeeze()",
            f".expand({s.integer(1, 3)}, {', '.join(map(str, x.shape)) or '-1'})",
            f".reshape(-1, {factor})",
            ".detach()",
            ".data",
            ".flatten()",
            ".t()",
            f".unfold({s.dim(x)}, {s.integer(0, 3)}, {s.integer(1, 2)})",
            ".diagonal()",
            ".real",
            ".conj()",
            ".contiguous()",
        )
    )


def _view(s: Source, name: str, x: Any) -> str:
    return f"{s.new()} = {name}{_view_of(s, x)}"


def _write(s: Source, name: str, x: Any) -> str:
    other = s.choice(s.tensors())
    made = (
        f"{name}.fill_({s.number()})",
        f"{name}.zero_()",
        f"{name}.add_({other})",
        f"{name}.add_({s.number()})",
        f"{name}.mul_({s.number()})",
        f"{name}.sub_({other}, alpha=2)",
        f"{name}.copy_({other})",
        f"{name}[{_slice(s, x)}] = {s.number()}",
        f"{name}[{_slice(s, x)}] = {other}",
        f"{name}[{other}.bool()] = {s.number()}",
        f"{name}.masked_fill_({other}.bool(), {s.number()})",
        f"{name}.masked_fill_({other}, {s.number()})",
        f"{name}.neg_()",
        f"{name}.clamp_(min=0)",
        f"{name}{_view_of(s, x)}.mul_(2)",
        f"{name}.logical_not_()",
        f"{name}.data.add_(1)",
    )
    text = s.choice(made)
    return f"with t.no_grad(): {text}" if s.random.random() < 0.3 else text


def _reshape(s: Source, name: str, x: Any) -> str:
    other = s.choice(s.tensors())
    return s.choice(
        (
            f"{name}.t_()",
            f"{name}.transpose_({s.dim(x)}, {s.dim(x)})",
            f"{name}.squeeze_()",
            f"{name}.unsqueeze_({s.dim(x)})",
            f"{name}.swapaxes_({s.dim(x)}, {s.dim(x)})",
            f"{name}.as_strided_({_strided(s, x)})",
            f"resize({name}, {s.shape()})",
            f"resize({name}, {s.shape()})",
            f"{name}.set_({other})",
            f"{name}.set_({other}.untyped_storage(), 0, ({s.integer(0, 1)},), (1,))",
            f"{name}.set_()",
            f"{name}.data = {other}",
            f"{name}.data = {other}{_view_of(s, x)}",
            f"t.utils.swap_tensors({name}, {other})",
            f"{name}.detach_()",
        )
    )


def _compute(s: Source, name: str, x: Any) -> str:
    other, third = s.choice(s.tensors()), s.choice(s.tensors())
    made = (
        f"{name} + {other}",
        f"{name} * {other}",
        f"{name} - {s.number()}",
        f"{name} == {other}",
        f"~{name}",
        f"-{name}",
        f"{name}.sum()",
        f"{name}.sum({s.dim(x)})",
        f"{name}.cumsum({s.dim(x)})",
        f"{name}.clone()",
        f"{name}.to(t.{s.choice(DTYPES)})",
        f"{name}.to(t.{s.choice(DTYPES)}, copy=True)",
        f"{name}.bool()",
        f"{name}.nonzero()",
        f"{name}.any()",
        f"{name}.all({s.dim(x)})",
        f"{name}.unique()",
        f"{name}.flip(0)",
        f"{name}[{other}]",
        f"{name}[{other}.bool()]",
        f"{name}.masked_select({other})",
        f"t.where({name}.bool(), {other}, {third})",
        f"t.where({name}, {other}, {third})",
        f"t.cat([{name}, {other}])",
        f"t.stack([{name}, {other}])",
        f"{name}.argmax()",
        f"{name}.max()",
        f"{name}.sort().values",
        f"t.logical_and({name}, {other})",
        f"t.count_nonzero({name})",
        f"{name}.index_select({s.dim(x)}, t.tensor([0]))",
    )
    return f"{s.new()} = {s.choice(made)}"


def _out(s: Source, name: str, x: Any) -> str:
    other, out = s.choice(s.tensors()), s.choice(s.tensors())
    made = (
        f"t.add({name}, {other}, out={out})",
        f"t.mul({name}, {other}, out={out})",
        f"t.sub({name}, {s.number()}, out={out})",
        f"t.abs({name}, out={out})",
        f"t.neg({name}, out={out})",
        f"t.sum({name}, {s.dim(x)}, out={out})",
        f"t.cumsum({name}, {s.dim(x)}, out={out})",
        f"t.cat([{name}, {other}], out={out})",
        f"t.logical_not({name}, out={out})",
        f"t.eq({name}, {other}, out={out})",
        f"t.clamp({name}, min=1, out={out})",
        f"t.index_select({name}, 0, t.tensor([0, 0]), out={out})",
        f"t.masked_select({name}, {other}.bool(), out={out})",
    )
    return s.choice(made)


def _share(s: Source, name: str, x: Any) -> str:
    array = f"n{s.random.randrange(ARRAYS)}"
    made = [
        f"{array} = {name}.numpy()",
        f"{array} = {name}.detach().numpy()",
        f"{array} = np.from_dlpack({name}.detach())",
        f"{array} = np.array(memoryview({name}.detach().numpy()), copy=False)",
        f"{s.new()} = t.from_dlpack({name}.detach())",
        f"c0 = {name}.detach().__dlpack__()",
        f"del {name}",
    ]
    if "c0" in s.names:
        made += [f"{s.new()} = t.utils.dlpack.from_dlpack(c0); del c0", "del c0"]
    for known in s.arrays():
        made += [
            f"{known}[...] = {s.integer(0, 3)}",
            f"{known}.flat[-1:] = 1",
            f"{s.new()} = t.from_numpy({known})",
            f"{s.new()} = t.from_dlpack({known})",
            f"{s.new()} = t.frombuffer(memoryview({known}), dtype=t.uint8)",
            f"{s.new()} = t.as_tensor({known}[::2])",
            f"del {known}",
        ]
    return s.choice(made)


def _differentiate(s: Source, name: str, x: Any) -> str:
    other = s.choice(s.tensors())
    made = (
        f"{name}.requires_grad_()",
        f"{name}.requires_grad_(False)",
        f"{name}.sum().backward()",
        f"({name} * {other}).sum().backward()",
        f"{name}.backward(retain_graph=True)",
        f"{s.new()} = ({name} * {name}).sum()",
        f"{s.new()} = {name}.grad",
        f"{name}.grad = None",
        f"{name}.register_hook(lambda g: g * 2)",
        f"{s.new()} = {name}.exp()",
        f"{name}.retain_grad()",
        f"{s.new()} = t.autograd.grad({name}.sum(), {other})[0]",
    )
    return s.choice(made)


KINDS: list[Callable[[Source, str, Any], str]] = [
    _create, _view, _write, _reshape, _compute, _out, _share, _differentiate, sparse
]  # fmt: skip
WEIGHTS = (8, 22, 16, 12, 14, 7, 13, 8, 22)
LIMIT = 4096  # elements: larger tensors are dropped


def too_large(value: Any) -> bool:
    """Whether a tensor would make the walk slow."""
    return math.prod(value.shape) > LIMIT
