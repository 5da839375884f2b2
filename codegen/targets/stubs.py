"""Type stubs: torchgen_out/stubs/_functions.pyi, _nn.pyi, ... and _tensor_methods.pyi."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from codegen.deriving.signatures import Callable, Infix, functions, infixes, methods
from codegen.model import Model
from codegen.writing.python_spelling import is_comparison, method_stem
from codegen.writing.render import File, render
from codegen.writing.stub_spelling import IMPORTS, StubDecl, stub

_FILE = "native_functions.yaml"


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
                named[name] = stub(replace(callable_, name=name), model, indent)
        for alias in callable_.aliases:
            if alias.namespace == namespace:
                named[alias.name] = stub(replace(callable_, name=alias.name), model, indent)
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
    return render(
        "functions.pyi.j2", f"stubs/{name}.pyi", name=name, file=_FILE, imports=IMPORTS, functions=stubs
    )


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
        file=_FILE,
        imports=IMPORTS,
        functions=(lines, *own, *special),
    )
