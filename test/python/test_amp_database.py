"""Results of every operator of PyTorch's database within autocast, in both frameworks."""

import itertools
import warnings

import flambeau
import pytest
from oracle import pytorch

torch = pytorch()

from parity import autocast  # noqa: E402
from parity.checks import seed_all  # noqa: E402
from parity.database import op_db  # noqa: E402
from parity.twin import to_flambeau, twin  # noqa: E402

# The dtypes of samples by the dtype of the region.
REGIONS = {"bfloat16": ("float32", "bfloat16", "float16", "float64"), "float16": ("float32", "float16")}


def dtypes_of(out):
    """The dtypes of tensors in any tuples and lists."""
    if isinstance(out, tuple | list):
        return [name for item in out for name in dtypes_of(item)]
    return [str(out.dtype).partition(".")[2]] if hasattr(out, "is_floating_point") else []


def run(fw, function, region, args, kwargs):
    seed_all()
    with fw.autocast("cpu", dtype=getattr(fw, region)):
        return dtypes_of(function(*args, **kwargs))


def differences(op, region, dtype):
    """(PyTorch's, flambeau's) where both run the sample, flambeau also outside of the region."""
    try:
        count = 2 if dtype == "float32" else 1
        samples = list(itertools.islice(op.sample_inputs("cpu", getattr(torch, dtype)), count))
    except Exception:  # PyTorch makes no samples of this dtype
        return
    for sample in samples:
        args = (sample.input, *sample.args)
        try:
            theirs = run(torch, op.op, region, args, sample.kwargs)
            function, ours, options = twin(op.op), to_flambeau(args), to_flambeau(sample.kwargs)
            function(*ours, **options)
        except Exception:  # refused by one of them without autocast, or not dense
            continue
        found = run(flambeau, function, region, ours, options)
        yield theirs, found


@pytest.mark.parametrize("region", REGIONS)
def test_result_dtypes_are_pytorchs(region):
    compared, wrong = set(), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op, dtype in itertools.product(op_db, REGIONS[region]):
            for theirs, found in differences(op, region, dtype):
                compared.add(op.name)
                if theirs != found:
                    wrong.setdefault(op.name, (dtype, theirs, found))
    assert len(compared) > 500
    assert not wrong


def test_values_are_pytorchs_within_bfloat16():
    counted, wrong = 0, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in op_db:
            if torch.float32 in op.supported_dtypes("cpu"):
                found = [verdict.cause for verdict in autocast.autocast(op, torch.float32)]
                counted += bool(found)
                if any(found):
                    wrong[op.name, op.variant_test_name] = max(found)
    assert counted > 600
    assert not wrong


@pytest.mark.parametrize("change", [lambda y: y * 1.1, lambda y: y.bfloat16(), lambda y: y[:1]])
def test_the_comparison_finds_what_differs(change, monkeypatch):
    op = next(op for op in op_db if op.name == "exp")
    function = twin(op.op)
    monkeypatch.setattr(autocast, "twin", lambda _: lambda *args, **kw: change(function(*args, **kw)))
    assert any(verdict.cause for verdict in autocast.autocast(op, torch.float32))
