"""Nodes of numbers: a graph computes them from the sizes of its inputs."""

from __future__ import annotations

import math
import operator
from typing import Any

import flambeau
from flambeau.fx.experimental._sizes.numbers import SymInt, wrapped
from flambeau.fx.experimental.sym_node import SymNode
from flambeau.fx.node import Node

_aten = flambeau.ops.aten


class NumberNodes:
    """The nodes of the numbers of one graph; an expression has one node.

    Args:
        tracer: holds the graph.
        program: the program that is recorded.
    """

    def __init__(self, tracer: Any, program: Any) -> None:
        self.tracer, self.program = tracer, program
        self._nodes: dict[Any, Node] = {}
        self._places: dict[Any, tuple[Any, tuple[Any, ...]]] = {}  # symbol -> overload, arguments

    def note(self, number: Any, node: Node) -> None:
        """Note that a node computes a symbolic number."""
        self.note_expr(number.node._expr, node)

    def note_expr(self, expr: Any, node: Node) -> None:
        """Note that a node computes the number of an expression."""
        self._nodes.setdefault(expr, node)
        node.meta["val"] = self._value(expr)

    def note_sizes(self, node: Node, geometry: Any) -> None:
        """Note the symbols that are sizes, strides or the offset of a node's tensor."""
        sizes, strides, offset = geometry
        places: list[Any] = [(n, _aten.sym_size.int, (node, d)) for d, n in enumerate(sizes)]
        places += [(n, _aten.sym_stride.int, (node, d)) for d, n in enumerate(strides)]
        places.append((offset, _aten.sym_storage_offset.default, (node,)))
        for number, overload, args in places:
            if isinstance(number, SymInt) and number.node._expr.is_Symbol:
                self._places.setdefault(number.node._expr, (overload, args))

    def node_of(self, expr: Any) -> Any:
        """Return the node of an expression, or a Python number if it is constant."""
        expr = self.program.env.replace(expr)
        if not expr.free_symbols:
            return int(expr) if expr.is_integer else float(expr)
        found = self._nodes.get(expr)
        if found is None:
            found = self._nodes[expr] = self._new(expr)
        return found

    def _value(self, expr: Any) -> Any:
        kind = bool if self.program.env._e.is_condition(expr) else int if expr.is_integer else float
        return wrapped(SymNode(expr, self.program.env, kind))

    def _new(self, expr: Any) -> Node:
        if expr.is_Symbol:
            return self._symbol(expr)
        e = self.program.env._e
        name = type(expr).__name__
        if name in _CALLS:
            return self._call(expr, _CALLS[name], [self.node_of(a) for a in expr.args])
        if expr.is_Add or expr.is_Mul or name in ("Max", "Min"):
            numerator, denominator = e.sympy.fraction(e.sympy.together(expr))
            if denominator != 1:
                target: Any = operator.floordiv if expr.is_integer else operator.truediv
                return self._call(expr, target, [self.node_of(numerator), self.node_of(denominator)])
            return self._folded(expr)
        if expr.is_Pow:
            return self._power(expr)
        if name in ("And", "Or"):
            return self._folded(expr)
        if name == "Piecewise" and len(expr.args) == 2:
            (chosen, condition), (other, _) = expr.args
            return self._call(expr, flambeau.sym_ite, [self.node_of(a) for a in (condition, chosen, other)])
        raise RuntimeError(f"make_fx: expected numbers of a graph to be arithmetic, got {expr}")

    def _symbol(self, symbol: Any) -> Node:
        place = self._places.get(symbol)
        if place is None:  # an equality has replaced the symbol of the input's size
            found = [s for s in self._places if self.program.env.replace(s) == symbol]
            if not found:
                raise RuntimeError(f"make_fx: expected numbers that are sizes of arguments, got {symbol}")
            place = self._places[found[0]]
        return self._call(symbol, *place)

    def _call(self, expr: Any, target: Any, args: Any) -> Node:
        node: Node = self.tracer.create_node("call_function", target, tuple(args), {})
        node.meta["val"] = self._value(expr)
        return node

    def _folded(self, expr: Any) -> Node:
        """Apply an operation of two operands to all arguments of an expression, constants last."""
        target = _FOLDS[type(expr).__name__]
        terms = sorted(expr.args, key=lambda a: (not a.free_symbols, str(a)))
        result, whole = self.node_of(terms[0]), terms[0]
        for term in terms[1:]:
            whole = type(expr)(whole, term)
            result = self._nodes[whole] = self._nodes.get(whole) or self._call(
                whole, target, [result, self.node_of(term)]
            )
        found: Node = result
        return found

    def _power(self, expr: Any) -> Node:
        base, exponent = expr.args
        if exponent.free_symbols:
            return self._call(expr, operator.pow, [self.node_of(base), self.node_of(exponent)])
        if exponent.is_Integer and exponent > 0:
            return self._call(expr, operator.pow, [self.node_of(base), int(exponent)])
        if exponent.is_negative:
            inverse = self.node_of(base**-exponent)
            return self._call(expr, operator.truediv, [1, inverse])
        if exponent == self.program.env._e.sympy.S.Half:
            return self._call(expr, flambeau.sym_sqrt, [self.node_of(base)])
        return self._call(expr, operator.pow, [self.node_of(base), float(exponent)])


_CALLS: dict[str, Any] = {
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "IntTrueDiv": operator.truediv,
    "ToFloat": flambeau.sym_float,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "TruncToInt": math.trunc,
    "RoundToInt": round,
    "Abs": operator.abs,
    "Not": flambeau.sym_not,
    "Equality": operator.eq,
    "Unequality": operator.ne,
    "GreaterThan": operator.ge,
    "StrictGreaterThan": operator.gt,
    "LessThan": operator.le,
    "StrictLessThan": operator.lt,
}
_FOLDS: dict[str, Any] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "Max": flambeau.sym_max,
    "Min": flambeau.sym_min,
    "And": operator.and_,
    "Or": operator.or_,
}
