"""Warnings of `Library.impl` about kernels that it replaces, beside PyTorch."""

import itertools
import subprocess
import sys
import warnings

from sides import Scenarios

scenario = Scenarios()
_numbers = itertools.count()


def replaced(fw, *registrations):
    """For each registration (library, operator, key), the categories of the warnings about replacement."""
    space = f"replaced{next(_numbers)}"
    owner = fw.library.Library(space, "DEF")
    owner.define("f(Tensor x) -> Tensor")
    libraries = {"own": owner, "other": fw.library.Library(space, "IMPL")}
    libraries |= {name: fw.library.Library("aten", "IMPL") for name in ("aten", "aten2")}
    before = fw.is_warn_always_enabled()
    fw.set_warn_always(True)
    found = []
    try:
        for library, operator, key in registrations:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                libraries[library].impl(operator, lambda x: x, key)
            phrase = "previously registered kernel for the same operator and the same dispatch key"
            found.append([w.category.__name__ for w in caught if phrase in str(w.message)])
    finally:
        fw.set_warn_always(before)
        for made in libraries.values():
            made._destroy()
    return found


@scenario
def kernels_of_a_program(torch):
    keys = ("CPU", "Meta", "CompositeImplicitAutograd", "AutogradCPU")
    return [replaced(torch, ("own", "f", key), ("own", "f", key), ("other", "f", key)) for key in keys]


@scenario
def kernels_for_different_keys(torch):
    return replaced(torch, ("own", "f", "CPU"), ("own", "f", "Meta"), ("other", "f", "CUDA"))


@scenario
def kernels_of_aten(torch):
    registrations = [("aten", "sin", key) for key in ("CPU", "AutogradCPU", "AutogradCPU")]
    return replaced(torch, *registrations, ("aten", "matmul", "CPU"), ("aten2", "matmul", "CPU"))


@scenario
def kernels_that_were_taken_back(torch):
    return [replaced(torch, ("own", "f", "CPU")) for _ in range(2)]


test_as_in_pytorch = scenario.test()

_ONCE = """
import warnings
import flambeau
library = flambeau.library.Library("aten", "IMPL")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for name in ("sin", "cos", "tan"):
        library.impl(name, lambda x: x, "CPU")
print([str(w.message) for w in caught if "aten::sin" in str(w.message)] != [], len(caught))
"""


def test_one_warning_per_process():
    run = subprocess.run(
        [sys.executable, "-c", _ONCE], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.stdout.split(), run.returncode) == (["True", "1"], 0), run.stderr
