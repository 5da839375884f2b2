"""The handwritten sources against the YAML: each rule and kernel defined once and declared once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from codegen.language.handwritten import Function, Sparse, functions, sparse_functions
from codegen.model import Body, Position
from codegen.reading.context import Context
from codegen.reading.cpp_scan import Definition, definitions, normal_type
from codegen.reading.entries import Draft
from codegen.reading.sparse import texts as sparse_texts
from codegen.source.diagnostics import did_you_mean
from codegen.source.memory import Memory, digest
from codegen.source.nodes import Text

_BACKEND_SUFFIX = re.compile(r".*_(cpu|cuda)")


_END = Definition("", "", Position("", 0, 0), "", ())


class Sources:
    """The definitions under aten/ops/<family>/ and in the generic rule files, read once."""

    def __init__(self, root: Path, own: tuple[str, tuple[Path, ...]] | None = None) -> None:
        self.root = root
        self._own = own  # an author's family and its files
        self.memory = Memory("sources", ("reading/cpp_scan",))
        self._files: dict[Path, list[Definition]] = {}
        self._families: dict[str, list[Definition]] = {}
        self._states: dict[str, str] = {}
        self.generic = root / "aten" / "core" / "shape_rules.cpp"

    def _scan(self, path: Path) -> list[Definition]:
        if path not in self._files:
            inside = path.is_relative_to(self.root)
            shown = path.relative_to(self.root).as_posix() if inside else str(path)
            self._files[path] = definitions(path, shown, self.memory) if path.is_file() else []
        return self._files[path]

    def state(self, family: str) -> str:
        """Return a hash of all definitions among which the functions of a family's entries are looked for."""
        if family not in self._states:
            everywhere = (*self.family("view"), _END, *self.family("sparse"), _END, *self.generic_rules())
            found = (*self.family(family), _END, *everywhere)
            shown = (f"{d.namespace}::{d.name} {d.returns} {d.types}" for d in found)
            self._states[family] = digest(*shown).hex()
        return self._states[family]

    def _paths(self, family: str) -> list[Path]:
        if self._own is not None and family == self._own[0]:
            return list(self._own[1])
        folder = self.root / "aten" / "ops" / family
        return sorted(p for suffix in ("cpp", "cu", "cuh") for p in folder.glob(f"*.{suffix}"))

    def family(self, family: str) -> list[Definition]:
        """Return what a family's sources define."""
        if family not in self._families:
            self._families[family] = [d for path in self._paths(family) for d in self._scan(path)]
        return self._families[family]

    def place(self, namespace: str, family: str, suffix: str) -> str:
        """Return where a function of a family may stand, as messages say it."""
        if self._own is None or family != self._own[0]:
            return _PLACES[namespace].format(family=family, suffix=suffix)
        return "the files of `sources:`" + (
            " or among the shape rules of flambeau" if namespace == "shape" else ""
        )

    def generic_rules(self) -> list[Definition]:
        """Return the shape rules that serve many families."""
        return self._scan(self.generic)


def check_functions(
    draft: Draft, body: Body | None, sparse: Sparse, sources: Sources, context: Context
) -> bool:
    """Report declared but undefined kernels and rules of one entry; return whether all are defined."""
    found = [
        _check(draft, function, text, sources, context)
        for function in (_expected(draft, body, sparse) if draft.family else ())
        if (text := _declared_at(draft, function)) is not None
    ]
    return all(found)


def _expected(draft: Draft, body: Body | None, sparse: Sparse) -> Iterator[Function]:
    yield from functions(draft.schema, body)
    if body is not None:  # otherwise the schema may name types that do not exist
        yield from sparse_functions(draft.schema, sparse)


def check_strays(
    drafts: Iterable[Draft], families: Iterable[str], sources: Sources, context: Context
) -> None:
    """Report kernels in the sources of these families that no entry declares."""
    declared = context.unusable.kernels.union(*(_named(draft) for draft in drafts))
    for family in sorted(families):
        _check_strays(family, declared, sources, context)


def _named(draft: Draft) -> set[str]:
    """Return the kernels that an entry names, under whichever key."""
    fields = draft.fields.map("kernels")
    values = [] if fields is None else [value for _, value in fields.node.items]
    return {value.value for value in (*values, *sparse_texts(draft.fields)) if isinstance(value, Text)}


def _declared_at(draft: Draft, function: Function) -> Text | None:
    if function.namespace != "ops":
        return draft.fields.scalar(function.namespace)
    fields = draft.fields.map("kernels")
    kernels = [] if fields is None else [value for _, value in fields.node.items]
    values = sparse_texts(draft.fields) if function.role == "sparse rule" else kernels
    return next((v for v in values if isinstance(v, Text) and v.value == function.name), None)


def _in(found: Iterable[Definition], namespace: str) -> list[Definition]:
    return [d for d in found if d.namespace.split("::")[-1] == namespace]


def _visible(draft: Draft, function: Function, sources: Sources) -> list[Definition]:
    """Return the definitions among which a function is looked for."""
    if function.role == "sparse rule":
        return _in(sources.family("sparse"), "ops")
    found = list(sources.family(draft.family))
    if function.namespace == "shape":
        found += sources.generic_rules()
    elif function.namespace == "view" and draft.family != "view":
        found += sources.family("view")
    return _in(found, function.namespace)


_PLACES = {
    "ops": "aten/ops/{family}/*.{suffix}",
    "shape": "aten/ops/{family}/*.cpp or aten/core/shape_rules.cpp",
    "view": "aten/ops/{family}/*.cpp or aten/ops/view/*.cpp",
}
_MISSING = {"ops": "FB0501", "shape": "FB0503", "view": "FB0504"}


def _check(draft: Draft, function: Function, text: Text, sources: Sources, context: Context) -> bool:
    """Report a function that is not defined, or defined with other types; return whether it is defined."""
    found = _visible(draft, function, sources)
    named = [d for d in found if d.name == function.name]
    if not named:
        suffix = "cu" if function.name.endswith("_cuda") else "cpp"
        family = "sparse" if function.role == "sparse rule" else draft.family
        where = sources.place(function.namespace, family, suffix)
        guess = did_you_mean(function.name, [d.name for d in found])
        hint = f"{guess} define in namespace flambeau::{function.namespace}: {function}".strip()
        message = f"{function.role} '{function.name}' has no definition in {where}"
        context.collector.add(text.position, _MISSING[function.namespace], message, hint, len(function.name))
        return False
    wanted = (normal_type(function.returns), tuple(map(normal_type, function.types)))
    if any((d.returns, d.types) == wanted for d in named):
        return True
    closest = max(named, key=lambda d: len(set(d.types) & set(wanted[1])))
    message = f"{function.role} '{function.name}' has other types than {draft.name} calls it with: "
    message += _difference(closest, *wanted)
    at = closest.position
    hint = f"{at.file}:{at.line} should be, if the schema is right: {function}"
    context.collector.add(text.position, "FB0505", message, hint, len(function.name))
    return True


def _difference(have: Definition, returns: str, types: tuple[str, ...]) -> str:
    if have.returns != returns:
        return f"expected to return {returns}, got {have.returns}"
    if len(have.types) != len(types):
        return f"expected {len(types)} parameters, got {len(have.types)}"
    index = next(i for i, (h, w) in enumerate(zip(have.types, types, strict=True)) if h != w)
    return f"parameter {index + 1}: expected {types[index]}, got {have.types[index]}"


def _check_strays(family: str, declared: Collection[str], sources: Sources, context: Context) -> None:
    for definition in sources.family(family):
        in_ops = definition.namespace.split("::")[-1] == "ops"
        if in_ops and _BACKEND_SUFFIX.fullmatch(definition.name) and definition.name not in declared:
            message = f"kernel '{definition.name}' is declared by no entry of family {family}"
            hint = did_you_mean(definition.name, sorted(declared)) or "name it under `kernels:`, "
            hint += " or move a function that is not a kernel into an anonymous namespace"
            length = len(definition.name)
            context.collector.add(definition.position, "FB0502", message, hint.strip(), length)
