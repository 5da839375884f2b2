"""Type stubs: torchgen_out/stubs/_functions.pyi, _nn.pyi, ... and _tensor_methods.pyi."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from codegen.deriving.signatures import (
    Callable,
    Infix,
    Signature,
    functions,
    infixes,
    is_factory,
    methods,
    python_name,
)
from codegen.model import Argument, BaseType, ListType, Model
from codegen.writing.describe import help_text
from codegen.writing.python_spelling import is_comparison, method_stem
from codegen.writing.python_types import shown_default, stub_result, stub_type
from codegen.writing.render import File, render

_IMPORTS = (
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


def _definition(callable_: Callable, signature: Signature, one_by_one: bool = False) -> str:
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


def _stub(callable_: Callable, model: Model, indent: str = "") -> StubDecl:
    """The documentation of a name is at its first overload."""
    lines: list[str] = []
    text = help_text(callable_, model).replace("\\", "\\\\").replace('"', "'")
    head, *rest = text.partition("\n\n")[2].split("\n")
    doc = [head, *(f"{indent}    {line}".rstrip() for line in rest), f"{indent}    "]
    signatures = callable_.signatures
    definitions = [_definition(callable_, s) for s in signatures]
    definitions += [_definition(callable_, s, True) for s in signatures if _takes_ints(callable_, s)]
    for definition in definitions:
        if len(definitions) > 1:
            lines.append(f"{indent}@overload")
        lines.append(indent + definition)
        lines += [f'{indent}    """{doc[0]}', *doc[1:-1], f'{doc[-1]}"""'] if doc else [f"{indent}    ..."]
        doc = []
    return StubDecl(tuple(lines))


def _stubs(
    found: Iterable[Callable], namespace: str | None, model: Model, indent: str = ""
) -> tuple[StubDecl, ...]:
    """The callables of one namespace under all their names, sorted; None: methods."""
    named: dict[str, StubDecl] = {}
    for callable_ in found:
        if callable_.namespace == namespace:
            # linalg_norm is linalg.norm to its users.
            short = callable_.name.removeprefix(f"{namespace}_") if namespace else callable_.name
            for name in {callable_.name, short}:
                named[name] = _stub(replace(callable_, name=name), model, indent)
        for alias in callable_.aliases:
            if alias.namespace == namespace:
                named[alias.name] = _stub(replace(callable_, name=alias.name), model, indent)
    return tuple(named[name] for name in sorted(named))


def _special(infix: Infix) -> StubDecl:
    stem = method_stem(infix.symbol, infix.arity)
    if infix.arity == 1:
        return StubDecl((f"    def __{stem}__(self) -> Tensor: ...",))
    name = f"i{stem}" if infix.inplace else stem
    ignored = "  # type: ignore[override]" if stem in ("eq", "ne") else ""
    lines = [f"    def __{name}__(self, other: Tensor | Number) -> Tensor: ...{ignored}"]
    if not infix.inplace and not is_comparison(infix.symbol, infix.arity):
        lines.append(f"    def __r{stem}__(self, other: Number) -> Tensor: ...")
    return StubDecl(tuple(lines))


def _is_special(infix: Infix) -> bool:
    return not (infix.inplace and is_comparison(infix.symbol, infix.arity))


def _module(name: str, stubs: tuple[StubDecl, ...]) -> File:
    return render("functions.pyi.j2", f"stubs/{name}.pyi", name=name, imports=_IMPORTS, functions=stubs)


def emit(model: Model) -> Iterator[File]:
    """Yield one stub per namespace, and one for the methods of Tensor."""
    found = functions(model)
    places = [c.namespace or "" for c in found] + [a.namespace or "" for c in found for a in c.aliases]
    for namespace in sorted({*places, ""}):
        yield _module(f"_{namespace}" if namespace else "_functions", _stubs(found, namespace, model))
    own = _stubs(methods(model), None, model, "    ")
    special = [_special(i) for i in infixes(model) if _is_special(i)]
    lines = StubDecl(("class TensorMethods:", '    """Methods of Tensor."""'))
    yield render(
        "functions.pyi.j2",
        "stubs/_tensor_methods.pyi",
        name="_tensor_methods",
        imports=_IMPORTS,
        functions=(lines, *own, *special),
    )
