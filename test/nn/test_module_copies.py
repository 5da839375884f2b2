"""Every layer survives pickle and deepcopy, as it does in PyTorch."""

import copy
import io
import pickle

import flambeau as fb
import pytest
from oracle import pytorch

ARGUMENTS = ((), (4,), (4, 4), (4, 4, 3), (4, 4, 4), (2, 4, 2), (4, [2, 3]))
ABSTRACT = {"Module", "Container", "RNNBase", "RNNCellBase", "DataParallel"}
NAMES = sorted(
    name
    for name, value in vars(fb.nn).items()
    if isinstance(value, type) and issubclass(value, fb.nn.Module) and name not in ABSTRACT
)


def made(nn, name):
    """A layer, and the arguments that it took."""
    layer = getattr(nn, name)
    if name in ("TransformerEncoder", "TransformerDecoder"):
        return layer(getattr(nn, f"{name}Layer")(4, 2, 8), 2)
    if name == "AdaptiveLogSoftmaxWithLoss":
        return layer(4, 6, [2, 4])
    if name == "Transformer":
        return layer(4, 2, 1, 1, 8)
    if name == "TripletMarginWithDistanceLoss":
        return layer(distance_function=nn.PairwiseDistance())
    for arguments in ARGUMENTS:
        try:
            return layer(*arguments)
        except (TypeError, ValueError, AssertionError, IndexError):
            continue
    raise AssertionError(f"no arguments for {name}")


def pickled(module):
    return pickle.loads(pickle.dumps(module))


def saved(module):
    file = io.BytesIO()
    fb.save(module, file)
    file.seek(0)
    return fb.load(file, weights_only=False)


@pytest.mark.parametrize("name", NAMES)
def test_copies(name):
    module = made(fb.nn, name)
    for copied in map(lambda way: way(module), (pickled, copy.deepcopy, copy.copy, saved)):
        assert type(copied) is type(module)
        assert repr(copied) == repr(module)
        assert list(copied.state_dict()) == list(module.state_dict())
        lazy = [fb.nn.parameter.is_lazy(p) for p in copied.parameters()]
        if any(lazy):
            continue
        for mine, other in zip(copied.state_dict().values(), module.state_dict().values(), strict=True):
            assert fb.equal(mine, other)


@pytest.mark.parametrize("name", NAMES)
def test_states_are_named_as_in_pytorch(name):
    theirs = getattr(pytorch().nn, name, None)
    if theirs is None:
        return
    ours, theirs = made(fb.nn, name).state_dict(), made(pytorch().nn, name).state_dict()
    assert list(ours) == list(theirs)
    assert ours._metadata == theirs._metadata


@pytest.mark.parametrize("way", (pickled, copy.deepcopy, saved))
def test_lazy_layers_still_learn_their_sizes(way):
    module = way(fb.nn.Sequential(fb.nn.LazyConv2d(2, 3), fb.nn.LazyBatchNorm2d(), fb.nn.Flatten()))
    assert module(fb.ones(1, 3, 5, 5)).shape == (1, 18)
    assert type(module[0]) is fb.nn.Conv2d
    assert not module[0]._forward_pre_hooks
    assert way(module)(fb.ones(1, 3, 5, 5)).shape == (1, 18)


@pytest.mark.parametrize("way", (pickled, copy.deepcopy))
def test_hooks_after_a_copy_do_not_replace_those_before(way):
    module = fb.nn.Identity()
    handle = module.register_forward_hook(_add_one)
    copied, copied_handle = way((module, handle))
    copied.register_forward_hook(_add_one)
    assert float(copied(fb.zeros(()))) == 2
    copied_handle.remove()
    assert float(copied(fb.zeros(()))) == 1
    assert float(module(fb.zeros(()))) == 1


def _add_one(module, given, result):
    return result + 1


def test_parametrized_modules_are_copied_but_not_pickled():
    for m in (fb, pytorch()):
        module = m.nn.utils.parametrizations.weight_norm(m.nn.Linear(2, 2))
        copied = copy.deepcopy(module)
        with m.no_grad():
            copied.parametrizations.weight.original0.zero_()
        assert float(module.weight.detach().abs().sum()) > 0
        assert float(copied.weight.detach().abs().sum()) == 0
        with pytest.raises(RuntimeError, match="parametrized modules"):
            pickle.dumps(module)
