"""The texts of OpenCL kernels: what the table says, and what the package's prelude must define."""

import re
from functools import cache
from pathlib import Path

import pytest

from codegen import load
from codegen.targets import opencl

ROOT = Path(__file__).resolve().parents[2]
PRELUDE = (ROOT / "backends/opencl/flambeau_opencl/native/prelude.cpp").read_text()


@cache
def texts():
    return {file.path: file.text for file in opencl.emit(load_model())}


@cache
def load_model():
    model, mistakes = load.load(ROOT / "native_functions.yaml", ROOT / "derivatives.yaml")
    assert not mistakes
    return model


def row(entry, kind="pointwise"):
    found = [
        text[at : text.index("},\n", at)]
        for path, text in texts().items()
        if kind in path
        for at in [text.find(f'{{"{entry}",')]
        if at >= 0
    ]
    assert len(found) == 1, entry
    return found[0]


def test_functions_of_the_prelude_exist():
    spelled = " ".join(filter(None, (p.opencl for p in load_model().primitives.values())))
    called = set(re.findall(r"\b(\w+_of)\(", "".join([spelled, *texts().values()])))
    defined = set(re.findall(r"inline (?:T|int) (\w+_of)\(", PRELUDE))
    assert called == defined


def test_each_row_file_is_included_once():
    header = texts()["opencl/kernels.h"]
    for path in texts():
        assert header.count(f'"torchgen_out/{path}"') == (path != "opencl/kernels.h")


def test_every_form_has_a_row():
    for entry in ("exp", "exp_", "exp.out", "add.Tensor", "add_.Tensor", "add.out", "add.Scalar"):
        assert row(entry)


@pytest.mark.parametrize(
    ("entry", "categories"),
    [("add.Tensor", 7), ("exp", 4), ("bitwise_and.Tensor", 3), ("relu", 6), ("eq.Tensor", 7)],
)
def test_categories_of_dtypes(entry, categories):
    assert re.search(rf'"\w+", {categories}, "', row(entry)), row(entry)


def test_integers_are_not_divided_on_a_device():
    """The host raises an error for a divisor of 0, which a device cannot."""
    for entry in ("remainder.Tensor", "fmod.Tensor"):
        assert re.search(r'"promote", 4, "', row(entry))


def test_what_has_no_spelling_has_no_row():
    everything = "".join(texts().values())
    for entry in ("digamma", "erfinv", "logsumexp"):
        assert f'{{"{entry}",' not in everything


def test_texts_compute_equal_parts_once():
    text = row("silu") if '{"silu",' in "".join(texts().values()) else row("sigmoid")
    assert text.count("sigmoid_of(self_)") == 1


def test_reductions_join_by_their_combination():
    assert "a + b" in row("sum.dim_IntList", "reductions")
    assert "maximum_of(a, b)" in row("amax", "reductions")
    assert "(acc / count)" in row("mean.dim", "reductions")
