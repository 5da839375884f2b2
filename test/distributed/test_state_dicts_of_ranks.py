"""States of models whose parameters are on several processes."""

import flambeau as fb
import flambeau.distributed.checkpoint as dcp
from distributed.ranks import run
from flambeau.distributed.checkpoint.state_dict import get_state_dict

PREAMBLE = """
import copy
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint.state_dict import *
from flambeau.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
dist.init_process_group("gloo")
place = pathlib.Path(os.environ.get("PLACE", "."))
mesh = dist.init_device_mesh("cpu", (size,))
Options = StateDictOptions

def network(divided=True, seed=0):
    fw.manual_seed(seed)
    net = fw.nn.Sequential(fw.nn.Linear(2, 5), fw.nn.Tanh(), fw.nn.Linear(5, 3))
    net.register_buffer("buffer", fw.arange(3.0) + seed)
    if divided:
        places = {"0.weight": Shard(0), "0.bias": Shard(0), "2.weight": Shard(1), "2.bias": Replicate()}
        for name, place in places.items():
            layer, own = net[int(name[0])], name[2:]
            part = distribute_tensor(getattr(layer, own).detach(), mesh, [place])
            setattr(layer, own, fw.nn.Parameter(part))
    return net

def train(net, optimizer, steps):
    for n in range(steps):
        optimizer.zero_grad()
        x = fw.linspace(-1, 1, 8).reshape(4, 2) * (n + 1)
        if isinstance(net[0].weight, DTensor):
            x = distribute_tensor(x, mesh, [Replicate()])
        (net(x) ** 2).mean().backward()
        optimizer.step()

def whole(value):
    if isinstance(value, dict):
        return {str(k): whole(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [whole(v) for v in value]
    value = value.full_tensor() if isinstance(value, DTensor) else value
    return [round(x, 5) for x in value.flatten().tolist()] if hasattr(value, "tolist") else value

def kinds(state):
    return {k: str(v.placements) if isinstance(v, DTensor) else type(v).__name__ for k, v in state.items()}
"""

DIVIDED = (
    PREAMBLE
    + """
net, plain = network(), network(False)
one, two = fw.optim.Adam(net.parameters(), lr=0.1), fw.optim.Adam(plain.parameters(), lr=0.1)
train(net, one, 3), train(plain, two, 3)
found = {}
weights, state = get_state_dict(net, one)
found["kinds"] = kinds(weights), kinds(state["state"]["0.weight"])
wanted = whole(get_state_dict(plain, two))
found["equal"] = whole((weights, state)) == wanted
full = Options(full_state_dict=True)
weights, state = get_state_dict(net, one, options=full)
found["full"] = kinds(weights), kinds(state["state"]["0.weight"]), whole((weights, state)) == wanted

for flat in (False, True):
    options = Options(full_state_dict=True, flatten_optimizer_state_dict=flat)
    weights, state = get_state_dict(net, one, options=options)
    other = network(seed=1)
    later = fw.optim.Adam(other.parameters(), lr=9)
    set_state_dict(other, later, model_state_dict=weights, optim_state_dict=state, options=options)
    found[f"set {flat}"] = whole(get_state_dict(other, later)) == wanted
    found[f"placed {flat}"] = later.state[other[0].weight]["exp_avg"].placements == (Shard(0),)
    size_of_part = later.state[other[0].weight]["exp_avg"].to_local().untyped_storage().nbytes()
    found[f"bytes {flat}"] = size_of_part == other[0].weight.to_local().numel() * 4

    here = (weights, state) if rank == 0 else ({}, {})
    before = whole(here)
    other = network(seed=1)
    later = fw.optim.Adam(other.parameters(), lr=9)
    options.broadcast_from_rank0 = True
    set_state_dict(other, later, model_state_dict=here[0], optim_state_dict=here[1], options=options)
    found[f"broadcast {flat}"] = whole(get_state_dict(other, later)) == wanted and whole(here) == before
    train(other, later, 2)
again = copy.deepcopy(plain), None
third = fw.optim.Adam(again[0].parameters(), lr=0.1)
third.load_state_dict(two.state_dict())
train(again[0], third, 2)
found["continues"] = whole(get_state_dict(other, later)) == whole(get_state_dict(again[0], third))

class Spy(fw.optim.Adam):
    "Keeps the sizes of what it is given: parts must not keep the whole tensors alive."

    def load_state_dict(self, state):
        part = state["state"][0]["exp_avg"].to_local()
        found["memory"] = part.untyped_storage().nbytes() == part.numel() * 4
        super().load_state_dict(state)

here = get_optimizer_state_dict(net, one, options=full)
options = Options(full_state_dict=True, broadcast_from_rank0=True)
set_optimizer_state_dict(net, Spy(net.parameters()), here if rank == 0 else {}, options=options)
cpu = Options(full_state_dict=True, cpu_offload=True)
weights, state = get_state_dict(net, one, options=cpu)
found["offloaded"] = len(weights), len(state), (rank > 0 or whole((weights, state)) == wanted)
weights = get_model_state_dict(net, options=Options(cpu_offload=True))
found["offloaded parts"] = kinds(weights)

bad = get_model_state_dict(net, options=full)
bad = bad if rank == 0 else {}
bad.pop("2.bias", None)
options = Options(full_state_dict=True, broadcast_from_rank0=True)
found["missing"] = raised(set_model_state_dict, net, bad, options=options)
loose = Options(full_state_dict=True, broadcast_from_rank0=True, strict=False)
found["loose"] = set_model_state_dict(net, bad, options=loose).missing_keys
parts = get_model_state_dict(net)
found["parts"] = raised(set_model_state_dict, net, parts if rank == 0 else {}, options=options)
found["part of none"] = raised(set_model_state_dict, net, {} if rank else parts)
put(found)
"""
)


def test_states_of_divided_models_are_those_of_whole_ones():
    for rank, found in enumerate(run(2, DIVIDED, seconds=90)):
        weights, state = found["kinds"]
        assert weights["0.weight"] == weights["0.bias"] == "(Shard(dim=0),)"
        assert weights["2.weight"] == "(Shard(dim=1),)" and weights["2.bias"] == "(Replicate(),)"
        assert weights["buffer"] == "Tensor"
        assert state == {"step": "Tensor", "exp_avg": "(Shard(dim=0),)", "exp_avg_sq": "(Shard(dim=0),)"}
        assert (
            set(found["full"][0].values()) == set(found["full"][1].values()) == {"Tensor"}
            and found["full"][2]
        )
        for name in ("equal", "continues", "memory"):
            assert found[name], name
        for flat in (False, True):
            for name in ("set", "placed", "bytes", "broadcast"):
                assert found[f"{name} {flat}"], (rank, name, flat)
        assert found["offloaded"] == ([5, 2, True] if rank == 0 else [0, 0, True])
        assert found["offloaded parts"] == weights
        assert found["missing"][0] == "RuntimeError" and "2.bias" in found["missing"][1]
        assert found["loose"] == ["2.bias"]
        assert found["parts"][0] == "ValueError" and "expected a whole tensor for '" in found["parts"][1]
        assert (found["part of none"] is None) == (rank == 0)


WRAPPED = (
    PREAMBLE
    + """
net = fw.nn.parallel.DistributedDataParallel(network(False))
outer = fw.nn.Module()
outer.inner = net
optimizer = fw.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
(net(fw.ones(3, 2) + rank) ** 2).sum().backward()
optimizer.step()
weights, state = get_state_dict(net, optimizer)
dcp.save({"model": weights, "optim": state}, checkpoint_id=place)
keys = sorted(weights), sorted(state["state"]), sorted(get_model_state_dict(outer))
short = Options(keep_submodule_prefixes=False)
part = sorted(get_model_state_dict(net, submodules={net.module[2]}, options=short))
done = set_model_state_dict(net, {k: v * 0 for k, v in weights.items()})
zero = sum(p.abs().sum().item() for p in net.parameters())
wrong = raised(set_model_state_dict, net, {k: v for k, v in weights.items() if k != "0.bias"})
prefixed = raised(set_model_state_dict, net, {"module." + k: v for k, v in weights.items()})
loose = set_model_state_dict(net, {"module.0.bias": weights["0.bias"] + 1, "0.weight": weights["0.weight"]},
                             options=Options(strict=False))
wrong += [list(loose), net.module[0].bias.abs().sum().item()]
put([keys, part, list(done), zero, wrong, prefixed])
"""
)

DIVIDE_SAVED = (
    PREAMBLE
    + """
net = network(seed=1)
optimizer = fw.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
weights, state = get_state_dict(net, optimizer)
dcp.load({"model": weights, "optim": state}, checkpoint_id=place)
set_state_dict(net, optimizer, model_state_dict=weights, optim_state_dict=state)
put(whole(get_state_dict(net, optimizer)))
"""
)


def rounded(value):
    if isinstance(value, dict):
        return {str(key): rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return [round(x, 5) for x in value.flatten().tolist()] if hasattr(value, "tolist") else value


def test_a_wrapped_model_is_saved_and_a_divided_one_is_loaded(tmp_path):
    """Two processes of data-parallel training save; three with parts of the model, and one, continue."""
    names = ["0.bias", "0.weight", "2.bias", "2.weight"]
    for keys, part, done, zero, wrong, prefixed in run(2, WRAPPED, PLACE=str(tmp_path)):
        assert keys == [[*names, "buffer"], names, [f"inner.{n}" for n in [*names, "buffer"]]]
        assert part == ["bias", "weight"] and done == [[], []] and zero == 0
        assert wrong[0] == "RuntimeError" and "0.bias" in wrong[1]
        assert wrong[2] == [["buffer", "0.bias", "2.weight", "2.bias"], ["module.0.bias"]] and wrong[3] == 0
        assert prefixed[0] == "RuntimeError" and "'module.0.weight'" in prefixed[1]
    net = fb.nn.Sequential(fb.nn.Linear(2, 5), fb.nn.Tanh(), fb.nn.Linear(5, 3))
    net.register_buffer("buffer", fb.zeros(3))
    weights, state = get_state_dict(net, fb.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
    dcp.load({"model": weights, "optim": state}, checkpoint_id=tmp_path, no_dist=True)
    assert state["param_groups"][0]["lr"] == 0.5 and weights["0.weight"].abs().sum().item() > 0
    assert run(3, DIVIDE_SAVED, PLACE=str(tmp_path)) == [rounded((weights, state))] * 3
