"""The handwritten sources against the YAML: each rule and kernel defined once and declared once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from codegen.context import Context
from codegen.diagnostics import did_you_mean
from codegen.entries import Draft
from codegen.model import Body, Kernels, Position, Rule, View

# A definition begins in the first column: `void softmax_cpu(`; a declaration ends with `;`.
_DEFINITION = re.compile(r"^(?:[\w:<>,*&\[\] ]+[ &*>])?([A-Za-z_]\w*)\(", re.MULTILINE)
_NAMESPACE = re.compile(
    r"^(?:inline )?namespace\b *([\w:]*) *\{|^\}  // (?:namespace|anonymous)", re.MULTILINE
)
_KEYWORDS = ("if", "for", "while", "switch", "return", "sizeof", "static_assert", "defined")
_BACKEND_SUFFIX = re.compile(r".*_(cpu|cuda)")


@dataclass(frozen=True, slots=True)
class Definition:
    """A function defined at namespace scope, not in an anonymous namespace."""

    name: str
    namespace: str
    position: Position


def definitions(path: Path, shown: str) -> list[Definition]:
    """Return the functions that a C++ file defines."""
    text = path.read_text(encoding="utf-8")
    events = [(m.start(), m, True) for m in _NAMESPACE.finditer(text)]
    events += [(m.start(), m, False) for m in _DEFINITION.finditer(text)]
    stack: list[str] = []
    found: list[Definition] = []
    for offset, match, is_namespace in sorted(events, key=lambda event: event[0]):
        if is_namespace:
            if match.group().startswith("}"):
                del stack[-1:]
            else:
                stack.append(match.group(1))
        elif "" not in stack and _defines(text, match):
            line = text.count("\n", 0, offset) + 1
            column = match.start(1) - text.rfind("\n", 0, match.start(1))
            name, namespace = match.group(1), "::".join(stack)
            found.append(Definition(name, namespace, Position(shown, line, column)))
    return found


def _defines(text: str, match: re.Match[str]) -> bool:
    """Whether the parameter list is followed by a body."""
    head = match.group()
    if match.group(1) in _KEYWORDS or head.startswith(("static ", "using ", "return ", "#")):
        return False
    if " " not in head:
        return False  # a macro or a call: definitions name their return type
    end = _closing(text, match.end() - 1)
    return re.match(r"\s*(?:const|noexcept)?\s*\{", text[end + 1 : end + 40]) is not None


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        if text[i] == "(":
            depth += 1
        elif text[i] == ")":
            depth -= 1
            if depth == 0:
                return i
    return len(text)


class Sources:
    """The definitions under aten/ops/<family>/ and in the generic rule files, read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[Path, list[Definition]] = {}

    def _scan(self, path: Path) -> list[Definition]:
        if path not in self._files:
            shown = path.relative_to(self.root).as_posix()
            self._files[path] = definitions(path, shown) if path.is_file() else []
        return self._files[path]

    def family(self, family: str) -> list[Definition]:
        """Return what a family's sources define."""
        folder = self.root / "aten" / "ops" / family
        paths = sorted(p for suffix in ("cpp", "cu", "cuh") for p in folder.glob(f"*.{suffix}"))
        return [d for path in paths for d in self._scan(path)]

    def generic_rules(self) -> list[Definition]:
        """Return the shape rules that serve many families."""
        return self._scan(self.root / "aten" / "core" / "shape_rules.cpp")


def check_sources(
    drafts: Iterable[Draft], bodies: Mapping[str, Body | None], sources: Sources, context: Context
) -> None:
    """Report declared but undefined kernels and rules, and defined but undeclared kernels."""
    declared: dict[str, set[str]] = {}
    drafts = tuple(drafts)
    for draft in drafts:
        body = bodies.get(draft.name)
        if isinstance(body, Kernels):
            declared.setdefault(draft.family, set()).update(n for _, n in body.by_backend)
            _check_kernels(draft, body, sources, context)
            if body.shape is not None:
                _check_shape(draft, body.shape, sources, context)
        elif isinstance(body, View):
            _check_view(draft, body.rule, sources, context)
    for family, names in declared.items():
        _check_strays(family, names | context.unusable.kernels, sources, context)


def _names(found: Iterable[Definition], namespace: str) -> list[str]:
    return [d.name for d in found if d.namespace.split("::")[-1] == namespace]


def _check_kernels(draft: Draft, body: Kernels, sources: Sources, context: Context) -> None:
    names = _names(sources.family(draft.family), "ops")
    fields = draft.fields.map("kernels")
    for backend, name in body.by_backend:
        text = None if fields is None else fields.scalar(backend)
        if name not in names and text is not None:
            suffix = "cu" if backend == "CUDA" else "cpp"
            where = f"aten/ops/{draft.family}/*.{suffix}"
            guess = did_you_mean(name, names)
            hint = f"{guess} " if guess else ""
            hint += f"define `{name}` in namespace flambeau::ops in {where}"
            message = f"kernel '{name}' has no definition in {where}"
            context.collector.add(text.position, "FB0501", message, hint, text.length)


def _check_shape(draft: Draft, rule: Rule, sources: Sources, context: Context) -> None:
    names = _names((*sources.family(draft.family), *sources.generic_rules()), "shape")
    _check_rule(draft, rule, names, ("shape", "FB0503", "shape rule"), context)


def _check_view(draft: Draft, rule: Rule, sources: Sources, context: Context) -> None:
    names = _names((*sources.family("view"), *sources.family(draft.family)), "view")
    _check_rule(draft, rule, names, ("view", "FB0504", "view rule"), context)


def _check_rule(
    draft: Draft, rule: Rule, names: list[str], what: tuple[str, str, str], context: Context
) -> None:
    key, code, title = what
    text = draft.fields.scalar(key)
    if rule.name in names or text is None:
        return
    places = f"aten/ops/{draft.family}/*.cpp" + (" or aten/core/shape_rules.cpp" * (key == "shape"))
    guess = did_you_mean(rule.name, names)
    hint = (f"{guess} " if guess else "") + f"define `{rule.name}` in namespace flambeau::{key} in {places}"
    message = f"{title} '{rule.name}' has no definition"
    context.collector.add(text.position, code, message, hint, len(rule.name))


def _check_strays(family: str, declared: set[str], sources: Sources, context: Context) -> None:
    for definition in sources.family(family):
        in_ops = definition.namespace.split("::")[-1] == "ops"
        if in_ops and _BACKEND_SUFFIX.fullmatch(definition.name) and definition.name not in declared:
            message = f"kernel '{definition.name}' is declared by no entry of family {family}"
            hint = did_you_mean(definition.name, sorted(declared)) or "name it under `kernels:`, "
            hint += " or move a function that is no kernel into an anonymous namespace"
            length = len(definition.name)
            context.collector.add(definition.position, "FB0502", message, hint.strip(), length)
