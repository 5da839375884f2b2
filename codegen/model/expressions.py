"""Expressions of both levels, and the primitives of the scalar level."""

from __future__ import annotations

from dataclasses import dataclass, field

from codegen.model.hashing import Hashed, hashed_once
from codegen.model.schema import ExprType, ListType, Position

# Scalar level: Var, Number, Prim only; the type is the loop's compute type throughout
# (comparisons are bool). Tensor level: everything; `type` is a schema type.


@hashed_once
@dataclass(frozen=True, slots=True)
class Var(Hashed):
    """A name in scope."""

    name: str
    type: ExprType
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Number(Hashed):
    """A numeric literal."""

    value: bool | int | float | complex
    type: ExprType
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Literal(Hashed):
    """A string, None, or an enumerator such as a dtype name (type ScalarType)."""

    value: str | None
    type: ExprType
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Prim(Hashed):
    """Scalar level: a primitive of codegen/primitives.yaml applied to scalars."""

    name: str
    args: tuple[Expr, ...]
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Call(Hashed):
    """Tensor level: one operator form; `args` are in schema order with defaults filled in."""

    form: str  # "mul.Tensor": key into Model.forms
    args: tuple[Expr, ...]
    type: ExprType  # TupleType for several results
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Prop(Hashed):
    """A property of a Tensor.

    One of ``shape strides storage_offset memory_format ndim numel dtype device layout is_complex is_conj``,
    ``is_neg is_floating_point defined``.
    """

    of: Expr
    name: str
    type: ExprType
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Host(Hashed):
    """Arithmetic, comparison or logic on ints, floats, bools: op is the symbol, or a host function.

    Host functions are rows of codegen/host_functions.yaml; ``slice(list, begin, end)`` stands for
    ``list[begin:end]``, where a bound may be a None Literal. On lists ``+`` joins and ``*`` repeats. Of a
    Scalar: ``-``, ``==``, ``!=``, ``conj`` and ``tensor`` (0-dim, promotes like the number) only.
    """

    op: str
    args: tuple[Expr, ...]
    type: ExprType
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class If(Hashed):
    """``then if condition else other``; the condition is a bool on the host."""

    condition: Expr
    then: Expr
    other: Expr
    type: ExprType
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Seq(Hashed):
    """A list or tuple display."""

    items: tuple[Expr, ...]
    type: ExprType
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Item(Hashed):
    """``seq[i]`` on lists, shapes and tuples (never tensor indexing)."""

    of: Expr
    index: Expr
    type: ExprType
    position: Position = field(compare=False)


@hashed_once
@dataclass(frozen=True, slots=True)
class Each(Hashed):
    """``[item for names in lists if condition]``; several lists are walked side by side, as by ``zip``."""

    names: tuple[str, ...]
    lists: tuple[Expr, ...]
    condition: Expr | None
    item: Expr
    type: ListType
    position: Position = field(compare=False)


Expr = Var | Number | Literal | Prim | Call | Prop | Host | If | Seq | Item | Each


@dataclass(frozen=True, slots=True)
class Primitive:
    """One row of codegen/primitives.yaml: everything known about a scalar function."""

    name: str
    arity: int
    args: tuple[str, ...]  # per argument "same" (the compute type) or "bool" (a condition)
    infix: str | None  # the Python operator that means it: "+", "<", "and", ...
    result: str  # "same", "bool", "real"
    domains: tuple[str, ...]  # of "bool", "integral", "floating", "complex": where it is defined
    cpp: str  # format string over {0}, {1}...: scalar C++ (namespace vec)
    cuda: str
    partials: tuple[Expr | None, ...]  # scalar-level, over variables x0, x1, ...; None: not differentiable
    operator: str | None  # operator form that does the same on tensors, for lowering
    oracle: str  # Python expression over numpy (np), scipy.special (sp), x0, x1...
    interval: tuple[tuple[float, float], ...]  # sample domain per argument
    vectorises: bool  # whether the C++ spelling is branch-free
    lanes: bool = False  # whether it has a form for vectors although integers have the function too
    opencl: str | None = None  # the same in OpenCL C over real types; None: there is no such kernel
    opencl_complex: str | None = None  # the same for complex numbers
    include: str | None = None  # the header that declares what `cpp` and `cuda` call, if not vecmath
    math: str | None = None  # mathematical notation over {0}, {1}...; None: the name with its arguments
    integer_divisor: int | None = None  # the argument that must not be 0 for integers
