"""Operators with all that entries say and all that is derived from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from codegen.model.documentation import Doc
from codegen.model.enumerations import BatchMethod, BatchRole, DimKind
from codegen.model.expressions import Expr, Primitive
from codegen.model.schema import Position, Schema
from codegen.model.statements import Result, Statement


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
    """The rule by which compute and result dtypes follow from the operands.

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
    masks: tuple[str, ...] = ()  # operands of bool or uint8 that do not take part in promotion


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
    no_dims: str  # what an empty list of dims reduces: "all" or "none"
    operands: tuple[str, ...]
    params: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Composite:
    """Made of other operators: an expression, or the statements of a function body."""

    expr: Expr | None
    position: Position = field(compare=False)
    block: tuple[Statement, ...] = ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The function body that the expression or the block is."""
        return self.block if self.expr is None else (Result(self.expr),)


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
    """One way to run an operator under vmap; `body`: of PARTS, if not those of the operator's body."""

    method: BatchMethod
    places: tuple[BatchPlace, ...]
    body: tuple[Statement, ...] = ()
    reason: str = ""  # of LOOP
    position: Position | None = field(compare=False, default=None)


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that is tested before anything is computed, and the exception if it is false."""

    condition: Expr  # host value: reads shapes, dtypes and numbers
    error: str  # a Python exception
    message: tuple[str | Expr, ...]  # expressions are shown as values
    of_out: bool = False  # it reads the argument `out`, so only the out= form has it


@dataclass(frozen=True, slots=True)
class Element:
    """Which one element along a dimension a result takes from an argument, or adds an argument to.

    The names are those of arguments. `adds`: the result is 0 elsewhere.
    """

    tensor: str
    index: str
    dim: str
    adds: bool


@dataclass(frozen=True, slots=True)
class Flops:
    """How many floating-point operations one call has, over the sizes of its arguments."""

    counter: Expr | None  # of FlopCounterMode; it may read results
    profiler: Expr | None  # of profiled events; over arguments alone
    operator: str  # under which FlopCounterMode counts


@dataclass(frozen=True, slots=True)
class Formula:
    """Gradient of the named arguments (several when one call yields all): a function body.

    body (): `none` (not differentiable). not_implemented formulas raise when they are reached.
    """

    args: tuple[str, ...]
    body: tuple[Statement, ...]
    not_implemented: bool
    origin: str  # "given" or "derived"
    position: Position | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class Derivative:
    """All that derivatives.yaml and the partial derivatives say about one operator."""

    formulas: tuple[Formula, ...]  # cover each differentiable argument once
    # output name -> "linear" | "elementwise" | function body
    forward: tuple[tuple[str, str | tuple[Statement, ...]], ...]
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
    doc: Doc
    test: TestSpec
    extra: tuple[tuple[str, object], ...]  # onnx, shard: kept for later targets
    internal: bool  # made by the generator (a fused derivative): no Python binding
    position: Position = field(compare=False)
    tags: tuple[str, ...] = ()  # of codegen.reading.keys.TAGS
    aliases: tuple[str, ...] = ()  # further Python names: "absolute", "special.expit"
    orders: tuple[tuple[str, ...], ...] = ()  # further orders of arguments by position
    batching: tuple[BatchRule, ...] = ()  # given by `vmap`; the others are in codegen.deriving.batching
    checks: tuple[Check, ...] = ()
    out_checks: tuple[Check, ...] = ()  # only of the out= form; they read `out`
    autocast: tuple[tuple[str, str], ...] = ()  # device -> policy, of CAST_POLICIES
    sparse: tuple[tuple[str, str], ...] = ()  # key of codegen.reading.keys.SPARSE -> function
    functional: str = (
        ""  # the name of the functional form, without the overload, where it is another operator
    )
    flops: Flops | None = None
    element: Element | None = None
    read_back: str = ""  # of a view that reads memory as other numbers: the view that reads it back

    @property
    def name(self) -> str:
        """Return the name with the overload, which is unique."""
        return str(self.schema.name)


# What the names of operators begin with that compute one scalar function for composites.
SCALAR_FUNCTION = "_scalar_"


@dataclass(frozen=True, slots=True)
class Model:
    """All operators with their derived forms: what every target reads."""

    operators: tuple[Operator, ...]  # YAML order, internal ones after their origin
    primitives: dict[str, Primitive]
    library: str = ""  # an extension's namespace, which is the family of its operators
    _forms: dict[str, tuple[Operator, Form]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _origins: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def origin(self, op: Operator) -> str:
        """Return the base name of the operator that a fused derivative is of; of other operators their own.

        The loop of a single scalar function serves every operator that calls it, so it is its own origin.
        """
        if not self._origins:
            origin = ""
            for each in self.operators:
                base = each.schema.name.base
                origin = origin if each.internal else base
                self._origins[each.name] = base if base.startswith(SCALAR_FUNCTION) else origin
        return self._origins[op.name]

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
