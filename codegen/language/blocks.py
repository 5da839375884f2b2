"""What the statements of function bodies are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

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
