"""The layers of PyTorch's module database, compiled and plain: results, gradients and buffers agree.

Each entry is constructed twice, in training and evaluation mode, with two sets of inputs each, in one graph.
"""

import copy
import importlib.util
import warnings
from pathlib import Path

import flambeau as fb
import pytest
from captured import Recorder
from flambeau import _dynamo
from oracle import pytorch

torch = pytorch()

path = Path(__file__).parent.parent / "nn" / "test_module_database.py"
spec = importlib.util.spec_from_file_location("module_database", path)
database = importlib.util.module_from_spec(spec)
spec.loader.exec_module(database)


# A cumulative average (momentum=None) divides by a number that it reads from a tensor.
CUMULATIVE = {"float of a tensor", "a number that changes from call to call"}


@pytest.fixture(autouse=True)
def forget():
    yield
    fb.compiler.reset()


def built(entry, sample, training):
    """Return a module and its arguments, or None if PyTorch itself cannot call the module."""
    made, given = sample.constructor_input, sample.forward_input
    arguments = database.twin([list(given.args), given.kwargs])
    try:
        module = entry.module_cls(*made.args, **made.kwargs).double().train(training)
        module(*given.args, **given.kwargs)
    except Exception:  # noqa: BLE001
        return None
    fb.manual_seed(0)
    kind = getattr(fb.nn, entry.module_cls.__name__)
    module = kind(*database.twin(made.args), **database.twin(made.kwargs))
    return module.double().train(training), arguments


def scaled(value, factor):
    """Return a copy with other values of the same sizes."""
    if isinstance(value, fb.Tensor):
        changed = value.detach() * factor if value.is_floating_point() else value.detach().clone()
        return changed.requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: scaled(item, factor) for key, item in value.items()}
    return type(value)(scaled(v, factor) for v in value) if isinstance(value, list | tuple) else value


def outcome(module, arguments, factor):
    """Return results, gradients and buffers of a call."""
    given = scaled(arguments, factor)
    fb.manual_seed(1)
    found = module(*given[0], **given[1])
    ends = [t for t in database.tensors(found) if t.requires_grad]
    leaves = [t for t in (*module.parameters(), *database.tensors(given)) if t.requires_grad and t.is_leaf]
    grads = []
    if ends and leaves:
        seeds = [fb.ones_like(t) for t in ends]
        grads = fb.autograd.grad(ends, leaves, seeds, allow_unused=True)
    return [*database.tensors(found)], list(grads), list(module.buffers())


def assert_same(one, other):
    for left, right in zip(one, other, strict=True):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert a.dtype == b.dtype and a.shape == b.shape
                assert fb.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("entry", database.module_db, ids=lambda entry: entry.name)
def test_a_compiled_module_is_a_plain_one_in_one_graph(entry, backend):
    compared = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for training in (True, False):
            for sample in database.constructions(entry, torch.float64, training)[:2]:
                pair = built(entry, sample, training)
                if pair is None:
                    continue
                plain, arguments = pair
                if any(isinstance(p, fb.nn.UninitializedParameter) for p in plain.parameters()):
                    plain(*scaled(arguments, 1.0)[0])
                compiled, seen = copy.deepcopy(plain), Recorder()
                compiled.compile(backend=seen if backend == "eager" else backend)
                _dynamo.utils.counters.clear()
                for factor in (1.0, 1.0, 0.5):
                    assert_same(outcome(compiled, arguments, factor), outcome(plain, arguments, factor))
                breaks = set(_dynamo.utils.counters["graph_break"])
                assert breaks <= (CUMULATIVE if getattr(plain, "momentum", 0) is None else set())
                assert breaks or backend != "eager" or len(seen.graphs) <= 1
                compared += 1
    assert compared
