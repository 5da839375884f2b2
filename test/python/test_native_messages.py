"""Errors of handwritten C++ say what was expected and what was given; the binding's begin with a name.

Errors of operators get the called operator's name in `call_site.cpp` (test/ops/test_shape_errors.py). Errors
that the binding raises outside of an operator's call name the function or attribute themselves.
"""

import re
from pathlib import Path
from typing import NamedTuple

import flambeau
import pytest

ROOT = Path(__file__).parents[2]
CALL = re.compile(
    r"\b(check(?:_type|_value|_index|_view_origin)?|fail|PyErr_(?:SetString|Format|WarnEx|WarnFormat))\("
)
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
HEAD = re.compile(r"[A-Za-z_%][\w.%]*(?:\(\))?: ")
# What a message about an argument says: the expectation, and then the value.
EXPECTED, GIVEN = re.compile(r"\b[Ee]xpect(?:ed)?\b"), re.compile(r"\b(?:got|found|but)\b")
# Types whose texts have the form (aten/core/messages.h).
COMMON = re.compile(
    r"\b(?:WrongIndexDtype|WrongOutputShape|WrongRank|OutOfBounds|NoDimension|NoTensors|EmptyDimension)\{"
)
# Errors about arguments whose words programs match on, or whose caller gives the expectation.
WORDS_OF_PROGRAMS = {
    "index: The shape of the mask ": "the words of NumPy and PyTorch",
    "can't convert a tensor of layout sparse_coo for ": "the words of NumPy's users",
    "can't convert a {name_of": "the words of NumPy's users",
    "{function}(): argument 'device_type' must be str": "the argument parser's words",
    "set_autocast_enabled(): argument 'enabled' must be bool": "the argument parser's words",
    "tensor(): argument 'd": "the argument parser's words",
    "Generator.__init__() was not called": "Python's words",
    "len: len() of a 0-d tensor": "Python's words",
    "{what} of 0 or more, got ": "`what` begins with the class and 'expected'",
    "index {index} is outside of a list of ": "a mistake in a formula of the YAML, no argument",
}
# Faults of the project itself, which no argument causes.
INTERNAL = {"expected tensors of a transform": "views of wrappers are wrappers"}
# Beginnings whose first value, or whose caller, names the function.
NAMED_OTHERWISE = {
    "Can't call ": "the function's name follows",
    "maximum recursion depth exceeded": "Python's words, which any call can raise",
    "can't convert a ": "the words that NumPy's users look for; `what` follows",
    "function ": "the Function's name follows",
    "no implementation found for ": "the function follows",
    "Attribute of a custom Function's context": "its attributes share one text",
    "backward() inside of a transform": "the method begins it",
    "Cannot access the storage of a ": "storage() and untyped_storage() share it",
    "argument '": "the argument parser; `call_site.cpp` puts the callee before it",
    "expected layout strided or sparse_coo": "the argument parser",
    "Could not run '": "the operator's name follows",
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
    """A raising call in C++: its place, whether a value comes first, the first text, the whole message."""

    where: str
    begins_with_value: bool
    text: str
    call: str
    whole: str


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
            first = "".join(LITERAL.findall(given[0]))
            found.append(Message(where, not given[0].startswith('"'), first, call[1], shown(given)))
    return found


def shown(given: list[str]) -> str:
    """The whole message, with the C++ expression of a value in braces."""
    parts = ("".join(LITERAL.findall(a)) if a.startswith('"') else f"{{{a}}}" for a in given)
    return "".join(parts)


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


def of_all() -> list[Message]:
    """The messages of every folder of handwritten C++."""
    folders = ("c10", "aten", "api", "python/csrc")
    paths = sorted(p for folder in folders for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cpp"))
    return [m for p in paths for m in messages(p.read_text(), p.relative_to(ROOT).as_posix())]


def is_expectation(message: Message) -> bool:
    """Whether a message says what was expected and what was given."""
    if COMMON.search(message.whole):
        return True
    return bool(EXPECTED.search(message.whole) and GIVEN.search(message.whole))


def test_what_was_expected_is_followed_by_what_was_given():
    found = [m for m in of_all() if EXPECTED.search(m.whole) and not m.call.startswith("PyErr_")]
    assert len(found) > 700, "the scan finds the calls"
    bad = [m for m in found if not is_expectation(m) and not m.whole.startswith(tuple(INTERNAL))]
    assert not bad, "\n".join(f"{m.where}: {m.whole}" for m in bad)


def test_errors_about_arguments_say_what_was_expected_and_given():
    about = [m for m in of_all() if m.call in ("check_type", "check_value", "check_index")]
    assert len(about) > 150, "the scan finds the calls"
    bad = [m for m in about if not is_expectation(m) and not m.whole.startswith(tuple(WORDS_OF_PROGRAMS))]
    assert not bad, "\n".join(f"{m.where}: {m.whole}" for m in bad)


def test_no_exemption_is_idle():
    texts, wholes = [m.text for m in of_binding()], [m.whole for m in of_all()]
    idle = [start for start in NAMED_OTHERWISE if not any(text.startswith(start) for text in texts)]
    idle += [
        start for start in (*WORDS_OF_PROGRAMS, *INTERNAL) if not any(w.startswith(start) for w in wholes)
    ]
    assert not idle


def test_a_message_without_a_name_is_found():
    source = 'check(n > (1), "expected one, got ", n); check_type(f("a(b"), "sum: expected", " two");'
    assert [has_head(m) for m in messages(source, "x.cpp")] == [False, True]
    assert [m.text for m in messages(source, "x.cpp")] == ["expected one, got ", "sum: expected"]


def test_a_message_without_the_value_is_found():
    source = 'check(n > 1, "expected 1, got ", n); check_value(n, "sum: expected 2"); check_index(n, "x", n);'
    assert [is_expectation(m) for m in messages(source, "x.cpp")] == [True, False, False]


F = flambeau.nn.functional
PUBLIC = {
    "max_unpool1d": lambda: F.max_unpool1d(
        flambeau.ones(1, 1, 5), flambeau.full((1, 1, 5), 2**62, dtype=flambeau.int64), 2
    ),
    "interpolate": lambda: F.interpolate(flambeau.ones(1, 1, 3), size=2**50),
    "pad": lambda: F.pad(flambeau.ones(3), (2**61, 2**61)),
    "unfold": lambda: F.unfold(flambeau.ones(1, 1, 3, 3), 2**40),
    "cartesian_prod": lambda: flambeau.cartesian_prod(*[flambeau.arange(1000)] * 8),
    "avg_pool1d": lambda: F.avg_pool1d(flambeau.ones(1, 1, 5), 2**62),
    "max_pool2d": lambda: flambeau.nn.MaxPool2d(9)(flambeau.ones(1, 1, 3, 3)),
    "stft": lambda: flambeau.stft(flambeau.ones(100), 2**60),
    "linear": lambda: flambeau.nn.Linear(3, 4)(flambeau.ones(2, 5)),
    "sparse_coo_tensor": lambda: flambeau.sparse_coo_tensor(flambeau.tensor([[-1]]), flambeau.ones(1), (3,)),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_message_begins_with_the_function_that_was_called(name: str):
    """Not with the private operator, the kernel's family or the operator inside."""
    with pytest.raises(Exception) as caught:
        PUBLIC[name]()
    assert re.match(rf"{name}: (?:numel: )?(?!\w+: )", str(caught.value)), str(caught.value)
