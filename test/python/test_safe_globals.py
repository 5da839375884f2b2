"""Classes that files may hold though they are not trusted."""

import importlib
import io

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


test_as_in_pytorch = scenario.test()
