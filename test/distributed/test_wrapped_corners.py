"""FullyShardedDataParallel: plain roots, memory, copies of parts with all options, hooks of parameters."""

from distributed.ranks import run
from distributed.wrapped_models import WRAPPED

PLAIN_ROOT = (
    WRAPPED
    + """
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
adam = functools.partial(fw.optim.Adam, lr=0.01, eps=1e-3)

def wrapped(model, **options):
    model = copy.deepcopy(model)
    for i in (0, 2):  # the layer between is not divided
        model.layers[i] = FSDP(model.layers[i], device_id=cpu, **options)
    return model

def step(model, optimizer, rows, whole):
    model(rows).backward()
    if not whole:  # the program averages what no wrapper has
        for p in model.layers[1].parameters():
            dist.all_reduce(p.grad)
            p.grad.div_(size)
    optimizer.step()
    optimizer.zero_grad()

fw.manual_seed(0)
model = MLP()
one = adam(model.parameters())
for keeps in (True, False):
    model = MLP()
    ones = adam(model.parameters())
    twin = wrapped(model, use_orig_params=keeps)
    twins = adam(twin.parameters())
    for i in range(2):
        step(model, ones, floats[i], True)
        step(twin, twins, floats[i].chunk(size)[rank], False)
    state = twin.state_dict()
    assert list(state) == list(model.state_dict())
    assert distance(model, twin) < 1e-6
    named = FSDP.optim_state_dict(twin, twins)
    assert sorted(named["state"]) == sorted(model.state_dict())
    numbers_ = FSDP.rekey_optim_state_dict(named, fsdp.OptimStateKeyType.PARAM_ID, model, optim=ones)
    for n, values_ in ones.state_dict()["state"].items():
        assert all((numbers_["state"][n][k] - v).abs().max() < 1e-6 for k, v in values_.items())
    other = wrapped(MLP(), use_orig_params=not keeps)
    others = adam(other.parameters())
    weights, states = get_state_dict(twin, twins)
    set_state_dict(other, others, model_state_dict=weights, optim_state_dict=states)
    for i in range(2, 4):
        step(model, ones, floats[i], True)
        step(other, others, floats[i].chunk(size)[rank], False)
    assert distance(model, other) < 1e-6
put(1)
dist.destroy_process_group()
"""
)


def test_wrappers_inside_a_plain_model():
    run(2, PLAIN_ROOT, seconds=60)


MEMORY = (
    WRAPPED
    + """
fw.manual_seed(0)
for keeps in (True, False):
    for strategy in (Strategy.FULL_SHARD, Strategy.SHARD_GRAD_OP):
        options = dict(use_orig_params=keeps, auto_wrap_policy=blocks_only, sharding_strategy=strategy)
        twin = wrap(GPT(), **options)
        held = {}

        def count():
            parts = [m._parts for m in FSDP.fsdp_modules(twin)]
            return [p._memory is not None and p._memory._storage_nbytes() > 0 for p in parts]

        def watch(name):
            def hook(*_):
                held[name] = count()
            return hook

        for i, block in enumerate(twin.module.blocks):
            block.module.register_forward_hook(watch(f"forward {i}"))
            block.module.register_full_backward_hook(watch(f"backward {i}"))
        assert not any(count())
        loss = twin(tokens[0].chunk(size)[rank])
        after = count()
        loss.backward()
        assert not any(count())
        keeps_all = strategy is Strategy.SHARD_GRAD_OP
        assert after == [True] + 3 * [keeps_all], after
        assert held["forward 2"] == [True, keeps_all, keeps_all, True], held
        if not keeps_all:
            assert sum(held["backward 0"]) <= 3, held
        # What the parts leave of a whole parameter after its use cannot be read.
        weight = twin.module.blocks[0].module.up.weight
        if not keeps:
            assert weight.shape == (16, 8) and raised(weight.sum)[0] == "RuntimeError"
put(1)
dist.destroy_process_group()
"""
)


def test_parameters_are_freed_between_uses():
    run(2, MEMORY, seconds=60)


COPIES = (
    WRAPPED
    + """
import flambeau.distributed.checkpoint as dcp
from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
where = os.environ["WHERE"]
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "parts"))
adam = functools.partial(fw.optim.Adam, lr=0.01, eps=1e-3)
for keeps in (True, False):
    options = dict(device_mesh=mesh, sharding_strategy=Strategy.HYBRID_SHARD, use_orig_params=keeps,
                   auto_wrap_policy=blocks_only)
    fw.manual_seed(rank)
    model = GPT()
    twin = wrap(model, sync_module_states=True, **options)
    with fw.no_grad():
        for p in (*model.parameters(), *model.buffers()):
            dist.broadcast(p, 0)
    assert distance(model, twin) == 0
    ones, twins = adam(model.parameters()), adam(twin.parameters())

    def step(twin, twins, i):
        model(tokens[i]).backward()
        twin(tokens[i].chunk(size)[rank]).backward()
        norms = nn.utils.clip_grad_norm_(model.parameters(), 0.1), twin.clip_grad_norm_(0.1)
        assert abs(norms[0] - norms[1]) < 1e-5
        for each in (ones, twins):
            each.step()
            each.zero_grad()

    step(twin, twins, 0)
    weights, states = get_state_dict(twin, twins)
    assert all(v.placements == (Replicate(), Shard(0)) for v in weights.values())
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=f"{where}/{keeps}")
    other = wrap(GPT(), **options)
    others = adam(other.parameters())
    weights, states = get_state_dict(other, others)
    state = {"model": weights, "optimizer": states}
    dcp.load(state, checkpoint_id=f"{where}/{keeps}")
    set_state_dict(other, others, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    step(other, others, 1)
    assert distance(model, other) < 1e-6
    assert raised(other.register_comm_hook, None, print)[0] == "AssertionError"
put(1)
dist.destroy_process_group()
"""
)


def test_copies_of_parts_are_saved_and_loaded(tmp_path):
    run(4, COPIES, seconds=90, WHERE=str(tmp_path))


HOOKS = (
    WRAPPED
    + """
# An optimizer that steps while backward runs, as each gradient comes.
fw.manual_seed(0)
for keeps in (True, False):
    for strategy in (Strategy.FULL_SHARD, Strategy.NO_SHARD):
        model = GPT()
        twin = wrap(model, use_orig_params=keeps, auto_wrap_policy=blocks_only, sharding_strategy=strategy)
        ones = fw.optim.SGD(model.parameters(), lr=0.1)
        for p in twin.parameters():
            own = fw.optim.SGD([p], lr=0.1)
            def hook(p, own=own):
                own.step()
                own.zero_grad()
            p.register_post_accumulate_grad_hook(hook)
        for i in range(3):
            model(tokens[i]).backward()
            ones.step()
            ones.zero_grad()
            twin(tokens[i].chunk(size)[rank]).backward()
            assert all(p.grad is None for p in twin.parameters())
        assert distance(model, twin) < 1e-6

        # Low precision of one process's parts: the same losses as `autocast` of nothing, within its rounding.
        half = wrap(model, use_orig_params=keeps, sharding_strategy=strategy,
                    mixed_precision=fsdp.MixedPrecision(fw.bfloat16, fw.float32))
        loss = half(tokens[0])
        assert loss.dtype == fw.bfloat16 and abs(loss.float() - model(tokens[0])) < 0.05
        loss.backward()
        assert all(p.grad.dtype == fw.float32 for p in half.parameters() if p.grad is not None)
        assert all(p.dtype == fw.float32 for p in half.parameters())
        fw.optim.SGD(half.parameters(), lr=0.1).step()
        assert half(tokens[0]) < loss
put(1)
dist.destroy_process_group()
"""
)


def test_hooks_of_parameters_and_low_precision():
    run(2, HOOKS, seconds=60)
