"""States of models and optimizers under plain names, against PyTorch."""

from copy import deepcopy
from importlib import import_module

import flambeau as fb
import flambeau.distributed.checkpoint as dcp
import pytest
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
    set_state_dict,
)
from oracle import pytorch


def functions(torch):
    return import_module(f"{torch.__name__}.distributed.checkpoint.state_dict")


def described(value):
    """Values without a framework."""
    if isinstance(value, dict):
        return {key: described(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    return (str(value.dtype).split(".")[1], value.tolist()) if hasattr(value, "tolist") else value


def network(torch):
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
    net.register_buffer("unsaved", torch.zeros(1), persistent=False)
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.arange(float(p.numel())).reshape(p.shape) / 8 + i)
    return net


def two_groups(torch, net, kind="Adam", rates=(0.5, 0.25), **options):
    groups = [{"params": net[0].parameters(), "lr": rates[0]}]
    groups.append({"params": [*net[1].parameters(), *net[2].parameters()]})
    return getattr(torch.optim, kind)(groups, lr=rates[1], **options)


def trained(torch, kind="Adam", **options):
    net = network(torch)
    optimizer = two_groups(torch, net, kind, **options)
    for _ in range(2):
        for p in net.parameters():
            p.grad = torch.full_like(p, 0.5)
        optimizer.step()
    return net, optimizer


GETS = {
    "plain": {},
    "full": {"full_state_dict": True},
    "cpu": {"cpu_offload": True},
    "full on the cpu": {"full_state_dict": True, "cpu_offload": True},
    "flat": {"flatten_optimizer_state_dict": True},
    "without frozen": {"ignore_frozen_params": True},
    "without prefixes": {"keep_submodule_prefixes": False},
}


@pytest.mark.parametrize("name", sorted(GETS))
def test_states_have_the_names_and_values_of_pytorch(name):
    def found(torch):
        net, optimizer = trained(torch)
        net[2].weight.requires_grad_(False)
        own = functions(torch)
        options = own.StateDictOptions(**GETS[name])
        parts = [{net[0]}, {net[0], net[1]}, None]
        if name == "without prefixes":
            parts = [{net[1]}, None]
        elif name == "without frozen":  # PyTorch fails for submodules without the frozen parameter
            parts = [None]
        models = [own.get_model_state_dict(net, submodules=part, options=options) for part in parts]
        return described([*models, own.get_optimizer_state_dict(net, optimizer, options=options)])

    assert found(fb) == found(pytorch())


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Rprop", "NAdam", "Adadelta"])
def test_the_state_before_the_first_step_has_the_keys_of_pytorch(kind):
    def found(torch):
        options = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
        net = network(torch)
        net[2].bias.requires_grad_(False)
        optimizer = two_groups(torch, net, kind, **options)
        state = functions(torch).get_optimizer_state_dict(net, optimizer)["state"]
        return {name: {k: tuple(v.shape) for k, v in values.items()} for name, values in state.items()}

    assert found(fb) == found(pytorch())


def test_asking_for_the_state_does_not_change_the_training():
    def result(ask):
        net = network(fb)
        optimizer = two_groups(fb, net, "AdamW", weight_decay=0.5)
        if ask:
            state = get_optimizer_state_dict(net, optimizer)
            assert state["state"]["0.weight"]["step"].item() == 0 and not optimizer.state
            set_optimizer_state_dict(net, optimizer, state)
        for p in net.parameters():
            p.grad = fb.ones_like(p)
        optimizer.step()
        return described(dict(net.named_parameters()))

    assert result(True) == result(False)


class OwnOptimizer(fb.optim.Optimizer):
    """An optimizer of a program: makes its state in the first step."""

    def __init__(self, params):
        super().__init__(params, {"lr": 1.0})

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    sums = self.state[p].setdefault("sum", fb.zeros_like(p))
                    sums.add_(p.grad)
                    p.data.sub_(sums * group["lr"])


class NeedsClosure(OwnOptimizer):
    """An optimizer whose step calls a function."""

    def step(self, closure):
        closure()


def test_optimizers_of_programs_make_their_states():
    net = fb.nn.Linear(2, 1)
    before = net.weight.tolist()
    optimizer = OwnOptimizer(net.parameters())
    state = get_optimizer_state_dict(net, optimizer)["state"]
    assert {name: list(values) for name, values in state.items()} == {"weight": ["sum"], "bias": ["sum"]}
    assert net.weight.tolist() == before and net.weight.grad is None
    assert optimizer.param_groups[0]["lr"] == 1.0
    for other in (NeedsClosure(net.parameters()), fb.optim.LBFGS(net.parameters())):
        assert get_optimizer_state_dict(net, other)["state"] == {}
    net.weight.grad = fb.ones_like(net.weight)
    assert get_optimizer_state_dict(net, OwnOptimizer(net.parameters()))["state"] == {}  # a step is due
    assert net.weight.tolist() == before and net.weight.grad.sum().item() == 2


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("kind", ["Adam", "SGD"])
def test_a_state_is_set_in_another_model(kind, flat):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    net, optimizer = trained(fb, kind, **({"momentum": 0.9} if kind == "SGD" else {}))
    weights, state = get_state_dict(net, optimizer, options=options)
    copies = deepcopy((weights, state))
    other = network(fb)
    later = two_groups(fb, other, kind, rates=(0.1, 0.2))
    keys = set_state_dict(other, later, model_state_dict=weights, optim_state_dict=state, options=options)
    assert keys == ([], []) and repr(keys) == "<All keys matched successfully>"
    assert described((weights, state)) == described(copies)  # what was given is as before
    assert described(other.state_dict()) == described(net.state_dict())
    assert described(later.state_dict()) == described(optimizer.state_dict())


def without(*path):
    def change(state):
        for key in path[:-1]:
            state = state[key]
        state.pop(path[-1]) if isinstance(state, dict) else state.remove(path[-1])

    return change


CHANGES = {
    "a state is missing": without("state", "0.weight"),
    "a state is unknown": lambda s: s["state"].update({"other": {"step": 1}}),
    "no states": lambda s: s.update(state={}),
    "a parameter is in no group": without("param_groups", 0, "params", "0.weight"),
    "groups in another order": lambda s: s.update(param_groups=s["param_groups"][::-1]),
    "a slot is missing": without("state", "0.weight", "exp_avg"),
    "no groups": without("param_groups"),
    "empty": lambda s: s.clear(),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("name", sorted(CHANGES))
def test_states_of_optimizers_that_differ_are_treated_as_by_pytorch(name, strict):
    def found(torch):
        own = functions(torch)
        net, optimizer = trained(torch)
        state = deepcopy(own.get_optimizer_state_dict(net, optimizer))
        CHANGES[name](state)
        other = two_groups(torch, net, rates=(0.1, 0.2))
        try:
            own.set_optimizer_state_dict(net, other, state, options=own.StateDictOptions(strict=strict))
        except Exception as error:
            return type(error).__name__
        return described(other.state_dict()["state"]), [g["lr"] for g in other.param_groups]

    assert found(fb) == found(pytorch())


def test_groups_are_divided_and_joined_where_their_options_agree():
    net, optimizer = trained(fb, rates=(0.5, 0.5))
    state = get_optimizer_state_dict(net, optimizer)
    joined = fb.optim.Adam(net.parameters(), lr=9)
    set_optimizer_state_dict(net, joined, state)
    assert [g["lr"] for g in joined.param_groups] == [0.5]
    again = two_groups(fb, net, rates=(7, 8))
    set_optimizer_state_dict(net, again, get_optimizer_state_dict(net, joined))
    assert [g["lr"] for g in again.param_groups] == [0.5, 0.5]
    assert described(again.state_dict()["state"]) == described(optimizer.state_dict()["state"])

    net, optimizer = trained(fb, rates=(0.5, 0.25))
    state = get_optimizer_state_dict(net, optimizer)
    joined = fb.optim.Adam(net.parameters(), lr=9)
    with pytest.raises(ValueError, match="expected equal options"):
        set_optimizer_state_dict(net, joined, state)
    assert joined.param_groups[0]["lr"] == 9 and not joined.state
    set_optimizer_state_dict(net, joined, state, options=StateDictOptions(strict=False))
    assert joined.param_groups[0]["lr"] == 0.5
    state["param_groups"].pop()
    with pytest.raises(RuntimeError, match="expected options for the group"):
        set_optimizer_state_dict(net, two_groups(fb, net), state)
    loose = two_groups(fb, net, rates=(7, 8))
    set_optimizer_state_dict(net, loose, state, options=StateDictOptions(strict=False))
    assert [g["lr"] for g in loose.param_groups] == [0.5, 8]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda s, t: s.pop("0.weight"),
        lambda s, t: s.update(other=t.ones(1)),
        lambda s, t: s.update({"0.weight": t.ones(7)}),
        lambda s, t: s.update({"0.weight": t.ones(3, 2, dtype=t.int32)}),
        lambda s, t: None,
    ],
)
def test_states_of_models_that_differ_are_treated_as_by_pytorch(change, strict):
    def found(torch):
        own = functions(torch)
        net = network(torch)
        state = {k: v + 1 for k, v in own.get_model_state_dict(net).items()}
        change(state, torch)
        try:
            keys = own.set_model_state_dict(net, state, options=own.StateDictOptions(strict=strict))
        except Exception as error:
            return type(error).__name__
        return list(map(sorted, keys)), described(net.state_dict())

    assert found(fb) == found(pytorch())


class Extra(fb.nn.Linear):
    """A module with a state of its own."""

    def get_extra_state(self):
        return {"k": [1, 2]}

    def set_extra_state(self, state):
        self.got = state


def test_extra_states_and_shared_and_frozen_parameters():
    net = fb.nn.Sequential(Extra(2, 2, bias=False), fb.nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    optimizer = fb.optim.SGD(net.named_parameters(), lr=1.0, momentum=0.5)
    weights, state = get_state_dict(net, optimizer)
    assert sorted(weights) == ["0._extra_state", "0.weight", "1.weight"]
    assert list(state["state"]) == ["0.weight"] == state["param_groups"][0]["params"]
    state["state"] = {"1.weight": state["state"]["0.weight"]}  # another model may use the other name
    state["param_groups"][0]["params"] = ["1.weight"]
    set_state_dict(net, optimizer, model_state_dict=weights, optim_state_dict=state)
    assert net[0].got == {"k": [1, 2]} and "momentum_buffer" in optimizer.state[net[0].weight]

    net = network(fb)
    net[0].weight.requires_grad_(False)
    options = StateDictOptions(ignore_frozen_params=True)
    weights = get_model_state_dict(net, options=options)
    assert "0.weight" not in weights and "0.bias" in weights
    assert set_model_state_dict(net, weights, options=options) == ([], [])
    with pytest.raises(RuntimeError, match=r"0\.weight"):
        set_model_state_dict(net, weights)


def test_compiled_models_have_plain_names():
    for wrap in (fb.compile, lambda net: fb.nn.Sequential(fb.compile(net))):
        wrapped = wrap(fb.nn.Linear(2, 1))
        weights = get_model_state_dict(wrapped)
        assert [key.rpartition(".")[2] for key in weights] == ["weight", "bias"] and "_orig_mod" not in str(
            weights
        )
        optimizer = fb.optim.Adam(wrapped.parameters())
        assert list(get_optimizer_state_dict(wrapped, optimizer)["state"]) == list(weights)
        values = {key: value + 1 for key, value in weights.items()}
        set_model_state_dict(wrapped, values)
        assert described(get_model_state_dict(wrapped)) == described(values)


def test_several_optimizers_are_one_state():
    def found(torch):
        own = functions(torch)
        net = network(torch)
        first = torch.optim.SGD(net[0].parameters(), lr=1.0, momentum=0.5)
        second = torch.optim.Adam([*net[1].parameters(), *net[2].parameters()])
        for p in net.parameters():
            p.grad = torch.ones_like(p)
        first.step()
        second.step()
        state = own.get_optimizer_state_dict(net, [first, second])
        both = [torch.optim.SGD(net[0].parameters(), lr=2.0, momentum=0.5)]
        both += [torch.optim.Adam([*net[1].parameters(), *net[2].parameters()])]
        own.set_optimizer_state_dict(net, both, state)
        return described([state, [o.state_dict() for o in both], own.get_state_dict(net, [])[1]])

    assert found(fb) == found(pytorch())


def test_a_state_goes_through_a_checkpoint(tmp_path):
    net, optimizer = trained(fb)
    model, optim = get_state_dict(net, optimizer)
    dcp.save({"model": model, "optim": optim}, checkpoint_id=tmp_path, no_dist=True)
    other = network(fb)
    later = two_groups(fb, other, rates=(0.1, 0.2))
    model, optim = get_state_dict(other, later)
    dcp.load({"model": model, "optim": optim}, checkpoint_id=tmp_path, no_dist=True)
    set_state_dict(other, later, model_state_dict=model, optim_state_dict=optim)
    assert described(other.state_dict()) == described(net.state_dict())
    assert described(later.state_dict()) == described(optimizer.state_dict())


def test_misuse_is_an_error():
    net, optimizer = trained(fb)
    with pytest.raises(TypeError, match="get_model_state_dict: expected a Module, got int"):
        get_model_state_dict(3)
    with pytest.raises(ValueError, match="full_state_dict must be True when broadcast_from_rank0 is True"):
        get_model_state_dict(net, options=StateDictOptions(broadcast_from_rank0=True))
    with pytest.raises(ValueError, match="submodules: expected modules of the model, got Linear"):
        get_model_state_dict(net, submodules={fb.nn.Linear(1, 1)})
    with pytest.raises(ValueError, match="expected different names, got 'weight' twice"):
        options = StateDictOptions(keep_submodule_prefixes=False)
        get_model_state_dict(net, submodules={net[0], net[2]}, options=options)
    stranger = fb.optim.SGD([fb.nn.Parameter(fb.ones(3))], lr=1.0)
    with pytest.raises(
        KeyError, match=r"expected parameters of the model, got number 0 of SGD, of size \(3,\)"
    ):
        get_optimizer_state_dict(net, stranger)
    with pytest.raises(KeyError, match="expected parameters of the model"):
        set_optimizer_state_dict(net, stranger, get_optimizer_state_dict(net, optimizer))
    with pytest.raises(ValueError, match=r"expected each parameter in one optimizer, got \['0\.bias'"):
        get_optimizer_state_dict(net, [optimizer, fb.optim.SGD(net.parameters(), lr=1.0)])
    with pytest.raises(RuntimeError, match="expected the state of a model, got an empty dict"):
        set_model_state_dict(net, {})
    whole = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    for call in (
        lambda: set_model_state_dict(net, {"a": 1}, options=whole),
        lambda: set_optimizer_state_dict(net, optimizer, {"a": 1}, options=whole),
    ):
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            call()
