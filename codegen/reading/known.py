"""Entries that an earlier run found without mistakes, so that `check` need not read them again.

What an entry means follows from its own text and from the operators that it asks for. Both are kept: the
text as a hash, and each name that was asked for with a hash of what those operators show to their callers.
An entry is read again as soon as one of them differs. Facts are kept of runs without a mistake only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from codegen.language import host_functions
from codegen.language.overloads import ALL, Forms
from codegen.model import DTypeRule, Form
from codegen.reading import primitives
from codegen.reading.entries import Draft
from codegen.source.memory import Memory, digest
from codegen.source.nodes import Node, plain

# What no caller of an operator reads; the calls of a composite are known as `Facts.calls`.
PRIVATE = "check composite decomposition doc element flops kernels let reason shape test view vmap".split()
_GENERATOR = Path(__file__).parents[1]
_TABLES = (primitives.TABLE, host_functions.TABLE)
_ROOMS = ("model", "source", "language", "reading")  # all that reading an entry runs


@dataclass(frozen=True, slots=True)
class Facts:
    """What other entries and the final checks need of an entry that was sound."""

    dtype: DTypeRule
    calls: frozenset[str]  # forms that are called in any case


class Known:
    """The entries without mistakes of earlier runs of the same generator."""

    def __init__(self, folder: Path | None = None) -> None:
        files = (path for room in _ROOMS for path in (_GENERATOR / room).glob("*.py"))
        modules = [str(path.relative_to(_GENERATOR).with_suffix("")) for path in files]
        self._memory = Memory("sound", modules, folder, most=5_000)
        self._tables = digest(*(table.read_text(encoding="utf-8") for table in _TABLES)).hex()
        self._forms: Forms | None = None
        self._shown: dict[str, str] = {}
        self._owners: dict[str, Draft] = {}
        self._faces: dict[str, str] = {}

    def begin(self, forms: Forms, drafts: Iterable[Draft]) -> None:
        """Name the operators of this run."""
        self._forms, self._shown, self._faces = forms, {}, {}
        self._owners = {form.name: draft for draft in drafts for form in draft.forms}

    def recall(self, key: bytes) -> Facts | None:
        """Return the facts about an entry if nothing that they follow from has changed."""
        found = self._memory.find(key)
        if found is None:
            return None
        asked, rule, allowed, calls = found
        if any(self.shown(name) != shown for name, shown in asked):
            return None
        return Facts(DTypeRule(rule, allowed), frozenset(calls))

    def put(self, key: bytes, asked: Collection[str], facts: Facts) -> None:
        """Remember a sound entry and what it asked for."""
        answers = tuple((name, self.shown(name)) for name in sorted(asked))
        value = (answers, facts.dtype.name, tuple(facts.dtype.allowed), tuple(sorted(facts.calls)))
        self._memory.put(key, value)

    def keep(self) -> None:
        """Write what is new."""
        self._memory.keep()

    def key(self, draft: Draft, derivative: Node | None, sources: str, oracles: str) -> bytes:
        """Return the hash of an entry with its derivative, and of what is looked up outside the two files."""
        own, formulas = repr(plain(draft.fields.node)), repr(plain(derivative))
        return digest(self._tables, draft.name, draft.family, own, formulas, sources, oracles)

    def shown(self, name: str) -> str:
        """Return a hash of what a name or symbol means to those that call it."""
        if name not in self._shown:
            assert self._forms is not None
            asked = self._forms.asked
            self._forms.asked = set()
            if name == ALL:
                parts = list(self._forms.every())
            else:
                forms = [*self._forms.named(name), *self._forms.written(name)]
                parts = [part for form in forms for part in (form.name, self._face(form))]
            self._forms.asked = asked
            self._shown[name] = digest(*parts).hex()[:20]
        return self._shown[name]

    def _face(self, form: Form) -> str:
        """Return what an operator's entry shows to its callers."""
        draft = self._owners[form.name]
        if draft.name not in self._faces:
            items = [(k.value, plain(v)) for k, v in draft.fields.node.items if k.value not in PRIVATE]
            self._faces[draft.name] = f"{draft.family} {draft.broken} {items!r}"
        return self._faces[draft.name]
