"""Function bodies of operators over lists: loops of calls, in the language of composites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.model import Argument, BaseType, ListType, Schema

_TENSORS = ListType(BaseType("Tensor"))


def body(listed: Schema, called: Schema, pairs: Sequence[tuple[Argument, Argument]]) -> str:
    """Call an overload for every place of the lists; `pairs`: its arguments and what stands for them."""
    lists = [arg.name for arg in listed.args if isinstance(arg.type, ListType)]
    walked = {
        given.name: f"{given.name}_item"
        for arg, given in pairs
        if given.name in lists and not isinstance(arg.type, ListType)
    }
    given = [
        f"{arg.name}={walked.get(stands.name, stands.name)}"
        if arg.kwarg_only
        else walked.get(stands.name, stands.name)
        for arg, stands in pairs
    ]
    inplace = called.name.inplace
    call = f"{called.name.base}{'_' * inplace}({', '.join(given)})"
    names, over = ", ".join(walked.values()), ", ".join(walked)
    head = f"for {names} in {over if len(walked) == 1 else f'zip({over})'}"
    lines = list(_checks(listed))
    lines += [f"{head}:", f"    {call}"] if inplace else [f"return [{call} {head}]"]
    return "\n".join(lines)


def _checks(listed: Schema) -> Iterator[str]:
    lists = [arg for arg in listed.args if isinstance(arg.type, ListType)]
    first = next(arg.name for arg in lists if arg.type == _TENSORS)
    name = f"{listed.name.base}{'_' * listed.name.inplace}"
    yield f"if len({first}) == 0:"
    yield f'    raise RuntimeError("{name}: expected one tensor or more, got none")'
    for arg in lists:
        if arg.name == first:
            continue
        what = "lists of equal length" if arg.type == _TENSORS else "one number per tensor"
        yield f"if len({arg.name}) != len({first}):"
        text = f"{name}: expected {what}, got {{len({first})}} and {{len({arg.name})}}"
        yield f'    raise RuntimeError(f"{text}")'
