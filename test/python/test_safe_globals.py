"""Classes that files may hold though they are not trusted."""

import importlib
import io
import pickle
from collections import Counter, OrderedDict
from fractions import Fraction

import pytest
from flambeau.serialization._opcodes import names_in
from sides import Scenarios, raised

scenario = Scenarios()


class Settings:
    """What a program stores beside its weights."""

    rate = 0.5


@scenario
def classes_that_are_known(torch):
    module = importlib.import_module(f"{torch.__name__}.serialization")
    file = io.BytesIO()
    torch.save({"settings": Settings(), "x": torch.ones(2)}, file)

    def load():
        file.seek(0)
        return torch.load(file)

    found = [raised("weights only", load)]
    with module.safe_globals([Settings]):
        found += [load()["settings"].rate, load()["x"], Settings in module.get_safe_globals()]
    found.append(raised("weights only", load))
    module.add_safe_globals([Settings])
    found.append(type(load()["settings"]).__name__)
    module.clear_safe_globals()
    return [*found, raised("weights only", load), module.get_safe_globals()]


def content(torch):
    return [Settings(), Settings(), Counter("a"), OrderedDict(x=torch.ones(2)), Fraction(1, 2), Fraction(1)]


@scenario
def names_that_are_refused(torch):
    module = importlib.import_module(f"{torch.__name__}.serialization")
    file, found = io.BytesIO(), []
    torch.save(content(torch), file)
    for known in ([], [Settings]):
        file.seek(0)
        with module.safe_globals(known):
            found.append(sorted(module.get_unsafe_globals_in_checkpoint(file)))
    older = io.BytesIO(pickle.dumps(1))
    return [*found, raised("expected", module.get_unsafe_globals_in_checkpoint, older)]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_names_in_every_form_of_pickles(protocol):
    found = set(names_in(pickle.dumps([Settings(), Counter("a"), Fraction(1, 2), Settings()], protocol)))
    expected = {(__name__, "Settings"), ("collections", "Counter"), ("fractions", "Fraction")}
    assert found - {("copyreg", "_reconstructor"), ("copy_reg", "_reconstructor")} >= expected
    assert {name for _, name in found} <= {"Settings", "Counter", "Fraction", "_reconstructor", "object"}


test_as_in_pytorch = scenario.test()
