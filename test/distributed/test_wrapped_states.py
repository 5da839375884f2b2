"""States of wrapped models and their optimizers: names, forms, round trips between numbers of processes."""

import pytest
from distributed.ranks import near, run
from distributed.wrapped_models import WRAPPED

FORMS = (
    WRAPPED
    + """
found = {}
def filled(model):
    with fw.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(fw.linspace(-1, 1, p.numel()).view(p.shape) * (i + 1) / 3)
    return model

def listed(state):
    return {k: [list(v.shape), bool(v.dim())] for k, v in state.items()}

for keeps in (True, False):
    for strategy in ("FULL_SHARD", "NO_SHARD"):
        options = dict(use_orig_params=keeps, sharding_strategy=Strategy[strategy])
        twin = wrap(filled(GPT()), auto_wrap_policy=blocks_only, **options)
        adam = fw.optim.Adam(twin.parameters(), lr=0.01, eps=1e-3)
        for step in range(2):
            adam.zero_grad()
            twin(tokens[step].chunk(size)[rank]).backward()
            norm = twin.clip_grad_norm_(0.5)
            adam.step()
        grads = [p.grad for p in twin.parameters()]
        grads = [None if g is None else [list(g.shape), g.norm().item()] for g in grads]
        found[f"{keeps} {strategy}"] = each = [norm.item(), grads]
        each.append([[n, list(p.shape)] for n, p in twin.named_parameters()])
        for kind in (Kind.FULL_STATE_DICT, Kind.SHARDED_STATE_DICT):
            with FSDP.state_dict_type(twin, kind):
                state = twin.state_dict()
                each.append([list(state), listed(state)])
                osd = FSDP.optim_state_dict(twin, adam)
                each.append({n: listed(v) for n, v in osd["state"].items()})
                each.append(osd["param_groups"][0]["params"])
                packed = FSDP.optim_state_dict_to_load(twin, adam, osd)
                each.append({str(n): listed(v) for n, v in packed["state"].items()})
                each.append(packed["param_groups"][0]["params"])
                own = adam.state_dict()["state"]
                # PyTorch 2.13 without GPUs mixes up the values of the two states with use_orig_params=True.
                if fw.__name__ == "flambeau" or not keeps:
                    for n, values_ in packed["state"].items():
                        for key, value in values_.items():
                            assert (value - own[n][key]).abs().max() == 0, (n, key)
        each.append({k: v.double().abs().sum().item() for k, v in values(twin).items()})
        only = fsdp.FullStateDictConfig(rank0_only=True), fsdp.FullOptimStateDictConfig(rank0_only=True)
        with FSDP.state_dict_type(twin, Kind.FULL_STATE_DICT, *only):
            only = [list(twin.state_dict()), list(FSDP.optim_state_dict(twin, adam))]
        # PyTorch's model without parts ignores that only rank 0 wants its state.
        each.append(only if fw.__name__ == "flambeau" or strategy == "FULL_SHARD" or rank == 0 else [[], []])
        with FSDP.summon_full_params(twin, writeback=False):
            each.append([[n, list(p.shape)] for n, p in twin.named_parameters()])
        each.append([list(x) for x in twin.load_state_dict({"zz": fw.zeros(2)}, strict=False)])
put(found)
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize("size", [2, 3])
def test_forms_of_states_are_those_of_pytorch(size):
    """Names, sizes and values; the parts that each process has are PyTorch's, too."""
    ours, theirs = run(size, FORMS, seconds=90), run(size, FORMS, "torch", seconds=120)
    for mine, other in zip(ours, theirs, strict=True):
        for case in mine:
            for i, (a, b) in enumerate(zip(mine[case], other[case], strict=True)):
                assert near(a, b), (case, i, a, b)


SAVE = (
    WRAPPED
    + """
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint.state_dict import (
    StateDictOptions, get_model_state_dict, get_optimizer_state_dict, get_state_dict, set_model_state_dict,
    set_optimizer_state_dict, set_state_dict)
where = os.environ["WHERE"]
adam = functools.partial(fw.optim.Adam, lr=0.01, eps=1e-3)

def trained(model, steps, optimizer):
    for step in steps:
        optimizer.zero_grad()
        rows = tokens[step].chunk(size)[rank] if isinstance(model, FSDP) else tokens[step]
        model(rows).backward()
        optimizer.step()

fw.manual_seed(3)
model = GPT()
one = copy.deepcopy(model)
ones = adam(one.parameters())
trained(one, range(2), ones)
"""
)

SAVED = (
    SAVE
    + """
for keeps in (True, False):
    twin = wrap(model, auto_wrap_policy=blocks_only, use_orig_params=keeps)
    own = adam(twin.parameters())
    trained(twin, range(2), own)
    weights, states = get_state_dict(twin, own)
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=f"{where}/{keeps}")
    full = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, states = get_state_dict(twin, own, options=full)
    with FSDP.state_dict_type(twin, Kind.FULL_STATE_DICT):
        mine, named = twin.state_dict(), FSDP.optim_state_dict(twin, own)
    if rank == 0:
        fw.save({"model": mine, "optimizer": named}, f"{where}/full-{keeps}")
        assert sorted(weights) == sorted(mine) and all((weights[k] == mine[k]).all() for k in mine)
        assert sorted(states["state"]) == sorted(named["state"])
    else:
        assert not weights and not states
    # The plain optimizer's state has the same names, numbers and values.
    numbers_ = FSDP.rekey_optim_state_dict(named, fsdp.OptimStateKeyType.PARAM_ID, one, optim=ones)
    for n, values_ in ones.state_dict()["state"].items():
        for key, value in values_.items():
            assert (numbers_["state"][n][key] - value).abs().max() < 1e-6, (n, key)
    back = FSDP.rekey_optim_state_dict(numbers_, fsdp.OptimStateKeyType.PARAM_NAME, one, optim=ones)
    order = back["param_groups"][0]["params"]
    assert sorted(order) == sorted(n for n, _ in one.named_parameters())
    assert back["state"].keys() == named["state"].keys()
put(1)
dist.destroy_process_group()
"""
)

LOADED = (
    SAVE
    + """
found = []
trained(one, [2, 3], ones)

def go_on(name, twin, own):
    trained(twin, [2, 3], own)
    found.append([name, distance(one, twin)])

def fresh(**options):
    fw.manual_seed(100 + rank)
    twin = FSDP(GPT(), device_id=cpu, auto_wrap_policy=wrapping.ModuleWrapPolicy({nn.LayerNorm}), **options)
    return twin, adam(twin.parameters())

for saved in (True, False):
    whole = fw.load(f"{where}/full-{saved}", weights_only=True)
    for keeps in (True, False):
        for strategy in (Strategy.FULL_SHARD, Strategy.NO_SHARD):
            options = dict(use_orig_params=keeps, sharding_strategy=strategy)
            name = [saved, keeps, strategy.name]
            twin, own = fresh(**options)
            weights, states = get_state_dict(twin, own)
            state = {"model": weights, "optimizer": states}
            dcp.load(state, checkpoint_id=f"{where}/{saved}")
            set_state_dict(twin, own, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
            go_on(["checkpoint", *name], twin, own)

            twin, own = fresh(**options)
            assert not any(twin.load_state_dict(whole["model"]))
            FSDP.optim_state_dict_to_load(twin, own, whole["optimizer"], load_directly=True)
            go_on(["full", *name], twin, own)

            twin, own = fresh(**options)
            from_0 = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
            set_model_state_dict(twin, whole["model"] if rank == 0 else {}, options=from_0)
            given = whole["optimizer"] if rank == 0 else {}
            set_optimizer_state_dict(twin, own, given, options=from_0)
            go_on(["rank 0", *name], twin, own)

            twin, own = fresh(**options)
            twin.load_state_dict(whole["model"])
            given = whole["optimizer"] if rank == 0 else None
            own.load_state_dict(FSDP.scatter_full_optim_state_dict(given, twin, optim=own))
            go_on(["scattered", *name], twin, own)

            twin, own = fresh(**options)
            twin.load_state_dict(whole["model"])
            own.load_state_dict(FSDP.shard_full_optim_state_dict(whole["optimizer"], twin, optim=own))
            parts = FSDP.sharded_optim_state_dict(twin, own)
            own = adam(twin.parameters())
            own.load_state_dict(FSDP.flatten_sharded_optim_state_dict(parts, twin, own))
            flat = StateDictOptions(flatten_optimizer_state_dict=True)
            flat = get_optimizer_state_dict(twin, own, options=flat)
            own = adam(twin.parameters())
            set_optimizer_state_dict(twin, own, flat)
            go_on(["sharded", *name], twin, own)

            local = fsdp.LocalStateDictConfig()
            with FSDP.state_dict_type(twin, Kind.LOCAL_STATE_DICT, local):
                state = copy.deepcopy(twin.state_dict())
                before = values(twin)
                other, _ = fresh(**options)
                with FSDP.state_dict_type(other, Kind.LOCAL_STATE_DICT):
                    other.load_state_dict(state)
            after = values(other)
            assert all((before[k] == after[k]).all() for k in before)
put(found)
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 2), (2, 4)])
def test_training_continues_with_another_number_of_processes(tmp_path, first, second):
    run(first, SAVED, seconds=90, WHERE=str(tmp_path))
    for found in run(second, LOADED, seconds=120, WHERE=str(tmp_path)):
        assert len(found) == 40
        for name, distance in found:
            assert distance < 5e-6, (name, distance)
