"""FullyShardedDataParallel: dtypes, initialization, whole parameters, hooks, failures and wrong arguments."""

import pytest
from distributed.ranks import near, run
from distributed.wrapped_models import WRAPPED

DTYPES = (
    WRAPPED
    + """
found = {}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
        self.register_buffer("scale", fw.ones(1) * 3)
        self.seen = []

    def forward(self, x):
        tensors = (x, self.scale) if isinstance(self.a, FSDP) else (x, self.a.weight, self.norm.weight)
        self.seen.append([str(t.dtype).split(".")[1] for t in tensors])
        return self.b(self.norm(self.a(x)) * self.scale)

def filled(model):
    with fw.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(fw.linspace(-1, 1, p.numel()).view(p.shape) * (i + 1) / 3)
    return model

bf, f32 = fw.bfloat16, fw.float32
cases = {
    "param": dict(param_dtype=bf),
    "param and reduce": dict(param_dtype=bf, reduce_dtype=f32),
    "reduce": dict(reduce_dtype=bf),
    "buffer": dict(param_dtype=bf, buffer_dtype=bf),
    "no root": dict(param_dtype=f32, cast_root_forward_inputs=False),
    "each": dict(param_dtype=bf, cast_forward_inputs=True),
}
for keeps in (True, False):
    for name, options in cases.items():
        for inside in (False, True):
            policy = wrapping.ModuleWrapPolicy({nn.Linear}) if inside else None
            net = filled(Net()).eval()
            twin = wrap(net, mixed_precision=fsdp.MixedPrecision(**options), use_orig_params=keeps,
                        auto_wrap_policy=policy)
            try:
                out = twin(floats[0].chunk(size)[rank])
            except RuntimeError as error:
                found[f"{keeps} {name} {inside}"] = [type(error).__name__]
                continue
            out.float().square().sum().backward()
            own = [str(out.dtype).split(".")[1], twin.module.seen, out.float().sum().item() / 100]
            own.append([str(b.dtype).split(".")[1] for b in twin.buffers()])
            own.append([str(v.dtype).split(".")[1] for v in twin.state_dict().values()])
            own.append([None if p.grad is None else [str(p.grad.dtype).split(".")[1],
                        p.grad.double().norm().item() / 1000] for p in twin.parameters()])
            own.append(sorted(str(type(m.module).__name__) for m in FSDP.fsdp_modules(twin)))
            found[f"{keeps} {name} {inside}"] = own
put(found)
dist.destroy_process_group()
"""
)


def test_dtypes_are_those_of_pytorch():
    ours, theirs = run(2, DTYPES, seconds=90), run(2, DTYPES, "torch", seconds=120)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        for case in mine:
            for i, (a, b) in enumerate(zip(mine[case], other[case], strict=True)):
                if i == 4 and case.endswith("True"):  # PyTorch leaves buffers of the root in their low dtype
                    assert set(a) == {"float32", "int64"}
                else:
                    assert near(a, b, 2e-2), (case, i, a, b)


START = (
    WRAPPED
    + """
found = {}
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(fw.ones(7))
        self.inner = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)

    def reset_parameters(self):
        with fw.no_grad():
            self.weight.fill_(rank + 2)

    def forward(self, x):
        return self.norm(self.inner(x)).sum() * self.weight.sum()

for keeps in (True, False):
    # Each process initializes with other numbers; the first one's count.
    fw.manual_seed(rank)
    with fw.device("meta"):
        model = Own()
    twin = FSDP(model, device_id=cpu, sync_module_states=True, use_orig_params=keeps)
    state = values(twin)
    assert (state["weight"] == 2).all() and state["norm.running_var"].sum() == 3
    assert not state["inner.weight"].is_meta
    gathered = [None] * size
    dist.all_gather_object(gathered, {k: v.sum().item() for k, v in state.items()})
    assert all(each == gathered[0] for each in gathered)
    twin(fw.ones(2, 3)).backward()

    calls = []
    def init(module):
        calls.append(type(module).__name__)
        module.to_empty(device="cpu", recurse=False)
        for p in module.parameters(recurse=False):
            nn.init.constant_(p, 0.5)

    with fw.device("meta"):
        model = Own()
    twin = FSDP(model, device_id=cpu, param_init_fn=init, use_orig_params=keeps,
                auto_wrap_policy=wrapping.ModuleWrapPolicy({nn.Linear}))
    found[f"calls {keeps}"] = calls
    assert all((v == 0.5).all() for k, v in values(twin).items() if "running" not in k and "num" not in k)

    with fw.device("meta"):
        model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    model.extra = nn.Module()
    model.extra.p = nn.Parameter(fw.empty(3, device="meta"))
    found[f"no method {keeps}"] = raised(FSDP, model, device_id=cpu, use_orig_params=keeps)[0]

    # All processes end with the parameters and buffers of the first one.
    model = Own()
    with fw.no_grad():
        for t in (*model.parameters(), *model.buffers()):
            t.fill_(rank + 1)
    twin = FSDP(model, device_id=cpu, sync_module_states=True, use_orig_params=keeps,
                auto_wrap_policy=wrapping.ModuleWrapPolicy({nn.Linear}))
    assert all((v == 1).all() for v in values(twin).values())
    with FSDP.summon_full_params(twin):
        names = [n for n, _ in twin.named_buffers()]
        assert names == ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
put(found)
dist.destroy_process_group()
"""
)


def test_initialization():
    """The modules for which the function is called, and their order, are PyTorch's."""
    for found in run(2, START, seconds=90):
        for keeps in (True, False):
            assert found[f"calls {keeps}"] == ["Linear", "Own", "BatchNorm1d"]
            assert found[f"no method {keeps}"] == "AttributeError"


WHOLE = (
    WRAPPED
    + """
found = {}
fw.manual_seed(0)
for keeps in (True, False):
    model = GPT()
    twin = wrap(model, auto_wrap_policy=blocks_only, use_orig_params=keeps)
    twin(tokens[0].chunk(size)[rank]).backward()
    parameters = list(twin.parameters())
    before = values(twin)
    with FSDP.summon_full_params(twin, writeback=False):
        for (n, p), (m, q) in zip(model.named_parameters(), sorted(twin.named_parameters(),
                                  key=lambda x: list(before).index(x[0]))):
            assert n == m and (p == q).all()
        with fw.no_grad():
            for p in twin.parameters():
                p.fill_(99)
    assert all((before[k] == v).all() for k, v in values(twin).items())
    assert all(p is q for p, q in zip(parameters, twin.parameters(), strict=True))
    with FSDP.summon_full_params(twin):
        with fw.no_grad():
            for p in twin.parameters():
                p.mul_(2)
    assert all((before[k] * 2 == v).all() for k, v in values(twin).items())
    try:
        with FSDP.summon_full_params(twin):
            with fw.no_grad():
                for p in twin.parameters():
                    p.div_(2)
            raise KeyError("left by an error")
    except KeyError:
        pass
    assert all((before[k] == v).all() for k, v in values(twin).items())
    with FSDP.summon_full_params(twin, recurse=False, writeback=False):
        shapes = {n: tuple(p.shape) for n, p in twin.named_parameters()}
        assert shapes["embed.weight"] == (13, 8)
        assert not any(shapes.get(f"blocks.{i}.up.weight") == (16, 8) for i in range(3))
    with FSDP.summon_full_params(twin, rank0_only=True, writeback=False, offload_to_cpu=True):
        shapes = {n: tuple(p.shape) for n, p in twin.named_parameters()}
        assert (shapes.get("blocks.0.up.weight") == (16, 8)) == (rank == 0)
    found[f"both {keeps}"] = raised(FSDP.summon_full_params(twin, rank0_only=True).__enter__)[0]

    # fn sees whole parameters, and what it writes stays.
    def init(module):
        if isinstance(module, nn.Linear):
            with fw.no_grad():
                assert module.weight.dim() == 2
                module.weight.fill_(0.25)

    assert twin.apply(init) is twin
    after = values(twin)
    assert all((v == 0.25).all() == ("norm" not in k and "bias" not in k) for k, v in after.items())

    # A parameter that an optimizer changed between two forward passes is gathered again.
    with fw.no_grad():
        twin(tokens[0].chunk(size)[rank])
        for p in twin.parameters():
            p.zero_()
        out = twin(tokens[0].chunk(size)[rank])
    assert abs(out.item() - fw.tensor(13.0).log().item()) < 1e-6

    twin = wrap(model.double(), use_orig_params=keeps)
    twin.to(fw.float32)
    twin(tokens[0].chunk(size)[rank]).backward()
    assert {p.dtype for p in twin.parameters()} == {fw.float32}
    assert all(p.grad.dtype == fw.float32 for p in twin.parameters() if p.grad is not None)
    model.float()

    # The norm, and its limit, are those of one process with all gradients.
    for order in (1.0, 2.0, 3.0, float("inf")):
        for strategy in (Strategy.FULL_SHARD, Strategy.NO_SHARD):
            one = copy.deepcopy(model)
            one(tokens[0]).backward()
            options = dict(auto_wrap_policy=blocks_only, sharding_strategy=strategy)
            twin = wrap(model, use_orig_params=keeps, **options)
            twin(tokens[0].chunk(size)[rank]).backward()
            norms = nn.utils.clip_grad_norm_(one.parameters(), 0.1, order), twin.clip_grad_norm_(0.1, order)
            assert abs(norms[0] - norms[1]) < 1e-5 * norms[0], (order, norms)
            sgd = [fw.optim.SGD(m.parameters(), lr=1.0) for m in (one, twin)]
            for each in sgd:
                each.step()
            assert distance(one, twin) < 1e-6
put(found)
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize("size", [2, 3])
def test_whole_parameters_outside_of_passes(size):
    for found in run(size, WHOLE, seconds=90):
        assert found == {"both True": "NotImplementedError", "both False": "NotImplementedError"}


GRADIENTS = (
    WRAPPED
    + """
fw.manual_seed(0)
for keeps in (True, False):
    model = GPT()
    one = copy.deepcopy(model)
    one(tokens[0]).backward()
    twin = wrap(model, auto_wrap_policy=blocks_only, use_orig_params=keeps)
    with FSDP.summon_full_params(twin, with_grads=True, writeback=False):
        assert all(p.grad is None for p in twin.parameters())
    twin(tokens[0].chunk(size)[rank]).backward()
    expected = {n: p.grad for n, p in one.named_parameters()}
    with FSDP.summon_full_params(twin, with_grads=True):
        for n, p in twin.named_parameters():
            assert (p.grad - expected[n]).abs().max() < 1e-6, n
            p.grad.mul_(2)
    fw.optim.SGD(twin.parameters(), lr=0.5).step()
    fw.optim.SGD(one.parameters(), lr=1.0).step()
    assert distance(one, twin) < 1e-6

    # Hooks: the sum of all processes without division, and a hook that gives twice the mean.
    for strategy in (Strategy.FULL_SHARD, Strategy.NO_SHARD):
        one = copy.deepcopy(model)
        one(tokens[0]).backward()
        twin = wrap(model, auto_wrap_policy=blocks_only, use_orig_params=keeps, sharding_strategy=strategy)
        seen = []

        def twice(state, grad, part=None):
            state.append(grad.numel())
            dist.all_reduce(grad)
            grad.mul_(2 / size)
            if part is not None:
                part.copy_(grad.chunk(size)[rank])

        twin.register_comm_hook(seen, twice)
        error = raised(twin.register_comm_hook, seen, twice)
        assert error[0] == "AssertionError" and "already registered" in error[1]
        twin(tokens[0].chunk(size)[rank]).backward()
        assert len(seen) == 4 and sum(seen) >= sum(p.numel() for p in model.parameters())
        fw.optim.SGD(twin.parameters(), lr=0.5).step()
        fw.optim.SGD(one.parameters(), lr=1.0).step()
        assert distance(one, twin) < 1e-6

    # A forward pass that fails leaves a model that trains as before.
    class Failing(MLP):
        fails = False
        def forward(self, x):
            x = self.layers[0](x)
            if self.fails:
                raise KeyError("failed")
            return self.layers[2](self.layers[1](x.tanh()).tanh()).square().mean()

    model = Failing()
    twin = wrap(model, use_orig_params=keeps, auto_wrap_policy=wrapping.ModuleWrapPolicy({nn.Linear}))
    twin.module.fails = True
    assert raised(twin, floats[0])[0] == "KeyError"
    twin.module.fails = False
    losses, far = fit(model, twin, floats)
    assert far < 2e-6

    # And a backward pass that fails.
    class Wrong(fw.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()
        @staticmethod
        def backward(ctx, grad):
            raise KeyError("failed")

    model = MLP()
    twin = wrap(model, use_orig_params=keeps, auto_wrap_policy=wrapping.ModuleWrapPolicy({nn.Linear}))
    loss = twin(Wrong.apply(floats[0].clone().requires_grad_()))
    assert raised(loss.backward) is not None
    for p in twin.parameters():
        p.grad = None
    if fw.__name__ == "flambeau":
        losses, far = fit(model, twin, floats)
        assert far < 2e-6
put([])
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize("size", [2, 3])
def test_gradients_hooks_and_failures(size):
    run(size, GRADIENTS, seconds=90)


ERRORS = (
    WRAPPED
    + """
found = {}
def each(name, call, *arguments, **options):
    found[name] = raised(call, *arguments, **options)

mesh = dist.init_device_mesh("cpu", (2,))
cube = dist.init_device_mesh("cpu", (1, 2))
mlp = MLP()
each("module", FSDP, 3, device_id=cpu)
each("strategy", FSDP, MLP(), sharding_strategy="x", device_id=cpu)
each("precision", FSDP, MLP(), mixed_precision=fw.bfloat16, device_id=cpu)
each("prefetch", FSDP, MLP(), backward_prefetch=1, device_id=cpu)
each("device", FSDP, MLP(), device_id=0)
each("group", FSDP, MLP(), process_group=3, device_id=cpu)
each("group and mesh", FSDP, MLP(), process_group=mesh.get_group(), device_mesh=mesh, device_id=cpu)
each("mesh", FSDP, MLP(), device_mesh=3, device_id=cpu)
each("dimensions", FSDP, MLP(), device_mesh=cube, device_id=cpu)
each("hybrid", FSDP, MLP(), sharding_strategy=Strategy.HYBRID_SHARD, device_id=cpu)
each("hybrid mesh", FSDP, MLP(), sharding_strategy=Strategy.HYBRID_SHARD, device_mesh=mesh, device_id=cpu)
each("hybrid pair", FSDP, MLP(), sharding_strategy=Strategy.HYBRID_SHARD, process_group=(1, 2), device_id=cpu)
each("ignored twice", FSDP, MLP(), ignored_modules=[], ignored_states=[], device_id=cpu)
each("ignored", FSDP, MLP(), ignored_modules=[3], device_id=cpu)
frozen = MLP()
frozen.layers[0].weight.requires_grad_(False)
each("frozen", FSDP, frozen, device_id=cpu)
frozen.layers[0].weight.requires_grad_(True)
frozen.layers[0].double()
each("dtypes", FSDP, frozen, device_id=cpu, use_orig_params=True)
scalar = nn.Module()
scalar.p = nn.Parameter(fw.tensor(1.0))
each("scalar", FSDP, scalar, device_id=cpu)
each("lazy", FSDP, nn.LazyLinear(3), device_id=cpu)
each("policy", FSDP, MLP(), auto_wrap_policy=wrapping.CustomPolicy(lambda m: 3), device_id=cpu)
each("classes", wrapping.ModuleWrapPolicy, [3])
twin = FSDP(MLP(), device_id=cpu, auto_wrap_policy=wrapping.ModuleWrapPolicy({nn.Linear}))
adam = fw.optim.Adam(twin.parameters())
twin(floats[0]).backward()
adam.step()
inner = twin.module.layers[0]
each("clip", inner.clip_grad_norm_, 1.0)
each("no_sync", inner.no_sync().__enter__)
each("hook", inner.register_comm_hook, None, print)
each("type", FSDP.set_state_dict_type, twin, "full")
each("options", FSDP.set_state_dict_type, twin, Kind.FULL_STATE_DICT, fsdp.LocalStateDictConfig())
local = fsdp.LocalOptimStateDictConfig()
each("options 2", FSDP.set_state_dict_type, twin, Kind.FULL_STATE_DICT, None, local)
FSDP.set_state_dict_type(inner, Kind.LOCAL_STATE_DICT)
each("several", FSDP.get_state_dict_type, twin)
FSDP.set_state_dict_type(inner, Kind.FULL_STATE_DICT)
with FSDP.summon_full_params(twin):
    each("nested", FSDP.summon_full_params(twin).__enter__)
    each("forward", twin, floats[0])
state = FSDP.optim_state_dict(twin, adam)
other = fw.optim.Adam(nn.Linear(2, 2).parameters())
each("foreign", FSDP.optim_state_dict, twin, other)
each("keys", FSDP.optim_state_dict_to_load, twin, adam, {})
each("groups", FSDP.optim_state_dict_to_load, twin, adam, {"state": {}, "param_groups": []})
state["state"]["layers.0.weight"]["exp_avg"] = fw.zeros(3, 3)
each("shape", FSDP.optim_state_dict_to_load, twin, adam, state)
each("rekey", FSDP.rekey_optim_state_dict, state, "id", twin, optim=adam)
each("rekey flat", FSDP.rekey_optim_state_dict, state, fsdp.OptimStateKeyType.PARAM_ID, twin, optim=adam)
each("load", twin.load_state_dict, {"layers.0.weight": fw.zeros(2, 2)}, strict=False)
each("missing", twin.load_state_dict, {})
each("attribute", getattr, twin, "nothing")
twin(floats[0]).backward()  # all of this has left the model as it was
put(found)
dist.destroy_process_group()
"""
)

EXPECTED = {
    "module": ("TypeError", "expected a Module, got int"),
    "strategy": ("TypeError", "expected a ShardingStrategy, got 'x'"),
    "precision": ("TypeError", "expected a MixedPrecision, got flambeau.bfloat16"),
    "prefetch": ("TypeError", "expected a BackwardPrefetch or None, got 1"),
    "device": ("ValueError", "expected None or the CPU as device_id, got 0"),
    "group": ("TypeError", "expected a ProcessGroup as process_group, got 3"),
    "group and mesh": ("ValueError", "expected one of them, got both"),
    "mesh": ("TypeError", "expected a DeviceMesh as device_mesh, got int"),
    "dimensions": ("ValueError", "expected a device_mesh of 1 dimensions"),
    "hybrid": ("ValueError", "requires explicit specification of process group or device_mesh"),
    "hybrid mesh": ("ValueError", "expected a device_mesh of 2 dimensions"),
    "hybrid pair": ("ValueError", "expected two process groups"),
    "ignored twice": ("ValueError", "both ignored_modules and ignored_states"),
    "ignored": ("TypeError", "expected ignored modules, got int"),
    "frozen": ("ValueError", "uniform `requires_grad` when `use_orig_params=False`"),
    "dtypes": ("ValueError", "uniform dtype but got flambeau.float64 and flambeau.float32"),
    "scalar": ("ValueError", "Change p to a 1D tensor"),
    "lazy": ("ValueError", "got a lazy one as weight"),
    "policy": ("ValueError", "False/True or a kwarg dict"),
    "classes": ("ValueError", "expected classes of modules, got 3"),
    "clip": ("RuntimeError", "should only be called on the root FSDP instance"),
    "no_sync": ("RuntimeError", "should only be called on the root FSDP instance"),
    "hook": ("RuntimeError", "should only be called on the root FSDP instance"),
    "type": ("TypeError", "expected a StateDictType, got 'full'"),
    "options": ("RuntimeError", "expected the options of FULL_STATE_DICT"),
    "options 2": ("RuntimeError", "expected the options of FULL_STATE_DICT"),
    "several": ("RuntimeError", "expected one form in all wrappers"),
    "nested": ("RuntimeError", "expected no other such context around it"),
    "forward": ("RuntimeError", "expected no pass within summon_full_params"),
    "foreign": ("KeyError", "expected parameters of the model, got number 0"),
    "keys": ("KeyError", "expected the keys 'state' and 'param_groups', got []"),
    "groups": ("KeyError", "expected options for the group"),
    "shape": ("ValueError", "expected exp_avg of shape (7, 5) for layers.0.weight, got (3, 3)"),
    "rekey": ("TypeError", "expected an OptimStateKeyType, got 'id'"),
    "rekey flat": ("RuntimeError", "Each parameter should only map to one parameter name but got 2"),
    "load": ("RuntimeError", "size mismatch"),
    "missing": ("RuntimeError", 'Missing key(s) in state_dict: "layers.0.weight", "layers.0.bias"'),
    "attribute": ("AttributeError", "nothing"),
}


def test_wrong_arguments():
    for found in run(2, ERRORS, seconds=60):
        assert found.keys() == EXPECTED.keys()
        for name, (kind, text) in EXPECTED.items():
            assert found[name] is not None, name
            assert found[name][0] == kind and text in found[name][1], (name, found[name])
