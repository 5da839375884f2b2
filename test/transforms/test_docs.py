"""The examples in the docstrings of transforms, trees and derivatives run."""

import doctest
import importlib

import flambeau
import pytest

MODULES = [
    "flambeau.func",
    "flambeau.func._argnums",
    "flambeau.func._grad",
    "flambeau.func._jacobians",
    "flambeau.func._jvp",
    "flambeau.func._layers",
    "flambeau.func._modules",
    "flambeau.func._vmap",
    "flambeau.utils._pytree",
    "flambeau.utils._pytree_spec",
    "flambeau.autograd.functional",
    "flambeau.autograd.forward_ad",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name), extraglobs={"flambeau": flambeau})
    assert failed == 0
