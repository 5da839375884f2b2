"""How function bodies are written in C++: one statement for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.language.blocks import assigned, sole_value
from codegen.language.pyexpr import names_in
from codegen.language.spelling import local, owned
from codegen.model import (
    Assign,
    Branch,
    Effect,
    Expr,
    ExprType,
    Host,
    ListType,
    Loop,
    Raise,
    Result,
    Statement,
    Var,
)
from codegen.writing.tensor_spelling import TensorSpelling


class BlockSpelling:
    """Writes one body; `returned` is the argument that an in-place operator returns."""

    def __init__(self, writer: TensorSpelling, returned: str | None = None) -> None:
        self.writer = writer
        self.returned = returned
        self._unpacked = 0

    def lines(self, statements: Sequence[Statement], declared: frozenset[str] = frozenset()) -> Iterator[str]:
        """Yield the lines of the statements; `declared`: variables that have a declaration above."""
        known = set(declared)
        for statement in statements:
            match statement:
                case Assign():
                    yield from self._assign(statement, known)
                case Effect(call=call):
                    yield f"static_cast<void>({self.writer.write(call)});"
                case Result():
                    yield from self._result(statement)
                case Raise(error=error, message=message):
                    yield self.writer.failure(error, message)
                case Branch():
                    yield from self._branch(statement, known)
                case Loop(names=names, lists=lists, body=body):
                    yield from self.writer.walk(names, lists, assigned(body))
                    yield from self.lines(body, frozenset(known | set(names)))
                    yield "}"

    def _result(self, statement: Result) -> Iterator[str]:
        if self.returned is None:
            yield from self.writer.statements(statement.value)
            return
        yield f"static_cast<void>({self.writer.write(statement.value)});"
        yield f"return {local(self.returned)};"

    def _assign(self, statement: Assign, known: set[str]) -> Iterator[str]:
        if (added := _added(statement)) is not None:
            yield f"host::extend({local(statement.names[0])}, {self.writer.write(added)});"
            return
        if len(statement.names) == 1:
            value = self.writer.held(statement.value, statement.types[0])
            yield self._store(statement.names[0], value, known)
            return
        packed = f"values{self._unpacked}"
        self._unpacked += 1
        yield f"auto {packed} = {self.writer.write(statement.value)};"
        for i, name in enumerate(statement.names):
            if name != "_":
                yield self._store(name, f"std::get<{i}>({packed})", known)

    @staticmethod
    def _store(name: str, value: str, known: set[str]) -> str:
        start = "" if name in known else "auto "
        known.add(name)
        return f"{start}{local(name)} = {value};"

    def _branch(self, branch: Branch, known: set[str]) -> Iterator[str]:
        for name, type_ in branch.declares:
            if name not in known:  # the branch around this one may have declared it
                yield f"{owned(type_)} {local(name)}{{}};"
            known.add(name)
        yield f"if ({self.writer.write(branch.condition)}) {{"
        yield from self.lines(branch.then, frozenset(known))
        if branch.other:
            yield "} else {"
            yield from self.lines(branch.other, frozenset(known))
        yield "}"


def value_lines(
    writer: TensorSpelling, statements: Sequence[Statement], type_: ExprType, begin: str, end: str
) -> Iterator[str]:
    """Yield `begin`, the value of a body and `end`; more than an expression is a function called at once."""
    value = sole_value(statements)
    if value is not None:
        yield f"{begin}{writer.write(value)}{end}"
        return
    yield f"{begin}[&]() -> {owned(type_)} {{"
    yield from (f"  {line}" for line in BlockSpelling(writer).lines(statements))
    yield f"}}(){end}"


def _added(statement: Assign) -> Expr | None:
    """Return what the statement puts behind a list, which then grows in place."""
    match statement:
        case Assign(names=(name,), types=(ListType(),), value=Host(op="+", args=(Var(name=left), right))):
            return right if left == name and name not in names_in(right) else None
    return None
