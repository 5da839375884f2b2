"""Functions in type stubs: their overloads, with the documentation at the first."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.deriving.signatures import Callable, Signature, is_factory, python_name
from codegen.model import Argument, BaseType, ListType, Model
from codegen.writing.describe import help_text
from codegen.writing.python_types import shown_default, stub_result, stub_type

IMPORTS = (
    "from collections.abc import Sequence",
    "from typing import Any, NamedTuple, overload",
    "",
    "import flambeau",
    "from flambeau._C import DeviceLike, Generator, Number, Tensor, device, dtype, layout, memory_format",
    "from flambeau._types.size import Size",
)


@dataclass(frozen=True, slots=True)
class StubDecl:
    """The lines of one function, overloads included."""

    lines: tuple[str, ...]


def _parameter(arg: Argument, method: bool) -> str:
    default = "" if arg.default is None else f" = {shown_default(arg)}"
    return f"{python_name(arg, method)}: {stub_type(arg.type)}{default}"


def _takes_ints(callable_: Callable, signature: Signature) -> bool:
    """Whether the first argument's integers may be given one by one: zeros(2, 3), x.view(2, 3)."""
    args = signature.args[1:] if callable_.namespace is None else signature.args
    ints = (ListType(BaseType("int"), None), ListType(BaseType("SymInt"), None))
    return bool(args) and args[0].type in ints and all(a.default is not None for a in args[1:])


def definition(callable_: Callable, signature: Signature, one_by_one: bool = False) -> str:
    """Return the first line of a function; `one_by_one`: the integers of its list are given one by one."""
    method = callable_.namespace is None
    parts = ["self"] if method else []
    args = signature.args[1:] if method else signature.args
    starred = one_by_one
    if one_by_one:
        parts.append(f"*{python_name(args[0], method)}: int")
        args = args[1:]
    for arg in args:
        if arg.kwarg_only and not starred:
            parts.append("*")
            starred = True
        parts.append(_parameter(arg, method))
    if is_factory(signature.form):
        parts += [*(["*"] * (not starred)), "requires_grad: bool = False"]
        starred = True
    if signature.out is not None:
        parts += ["*"] * (not starred)
        many = len(signature.out_args) > 1
        kind = f"tuple[{', '.join(['Tensor'] * len(signature.out_args))}]" if many else "Tensor"
        if isinstance(signature.out_args[0].type, ListType):
            kind = "Sequence[Tensor]"
        parts.append(f"out: {kind} | None = None")
    result = stub_result(signature.form.schema.returns)
    return f"def {callable_.name}({', '.join(parts)}) -> {result}:"


def stub(callable_: Callable, model: Model, indent: str = "") -> StubDecl:
    """Return the overloads of a name: the first has the documentation."""
    lines: list[str] = []
    text = help_text(callable_, model).replace("\\", "\\\\").replace('"', "'")
    head, *rest = text.partition("\n\n")[2].split("\n")
    doc = [head, *(f"{indent}    {line}".rstrip() for line in rest), f"{indent}    "]
    signatures = callable_.signatures
    definitions = [definition(callable_, s) for s in signatures]
    definitions += [definition(callable_, s, True) for s in signatures if _takes_ints(callable_, s)]
    for head in definitions:
        if len(definitions) > 1:
            lines.append(f"{indent}@overload")
        lines.append(indent + head)
        lines += [f'{indent}    """{doc[0]}', *doc[1:-1], f'{doc[-1]}"""'] if doc else [f"{indent}    ..."]
        doc = []
    return StubDecl(tuple(lines))
