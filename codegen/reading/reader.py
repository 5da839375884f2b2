"""One entry beyond its schema: body, derivative, tests, vmap rules and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codegen.model import (
    BatchRule,
    Body,
    Check,
    Derivative,
    DTypeRule,
    Element,
    Flops,
    Kernels,
    Kind,
    TestSpec,
)
from codegen.reading.autocast import read_autocast
from codegen.reading.batch_rules import read_batching
from codegen.reading.bodies import build_body, read_dtype
from codegen.reading.checks import read_checks
from codegen.reading.context import Context
from codegen.reading.derivative_entries import Entry, read_derivative
from codegen.reading.element import read_element
from codegen.reading.entries import Draft
from codegen.reading.flops import read_flops
from codegen.reading.inplace_views import check_inplace_view
from codegen.reading.kernel_scan import Sources, check_functions, check_strays
from codegen.reading.known import Facts, Known
from codegen.reading.lets import report_unused
from codegen.reading.recursion import called_in_any_case
from codegen.reading.returns import contradicts
from codegen.reading.shard import check_shard
from codegen.reading.sparse import read_sparse
from codegen.reading.test_spec import EMPTY, read_test


@dataclass(frozen=True, slots=True)
class Reading:
    """The contents of an entry except its schema; of a known entry only what others need."""

    dtype: DTypeRule
    calls: frozenset[str]  # forms that are called in any case
    has_body: bool
    body: Body | None = None
    derivative: Derivative | None = None
    test: TestSpec = EMPTY
    batching: tuple[BatchRule, ...] = ()
    checks: tuple[Check, ...] = ()
    autocast: tuple[tuple[str, str], ...] = ()
    sparse: tuple[tuple[str, str], ...] = ()
    flops: Flops | None = None
    element: Element | None = None


class Reader:
    """Reads the entries that are not known, each independently of the others."""

    def __init__(
        self,
        drafts: Sequence[Draft],
        entries: Mapping[str, Entry],
        sources: Sources,
        context: Context,
        known: Known | None,
    ) -> None:
        self._drafts, self._entries, self._sources = drafts, entries, sources
        self._context, self._known = context, known
        self._families: set[str] = set()  # with kernels
        self._incomplete: set[str] = set()  # where one is missing, an undeclared one is the same mistake
        self._fresh: list[tuple[bytes, frozenset[str], Facts]] = []
        if known is not None:
            known.begin(context.forms, drafts)

    def read(self, draft: Draft) -> Reading:
        """Read an entry, or recall that it is sound."""
        if self._known is None or draft.broken:
            return self._read(draft)
        entry = self._entries.get(draft.name)
        formulas = None if entry is None else entry.fields.node
        sources = self._sources.state(draft.family)
        key = self._known.key(draft, formulas, sources, self._context.oracles.key)
        facts = self._known.recall(key)
        if facts is not None:
            if draft.kind is Kind.KERNELS:
                self._families.add(draft.family)
            return Reading(facts.dtype, facts.calls, True)
        forms = self._context.forms
        forms.asked = set()
        reading = self._read(draft)
        self._fresh.append((key, frozenset(forms.asked), Facts(reading.dtype, reading.calls)))
        return reading

    def _read(self, draft: Draft) -> Reading:
        context = self._context
        body = None if draft.broken else build_body(draft, context)
        dtype = read_dtype(draft, context, body)
        entry = self._entries.get(draft.name)
        check_inplace_view(draft, body, context)
        before = len(context.collector)
        is_own = context.is_own(draft)
        sparse = read_sparse(draft.fields, draft.schema.name.inplace)
        if is_own and not check_functions(draft, body, sparse, self._sources, context):
            self._incomplete.add(draft.family)
        if is_own and isinstance(body, Kernels):
            self._families.add(draft.family)
        odd = draft.broken or contradicts(draft, entry, len(context.collector) > before, context)
        derivative = None if entry is None or odd else read_derivative(entry, dtype, context)
        test = read_test(draft, context) if is_own else EMPTY
        batching = () if odd else read_batching(draft, context)
        checks = () if odd else read_checks(draft, context)
        report_unused(draft, context, body)
        calls, has_body = called_in_any_case(body), body is not None
        autocast = read_autocast(draft.fields)
        flops = None if odd else read_flops(draft, context)
        element = None if odd else read_element(draft, context)
        if not odd:
            check_shard(draft, context)
        return Reading(
            dtype, calls, has_body, body, derivative, test, batching, checks, autocast, sparse, flops, element
        )

    def check_strays(self) -> None:
        """Report kernels that no entry declares."""
        families = self._families - self._incomplete - {""}
        check_strays(self._drafts, families, self._sources, self._context)

    def keep(self) -> None:
        """Remember what was found out for the next run."""
        self._context.memory.keep()
        self._sources.memory.keep()
        if self._known is not None and not self._context.collector.found:
            for key, asked, facts in self._fresh:
                self._known.put(key, asked, facts)
            self._known.keep()
