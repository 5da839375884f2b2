"""Operators over lists in C++: a loop that calls another operator for each place."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.language.spelling import local, quoted, struct_name
from codegen.model import Argument, BaseType, ListLoop, ListType, Schema

_TENSORS = ListType(BaseType("Tensor"))


def list_loop(schema: Schema, loop: ListLoop) -> Iterator[str]:
    """Yield the body of an operator over lists; one that works in place returns nothing."""
    lists = [arg for arg in schema.args if isinstance(arg.type, ListType)]
    first = next(local(arg.name) for arg in lists if arg.type == _TENSORS)
    passed = [f"{local(given.name)}[i]" if given.is_item else local(given.name) for given in loop.given]
    for arg in sorted(lists, key=lambda arg: local(arg.name) != first):
        yield _check(str(schema.name), first, arg)
    call = f"ops::{struct_name(loop.form)}::call"
    each = f"for (size_t i = 0; i < {first}.size(); ++i)"
    if schema.name.inplace:
        passed[0] = "own"
        yield f"{each} {{"
        yield f"  Tensor own = {first}[i];"
        yield f"  {call}({', '.join(passed)});"
        yield "}"
        return
    yield "std::vector<Tensor> items;"
    yield f"items.reserve({first}.size());"
    yield f"{each} items.push_back({call}({', '.join(passed)}));"
    yield "return items;"


def _check(name: str, first: str, arg: Argument) -> str:
    """Return the check of one list: the first holds tensors, the others have its length."""
    other = local(arg.name)
    if other == first:
        return f"check({first}.size() > 0, {quoted(f'{name}: expected one tensor or more.')});"
    what = "lists of equal length" if arg.type == _TENSORS else "one number per tensor"
    text = quoted(f"{name}: expected {what}, got ")
    return f'check({other}.size() == {first}.size(), {text}, {first}.size(), " and ", {other}.size());'
