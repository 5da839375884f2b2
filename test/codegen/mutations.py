"""Single mistakes of many kinds, made in an entry of a specification: what an author's slip looks like.

A mutation takes the lines of one entry and returns them changed, or None where the entry has nothing to
mistake in this way. `one` says that exactly one diagnostic is right, whatever else uses the entry; the
others are changes that several places may rightly object to, or none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Lines = list[str]
Change = Callable[[Lines], Lines | None]


@dataclass(frozen=True)
class Mutation:
    name: str
    change: Change
    one: bool


def _first(pattern: str, replacement: str) -> Change:
    """Replace the first match in the entry."""

    def change(lines: Lines) -> Lines | None:
        text, count = re.subn(pattern, replacement, "\n".join(lines), count=1, flags=re.MULTILINE)
        return text.split("\n") if count else None

    return change


def _key(name: str, other: str) -> Change:
    return _first(rf"^((?:- |  )){name}:", rf"\g<1>{other}:")


def _dropped(name: str) -> Change:
    return _first(rf"^  {name}:.*\n(?:    .*(?:\n|\Z))*", "")


def _repeated(lines: Lines) -> Lines | None:
    family = next((line for line in lines if line.startswith("  family:")), None)
    return None if family is None else [*lines[:2], family, *lines[2:]]


def _renamed_argument(lines: Lines) -> Lines | None:
    """Rename an argument in the schema alone, where other keys of the entry read it."""
    for name in re.findall(r"[ )](\w+)(?=[,)=])", lines[0]):
        rest = "\n".join(lines[1:])
        if re.search(rf"(?:pointwise|composite|reduce|view|shape|let).*\b{name}\b", rest):
            return [re.sub(rf"\b{name}\b(?=[,)=])", f"{name}_renamed", lines[0], count=1), *lines[1:]]
    return None


def _twice(lines: Lines) -> Lines | None:
    return [*lines, *lines] if lines[0].startswith("- func") else None


def _renamed_family(lines: Lines) -> Lines | None:
    return _first(r"^  family: (\w{4})(\w+)$", r"  family: \1x\2")(lines)


MUTATIONS = [
    Mutation("misspelt key func", _key("func", "fnc"), True),
    Mutation("misspelt key family", _key("family", "famly"), True),
    Mutation("misspelt key variants", _key("variants", "varients"), True),
    Mutation(
        "misspelt key that computes", _first(r"^  (pointwis|reduc|composit|vie|kernel)\w:", r"  \1x:"), True
    ),
    Mutation("misspelt key doc", _key("doc", "docs"), True),
    Mutation("misspelt key infix", _key("infix", "infx"), True),
    Mutation("misspelt key test", _key("test", "tset"), True),
    Mutation("unknown key", _first(r"^  family:", "  zzqy: 1\n  family:"), True),
    Mutation("missing family", _dropped("family"), True),
    Mutation("missing doc", _dropped("doc"), True),
    Mutation("missing colon", _first(r"^  family: ", "  family "), True),
    Mutation("colon without a space", _first(r"^  family: ", "  family:"), True),
    Mutation("wrong indent", _first(r"^  family:", "   family:"), True),
    Mutation("key in the first column", _first(r"^  family:", "family:"), True),
    Mutation("tab in the indentation", _first(r"^  family:", "\tfamily:"), True),
    Mutation("variants that are a word", _first(r"^  variants: \[.*\]", "  variants: function"), True),
    Mutation("family that is a list", _first(r"^  family: (\w+)", r"  family: [\1]"), True),
    Mutation("duplicate key", _repeated, True),
    Mutation("duplicate entry", _twice, True),
    Mutation("unknown variant", _first(r"^  variants: \[", "  variants: [functoin, "), True),
    Mutation("unknown dtype rule", _first(r"^  dtype: \w+", "  dtype: promot"), True),
    Mutation("unknown category", _first(r"^  dtypes: \[\w+", "  dtypes: [flaoting"), True),
    Mutation("unknown type", _first(r"\(Tensor ", "(Tensr "), True),
    Mutation("double for float", _first(r"\b(?:float|Scalar) (?=\w+[,)=])", "double "), True),
    Mutation("unknown type in the returns", _first(r"-> Tensor$", "-> Tensr"), True),
    Mutation("changed return count", _first(r"-> Tensor$", "-> (Tensor, Tensor)"), True),
    Mutation("nothing returned", _first(r"-> Tensor$", "-> ()"), True),
    Mutation("no arrow", _first(r" -> ", " "), True),
    Mutation("default of another type", _first(r"=(?:-?[\d.e-]+|None|True|False)(?=[,)])", "=oops"), True),
    Mutation("comma for a bracket", _first(r"\) ->", ", ->"), True),
    Mutation("argument twice", _first(r"\((Tensor(?:\(\w!?\))?) self", r"(\1 self, Tensor self"), True),
    Mutation("renamed argument", _renamed_argument, True),
    Mutation("explicit out argument", _first(r"\) -> Tensor$", ", *, Tensor(a!) out) -> Tensor(a!)"), True),
    Mutation("unclosed bracket", _first(r"^(  variants: \[[^\]]*)\]", r"\1"), True),
    Mutation("unclosed quote", _first(r'^(  \w+: "[^"]*)"', r"\1"), True),
    Mutation("unclosed parenthesis", _first(r"^(  (?:pointwise|composite): .*)\)", r"\1"), True),
    Mutation("misspelt call", _first(r"^(  (?:pointwise|composite): .*?\b[a-z]{3,})\(", r"\1qq("), True),
    Mutation("misspelt name", _first(r"^(  (?:pointwise|composite): .*?)\bself\b", r"\1slef"), True),
    Mutation("misspelt kernel", _first(r"CPU: (\w+)_cpu", r"CPU: \1x_cpu"), True),
    Mutation("misspelt backend", _first(r"CPU: ", "CPUU: "), True),
    Mutation("misspelt family", _renamed_family, True),
    Mutation("misspelt name in the reference", _first(r"(reference: .*?)\bnp\.\w+", r"\1np.nosuch"), True),
    Mutation(
        "sample with too many arguments",
        _first(
            r'(samples: \[")', r"\1t(2), t(2), t(2), t(2), t(2), t(2), t(2), t(2), t(2), t(2), t(2), t(2), "
        ),
        True,
    ),  # fmt: skip
    Mutation("byte that is not UTF-8", _first(r"^(  family: \w)", "\\1\udce9"), True),
    Mutation("misspelt operator", _first(r"^(- func: \w+)", r"\1qq"), False),
    Mutation("no entry", lambda lines: [], False),
    Mutation("no name", _first(r"^- func: [\w.]+", "- func: "), True),
]
