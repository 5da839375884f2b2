"""Documentation that is inherited: a function's from the operator that it wraps, a layer's from its function.

A docstring in the source holds what is peculiar to its name. What it leaves out comes from its sources: whole
sections, and the text of each parameter. A function's documentation is put together when its module is
imported, a class's when it is read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, TypeVar

_TITLES = {
    "Overloads": "Overloads",
    "Formula": "Formula",
    "Args": "Args",
    "Arguments": "Args",
    "Attributes": "Attributes",
    "Returns": "Returns",
    "Shape": "Shape",
    "Shapes": "Shape",
    "Dtypes": "Dtypes",
    "Gradient": "Gradient",
    "Raises": "Raises",
    "Notes": "Notes",
    "See also": "See also",
    "Source": "Source",
    "Example": "Example",
}
_ORDER = tuple(dict.fromkeys(_TITLES.values()))
# What a layer takes from its function, whose tensors, errors and example are not the layer's.
_OF_LAYERS = ("Formula", "Dtypes", "Gradient", "Notes", "Source")
# What composites say of their gradients, which layers need not say; nor do they name private operators.
_THROUGH = "Through the operators that it is made of."
# Where an operator's entry stands: no source of a layer.
_ENTRY = "    native_functions.yaml, "
# Parameters that mean the same wherever they occur and have no other text.
_COMMON = {
    "inplace": "whether to overwrite `input` and return it.",
    "reduction": '"mean" (over all elements), "sum" or "none" (one loss per element).',
    "size_average": "deprecated; `reduction` replaces it. False means the sum.",
    "reduce": "deprecated; `reduction` replaces it. False means no reduction.",
    "device": "the device of the parameters and buffers. None means the default device.",
    "dtype": "the dtype of the parameters and buffers. None means the default dtype.",
    "generator": "the source of random numbers. None means the default generator.",
    "out": "where the result is written. None makes a new tensor.",
    "_stacklevel": "the frame that a warning about a missing `dim` names.",
}

# Of these the common text is the one, as operators number what functions name.
_ALWAYS = frozenset(("reduction", "size_average", "reduce", "inplace"))

_Described = TypeVar("_Described", bound=Callable[..., Any])
Sections = dict[str, str]


def described_by(*sources: Any) -> Callable[[_Described], _Described]:
    """Return a decorator that completes a docstring.

    Args:
        *sources: of a function: the operators or functions that it calls. Of a class: the name of a function
            of `nn.functional`, or another class.
    """

    def complete(described: _Described) -> _Described:
        own = described.__doc__
        if own is None:  # python -OO drops docstrings
            return described
        if isinstance(described, type):
            described.__doc__ = inherited(own, sources)
        else:
            texts = [_cleaned(source.__doc__ or "") for source in sources]
            described.__doc__ = _merged(_cleaned(own), texts, _parameters(described), False)
        return described

    return complete


def inherited(own: str, sources: tuple[Any, ...]) -> Any:
    """Return what serves as the `__doc__` of a class; see `described_by`."""
    return _Inherited(own, sources)


class _Inherited:
    """A class's `__doc__`, which is put together when it is first read."""

    def __init__(self, own: str, sources: tuple[Any, ...]) -> None:
        self.own, self.sources = own, sources
        self.text: str | None = None

    def __get__(self, instance: object, owner: type) -> str:
        if self.text is None:
            texts = [_of_function(s) if isinstance(s, str) else _of_class(s) for s in self.sources]
            stars: dict[Any, str] = {
                inspect.Parameter.VAR_POSITIONAL: "*",
                inspect.Parameter.VAR_KEYWORD: "**",
            }
            found = inspect.signature(owner).parameters.values()
            names = tuple(stars.get(p.kind, "") + p.name for p in found)
            self.text = _merged(inspect.cleandoc(self.own), texts, names, True)
        return self.text


def _parameters(function: Any) -> tuple[str, ...]:
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:count])
    for flag, star in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
        if code.co_flags & flag:
            names.append(star + code.co_varnames[len(names)])
    return tuple(names)


def _of_class(cls: type) -> str:
    start, sections = _sections(inspect.getdoc(cls) or "")
    return "\n\n".join([start, *(f"{title}:\n{body}" for title, body in sections.items())])


def _of_function(name: str) -> str:
    """Return of the documentation of a function of `nn.functional` what holds for a layer."""
    function = getattr(import_module("flambeau.nn.functional"), name)
    _, sections = _sections(inspect.cleandoc(function.__doc__ or ""))
    if sections.get("Gradient", "").strip() == _THROUGH or ": _" in sections.get("Gradient", ""):
        del sections["Gradient"]
    if "Source" in sections:
        papers = (line for line in sections["Source"].split("\n") if not line.startswith(_ENTRY))
        sections["Source"] = "\n".join(papers)
    return "\n\n".join(f"{t}:\n{sections[t]}" for t in (*_OF_LAYERS, "Args") if sections.get(t))


def _merged(own: str, sources: list[str], parameters: tuple[str, ...], is_class: bool) -> str:
    start, sections = _sections(own)
    texts = dict(_arguments(sections.get("Args", "")))
    for source in sources:
        theirs = _paragraphs(source)
        for name, text in _arguments(theirs.pop("Args", "")):
            if name not in _ALWAYS:
                texts.setdefault(name, text)
        for title, text in theirs.items():
            if title not in sections:
                sections[title] = text
            elif title == "Raises" and not is_class:
                sections[title] += f"\n{text}"
    known = (n for n in parameters if n in texts or n in _COMMON or not n.startswith("*"))
    lines = [texts.get(name) or f"    {name}: {_COMMON.get(name, '')}" for name in known]
    if lines:
        sections["Args"] = "\n".join(dict.fromkeys(lines))
    parts = [f"{title}:\n{sections[title]}" for title in _ORDER if sections.get(title)]
    return "\n\n".join([start, *parts])


def _cleaned(text: str) -> str:
    """Return a docstring without its indentation, which is that of the second line that is not blank."""
    rest = text.partition("\n")[2].lstrip("\n")
    margin = len(rest) - len(rest.lstrip(" "))
    return text.replace("\n" + margin * " ", "\n").rstrip() if margin else text.rstrip()


def _sections(text: str) -> tuple[str, Sections]:
    """Return what stands before the first section, and the sections without their titles."""
    lines = text.split("\n")
    heads = [i for i, line in enumerate(lines) if line.partition(":")[0] in _TITLES]
    found: Sections = {}
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=False):
        title, _, sentence = lines[begin].partition(":")
        # A section of one sentence begins beside its title.
        first = [f"    {sentence.strip()}"] if sentence else []
        found[_TITLES[title]] = "\n".join([*first, *lines[begin + 1 : end]]).strip("\n")
    return "\n".join(lines[: heads[0] if heads else None]).strip(), found


def _paragraphs(text: str) -> Sections:
    """Return the sections of a text that has a blank line between them, which takes less time."""
    found: Sections = {}
    title = None
    for part in text.split("\n\n"):
        head, ended, body = part.partition(":\n")
        if ended and head in _TITLES:
            title = _TITLES[head]
            found[title] = body
        elif title is not None:
            found[title] += f"\n\n{part}"
    return found


def _arguments(section: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a section with their lines."""
    names: list[str] = []
    entry: list[str] = []
    for line in section.split("\n"):
        if line[4:5] != " " and ":" in line:  # further lines of an entry are indented further
            yield from ((name, "\n".join(entry)) for name in names)
            names, entry = line[4:].partition(":")[0].partition(" (")[0].split(", "), []
        entry.append(line)
    yield from ((name, "\n".join(entry)) for name in names)
