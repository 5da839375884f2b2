"""The errors and warnings of handwritten C++ begin with a name.

Errors of operators get the called operator's name in `call_site.cpp` (test/ops/test_shape_errors.py), so only
the binding is read here: what it raises outside of an operator's call names the function or attribute itself.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
CALL = re.compile(
    r"\b(check(?:_type|_value|_index|_view_origin)?|PyErr_(?:SetString|Format|WarnEx|WarnFormat))\("
)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
HEAD = re.compile(r"[A-Za-z_%][\w.%]*(?:\(\))?: ")
# Beginnings whose first value, or whose caller, names the function.
NAMED_OTHERWISE = {
    "Can't call ": "the function's name follows",
    "can't convert a ": "the words that NumPy's users look for; `what` follows",
    "function ": "the Function's name follows",
    "no implementation found for ": "the function follows",
    "Attribute of a custom Function's context": "its attributes share one text",
    "backward() inside of a transform": "the method begins it",
    "Cannot access the storage of a tensor under vmap": "storage() and untyped_storage() share it",
    "grad_dtype must be a torch.dtype": "the attribute begins it",
    "Generator.__init__() was not called": "the method begins it",
    "int too big to convert": "Python's own words; the binding puts the call behind them",
    "expected a Tensor, got ": "a conversion: pybind11 knows no name of the callee",
    "expected a dtype, got ": "a conversion",
    "expected a device, got ": "a conversion",
    "expected a Generator, got ": "a conversion",
    "Device index: ": "the class and its argument",
    "flambeau: ": "the package",
    "the table of methods is longer": "a fault of the project itself, found when the module loads",
}


class Message(NamedTuple):
    """A raising call in C++: where it stands, whether a value precedes its first text, and that text."""

    where: str
    begins_with_value: bool
    text: str


def arguments(source: str, start: int) -> str:
    """The text between the parenthesis before `start` and its partner, which no literal hides."""
    depth, i = 1, start
    while depth:
        literal = LITERAL.match(source, i)
        if literal:
            i = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(source[i], 0)
        i += 1
    return source[start : i - 1]


def split(text: str) -> list[str]:
    """The arguments at the top level of a call."""
    parts, depth, i, begin = [], 0, 0, 0
    while i < len(text):
        literal = LITERAL.match(text, i)
        if literal:
            i = literal.end()
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[i], 0)
        if text[i] == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
        i += 1
    return [*parts, text[begin:].strip()]


def messages(source: str, path: str) -> list[Message]:
    """Every raising call with a text."""
    found = []
    for call in CALL.finditer(source):
        given = split(arguments(source, call.end()))[1:]
        if any(LITERAL.search(argument) for argument in given):
            where = f"{path}:{source.count(chr(10), 0, call.start()) + 1}"
            found.append(Message(where, not given[0].startswith('"'), "".join(LITERAL.findall(given[0]))))
    return found


def has_head(message: Message) -> bool:
    """Whether a name begins the message: a text, or a value that the caller passed."""
    return message.begins_with_value or bool(HEAD.match(message.text))


def of_binding() -> list[Message]:
    """The messages of python/csrc."""
    paths = sorted((ROOT / "python/csrc").glob("*.[ch]*"))
    return [m for p in paths for m in messages(p.read_text(), p.relative_to(ROOT).as_posix())]


def test_each_message_of_the_binding_begins_with_a_name():
    found = of_binding()
    assert len(found) > 150, "the scan finds the calls"
    nameless = [m for m in found if not has_head(m) and not m.text.startswith(tuple(NAMED_OTHERWISE))]
    assert not nameless, "\n".join(f"{m.where}: {m.text}" for m in nameless)


def test_no_exemption_is_idle():
    texts = [m.text for m in of_binding()]
    idle = [start for start in NAMED_OTHERWISE if not any(text.startswith(start) for text in texts)]
    assert not idle


def test_a_message_without_a_name_is_found():
    source = 'check(n > (1), "expected one, got ", n); check_type(f("a(b"), "sum: expected", " two");'
    assert [has_head(m) for m in messages(source, "x.cpp")] == [False, True]
    assert [m.text for m in messages(source, "x.cpp")] == ["expected one, got ", "sum: expected"]
