"""`python -m codegen explain` says how Python calls a form: each of these names is there and callable."""

from __future__ import annotations

import flambeau as fb
import flambeau.nn.functional
import pytest

from codegen.deriving.signatures import python_paths
from codegen.load import load

MODEL, _ = load(keep_going=True)
NAMESPACES = sorted({op.namespace for op in MODEL.operators}) if MODEL is not None else []


def paths(namespace: str) -> list[str]:
    assert MODEL is not None
    chosen = [op for op in MODEL.operators if op.namespace == namespace and not op.internal]
    return [path for op in chosen for form in op.forms for path in python_paths(op, form)]


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_path_is_callable(namespace: str):
    found = paths(namespace)
    for path in found:
        value = fb
        for name in path.partition("(")[0].split(".")[1:]:
            value = getattr(value, name)
        assert callable(value), path
    assert len(found) > 5


def test_operators_of_nn_need_no_line_of_their_own():
    own = flambeau.nn.functional.__getattr__("hardswish_")
    x = fb.tensor([-4.0, 4.0])
    assert own(x) is x
    assert x.tolist() == [0.0, 4.0]


def test_names_that_are_nowhere_are_attribute_errors():
    with pytest.raises(AttributeError, match="no_such_function"):
        _ = flambeau.nn.functional.no_such_function
