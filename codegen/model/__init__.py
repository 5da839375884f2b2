"""The typed, target-free model of the two YAML files: what `load` builds and every target reads.

Nothing here knows C++ or Python spelling. All classes are frozen; equal YAML gives equal models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from codegen.model.enumerations import BatchMethod, BatchRole, DimKind
from codegen.model.hashing import Hashed, hashed_once


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a YAML file; line and column count from 1. Positions take no part in equality."""

    file: str
    line: int
    column: int


# --- the schema language ---------------------------------------------------------------------


@hashed_once
@dataclass(frozen=True, slots=True)
class BaseType(Hashed):
    """``Tensor``, ``int``, ``Scalar``, ``ScalarType``, ``str``, ..."""

    name: str


@hashed_once
@dataclass(frozen=True, slots=True)
class OptionalType(Hashed):
    """A value or None."""

    elem: Type


@hashed_once
@dataclass(frozen=True, slots=True)
class ListType(Hashed):
    """``elem[]`` or ``elem[size]``; a sized int list also accepts one int for all places."""

    elem: Type
    size: int | None = None


@hashed_once
@dataclass(frozen=True, slots=True)
class TupleType(Hashed):
    """Several results, or a tuple display; never in a schema."""

    items: tuple[ExprType, ...]


Type = BaseType | OptionalType | ListType
ExprType = Type | TupleType


@dataclass(frozen=True, slots=True)
class Alias:
    """``(a)``, ``(a!)``, ``(a -> *)``, ``(a|b!)``: the text's parts, kept so that printing is lossless."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    is_write: bool


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter of a schema."""

    name: str
    type: Type
    default: str | None  # as written; None: required
    alias: Alias | None
    kwarg_only: bool
    is_out: bool = False  # the trailing ``*, Tensor(a!) out`` group


@dataclass(frozen=True, slots=True)
class Return:
    """One result of a schema."""

    name: str | None
    type: Type
    alias: Alias | None


@dataclass(frozen=True, slots=True)
class OperatorName:
    """The parts of ``add_.Tensor``."""

    base: str  # "add", without the in-place underscore
    overload: str  # "Tensor", "" when there is none
    inplace: bool

    def __str__(self) -> str:
        name = self.base + ("_" if self.inplace else "")
        return f"{name}.{self.overload}" if self.overload else name


@dataclass(frozen=True, slots=True)
class Schema:
    """One signature, without loss of the text that it was written as."""

    name: OperatorName
    args: tuple[Argument, ...]  # every argument in order, out arguments last
    returns: tuple[Return, ...]


# --- expressions -----------------------------------------------------------------------------
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

    One of ``shape strides storage_offset memory_format ndim numel dtype device is_complex is_conj``,
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


Expr = Var | Number | Literal | Prim | Call | Prop | Host | If | Seq | Item


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
    include: str | None = None  # the header that declares what `cpp` and `cuda` call, if not vecmath
    integer_divisor: int | None = None  # the argument that must not be 0 for integers


# --- operators -------------------------------------------------------------------------------


class Kind(Enum):
    """The key by which an entry says how it computes."""

    POINTWISE = "pointwise"
    REDUCE = "reduce"
    COMPOSITE = "composite"
    VIEW = "view"
    KERNELS = "kernels"


class FormKind(Enum):
    """How results are given back."""

    FUNCTIONAL = "functional"
    INPLACE = "inplace"
    OUT = "out"


@dataclass(frozen=True, slots=True)
class Form:
    """One dispatcher entry: the operator itself or a variant derived from it."""

    schema: Schema
    kind: FormKind
    numbers: tuple[str, ...]  # arguments that are Tensors in the operator and Scalars here
    is_function: bool
    is_method: bool

    @property
    def name(self) -> str:
        """Return the name with the overload, which is unique."""
        return str(self.schema.name)


@dataclass(frozen=True, slots=True)
class DTypeRule:
    """How compute and result dtypes follow from the operands.

    name: promote (result = common), floating (integers become the default float), compare and
    logical (result bool), real (complex gives its real type), integral (no floats), keep (first operand's).
    """

    name: str
    allowed: tuple[str, ...]  # of bool, integral, floating, complex (half types follow floating)


@dataclass(frozen=True, slots=True)
class Pointwise:
    """`cases` maps a value of the str argument `switch` to its expression; one case "" without switch."""

    switch: str | None
    cases: tuple[tuple[str, Expr], ...]
    operands: tuple[str, ...]  # Tensor arguments, in order
    params: tuple[str, ...]  # number arguments that the expression reads
    masks: tuple[str, ...] = ()  # operands of bool or uint8 that have no say in the dtype


@dataclass(frozen=True, slots=True)
class Reduce:
    """Joins the elements of each fiber."""

    let: tuple[tuple[str, Expr], ...]  # tensor-level, keepdim shapes, operands of map and finish
    map: Expr  # scalar level over operands, let names and params
    combine: str  # sum, prod, max, min, any, all, xor
    finish: Expr  # scalar level over acc, count, let names, params
    dim: str | None  # the dims argument; None: all dims
    keepdim: str | None
    dtype: str | None  # the ScalarType? argument that overrides the result dtype
    empty: str  # "identity" or "error"
    operands: tuple[str, ...]
    params: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListLoop:
    """One call of a form for each place of lists: a row of `foreach:`."""

    form: str
    given: tuple[ListArgument, ...]  # for the form's arguments, in order


@dataclass(frozen=True, slots=True)
class ListArgument:
    """What stands for an argument of the form: an argument of the loop, or its item at the place."""

    name: str
    is_item: bool


@dataclass(frozen=True, slots=True)
class Composite:
    """Made of other operators: exactly one of an expression, C++ statements and a loop over lists."""

    expr: Expr | None
    cpp: str | None  # raw C++ body
    position: Position = field(compare=False)
    loop: ListLoop | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """A call of a handwritten C++ rule: ``name(arg, arg, ...)`` over the operator's arguments."""

    name: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class View:
    """New geometry over self's storage."""

    rule: Rule


@dataclass(frozen=True, slots=True)
class Kernels:
    """Handwritten kernels and the rule for their outputs' shapes."""

    by_backend: tuple[tuple[str, str], ...]  # ("CPU", "softmax_cpu")
    shape: Rule | None  # None: dynamic, or an in-place operator on self
    dynamic: str | None  # reason why the shape is data


Body = Pointwise | Reduce | Composite | View | Kernels


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """How a rule treats one argument or result."""

    name: str
    role: BatchRole
    at: int = 0  # ALIGN: core dimensions; FOLD: dimension; FOLLOW: position of the argument that names it
    dims: DimKind | None = None  # of DIM


@dataclass(frozen=True, slots=True)
class BatchRule:
    """One way to run an operator under vmap; `expr`: of PARTS, if not those of the operator's body."""

    method: BatchMethod
    places: tuple[BatchPlace, ...]
    expr: Expr | None
    reason: str = ""  # of LOOP
    position: Position | None = field(compare=False, default=None)


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold before anything is computed, and the exception raised otherwise."""

    condition: Expr  # host value: reads shapes, dtypes and numbers
    error: str  # a Python exception
    message: tuple[str | Expr, ...]  # expressions are shown as values


@dataclass(frozen=True, slots=True)
class Formula:
    """Gradient of the named arguments (several when one call yields all), tensor level.

    expr None: `none` (not differentiable). not_implemented formulas raise when they are reached.
    """

    args: tuple[str, ...]
    expr: Expr | None
    not_implemented: bool
    origin: str  # "given" or "derived"
    position: Position | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class Derivative:
    """All that derivatives.yaml and the partial derivatives say about one operator."""

    formulas: tuple[Formula, ...]  # cover each differentiable argument once
    forward: tuple[tuple[str, str | Expr], ...]  # output name -> "linear" | "elementwise" | expression
    nondifferentiable_outputs: tuple[str, ...]
    node: str | None = None  # the shown name of its nodes; None: made from the operator's


@dataclass(frozen=True, slots=True)
class TestSpec:
    """Sample domain per argument, sample calls, and the NumPy reference; see docs/adding-an-operator.md."""

    intervals: tuple[tuple[str, tuple[float, float]], ...]
    samples: tuple[str, ...]
    reference: str | None
    tolerance: float | None  # relative, float32; with the reason in `tolerance_reason`
    tolerance_reason: str | None
    errors: tuple[tuple[str, str, str], ...]  # (arguments, exception, message regex)
    no_gradient: str | None = None  # why the gradient is not tested against differences


@dataclass(frozen=True, slots=True)
class Operator:
    """One entry with all that is derived from it."""

    schema: Schema
    family: str
    kind: Kind
    body: Body
    dtype: DTypeRule
    forms: tuple[Form, ...]  # the functional (or declared) form first
    derivative: Derivative | None  # None: composite differentiated through its parts
    namespace: str  # "" (flambeau), "nn", "linalg", "special", ...
    infix: str | None
    doc: str
    test: TestSpec
    extra: tuple[tuple[str, object], ...]  # onnx, shard: kept for later targets
    internal: bool  # made by the generator (a fused derivative): no Python binding
    position: Position = field(compare=False)
    tags: tuple[str, ...] = ()  # of codegen.reading.keys.TAGS
    aliases: tuple[str, ...] = ()  # further Python names: "absolute", "special.expit"
    orders: tuple[tuple[str, ...], ...] = ()  # further orders of arguments by position
    batching: tuple[BatchRule, ...] = ()  # given by `vmap`; the others are in codegen.deriving.batching
    checks: tuple[Check, ...] = ()
    autocast: tuple[tuple[str, str], ...] = ()  # device -> policy, of CAST_POLICIES
    sparse: tuple[tuple[str, str], ...] = ()  # key of codegen.reading.keys.SPARSE -> function

    @property
    def name(self) -> str:
        """Return the name with the overload, which is unique."""
        return str(self.schema.name)


@dataclass(frozen=True, slots=True)
class Model:
    """All operators with their derived forms: what every target reads."""

    operators: tuple[Operator, ...]  # YAML order, internal ones after their origin
    primitives: dict[str, Primitive]
    _forms: dict[str, tuple[Operator, Form]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def form(self, name: str) -> tuple[Operator, Form]:
        """Return the form called `name`, with the operator that it belongs to."""
        return self._table()[name]

    def find(self, name: str) -> Form | None:
        """Return the form called `name`, if there is one."""
        return self._table().get(name, (None, None))[1]

    def _table(self) -> dict[str, tuple[Operator, Form]]:
        if not self._forms:
            self._forms.update({f.name: (op, f) for op in self.operators for f in op.forms})
        return self._forms
