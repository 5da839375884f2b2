"""What all entries share while their expressions are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from codegen.language.overloads import Forms
from codegen.language.scalar_expr import InfixTable
from codegen.language.scope import Scope
from codegen.language.unusable import Unusable
from codegen.model import Expr, ExprType, Primitive
from codegen.reading.entries import Draft
from codegen.reading.extension import Author, Library
from codegen.reading.oracle_names import Oracles
from codegen.source.diagnostics import Collector
from codegen.source.memory import Memory
from codegen.source.nodes import Text

ROOT = Path(__file__).resolve().parents[2]
# The modules that read `test:`.
_OF_TESTS = (
    "language/overloads",
    "language/schema",
    "reading/oracle_names",
    "reading/sample_check",
    "reading/test_spec",
)


@dataclass(slots=True)
class Lets:
    """The names of one composite's `let`, each over arguments only, and which of them are read."""

    exprs: dict[str, Expr] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Context:
    """Names that expressions may refer to, and where mistakes go."""

    collector: Collector
    primitives: Mapping[str, Primitive]
    table: InfixTable
    forms: Forms
    unusable: Unusable  # what entries with mistakes would have declared
    memory: Memory
    oracles: Oracles
    library: str = ""  # the family of an author's entries; the others are then known to be sound
    lets: dict[str, Lets | None] = field(default_factory=dict)  # by operator; None: has a mistake

    @classmethod
    def of(
        cls,
        drafts: Iterable[Draft],
        primitives: Mapping[str, Primitive],
        collector: Collector,
        unusable: Unusable,
        author: Author | None = None,
        library: Library | None = None,
    ) -> Context:
        """Collect what the entries declare; an author's references stand beside the author's file."""
        drafts = tuple(drafts)
        infix: dict[str, list[str]] = {}
        for draft in drafts:
            if draft.infix and draft.schema.name.base not in infix.setdefault(draft.infix, []):
                infix[draft.infix].append(draft.schema.name.base)
        forms = Forms([form for draft in drafts for form in draft.forms], infix)
        memory = Memory("tests", _OF_TESTS)
        oracles = Oracles(ROOT / "test" / "ops" if author is None else author.native.resolve().parent, memory)
        name = "" if library is None else library.name
        return cls(collector, primitives, InfixTable(primitives), forms, unusable, memory, oracles, name)

    def is_own(self, draft: Draft) -> bool:
        """Whether mistakes in an entry are looked for: in an author's entries alone, if there are any."""
        return not self.library or draft.family == self.library

    def scope(
        self, variables: Mapping[str, ExprType], draft: Draft, reader: str, inplace_allowed: bool = False
    ) -> Scope:
        """Return the scope of a tensor expression in the entries of one operator."""
        lets = draft.fields.map("let")
        texts = {} if lets is None else {k.value: v.value for k, v in lets.node.items if isinstance(v, Text)}
        return Scope(self.forms, variables, reader, inplace_allowed, self.unusable, texts, draft.name)
