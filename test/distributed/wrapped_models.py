"""Training of wrapped models for jobs that run under flambeau and PyTorch, beside models of one process."""

from distributed.sharded_models import MODELS

WRAPPED = (
    MODELS
    + """
import importlib
fsdp = importlib.import_module(fw.__name__ + ".distributed.fsdp")
wrapping = importlib.import_module(fw.__name__ + ".distributed.fsdp.wrap")
FSDP, Strategy, Kind = fsdp.FullyShardedDataParallel, fsdp.ShardingStrategy, fsdp.StateDictType
by_class = wrapping.ModuleWrapPolicy({Block, nn.Linear})
blocks_only = wrapping.ModuleWrapPolicy({Block})
cpu = fw.device("cpu")
fw.set_num_threads(1)

def wrap(model, **options):
    return FSDP(copy.deepcopy(model), device_id=cpu, **options)

def values(twin):
    with FSDP.state_dict_type(twin, Kind.FULL_STATE_DICT):
        return twin.state_dict()

def distance(model, twin):
    own, found = model.state_dict(), values(twin)
    assert list(own) == list(found), (list(own), list(found))
    return max((own[k].double() - found[k].double()).abs().max().item() for k in own)

def fit(model, twin, inputs, steps=3, parts=1, make=None, sync=None):
    # As `train`, and compares whole states at the end. Returns losses, and the distance of all values.
    make = make or functools.partial(fw.optim.AdamW, lr=0.01, eps=1e-3)
    one, own = make(model.parameters()), make(twin.parameters())
    losses = []
    for step in range(steps):
        batch = inputs[step]
        model(batch).backward()
        found = 0.0
        mine = batch.chunk(size)[rank].chunk(parts)
        for i, rows in enumerate(mine):
            with sync(twin, i == len(mine) - 1) if sync else contextlib.nullcontext():
                loss = twin(rows) * (len(rows) * size / len(batch))
                loss.backward()
            found += loss.item()
        total = fw.tensor(found)
        dist.all_reduce(total)
        losses.append([model(batch).item(), total.item() / size])
        for optimizer in (one, own):
            optimizer.step()
            optimizer.zero_grad()
    return losses, distance(model, twin)

def sums(state):
    return {k: [list(v.shape), v.double().abs().sum().item()] for k, v in state.items()}
"""
)
