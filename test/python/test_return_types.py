"""`flambeau.return_types`: each named tuple says what its fields hold, in the words of its operator."""

import pydoc

import flambeau
import flambeau.return_types
import pytest

NAMES = dir(flambeau.return_types)


@pytest.mark.parametrize("name", NAMES)
def test_each_field_has_a_meaning(name):
    kind = getattr(flambeau.return_types, name)
    summary, empty, heading, *lines = kind.__doc__.split("\n")
    path = summary.removeprefix("Named tuple of the results of `").removesuffix("`.")
    assert (empty, heading) == ("", "Fields:")
    operator = flambeau
    for part in path.split(".")[1:]:
        operator = getattr(operator, part)
    told = dict(line.strip().split(": ", 1) for line in _joined(lines))
    assert list(told) == list(kind.__match_args__)
    returned = " ".join(operator.__doc__.split("Returns:\n")[1].split("\n\n")[0].split())
    for field, meaning in told.items():
        assert f"{field}: {meaning.removesuffix('.')}" in returned
        assert len(meaning) > 1


def _joined(lines):
    fields: list[str] = []
    for line in lines:
        if line.startswith("        "):
            fields[-1] += " " + line.strip()
        else:
            fields.append(line)
    return fields


def test_help_shows_the_fields():
    text = pydoc.plain(pydoc.render_doc(flambeau.return_types.max))
    assert "Named tuple of the results of `flambeau.max`." in text
    assert " |      values: the largest elements.\n" in text
    assert type(flambeau.max(flambeau.ones(2), 0)) is flambeau.return_types.max


def test_the_meaning_is_that_of_the_operator():
    """A tuple of the same fields as another operator's has its own text."""
    largest, smallest = flambeau.return_types.max.__doc__, flambeau.return_types.min.__doc__
    assert largest.replace("largest", "smallest").replace("max", "min") == smallest != largest


def test_names_are_those_of_public_operators():
    assert {"max", "sort", "svd", "linalg_svd", "topk"} <= set(NAMES)
    assert not [name for name in NAMES if name.startswith("_")]
    with pytest.raises(AttributeError, match="no attribute 'add'"):
        _ = flambeau.return_types.add
