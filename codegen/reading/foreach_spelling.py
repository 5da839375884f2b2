"""The C++ loops behind operators over lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.language.spelling import local, quoted, struct_name
from codegen.model import Argument, BaseType, ListType, Schema

_TENSORS = ListType(BaseType("Tensor"))


def loop(listed: Schema, called: Schema, pairs: Sequence[tuple[Argument, Argument]], inplace: bool) -> str:
    """Call an overload for every place of the lists; `pairs`: its arguments and what stands for them."""
    lists = [arg for arg in listed.args if isinstance(arg.type, ListType)]
    first = next(local(arg.name) for arg in lists if arg.type == _TENSORS)
    passed = [
        f"{local(given.name)}[i]"
        if given in lists and not isinstance(arg.type, ListType)
        else local(given.name)
        for arg, given in pairs
    ]
    lines = list(_checks(str(listed.name), first, lists))
    call = f"ops::{struct_name(str(called.name))}::call"
    each = f"for (size_t i = 0; i < {first}.size(); ++i)"
    if inplace:
        passed[0] = "own"
        lines += [f"{each} {{", f"  Tensor own = {first}[i];", f"  {call}({', '.join(passed)});", "}"]
    else:
        lines += ["std::vector<Tensor> items;", f"items.reserve({first}.size());"]
        lines += [f"{each} items.push_back({call}({', '.join(passed)}));", "return items;"]
    return "\n".join(lines)


def _checks(name: str, first: str, lists: Sequence[Argument]) -> Iterator[str]:
    none = quoted(f"{name}: expected one tensor or more.")
    yield f"check({first}.size() > 0, {none});"
    for arg in lists:
        other = local(arg.name)
        if other == first:
            continue
        same = f"{other}.size() == {first}.size()"
        if arg.type == _TENSORS:
            text = quoted(f"{name}: expected lists of equal length, got ")
            yield f'check({same}, {text}, {first}.size(), " and ", {other}.size());'
        else:
            text = quoted(f"{name}: expected one number per tensor, got ")
            yield f'check({same}, {text}, {first}.size(), " and ", {other}.size());'
