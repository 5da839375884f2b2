"""PyTorch's module database run with both frameworks: outputs, gradients, states, repr and errors agree.

Some constructions of each entry, in training and evaluation, in float64 and float32: the flambeau layer
takes over PyTorch's state, and what both compute must be equal. Layers that draw random numbers are compared
in shape.
"""

from __future__ import annotations

import dataclasses
import warnings

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

torch = pytorch()
from torch.testing._internal.common_modules import module_db  # noqa: E402

MOST = 6  # constructions of one entry, dtype and mode
RANDOM = ("Dropout", "RReLU")


def twin(value):
    """The same thing for flambeau."""
    if isinstance(value, torch.nn.Module):
        return _twin_module(value)
    if isinstance(value, torch.Tensor):
        out = fb.tensor(value.detach().numpy()).requires_grad_(value.requires_grad)
        return out if value.is_leaf else out * 1
    if isinstance(value, torch.dtype | torch.device):
        return getattr(fb, str(value).removeprefix("torch."), None) or fb.device(str(value))
    if dataclasses.is_dataclass(value):
        return getattr(fb.nn, type(value).__name__)(**dataclasses.asdict(value))
    if isinstance(value, dict):
        return {key: twin(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(twin, value))
    name = getattr(value, "__name__", "")
    return getattr(fb.nn.functional, name, value) if callable(value) else value


def _twin_module(module):
    """A module that is given to a constructor: the layer of a transformer, or its last normalisation."""
    if isinstance(module, torch.nn.LayerNorm):
        return fb.nn.LayerNorm(module.normalized_shape)
    heads, first = module.self_attn, module.linear1
    sizes = (heads.embed_dim, heads.num_heads, first.out_features, module.dropout.p, twin(module.activation))
    options = (module.norm1.eps, heads.batch_first, module.norm_first, first.bias is not None)
    out = getattr(fb.nn, type(module).__name__)(*sizes, *options).to(twin(first.weight.dtype))
    out.load_state_dict(twin(dict(module.state_dict())))
    return out


def tensors(value):
    if isinstance(value, torch.Tensor | fb.Tensor):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors(item)


def assert_equal(ours, theirs, tolerance, what):
    ours, theirs = ([t.detach().numpy() for t in tensors(side)] for side in (ours, theirs))
    assert [a.dtype for a in ours] == [a.dtype for a in theirs], what
    assert [a.shape for a in ours] == [a.shape for a in theirs], what
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, tolerance, tolerance, err_msg=what)


def gradients(module, outputs, given, seeds):
    """Of parameters and inputs, for the given gradients of the outputs."""
    pairs = [(o, s) for o, s in zip(tensors(outputs), seeds, strict=True) if o.requires_grad]
    if pairs:
        framework = torch if isinstance(pairs[0][0], torch.Tensor) else fb
        framework.autograd.backward([o for o, _ in pairs], [s for _, s in pairs])
    leaves = [*module.parameters(), *(t for t in tensors(given) if t.is_leaf)]
    return [t.grad for t in leaves if t.grad is not None]


def compare(entry, sample, dtype, training):
    """Build both modules with one state, and compare all that they do; False where PyTorch itself fails."""
    made, given = sample.constructor_input, [list(sample.forward_input.args), sample.forward_input.kwargs]
    own = twin(given)
    try:
        theirs = entry.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
        state = {k: v.clone() for k, v in theirs.state_dict().items() if not torch.nn.parameter.is_lazy(v)}
        torch.manual_seed(1)  # lazy layers draw their first values now
        expected = theirs(*given[0], **given[1])
    except Exception:  # noqa: BLE001
        return False
    ours = getattr(fb.nn, entry.module_cls.__name__)(*twin(made.args), **twin(made.kwargs))
    ours = ours.to(twin(dtype)).train(training)
    if state:
        ours.load_state_dict(twin(state))
    fb.manual_seed(1)
    found = ours(*own[0], **own[1])
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    if any(name in entry.name for name in RANDOM):
        assert [tuple(t.shape) for t in tensors(found)] == [tuple(t.shape) for t in tensors(expected)]
        return True
    tolerance = 1e-6 if dtype == torch.float64 else 2e-4
    assert_equal(found, expected, tolerance, "outputs")
    seeds = [torch.randn_like(t) if t.requires_grad else None for t in tensors(expected)]
    right = gradients(theirs, expected, given, seeds)
    left = gradients(ours, found, own, [s if s is None else twin(s) for s in seeds])
    assert_equal(left, right, 10 * tolerance, "gradients")
    assert_equal(dict(ours.named_buffers()), dict(theirs.named_buffers()), tolerance, "buffers")
    return True


def constructions(entry, dtype, training):
    """A few samples that have an input, spread over all."""
    torch.manual_seed(0)
    options = {"device": "cpu", "dtype": dtype, "requires_grad": True, "training": training}
    found = [s for s in entry.module_inputs_func(entry, **options) if s.forward_input is not None]
    return found[:: max(1, len(found) // MOST)][:MOST]


@pytest.mark.parametrize("entry", module_db, ids=lambda entry: entry.name)
def test_module_agrees(entry):
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in (torch.float64, torch.float32):
            for training in (True, False):
                for sample in constructions(entry, dtype, training):
                    compared += compare(entry, sample, dtype, training)
    assert compared


def _failure(module_class, sample, convert):
    made, given = sample.constructor_input, sample.forward_input
    try:
        module = module_class(*convert(made.args), **convert(made.kwargs))
        if given:
            module(*convert(given.args), **convert(given.kwargs))
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return "nothing"


@pytest.mark.parametrize(
    "entry", [e for e in module_db if e.module_error_inputs_func], ids=lambda entry: entry.name
)
def test_module_fails_alike(entry):
    options = {"device": "cpu", "dtype": torch.float64, "requires_grad": False, "training": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in entry.module_error_inputs_func(entry, **options):
            sample = case.module_error_input
            expected = _failure(entry.module_cls, sample, lambda value: value)
            found = _failure(getattr(fb.nn, entry.module_cls.__name__), sample, twin)
            assert expected in ("nothing", found), (sample.constructor_input, sample.forward_input)
