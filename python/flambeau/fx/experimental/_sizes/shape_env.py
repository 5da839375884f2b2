"""`ShapeEnv`: the symbols of one trace, their example values and bounds, and the conditions on them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flambeau.fx.experimental._sizes.contexts import DimDynamic, StatelessSymbolicContext
from flambeau.fx.experimental._sizes.errors import (
    ConstraintViolationError,
    GuardOnDataDependentSymNode,
)
from flambeau.fx.experimental._sizes.numbers import wrapped
from flambeau.fx.experimental.sym_node import SymNode

_LARGEST = sys.maxsize - 1


@dataclass(frozen=True)
class ShapeGuard:
    """A condition that must hold for a trace to be valid.

    Args:
        expr: the condition.
        sloc: the place in the program that needed it.
        size_oblivious: whether sizes that depend on elements counted as at least 2.
    """

    expr: Any
    sloc: Any = None
    size_oblivious: bool = False


@dataclass(frozen=True)
class ValueRanges:
    """The least and the greatest value of a symbol; None where there is no bound.

    Args:
        lower: the least value.
        upper: the greatest value.
    """

    lower: Any
    upper: Any

    def __str__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper is None else self.upper}]"

    __repr__ = __str__


class ShapeEnv:
    """The symbols of a trace and the conditions under which the trace is valid.

    A symbol stands for a size of an input and has an example value ("backed"), or for a number that an
    operator reads from elements ("unbacked"). Equal example values share one symbol. The sizes 0 and 1 are
    constants.

    Args:
        duck_shape: whether equal example values share a symbol.
        specialize_zero_one: whether the sizes 0 and 1 are constants.
        assume_static_by_default: whether sizes are constants unless they are declared dynamic.
        **_options: accepted.
    Raises: ModuleNotFoundError if sympy is not installed (``pip install flambeau[symbolic]``).

    Example:
        >>> from flambeau.fx.experimental.symbolic_shapes import ShapeEnv
        >>> env = ShapeEnv()
        >>> n = env.create_symintnode(env.create_symbol(5, "x.size()[0]"), hint=5)
        >>> bool(n % 5 == 0), env.format_guards()
        (True, ' - Eq(Mod(s0, 5), 0)')
    """

    def __init__(
        self,
        *,
        duck_shape: bool | None = None,
        specialize_zero_one: bool = True,
        assume_static_by_default: bool = False,
        **_options: Any,
    ) -> None:
        from flambeau.fx.experimental._sizes import expressions

        self._e = expressions
        self.duck_shape = True if duck_shape is None else duck_shape
        self.specialize_zero_one = specialize_zero_one
        self.assume_static_by_default = assume_static_by_default
        self.guards: list[ShapeGuard] = []
        self.var_to_val: dict[Any, int] = {}
        self.var_to_range: dict[Any, ValueRanges] = {}
        self.var_to_sources: dict[Any, list[Any]] = {}
        self.source_to_var: dict[str, Any] = {}
        self.val_to_var: dict[int, Any] = {}
        self.replacements: dict[Any, Any] = {}
        self.deferred_runtime_asserts: dict[Any, list[Any]] = {}
        self.size_like: set[Any] = set()
        self.frozen = False
        self._initial: dict[Any, ValueRanges] = {}
        self._counts = {"s": 0, "u": 0, "zuf": 0}
        self._suppressed = 0

    def __deepcopy__(self, memo: Any) -> ShapeEnv:
        return self  # a copy of a graph has the same symbols

    # --- symbols ----------------------------------------------------------------------------------

    def create_symbol(
        self,
        val: int,
        source: Any = None,
        dynamic_dim: DimDynamic = DimDynamic.DUCK,
        constraint_dim: Any = None,
        positive: bool | None = True,
        do_not_specialize_zero_one: bool = False,
        symbolic_context: Any = None,
    ) -> Any:
        """Return the expression of a size: a symbol, or a constant if the size is fixed.

        Args:
            val: the example value.
            source: the place of the size in the inputs.
            dynamic_dim: how the size is treated.
            constraint_dim: accepted.
            positive: accepted; sizes are at least 2 with `specialize_zero_one`.
            do_not_specialize_zero_one: whether 0 and 1 become symbols too.
            symbolic_context: accepted.
        """
        fixes = self.specialize_zero_one and not do_not_specialize_zero_one
        if dynamic_dim is DimDynamic.STATIC or (fixes and val in (0, 1)):
            return self._e.constant(int(val))
        if dynamic_dim is DimDynamic.SIZE_LIKE_UNBACKED:
            return self._unbacked(0, _LARGEST, val)
        shares = dynamic_dim is DimDynamic.DUCK and self.duck_shape
        if shares and val in self.val_to_var:
            found = self.val_to_var[val]
        else:
            found = self._symbol("s", positive=fixes)
            self.var_to_val[found] = int(val)
            self.var_to_range[found] = self._initial[found] = ValueRanges(2 if fixes else 0, None)
            if shares:
                self.val_to_var[val] = found
        self.var_to_sources.setdefault(found, []).append(source)
        if source is not None:
            self.source_to_var[str(source)] = found
        return found

    def create_unspecified_symbol(
        self, val: Any, source: Any = None, dynamic_dim: Any = None, **_: Any
    ) -> Any:
        """Return a symbol for a number that is not a size, with any value."""
        found = self._symbol("s", positive=False)
        self.var_to_val[found] = val
        self.var_to_range[found] = ValueRanges(None, None)
        self.var_to_sources[found] = [source]
        return found

    def create_unspecified_symint_and_symbol(self, value: int, source: Any, dynamic_dim: Any = None) -> Any:
        """Return a `SymInt` for an integer that is not a size."""
        return self.create_symintnode(self.create_unspecified_symbol(value, source), hint=value)

    def create_symintnode(self, sym: Any, *, hint: int | None = None, source: Any = None) -> Any:
        """Return the `SymInt` of an expression.

        Args:
            sym: the expression.
            hint: accepted; the environment computes it.
            source: accepted.
        """
        return wrapped(SymNode(sym, self, int))

    def create_unbacked_symint(self, source: Any = None) -> Any:
        """Return a `SymInt` whose value is unknown while tracing."""
        return self.create_symintnode(self._unbacked(None, None, 7))

    def create_unbacked_symbool(self) -> Any:
        """Return a `SymBool` whose value is unknown while tracing."""
        return wrapped(SymNode(self._e.OPERATIONS["eq"](self._unbacked(0, 1, 1), 1), self, bool))

    def create_unbacked_symfloat(self) -> Any:
        """Return a `SymFloat` whose value is unknown while tracing."""
        found = self._symbol("zuf", is_float=True)
        self.var_to_range[found] = ValueRanges(None, None)
        return wrapped(SymNode(found, self, float))

    def _symbol(self, prefix: str, **properties: bool) -> Any:
        number = self._counts[prefix]
        self._counts[prefix] += 1
        return self._e.size_symbol(f"{prefix}{number}", **properties)

    def _unbacked(self, lower: Any, upper: Any, likely: int) -> Any:
        found = self._symbol("u")
        self.var_to_range[found] = ValueRanges(lower, upper)
        if lower is not None:
            self.size_like.add(found)
        return found

    def free_number(self, symbol: Any) -> None:
        """Note that a symbol stands for an integer that is not a size and may be negative."""
        self.var_to_range[symbol] = self._initial[symbol] = ValueRanges(None, None)

    def note_size(self, expr: Any) -> None:
        """Note that a number is the size of a dimension."""
        if self.is_unbacked_symint(expr):
            self.size_like.add(expr)
            self.constrain_symbol_range(expr, 0, _LARGEST)

    def is_unbacked_symint(self, symbol: Any) -> bool:
        """Return whether a symbol depends on elements of tensors."""
        return symbol in self.var_to_range and symbol not in self.var_to_val

    def initial_range(self, symbol: Any) -> ValueRanges:
        """Return the bounds that a symbol had before any condition was recorded."""
        return self._initial.get(symbol, ValueRanges(None, None))

    def constant_node(self, value: Any) -> SymNode:
        """Return the node of a Python number."""
        return SymNode(self._e.constant(value), self, type(value))

    def combine(self, name: str, exprs: Sequence[Any]) -> Any:
        """Return the expression of an operation."""
        key = f"{name}_" if name in ("and", "or") else name
        return self._e.readable(self._e.OPERATIONS[key](*exprs))

    # --- values -----------------------------------------------------------------------------------

    def replace(self, expr: Any) -> Any:
        """Return an expression without the symbols that equalities determine."""
        if not self.replacements or not expr.free_symbols & self.replacements.keys():
            return expr
        return self.replace(expr.subs(self.replacements))

    def value_of(self, expr: Any, pytype: type) -> Any:
        """Return the value for the example sizes; None if it depends on elements of tensors."""
        if not expr.free_symbols <= self.var_to_val.keys():
            expr = self.replace(expr)
            if not expr.free_symbols <= self.var_to_val.keys():
                return None
        return pytype(self._e.evaluate(expr, self.var_to_val))

    def constant_of(self, expr: Any, pytype: type) -> Any:
        """Return the value of an expression without symbols; None for others."""
        expr = self.replace(expr)
        return None if expr.free_symbols else pytype(self._e.evaluate(expr, {}))

    def size_hint(self, expr: Any, *, allow_none: bool = False) -> Any:
        """Return the value of an expression for the example sizes.

        Args:
            expr: the expression.
            allow_none: return None where the value depends on elements of tensors.
        Raises: `GuardOnDataDependentSymNode` for such a value otherwise.
        """
        found = self.value_of(expr, bool if self._e.is_condition(expr) else int if expr.is_integer else float)
        if found is None and not allow_none:
            raise self._unknown(expr)
        return found

    def _unknown(self, expr: Any) -> GuardOnDataDependentSymNode:
        return GuardOnDataDependentSymNode(
            expr,
            f"Could not guard on data-dependent expression {expr}: expected a condition on sizes of inputs, "
            "got one on elements of tensors; use guard_or_false, guard_or_true, statically_known_true or "
            "torch._check",
        )

    # --- conditions -------------------------------------------------------------------------------

    def simplify(self, expr: Any) -> Any:
        """Return an expression with the equalities applied; True or False if the bounds determine it."""
        expr = self.replace(expr)
        known = self.static_truth(expr) if self._e.is_condition(expr) else None
        return expr if known is None else self._e.constant(known)

    def static_truth(self, condition: Any, size_oblivious: bool = False) -> bool | None:
        """Return the truth of a condition if bounds and recorded conditions determine it.

        Args:
            condition: the condition.
            size_oblivious: whether sizes that depend on elements count as at least 2.
        """
        condition = self.replace(condition)
        bounds = {s: (r.lower, r.upper) for s, r in self.var_to_range.items()}
        if size_oblivious:
            bounds |= {s: (max(2, bounds[s][0]), bounds[s][1]) for s in self.size_like}
        found = self._e.proven(condition, bounds)
        if found is not None:
            return found
        known = {self.replace(c) for c in self.conditions()}
        if condition in known:
            return True
        return False if self._e.negated(condition) in known else None

    def conditions(self) -> list[Any]:
        """Return the guards and the checks for the graph."""
        deferred = [c for checks in self.deferred_runtime_asserts.values() for c in checks]
        return [guard.expr for guard in self.guards] + deferred

    def evaluate_expr(
        self, orig_expr: Any, hint: Any = None, fx_node: Any = None, size_oblivious: bool = False, **_: Any
    ) -> bool:
        """Return the truth of a condition for the example sizes, and record it as a guard.

        Args:
            orig_expr: the condition.
            hint: accepted; the environment computes it.
            fx_node: accepted.
            size_oblivious: whether sizes that depend on elements count as at least 2.
        Raises: `GuardOnDataDependentSymNode` if the truth depends on elements of tensors.
        """
        condition = self.replace(orig_expr)
        known = self.static_truth(condition, size_oblivious)
        if known is not None:
            return known
        value = self.value_of(condition, bool)
        if value is None:
            raise self._unknown(condition)
        if not self._suppressed:
            self.add_guard(condition if value else self._e.negated(condition), size_oblivious)
        return bool(value)

    def specialize(self, expr: Any, pytype: type) -> Any:
        """Return the value of an expression; record that it equals this value."""
        value = self.value_of(expr, pytype)
        if value is None:
            raise self._unknown(expr)
        self.evaluate_expr(self._e.OPERATIONS["eq"](expr, self._e.constant(value)))
        return value

    def add_guard(self, condition: Any, size_oblivious: bool = False) -> None:
        """Record a condition that holds for the example sizes."""
        if self.frozen:
            raise ConstraintViolationError(f"ShapeEnv: expected no guard after freeze(), got {condition}")
        self.guards.append(ShapeGuard(condition, _place_in_program(), size_oblivious))
        self._learn(condition)

    def guard_or_defer_runtime_assert(self, orig_expr: Any, msg: str, fx_node: Any = None) -> bool:
        """Return the truth of a condition; if it depends on elements, record a check and return True.

        Args:
            orig_expr: the condition.
            msg: accepted.
            fx_node: accepted.
        """
        condition = self.replace(orig_expr)
        known = self.static_truth(condition)
        if known is not None:
            return known
        unknown = sorted((s for s in condition.free_symbols if self.is_unbacked_symint(s)), key=str)
        if not unknown:
            return self.evaluate_expr(condition)
        self.deferred_runtime_asserts.setdefault(unknown[-1], []).append(condition)
        self._learn(condition)
        return True

    def constrain_symbol_range(self, s: Any, compiler_min: Any, compiler_max: Any) -> None:
        """Declare bounds of a symbol.

        Args:
            s: the symbol.
            compiler_min: the least value.
            compiler_max: the greatest value.
        """
        old = self.var_to_range[s]
        lower = compiler_min if old.lower is None else max(old.lower, compiler_min)
        upper = compiler_max if old.upper is None else min(old.upper, compiler_max)
        self.var_to_range[s] = ValueRanges(lower, upper)

    def _learn(self, condition: Any) -> None:
        """Derive a replacement or a bound from a condition."""
        pair = self._e.solved(condition) if condition.is_Relational and condition.rel_op == "==" else None
        if pair is not None and pair[0] not in self.size_like:
            self.replacements[pair[0]] = pair[1]
            return
        bound = self._e.bound(condition)
        if bound is not None and bound[0] in self.var_to_range:
            symbol, lower, upper = bound
            old = self.var_to_range[symbol]
            lower = old.lower if lower is None else lower if old.lower is None else max(lower, old.lower)
            upper = old.upper if upper is None else upper if old.upper is None else min(upper, old.upper)
            self.var_to_range[symbol] = ValueRanges(lower, upper)

    @contextmanager
    def suppress_guards(self) -> Any:
        """A region in which conditions are evaluated and not recorded."""
        self._suppressed += 1
        try:
            yield
        finally:
            self._suppressed -= 1

    def freeze(self) -> None:
        """Refuse guards from now on."""
        self.frozen = True

    # --- inputs -----------------------------------------------------------------------------------

    def create_symbolic_sizes_strides_storage_offset(
        self, ex: Any, source: Any, *, symbolic_context: Any = None
    ) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
        """Return sizes, strides and the offset of a tensor as symbolic numbers.

        A stride is the product of a size and a stride of the tensor where it equals one, else its own symbol.

        Args:
            ex: the example.
            source: its place in the inputs.
            symbolic_context: how dimensions are treated.
        """
        from flambeau.fx.experimental._sizes.inputs import geometry_of

        sizes, strides, offset = geometry_of(self, ex, source, symbolic_context or StatelessSymbolicContext())
        number = self.create_symintnode
        return tuple(map(number, sizes)), tuple(map(number, strides)), number(offset)

    def bind_symbols(self, placeholders: Iterable[Any], args: Iterable[Any]) -> dict[Any, int]:
        """Return the values that symbols have for inputs.

        Args:
            placeholders: fake tensors and symbolic numbers of the trace.
            args: the inputs.
        """
        from flambeau.fx.experimental._sizes.inputs import bound_values

        return bound_values(self, placeholders, args)

    def evaluate_guards_for_args(
        self, placeholders: Sequence[Any], args: Sequence[Any], *, ignore_static: bool = True
    ) -> bool:
        """Return whether the trace is valid for inputs.

        Args:
            placeholders: fake tensors and symbolic numbers of the trace.
            args: the inputs.
            ignore_static: whether sizes that are constants in the trace may differ.
        """
        from flambeau.fx.experimental._sizes.inputs import holds_for

        return holds_for(self, placeholders, args, ignore_static)

    # --- text -------------------------------------------------------------------------------------

    def format_guards(self, verbose: bool = False) -> str:
        """Return the guards as lines of text."""
        return "\n".join(f" - {guard.expr}" for guard in self.guards)

    def get_nontrivial_guards(self) -> list[Any]:
        """Return the conditions that bounds and equalities do not imply."""
        bounds = {s: (2 if s in self.var_to_val else r.lower, None) for s, r in self.var_to_range.items()}
        return [g.expr for g in self.guards if self._e.proven(g.expr, bounds) is None]

    def produce_guards_expression(
        self, placeholders: Sequence[Any], *, guards: Any = None, ignore_static: bool = True
    ) -> str | None:
        """Return the guards as one Python expression in the symbols; None if there are none.

        `evaluate_guards_expression` evaluates it for values of the symbols, in the order of their creation.

        Args:
            placeholders: accepted.
            guards: the guards; None: all.
            ignore_static: accepted.
        """
        chosen = self.guards if guards is None else guards
        return " and ".join(f"({self._e.python_text(g.expr)})" for g in chosen) or None

    def evaluate_guards_expression(self, code: str, args: Sequence[Any]) -> bool:
        """Return the truth of an expression of `produce_guards_expression`.

        Args:
            code: the expression.
            args: the values of the symbols with example values, in the order of their creation.
        """
        names = [str(s) for s in self.var_to_val]
        return bool(eval(code, dict(self._e.PYTHON_NAMES), dict(zip(names, args, strict=False))))

    def produce_guards(self, placeholders: Sequence[Any], sources: Sequence[Any], **_: Any) -> list[str]:
        """Return the text of each guard, with sources in the place of symbols.

        Args:
            placeholders: the fake tensors of the trace.
            sources: the name of each.
        """
        from flambeau.fx.experimental._sizes.inputs import named_guards

        return named_guards(self, placeholders, sources)


def _place_in_program() -> Any:
    """Return (file, line) of the innermost frame outside of the package."""
    frame: Any = sys._getframe(1)
    while frame is not None and "flambeau" in frame.f_globals.get("__name__", ""):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
