"""`shard:` — how placements of arguments on processes determine those of results, where not derived.

shard: ik, kj -> ij       one word per Tensor, one letter per dimension
shard: all but dim        every dimension except those that the argument `dim` names; `, sums`: results
                          that lack a divided dimension are sums of parts
shard: pointwise          as an expression over elements; `linear`: which sums of parts may pass, too
"""

from __future__ import annotations

import re

from codegen.language.forms import tensor_args
from codegen.language.overloads import show
from codegen.model import Kind
from codegen.reading.context import Context
from codegen.reading.entries import Draft
from codegen.source.nodes import Text

WORDS = ("pointwise", "linear")
_ALL_BUT = re.compile(r"all but (\w+)(, sums)?", re.ASCII)
_WORD = re.compile(r"\+?(\.\.\.)?([a-z]|_)*(\.\.\.)?|none", re.ASCII)


def check_shard(draft: Draft, context: Context) -> None:
    """Report a rule that does not fit the schema."""
    given = draft.fields.scalar("shard")
    if given is None:
        return
    if draft.kind is Kind.COMPOSITE:
        message, hint = "shard: a composite has the rules of its parts", "remove `shard`"
        context.collector.add(given.position, "FB0106", message, hint, given.length)
        return
    if given.value in WORDS:
        return
    found = _ALL_BUT.fullmatch(given.value)
    message = _fault_of_argument(draft, found.group(1)) if found else _fault_of_words(draft, given)
    if message:
        hint = "write words such as `ik, kj -> ij`, `all but dim`, `pointwise` or `linear`"
        context.collector.add(given.position, "FB0104", f"shard: {message}", hint, given.length)


def _fault_of_argument(draft: Draft, name: str) -> str:
    named = {arg.name: show(arg.type) for arg in draft.schema.args}
    if name not in named:
        return f"no argument '{name}'"
    return "" if named[name].startswith("int") else f"argument '{name}' is no dimension: {named[name]}"


def _fault_of_words(draft: Draft, given: Text) -> str:
    left, arrow, right = given.value.partition("->")
    if not arrow:
        return f"unknown rule '{given.value}'"
    inputs, outputs = ([word.strip() for word in side.split(",")] for side in (left, right))
    wrong = [word for word in (*inputs, *outputs) if not _WORD.fullmatch(word)]
    if wrong:
        return f"'{wrong[0]}' is no word of letters, `_` and one `...`"
    tensors, results = len(tensor_args(draft.schema)), len(draft.schema.returns)
    if (len(inputs), len(outputs)) != (tensors, results):
        return f"expected {tensors} -> {results} words, got {len(inputs)} -> {len(outputs)}"
    unknown = sorted(set("".join(outputs)) - set("".join(inputs)) - {"_"})
    return f"letter '{unknown[0]}' of a result is in no argument" if unknown else ""
