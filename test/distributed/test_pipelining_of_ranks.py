"""Pipelines of several processes: shapes that change, failures, unused gradients, other wrappers."""

import pytest
from distributed.pipelined_models import STAGES
from distributed.ranks import Job, run

START = (
    STAGES
    + """
dist.init_process_group()

def simple(modules, n=2, name="1F1B", loss=F.mse_loss, **options):
    global loss_fn
    loss_fn = loss
    return schedule_of(name, modules, places(name, len(modules) // size), n, **options)

def apart(modules, x, y, n, loss=F.mse_loss, order=None):
    \"\"\"The same in one process; return gradients.\"\"\"
    whole = copy.deepcopy(nn.ModuleList(modules))
    whole.zero_grad()
    pieces = list(zip(x.tensor_split(n), y.tensor_split(n)))
    for m in order or range(n):
        loss(chained(whole, pieces[m][0]), pieces[m][1]).backward()
    return [[None if p.grad is None else p.grad / n for p in one.parameters()] for one in whole]

def same(modules, wanted, own):
    found = []
    for i in own:
        for p, g in zip(modules[i].parameters(), wanted[i], strict=True):
            both = p.grad is not None and g is not None
            found.append(bool((p.grad == g).all()) if both else p.grad is g)
    return all(found)
"""
)

KINDS = """
class Parts(nn.Module):
    \"\"\"A view, a scalar, an integer, a bool, one without gradient, one that goes unused, and none.\"\"\"
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 4), nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        y = self.a(x)
        plain = y.detach() * 2
        return y.t(), y.sum(), fw.arange(3), x > 0, plain, self.b(x), None, self.c(x)[:0]

class Join(nn.Module):
    uses = False

    def __init__(self):
        super().__init__()
        self.d = nn.Linear(4, 3)

    def forward(self, y, total, numbers, mask, plain, unused, none, empty):
        assert none is None and empty.shape == (0, 3) and mask.dtype == fw.bool and numbers.dtype == fw.int64
        assert y.requires_grad == unused.requires_grad == self.training and not plain.requires_grad
        out = self.d(y.t() + plain) * mask + numbers + total
        return out + unused if Join.uses else out

found = []
for name in ("GPipe", "1F1B"):
    modules = [Parts(), Join()]
    schedule = simple(modules, 3, name)
    for uses in (False, True, True, False):  # the gradient of `unused` comes and goes
        Join.uses = uses
        x, y = fw.randn(6, 3), fw.randn(6, 3)
        modules[rank].zero_grad()
        modules[rank].train()
        schedule.step(x, target=y)
        wanted = apart(modules, x, y, 3)
        assert uses or wanted[0][2] is None
        found.append(same(modules, wanted, [rank]))
        modules[rank].eval()
        schedule.eval(x)

# more shapes than both sides keep, each of them twice
modules = [nn.Linear(3, 3), nn.Linear(3, 3)]
schedule = simple(modules, 2)
for rows in [*range(2, 72), *range(2, 72), 5, 4, 5]:
    x, y = fw.randn(rows, 3), fw.randn(rows, 3)
    modules[rank].zero_grad()
    schedule.step(x, target=y)
    found.append(same(modules, apart(modules, x, y, 2), [rank]))

kept = [len(box._numbers) for box in schedule._executor._outboxes.values()]
assert kept == [64] * (rank == 0), kept

# a gradient that only some micro-batches have, and then others
class Some(nn.Module):
    which, calls = (), 0

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, y):
        Some.calls += 1
        return self.layer(x) + y if (Some.calls - 1) % 3 in Some.which else self.layer(x)

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.a(x), self.b(x)

modules = [Two(), Some()]
schedule = simple(modules, 3)
x, y = fw.randn(6, 3), fw.randn(6, 3)
for Some.which in ((0, 1, 2), (0, 2), (0,), (2,), (), (1, 2), ()):
    modules[rank].zero_grad()
    Some.calls = 0
    schedule.step(x, target=y)
    Some.calls = 0
    found.append(same(modules, apart(modules, x, y, 3), [rank]))

# dtypes and messages that do not fit MPI's buffers
for dtype, width in ((fw.float64, 3), (fw.bfloat16, 3), (fw.float32, 700)):
    fw.manual_seed(2)
    modules = [nn.Linear(width, width, dtype=dtype), nn.Linear(width, width, dtype=dtype)]
    schedule = simple(modules, 4)
    x, y = fw.randn(1600, width, dtype=dtype), fw.randn(1600, width, dtype=dtype)
    schedule.step(x, target=y)
    found.append(same(modules, apart(modules, x, y, 4), [rank]))

# frozen, without parameters, in turn; the same modules in two schedules
modules = [nn.Linear(3, 3), nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)]
first, second = simple(modules, 4, "Interleaved1F1B"), simple(modules, 4, "ZBVZeroBubble")
del second
first, other = simple(modules, 4, "InterleavedZeroBubble"), simple(modules, 2, "Interleaved1F1B")
x, y = fw.randn(8, 3), fw.randn(8, 3)
for frozen in ((), (0,), (0, 1), (1, 3), (), (3,)):
    for i, module in enumerate(modules):
        module.requires_grad_(i not in frozen)
        module.zero_grad()
    for schedule, n in ((first, 4), (other, 2)):
        for module in modules:
            module.zero_grad()
        schedule.step(x, target=y)
        found.append(same(modules, apart(modules, x, y, n), places("", 2)))

# keyword arguments of each rank, divided there
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, scale=None):
        return self.layer(x) if scale is None else self.layer(x) * scale

modules = [Scaled(), Scaled()]
scale = fw.rand(8, 1)
schedule = simple(modules, 2)
out = schedule.step(x, target=y, **({"scale": scale} if rank else {}))
assert rank == 0 or fw.allclose(out, modules[1](modules[0](x), scale), atol=1e-6)

# a table of a file, which does not keep the order of micro-batches
path = folder / f"table-{rank}.csv"
path.write_text("0F0,0F1,0F2,0B1,0I0,0W0,0B2\\n,1F1,1B1,1F0,1I0,1F2,1B2,1W0\\n")
modules = [nn.Linear(3, 3), nn.Linear(3, 3)]
stage = pipelining.PipelineStage(modules[rank], rank, 2, cpu)
schedule = schedules._PipelineScheduleRuntime([stage], 3, F.mse_loss)
schedule._load_csv(str(path))
x, y = fw.randn(6, 3), fw.randn(6, 3)
for _ in range(2):
    modules[rank].zero_grad()
    schedule.step(x, target=y)
    found.append(same(modules, apart(modules, x, y, 3, order=[[1, 0, 2], [1, 2, 0]][rank]), [rank]))
put(found)
dist.destroy_process_group()
"""


def test_shapes_dtypes_and_modules_of_all_kinds():
    for values in run(2, START + KINDS):
        assert values == [True] * len(values) and len(values) > 150


# --- failures ----------------------------------------------------------------------------------------------

DIES = """
class Dies(nn.Linear):
    calls = 0

    def forward(self, x):
        Dies.calls += 1
        if Dies.calls == 8:
            os.kill(os.getpid(), 9)
        return super().forward(x)

modules = [nn.Linear(3, 3), Dies(3, 3), nn.Linear(3, 3)]
schedule = simple(modules, 5)
x = fw.randn(10, 3)
schedule.step(x, target=x)
start = time.monotonic()
error = raised(schedule.step, x, target=x)
put([*error, time.monotonic() - start])
"""


def test_the_death_of_a_rank_raises_in_the_others_with_stage_and_micro_batch():
    ended = Job(3, START + DIES).ends()
    assert [one.status for one in ended] == [0, -9, 0]
    for rank, words in (
        (0, "stage 0: receiving from rank 1 the gradients of stage 1, micro-batch"),
        (2, "stage 2: "),
    ):
        kind, text, seconds = ended[rank].values
        assert (
            kind == "DistBackendError" and words in text and "rank 1, which has died" in text and seconds < 5
        )


RAISES = """
class Broken(nn.Linear):
    def forward(self, x):
        raise KeyError("broken")

schedule = simple([nn.Linear(3, 3), nn.Linear(3, 3), Broken(3, 3)], 3)
x = fw.randn(6, 3)
if rank < 2:
    put(raised(schedule.step, x, target=x))
    os._exit(1)  # others would wait 10 s for a rank that ends in order
else:
    schedule.step(x, target=x)
"""


def test_an_exception_in_a_rank_raises_in_the_others():
    ended = Job(3, START + RAISES).ends()
    assert [one.status for one in ended] == [1, 1, 1]
    assert (
        "PipelineStage: stage 2, micro-batch 0: failed to run forward: KeyError: 'broken'" in ended[2].output
    )
    assert "in Schedule1F1B on rank 2" in ended[2].output
    for rank in (0, 1):
        kind, text = ended[rank].values
        assert kind == "DistBackendError" and f"stage {rank}: receiving from rank" in text


DIFFERENT = """
modules = [nn.Linear(3, 3), nn.Linear(3, 3)]
x = fw.randn(12, 3)
if "n" == CASE:
    schedule = simple(modules, 2 if rank else 4)
elif "schedule" == CASE:
    schedule = simple(modules, 4, "1F1B" if rank else "GPipe")
else:
    schedule = simple(modules, 2, loss=F.mse_loss if rank else None)
error = None
try:
    schedule.step(x, target=x)
except Exception as raising:
    error = [type(raising).__name__, str(raising)]
put(error)
os._exit(error is not None)  # in order, the other rank would wait 10 s
"""


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("n", "expected one schedule and n_microbatches on all ranks, got several"),
        ("schedule", "expected one schedule and n_microbatches on all ranks, got several"),
        (
            "loss",
            "expected a loss_fn on all ranks or on none, and the same call on all, got no gradients",
        ),
    ],
)
def test_ranks_that_differ_are_noticed(case, words):
    ended = Job(2, START + DIFFERENT.replace("CASE", repr(case))).ends()
    kind, text = ended[1].values
    assert kind == "RuntimeError" and words in text
    assert "stage 1: receiving from rank 0 the output of stage 0, micro-batch 0" in text


# --- other wrappers ----------------------------------------------------------------------------------------

WRAPPED = (
    STAGES
    + """
import contextlib
from flambeau.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
from flambeau.distributed.fsdp.wrap import ModuleWrapPolicy
from flambeau.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group()
mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
dp, pp = mesh.get_group("dp"), mesh.get_group("pp")
me = pp.rank()

def wrap(kind, stage):
    if kind == "ddp":
        return DDP(stage, process_group=dp)
    if kind == "ddp, views":
        return DDP(stage, process_group=dp, find_unused_parameters=True, gradient_as_bucket_view=True)
    if kind == "wrapped":
        policy = ModuleWrapPolicy({nn.Linear})
        return FSDP(stage, process_group=dp, use_orig_params=True, auto_wrap_policy=policy)
    for module in stage.children():
        if isinstance(module, nn.Linear):
            fully_shard(module, mesh=mesh["dp"])
    return fully_shard(stage, mesh=mesh["dp"])

def whole(t):
    return t.full_tensor() if hasattr(t, "full_tensor") else t

def seen(stage):
    if isinstance(stage, FSDP):
        return FSDP.summon_full_params(stage, with_grads=True, writeback=False)
    return contextlib.nullcontext()

reductions = []  # of each, whether backward runs
for called in ("allreduce", "_reduce_scatter_base"):
    inner = getattr(dp, called)
    def noted(*arguments, inner=inner, **options):
        reductions.append(bool(fw._C._outermost_pass()))
        return inner(*arguments, **options)
    setattr(dp, called, noted)

def expected(kind, stage):
    \"\"\"The number of reductions of a step.\"\"\"
    linear = sum(isinstance(module, nn.Linear) for module in stage.children())
    own = {"ddp": 1, "ddp, views": 2, "fully_shard": linear + 1}
    return own.get(kind, linear + 1)

def worst_of(kind, name, local):
    count, worst = 2 * local, 0.0
    stages = make_stages(count)
    twin = copy.deepcopy(stages)
    own = [me, count - 1 - me] if "V" in name[2:] else list(range(me, count, 2))
    for i in own:
        stages[i] = wrap(kind, stages[i])
    made = [pipelining.PipelineStage(stages[i], i, count, cpu, group=pp) for i in own]
    single = issubclass(schedules.get_schedule_class(name), schedules.PipelineScheduleSingle)
    schedule = schedules.get_schedule_class(name)(made[0] if single else made, 4, loss_fn)
    mine, theirs = sgd([stages[i] for i in own]), sgd(twin)
    for step in range(3):
        fw.manual_seed(50 + step)
        x, y = batch(16)
        if step != 1:  # gradients of two steps add up
            mine.zero_grad()
            theirs.zero_grad()
        before = [[None if p.grad is None else p.grad.clone() for p in s.parameters()] for s in twin]
        rows = slice(8 * dp.rank(), 8 * dp.rank() + 8)
        reductions.clear()
        schedule.step(x[rows], target=y[rows])
        assert len(reductions) == sum(expected(kind, twin[i]) for i in own), (kind, len(reductions))
        # Backward reduces while it runs, unless gradients of weights come apart or some may be missing.
        assert all(reductions) or kind == "ddp, views" or (kind == "ddp" and "1F1B" not in name)
        theirs.zero_grad()
        for half in (slice(0, 8), slice(8, 16)):
            alone(twin, x[half], y[half], 4, range(4), False)
        for stage, earlier in zip(twin, before):
            for p, g in zip(stage.parameters(), earlier):
                p.grad = p.grad / 8 if g is None else p.grad / 8 + g
        for i in own:
            with seen(stages[i]):
              for p, q in zip(stages[i].parameters(), twin[i].parameters()):
                worst = max(worst, (whole(p.grad) - q.grad).abs().max().item())
        if step:
            mine.step()
            theirs.step()
        for i in own:
            with seen(stages[i]):
              for p, q in zip(stages[i].parameters(), twin[i].parameters()):
                worst = max(worst, (whole(p) - q).abs().max().item())
    return worst

names = {"1F1B": 1, "Interleaved1F1B": 2, "InterleavedZeroBubble": 2, "DualPipeV": 2}
kinds = ("ddp", "ddp, views", "fully_shard", "wrapped")
put({f"{kind} {name}": worst_of(kind, name, local) for kind in kinds for name, local in names.items()})
dist.destroy_process_group()
"""
)


def test_stages_are_copied_by_ddp_and_divided_by_fully_shard():
    for values in run(4, WRAPPED, seconds=60):
        assert len(values) == 16 and {name: worst for name, worst in values.items() if worst > 1e-6} == {}


REPEATED = """
from flambeau.nn.parallel import DistributedDataParallel as DDP
from flambeau.utils.checkpoint import checkpoint
nn = fw.nn
dist.init_process_group()

class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.layer, x, use_reentrant=reentrant)
        return x

found = []
for reentrant in (False, True):
    fw.manual_seed(0)
    model = Twice()
    twin = DDP(copy.deepcopy(model))
    x = fw.arange(12.0).view(4, 3)
    with twin.no_sync():
        parts = x.chunk(size)[rank].chunk(2)
        results = [twin(rows.clone().requires_grad_()).square().sum() for rows in parts]
    results[0].backward()
    twin._begin_accumulated()
    results[1].backward()
    found.append(raised(twin._end_accumulated))
    reentrant = False
    model(x).square().sum().backward()
    far = [(p.grad / size - q.grad).abs().max().item() for p, q in zip(model.parameters(), twin.parameters())]
    found.append(max(far) < 1e-4)
put(found)
dist.destroy_process_group()
"""


def test_a_gradient_that_grows_after_its_reduction_is_an_error():
    """Reentrant checkpoints that share a parameter add to its gradient several times in a pass."""
    for first, is_equal, second, _ in run(2, "import copy\n" + REPEATED):
        assert first is None and is_equal
        assert second[0] == "RuntimeError" and "expected one addition to each gradient" in second[1]


# --- traced models -----------------------------------------------------------------------------------------

TRACED = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.layers = nn.Embedding(7, 6), nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
        self.head = nn.Linear(6, 7)

    def forward(self, tokens, mask=None):
        h = first = self.table(tokens)
        n = tokens.size(1)
        for number, layer in enumerate(self.layers):
            h = fw.tanh(layer(h)) + first  # every stage needs `first`
            if mask is not None:
                h = h * mask
            if number < 2:
                pipelining.pipe_split()
        return self.head(h).reshape(-1, n, 7)

fw.manual_seed(0)
model = Model()
twin = copy.deepcopy(model)
x, y = batch(8)
mask = fw.rand(8, 3, 1)
pipe = pipelining.pipeline(model, (x[:2],), {"mask": mask[:2]})
assert pipe.num_stages == 3
stage = pipe.build_stage(rank, cpu)
schedule = pipelining.ScheduleGPipe(stage, 4, loss_fn)
losses = []
kwargs = {"mask": mask} if rank == 0 else {}
schedule.step(x, target=y, losses=losses, **kwargs)
expected = []
for a, b, c in zip(x.chunk(4), y.chunk(4), mask.chunk(4)):
    loss = loss_fn(twin(a, c), b)
    loss.backward()
    expected.append(loss.item())
assert rank < 2 or [loss.item() for loss in losses] == expected
names = dict(twin.named_parameters())
found = []
for name, p in pipe.get_stage_module(rank).named_parameters():
    found.append(name)
    assert (p.grad == names[name].grad / 4).all(), name
put(sorted(found))
dist.destroy_process_group()
"""


def test_a_traced_model_in_three_ranks():
    first, second, third = run(3, START + TRACED)
    layers = [[f"layers.{i}.bias", f"layers.{i}.weight"] for i in range(3)]
    assert first == [*layers[0], "table.weight"] and second == layers[1]
    assert third == ["head.bias", "head.weight", *layers[2]]
