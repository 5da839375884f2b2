"""`where`: entries, kernels, wrappers in Python and outputs of operators, each at its line."""

import re
from functools import cache

import pytest

from codegen.commands.places import Place, of_operators, parts_of, select
from codegen.commands.wrappers import called_by, wrappers_of
from codegen.load import load
from codegen.model import Model
from codegen.writing.output import ROOT

# Operator -> kernels that it leads to.
KERNELS = {
    "conv1d": ["convolution_cpu"],
    "conv2d": ["convolution_cpu", "convolution_backward_cpu"],
    "conv_transpose2d": ["convolution_cpu"],
    "cat": ["cat_cpu"],
    "softmax": ["softmax_cpu"],
    "log_softmax": ["log_softmax_cpu"],
    "sort": [],
    "cumsum": ["cumsum_cpu"],
    "mm": ["mm_cpu"],
    "bmm": ["bmm_cpu"],
    "gather": ["gather_cpu"],
    "index_select": ["index_select_cpu"],
    "topk": ["topk_cpu"],
    "argmax": [],
    "stack": ["stack_cpu"],
    "std": [],
    "var": [],
    "sum": [],
    "mean": [],
    "add": [],
    "exp": [],
    "relu": [],
    "silu": [],
    "where": [],
    "norm": [],
    "max": [],
    "min": [],
    "complex": [],
    "sign": [],
    "linear": [],
}
# Function in Python -> an entry that it leads to.
WRAPPERS = {
    "cross_entropy": "cross_entropy_loss",
    "nll_loss": "nll_loss_nd",
    "mse_loss": "mse_loss",
    "batch_norm": "batch_norm",
    "kl_div": "kl_div",
    "triplet_margin_loss": "triplet_margin_loss",
    "pad": "constant_pad_nd",
}


@cache
def model() -> Model:
    found, mistakes = load()
    assert found is not None and not mistakes
    return found


def found_for(name: str) -> list[Place]:
    operators = select(model(), name)
    return list(of_operators(operators, parts_of(operators, model())))


def line_of(place: Place) -> str:
    return (ROOT / place.file).read_text().split("\n")[place.line - 1]


@pytest.mark.parametrize("name", KERNELS)
def test_places_are_complete_and_exact(name: str):
    places = found_for(name)
    kernels = {p.what.split()[-1] for p in places if " CPU kernel " in p.what}
    assert set(KERNELS[name]) <= kernels
    entries = [p for p in places if p.what.endswith(": entry")]
    assert entries[0].what.split(".")[0].removesuffix(": entry") == name
    for place in entries:
        assert line_of(place).startswith(f"- func: {place.what.removesuffix(': entry')}("), place
    for place in places:
        if place.what == "generated":
            line = line_of(place)
            assert re.search(rf"(?<!\w){name}", line), place
            assert not re.fullmatch(rf".*\b{name}::.*", line) or f"ops::{name}" in line, place
        elif "kernel" in place.what:
            assert place.what.split()[-1] in line_of(place), place


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_in_python_are_known(name: str):
    wrappers = wrappers_of(name)
    assert any(f"def {name}(" in line_of(w.place) for w in wrappers)
    assert WRAPPERS[name] in {op.schema.name.base for op in called_by(wrappers, model())}
