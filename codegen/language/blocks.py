"""What the statements of function bodies are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from codegen.model import Assign, Branch, Effect, Expr, Loop, Raise, Result, Statement


def expressions(statements: Sequence[Statement]) -> Iterator[Expr]:
    """Yield every expression, in the order of the text."""
    for statement in statements:
        yield from _own(statement)
        if isinstance(statement, Branch):
            yield from expressions(statement.then)
            yield from expressions(statement.other)
        elif isinstance(statement, Loop):
            yield from expressions(statement.body)


def returning(expr: Expr | None) -> tuple[Statement, ...]:
    """Return the body that only returns an expression; nothing for None."""
    return () if expr is None else (Result(expr),)


def sole_value(statements: Sequence[Statement]) -> Expr | None:
    """Return the expression that a body only returns; None if it does more."""
    match statements:
        case (Result(value=value),):
            return value
    return None


def map_expressions(statements: Sequence[Statement], visit: Callable[[Expr], Expr]) -> tuple[Statement, ...]:
    """Return the statements with each expression replaced by what `visit` makes of it."""
    return tuple(_mapped(statement, visit) for statement in statements)


def _mapped(statement: Statement, visit: Callable[[Expr], Expr]) -> Statement:
    match statement:
        case Assign(value=value) | Result(value=value):
            return replace(statement, value=visit(value))
        case Effect(call=call):
            return Effect(visit(call))
        case Branch(condition=condition, then=then, other=other):
            sides = map_expressions(then, visit), map_expressions(other, visit)
            return replace(statement, condition=visit(condition), then=sides[0], other=sides[1])
        case Loop(names=names, lists=lists, body=body):
            return Loop(names, tuple(map(visit, lists)), map_expressions(body, visit))
        case Raise(error=error, message=message):
            return Raise(error, tuple(p if isinstance(p, str) else visit(p) for p in message))


def _own(statement: Statement) -> tuple[Expr, ...]:
    """Return the expressions that are evaluated before any inner statement."""
    match statement:
        case Assign(value=value) | Result(value=value):
            return (value,)
        case Effect(call=call):
            return (call,)
        case Branch(condition=condition):
            return (condition,)
        case Loop(lists=lists):
            return lists
        case Raise(message=message):
            return tuple(part for part in message if not isinstance(part, str))


def assigned(statements: Sequence[Statement]) -> set[str]:
    """Return the names of the variables that statements assign."""
    found: set[str] = set()
    for statement in statements:
        if isinstance(statement, Assign):
            found |= set(statement.names)
        elif isinstance(statement, Branch):
            found |= assigned(statement.then) | assigned(statement.other)
        elif isinstance(statement, Loop):
            found |= assigned(statement.body)
    return found


def in_any_case(statements: Sequence[Statement]) -> Iterator[Expr]:
    """Yield the expressions that are evaluated whatever the arguments are, if nothing raises before."""
    for statement in statements:
        yield from _own(statement)
        if isinstance(statement, Branch):
            return  # either side may end the function


def surely(statements: Sequence[Statement], called: Callable[[Expr], set[str]]) -> set[str]:
    """Return what is called on every path; `called`: by one expression. A path that raises is none."""
    found: set[str] = set()
    for i, statement in enumerate(statements):
        for expr in _own(statement):
            found |= called(expr)
        if isinstance(statement, Branch):
            rest = tuple(statements[i + 1 :])
            paths = [
                surely((*side, *rest), called)
                for side in (statement.then, statement.other)
                if not _raises(side)
            ]
            return found | (set.intersection(*paths) if paths else set())
        if isinstance(statement, Result | Raise):
            return found
    return found


def _raises(statements: Sequence[Statement]) -> bool:
    return any(isinstance(statement, Raise) for statement in statements)
