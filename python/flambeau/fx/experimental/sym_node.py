"""`SymNode`: the expression behind a `SymInt`, `SymFloat` or `SymBool`."""

from __future__ import annotations

from typing import Any

from flambeau._loading.lazy import attributes
from flambeau.fx.experimental._sizes.numbers import wrapped

_CONDITIONS = frozenset("eq ne lt le gt ge and or sym_not".split())
_FLOATS = frozenset("truediv sym_float sym_sqrt".split())
_INTEGERS = frozenset("floor ceil trunc round".split())


class SymNode:
    """An expression, the type of its value, and the environment of its symbols.

    Args:
        expr: the expression, of sympy.
        shape_env: the environment.
        pytype: int, float or bool.
        hint: accepted; the environment computes the value for the example sizes.
        constant: accepted.
        fx_node: accepted.

    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import ShapeEnv
        >>> env = ShapeEnv()
        >>> node = env.create_symintnode(env.create_symbol(5, "n"), hint=5).node
        >>> node.expr, node.hint, node.pytype
        (s0, 5, <class 'int'>)
    """

    def __init__(
        self,
        expr: Any,
        shape_env: Any,
        pytype: type,
        hint: Any = None,
        constant: Any = None,
        fx_node: Any = None,
    ) -> None:
        self._expr, self.shape_env, self.pytype, self.fx_node = expr, shape_env, pytype, fx_node

    @property
    def expr(self) -> Any:
        """The expression, in the symbols that the guards leave open."""
        return self.shape_env.replace(self._expr)

    @property
    def hint(self) -> Any:
        """The value for the example sizes; None if it depends on elements of tensors."""
        return self.shape_env.value_of(self._expr, self.pytype)

    def __str__(self) -> str:
        return str(self.expr)

    __repr__ = __str__

    def has_hint(self) -> bool:
        """Return whether the example sizes determine the value."""
        return self.hint is not None

    def require_hint(self, fallback: Any = None) -> Any:
        """Return the value for the example sizes, or `fallback`.

        Args:
            fallback: the result for a number that depends on elements of tensors.
        Raises: `GuardOnDataDependentSymNode` for such a number without a fallback.
        """
        found = self.hint
        found = fallback if found is None else found
        return self.shape_env.size_hint(self._expr) if found is None else found

    def constant(self) -> Any:
        """Return the value of an expression without symbols; None for others."""
        return self.shape_env.constant_of(self._expr, self.pytype)

    maybe_as_int = maybe_as_bool = maybe_as_float = constant

    def is_symbolic(self) -> bool:
        """Return whether the expression contains symbols."""
        return self.constant() is None

    def is_int(self) -> bool:
        """Return whether the value is an integer."""
        return self.pytype is int

    def is_float(self) -> bool:
        """Return whether the value is a floating-point number."""
        return self.pytype is float

    def is_bool(self) -> bool:
        """Return whether the value is a bool."""
        return self.pytype is bool

    def is_nested_int(self) -> bool:
        """Return False: the number is not the length of a ragged dimension."""
        return False

    def takes(self, operand: Any) -> bool:
        """Return whether an operation of the node accepts a number as its other operand."""
        return isinstance(operand, bool | int | float) or (
            isinstance(operand, SymNode) and operand.shape_env is self.shape_env
        )

    def compute(self, name: str, operands: list[Any], is_reflected: bool = False) -> SymNode:
        """Return the node of an operation.

        Args:
            name: the operation, as in Python's special methods.
            operands: nodes and Python numbers after this one.
            is_reflected: whether this node is the second operand.
        """
        nodes = [o if isinstance(o, SymNode) else self.shape_env.constant_node(o) for o in operands]
        nodes = [*nodes, self] if is_reflected else [self, *nodes]
        return SymNode(
            self.shape_env.combine(name, [n.expr for n in nodes]),
            self.shape_env,
            _result_type(name, [n.pytype for n in nodes], nodes),
        )

    def guard_int(self, file: str, line: int) -> int:
        """Return the value; record that the number equals it.

        Args:
            file: accepted.
            line: accepted.
        """
        return int(self.shape_env.specialize(self._expr, self.pytype))

    def guard_float(self, file: str, line: int) -> float:
        """Do the same as `guard_int` for a floating-point number."""
        return float(self.shape_env.specialize(self._expr, self.pytype))

    def guard_bool(self, file: str, line: int) -> bool:
        """Return the truth for the example sizes; record it."""
        condition = self if self.pytype is bool else self.compute("ne", [0])
        return bool(self.shape_env.evaluate_expr(condition.expr))

    def expect_true(self, file: str, line: int) -> bool:
        """Return the truth; record a check for the graph if it depends on elements of tensors."""
        return bool(self.shape_env.guard_or_defer_runtime_assert(self.expr, f"{file}:{line}"))

    def note_size(self) -> None:
        """Note that the number is the size of a dimension."""
        self.shape_env.note_size(self.expr)

    def guard_size_oblivious(self, file: str, line: int) -> bool:
        """Return the truth, where sizes that depend on elements count as at least 2."""
        return bool(self.shape_env.evaluate_expr(self.expr, size_oblivious=True))

    def wrap_int(self, num: int) -> SymNode:
        """Return the node of an integer."""
        node: SymNode = self.shape_env.constant_node(num)
        return node

    wrap_float = wrap_bool = wrap_int


def _result_type(name: str, types: list[type], nodes: list[SymNode]) -> type:
    if name in _CONDITIONS:
        return bool
    if name in _FLOATS:
        return float
    if name in _INTEGERS:
        return int
    if name == "sym_ite":
        return nodes[1].pytype
    if name == "pow" and float not in types and nodes[1].expr.is_negative:
        return float
    return float if float in types else int


def to_node(self: Any, num: Any) -> Any:
    """Return the node of a number; NotImplemented for other objects.

    Args:
        self: a node of the environment.
        num: a symbolic or a Python number.
    """
    node = getattr(num, "node", num)
    if not self.takes(node):
        return NotImplemented
    return node if isinstance(node, SymNode) else self.wrap_int(node)


def number_of(node: SymNode) -> Any:
    """Return the `SymInt`, `SymFloat` or `SymBool` of a node; a Python number if it is constant.

    Args:
        node: the node.
    """
    return wrapped(node)


__getattr__, __dir__ = attributes(__name__)
