"""The functions of an extension in Python: each passes its arguments on to overloads of the dispatcher."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.deriving.signatures import Callable, Signature, python_name
from codegen.model import Argument, Form, Model
from codegen.writing.describe import help_text
from codegen.writing.python_types import shown_default


@dataclass(frozen=True, slots=True)
class FunctionDecl:
    """One function: its lines, and the overloads that it calls."""

    name: str
    overloads: tuple[str, ...]  # assignments that stand above the function
    lines: tuple[str, ...]


def function(callable_: Callable, model: Model) -> FunctionDecl:
    """Spell the function of one name. Several overloads leave the choice to the dispatcher's packet."""
    first, *others = callable_.signatures
    own = f"_{callable_.name}"
    if others:
        bound = [f"{own} = _ops.{callable_.name}"]
        body = [f"return {own}(*args, **kwargs)"]
        head = f"def {callable_.name}(*args: Any, **kwargs: Any) -> Any:"
    else:
        bound = [f"{own} = {_overload(first.form)}"]
        body = [f"return {own}({_passed(first)})"]
        if first.out is not None:
            bound.append(f"{own}_out = {_overload(first.out)}")
            body = ["if out is not None:", f"    return {own}_out({_passed(first)}, {_outs(first)})", *body]
        head = f"def {callable_.name}({_parameters(first)}) -> Any:"
    documentation = help_text(callable_, model).replace("\\", "\\\\").replace('"""', "'''")
    lines = [f"    {line}".rstrip() for line in [*_docstring(documentation), *body]]
    return FunctionDecl(callable_.name, tuple(bound), (head, *lines))


def _docstring(text: str) -> Iterator[str]:
    first, *rest = text.split("\n")
    yield f'"""{first}'
    yield from rest
    yield '"""'


def _overload(form: Form) -> str:
    name = form.schema.name
    return f"_ops.{name.base}{'_' * name.inplace}.{name.overload or 'default'}"


def _parameters(signature: Signature) -> str:
    parts: list[str] = []
    starred = False
    for arg in signature.args:
        if arg.kwarg_only and not starred:
            parts.append("*")
            starred = True
        default = "" if arg.default is None else f" = {shown_default(arg)}"
        parts.append(f"{python_name(arg, False)}: Any{default}")
    if signature.out is not None:
        parts += [*(["*"] * (not starred)), "out: Any = None"]
    return ", ".join(parts)


def _passed(signature: Signature) -> str:
    def given(arg: Argument) -> str:
        name = python_name(arg, False)
        return f"{arg.name}={name}" if arg.kwarg_only else name

    return ", ".join(map(given, signature.args))


def _outs(signature: Signature) -> str:
    names = [arg.name for arg in signature.out_args]
    if len(names) == 1:
        return f"{names[0]}=out"
    return f"**_named({tuple(names)!r}, out)"
