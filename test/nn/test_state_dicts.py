"""State dicts: versions, hooks, overrides, old forms; and what is said about states that do not fit."""

import copy
import io
import pickle
from collections import OrderedDict

import flambeau as fb
import pytest
from oracle import pytorch
from sides import Scenarios, raised, warned

scenario = Scenarios()
test_as_in_pytorch = scenario.test()


def net(torch):
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()))


@scenario
def a_parameter_assigned_again_keeps_its_place(torch):
    layer = torch.nn.Linear(2, 1)
    layer.scale = torch.nn.Parameter(torch.zeros(1))
    layer.weight = torch.nn.Parameter(torch.ones(1, 2))
    found = [list(layer.state_dict()), [list(p.shape) for p in layer.parameters()]]
    layer.weight = None  # the name stays, and so does its place
    layer.weight = torch.nn.Parameter(torch.ones(3, 2))
    return [*found, list(layer.state_dict()), [list(p.shape) for p in layer.parameters()]]


@scenario
def a_parameter_over_another_kind_of_attribute(torch):
    layer = torch.nn.Linear(2, 1)
    layer.register_buffer("of_buffer", torch.ones(1))
    layer.of_module = torch.nn.ReLU()
    layer.plain = 3
    for name in ("of_buffer", "of_module", "plain"):
        setattr(layer, name, torch.nn.Parameter(torch.zeros(1)))
    del layer.weight
    layer.weight = torch.nn.Parameter(torch.ones(1, 2))  # deleted: a new name
    return [list(layer.state_dict()), len(list(layer.children())), len(list(layer.buffers()))]


@scenario
def versions(torch):
    state = net(torch).state_dict()
    class_of = [type(state).__name__, dict(state._metadata)]
    other = torch.nn.Linear(1, 1)._version
    return [*class_of, other, net(torch)[1].state_dict(prefix="x.")._metadata]


@scenario
def collecting(torch):
    model = net(torch)
    into = OrderedDict()
    same = model.state_dict(destination=into, prefix="p.")
    kept = model.state_dict(keep_vars=True)
    out = [same is into, list(into), kept["0.weight"] is model[0].weight, hasattr(into, "_metadata")]
    out.append(warned("", lambda: model.state_dict(into, "q.")))
    return [*out, list(into)]


@scenario
def hooks(torch):
    model, seen = net(torch), []
    model.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(["pre", prefix, keep]))
    post = model[1]._register_state_dict_hook(lambda m, s, prefix, meta: seen.append([prefix, dict(meta)]))
    model._register_load_state_dict_pre_hook(lambda state, prefix, *rest: seen.append([prefix, len(rest)]))
    model._register_load_state_dict_pre_hook(
        lambda m, state, *rest: seen.append(m is model), with_module=True
    )
    model[1].register_load_state_dict_pre_hook(
        lambda m, s, prefix, *rest: seen.append([m is model[1], prefix])
    )
    model.register_load_state_dict_post_hook(lambda m, keys: seen.append([keys.missing_keys, len(keys)]))
    state = model.state_dict()
    post.remove()
    model.load_state_dict(state)
    return seen


@scenario
def hooks_that_change_the_state(torch):
    model = torch.nn.Linear(1, 1)
    model._register_state_dict_hook(lambda m, s, prefix, meta: {"all": s})
    out = [list(model.state_dict())]
    public = torch.nn.Linear(1, 1)
    public.register_state_dict_post_hook(lambda m, s, prefix, meta: {"all": s})
    out.append(raised("", public.state_dict))

    def rename(state, prefix, *rest):
        state[prefix + "weight"] = state.pop(prefix + "w")

    renamed = torch.nn.Linear(1, 1)
    renamed._register_load_state_dict_pre_hook(rename)
    given = {"w": torch.full((1, 1), 3.0), "bias": torch.zeros(1)}
    out += [str(renamed.load_state_dict(given)), renamed.weight.tolist(), sorted(given)]
    renamed.register_load_state_dict_post_hook(lambda m, keys: 3)
    return [*out, raised("", renamed.load_state_dict, given)]


@scenario
def overrides(torch):
    class Doubling(torch.nn.Module):
        _version = 3

        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(1))

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "more"] = torch.ones(1)

        def _load_from_state_dict(self, state, prefix, metadata, strict, missing, unexpected, errors):
            seen.append([prefix, metadata.get("version"), strict])
            state.pop(prefix + "more", None)
            super()._load_from_state_dict(state, prefix, metadata, strict, missing, unexpected, errors)

        def get_extra_state(self):
            return {"x": 5}

        def set_extra_state(self, state):
            seen.append(state)

    seen = []
    model = torch.nn.ModuleDict({"a": Doubling(), "b": torch.nn.Linear(1, 1)})
    state = model.state_dict()
    out = [list(state), str(model.load_state_dict(state))]
    without = OrderedDict((k, v) for k, v in state.items() if not k.endswith("_extra_state"))
    out += [
        raised("missing", model.load_state_dict, without),
        str(model.load_state_dict(without, strict=False)),
    ]
    plain = torch.nn.ModuleDict({"a": torch.nn.Module()})
    return [*out, seen, list(plain.load_state_dict(state, strict=False).unexpected_keys)]


@scenario
def what_does_not_fit(torch):
    model = net(torch)
    state = model.state_dict()
    cases = [
        {**state, "no": torch.ones(1)}, {**state, "0.no": torch.ones(1)},
        {**state, "7.weight": torch.ones(1)},
        {**state, "0.weight.x": torch.ones(1)}, {**state, "0.weight": torch.ones(1)},
        {**state, "0.weight": [1, 2]}, {k: v for k, v in state.items() if k != "1.0.running_var"},
        {**state, "0.weight": torch.ones(1, 2)}, {**state, "0._extra_state": 3},
    ]  # fmt: skip
    out = []
    for case in cases:
        out.append(raised("", model.load_state_dict, case))
        try:
            out.append([list(x) for x in model.load_state_dict(case, strict=False)])
        except RuntimeError:
            out.append("even so")
    out += [raised("", model.load_state_dict, case) for case in (3, [("a", 1)], None)]
    return out


@scenario
def assigning(torch):
    model = net(torch)
    state = copy.deepcopy(model.state_dict())
    model[0].weight.requires_grad_(False)
    model.load_state_dict(state, assign=True)
    out = [model[1][0].running_mean is state["1.0.running_mean"], type(model[0].weight).__name__]
    out += [model[0].weight.requires_grad, model[0].bias.requires_grad]
    out.append(model[0].weight.data_ptr() == state["0.weight"].data_ptr())
    other = torch.nn.Linear(2, 3, device="meta")
    out.append(
        warned("no-op", lambda: other.load_state_dict({"weight": torch.ones(3, 2), "bias": torch.ones(3)}))
    )
    return out


@scenario
def batch_norm_of_old(torch):
    layer = torch.nn.BatchNorm1d(2)
    state = OrderedDict((k, v) for k, v in layer.state_dict().items() if k != "num_batches_tracked")
    layer.num_batches_tracked.fill_(7)
    out = [str(layer.load_state_dict(state)), int(layer.num_batches_tracked)]
    state._metadata = OrderedDict([("", {"version": 2})])
    return [*out, raised("missing", layer.load_state_dict, state)]


@scenario
def numbers_of_old(torch):
    model = torch.nn.Module()
    model.register_buffer("x", torch.tensor(1.0))
    model.load_state_dict({"x": torch.full((1,), 5.0)})
    return model.x


@scenario
def weight_norm_of_old(torch):
    old = torch.nn.utils.weight_norm(torch.nn.Linear(2, 3))
    new = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))
    with torch.no_grad():
        old.weight_g.copy_(torch.ones(3, 1))
    out = [list(old.state_dict()), list(new.state_dict()), str(new.load_state_dict(old.state_dict()))]
    inner = torch.nn.Sequential(new)
    out.append(str(inner.load_state_dict({f"0.{k}": v for k, v in old.state_dict().items()})))
    same = torch.allclose(new.weight, old.weight_v / old.weight_v.norm(dim=1, keepdim=True), atol=1e-6)
    return [*out, same, raised("", old.load_state_dict, new.state_dict())]


@scenario
def gradients_set_to_zero(torch):
    layer = torch.nn.Linear(1, 1)
    layer(torch.ones(1)).backward()
    grad = layer.weight.grad
    layer.zero_grad(set_to_none=False)
    return [layer.weight.grad is grad, grad.tolist()]


def run(torch, layer):
    return [round(v, 4) for v in layer(torch.ones(1, 1, 1))[0].flatten().tolist()]


@scenario
def recurrent_weights(torch):
    torch.manual_seed(4)
    layer = torch.nn.LSTM(1, 2)
    out = [all(a is b for a, b in zip(layer._flat_weights, layer.all_weights[0], strict=True))]
    layer.weight_hh_l0 = torch.nn.Parameter(torch.zeros(8, 2))
    out.append(float(layer._flat_weights[1].detach().abs().sum()))
    layer._flat_weights = [torch.zeros_like(w) for w in layer._flat_weights]
    return [*out, run(torch, layer), layer._flat_weights[0] is layer.weight_ih_l0]


@scenario
def recurrent_weights_of_a_list(torch):
    """An assigned list is used until a weight is replaced, the layer is cast or the list is read anew."""
    torch.manual_seed(4)
    out = []
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        layer = kind(1, 2)
        layer._flat_weights = [torch.full_like(w, 0.5) for w in layer._flat_weights]
        out += [run(torch, layer), run(torch, layer)]
        copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))]
        out += [[run(torch, c), c._flat_weights[0] is c.weight_ih_l0] for c in copies]
        layer.bias_hh_l0.data.zero_()
        out.append(run(torch, layer))
        out += [run(torch, layer.double().float()), layer._flat_weights[0] is layer.weight_ih_l0]
        layer._flat_weights = [torch.zeros_like(w) for w in layer._flat_weights]
        state = {name: torch.full_like(w, 0.25) for name, w in layer.state_dict().items()}
        out.append(
            [
                round(v, 4)
                for v in torch.func.functional_call(layer, state, torch.ones(1, 1, 1))[0].flatten().tolist()
            ]
        )
        out += [run(torch, layer), layer._flat_weights[0] is layer.weight_ih_l0]
        layer._flat_weights = [torch.zeros_like(w) for w in layer._flat_weights]
        layer.load_state_dict(state)
        out.append(run(torch, layer))
        layer.load_state_dict(state, assign=True)
        out.append(run(torch, layer))
    return out


@scenario
def bases_after_module(torch):
    class Mixin:
        def __init__(self, size=1):
            self.size = size

    class Layer(torch.nn.Module, Mixin):
        call_super_init = True

        def __init__(self, **options):
            super().__init__(**options)

    class Plain(torch.nn.Module, Mixin):
        pass

    return [Layer(size=4).size, hasattr(Plain(), "size"), raised("", Plain, size=4)]


def test_versions_survive_files():
    model = net(fb)
    for weights_only in (True, False):
        file = io.BytesIO()
        fb.save(model.state_dict(), file)
        file.seek(0)
        found = fb.load(file, weights_only=weights_only)
        assert found._metadata == model.state_dict()._metadata
        assert copy.deepcopy(found)._metadata == found._metadata


def test_states_go_to_pytorch_with_their_versions():
    torch = pytorch()
    file = io.BytesIO()
    fb.save(net(fb).state_dict(), file)
    file.seek(0)
    state = torch.load(file)
    assert state._metadata["1.0"]["version"] == 2
    assert str(net(torch).load_state_dict(state)) == "<All keys matched successfully>"


def test_a_hook_registered_in_both_ways_is_refused():
    for m in (fb, pytorch()):
        layer = m.nn.Linear(1, 1)

        def hook(*given):
            return None

        layer.register_state_dict_post_hook(hook)
        with pytest.raises(RuntimeError):
            layer._register_state_dict_hook(hook)
