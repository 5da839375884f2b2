"""Processes with different numbers of batches, and optimizers in parts, against one process and PyTorch."""

import functools

import pytest
from distributed.ranks import near, run
from oracle import pytorch

CASES = """
import copy, io
from importlib import import_module
DDP = fw.nn.parallel.DistributedDataParallel
join = import_module(fw.__name__ + ".distributed.algorithms.join")
Zero = import_module(fw.__name__ + ".distributed.optim").ZeroRedundancyOptimizer

def net(layers=None):
    made = fw.nn.Sequential(*(layers or [fw.nn.Linear(6, 8), fw.nn.Tanh(), fw.nn.Linear(8, 3)]))
    with fw.no_grad():
        for i, p in enumerate(made.parameters()):
            p.copy_((fw.arange(float(p.numel())).reshape(p.shape) * (i + 1) % 7 - 3) / 7)
    return made

def batch(step, of=rank):
    return (fw.arange(24.0).reshape(4, 6) * (step + of + 1) % 11 - 5) / 5

def numbers(tensors):
    return [[round(v, 4) for v in t.detach().reshape(-1).tolist()] for t in tensors]

def train(batches, optimizer=None, divide=True, **options):
    wrapped = DDP(net(), **options)
    steps = optimizer(wrapped.parameters()) if optimizer else fw.optim.SGD(wrapped.parameters(), lr=0.1)
    joined = wrapped.join(divide) if optimizer is None else join.Join([wrapped, steps])
    with joined:
        for step in range(batches):
            steps.zero_grad()
            (wrapped(batch(step)) ** 2).mean().backward()
            steps.step()
    return numbers(wrapped.parameters())

def alone(divide=True, optimizer=lambda p: fw.optim.SGD(p, lr=0.1)):
    # the same steps in one process: the processes of `uneven` have 1, 2, ... batches
    one = net()
    steps = optimizer(one.parameters())
    for step in range(size):
        steps.zero_grad()
        running = range(step, size)
        loss = sum((one(batch(step, of)) ** 2).mean() for of in running)
        (loss / (size if divide else len(running))).backward()
        steps.step()
    return numbers(one.parameters())

def uneven():
    ways = [{}, {"bucket_cap_mb": 0.00005}, {"gradient_as_bucket_view": True}, {"static_graph": True},
            {"find_unused_parameters": True}]
    return [train(rank + 1, **way) for way in ways]

def divided():
    return train(rank + 1, divide=False)

def nothing_in_the_first():
    return train(3 * rank)

def even():
    return [train(2), train(0)]

class Branches(fw.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = fw.nn.Linear(2, 2), fw.nn.Linear(2, 2)
        with fw.no_grad():
            [p.fill_(0.5) for p in self.parameters()]

    def forward(self, x, both):
        return self.b(self.a(x)) if both else self.a(x)

def branches():
    wrapped = DDP(Branches(), find_unused_parameters=True)
    steps = fw.optim.SGD(wrapped.parameters(), lr=0.1)
    with wrapped.join():
        for step in range(2 * rank + 1):
            steps.zero_grad()
            wrapped(fw.ones(1, 2), step == 1).sum().backward()
            steps.step()
    return numbers(wrapped.parameters())

def buffers():
    wrapped = DDP(net([fw.nn.Linear(6, 2), fw.nn.BatchNorm1d(2)]))
    with wrapped.join():
        for step in range(rank + 1):
            wrapped(batch(step) + rank).sum().backward()
    return [numbers(wrapped.buffers()), raised(lambda: wrapped(batch(0)).sum().backward())]

def accumulating():
    wrapped = DDP(net())
    with wrapped.join():
        for step in range(rank + 1):
            with wrapped.no_sync():
                wrapped(batch(step)).sum().backward()
            wrapped(batch(step + 1)).sum().backward()
    return numbers(p.grad for p in wrapped.parameters()) if rank == size - 1 else None

def hooked():
    hooks = import_module(fw.__name__ + ".distributed.algorithms.ddp_comm_hooks.default_hooks")
    wrapped = DDP(net())
    wrapped.register_comm_hook(None, hooks.allreduce_hook)
    steps = fw.optim.SGD(wrapped.parameters(), lr=0.1)
    with wrapped.join():
        for step in range(rank + 1):
            steps.zero_grad()
            (wrapped(batch(step)) ** 2).mean().backward()
            steps.step()
    return numbers(wrapped.parameters())

def thrown():
    wrapped = DDP(net())
    count = []

    def loop():
        with wrapped.join(throw_on_early_termination=True):
            for step in range(1 + 2 * rank):
                wrapped(batch(step)).sum().backward()
                count.append(step)

    error = raised(loop)
    dist.barrier()
    text = error[1]
    return [error[0], "exhausted all inputs" in text, "Detected at least one rank" in text, len(count)]

def disabled():
    wrapped = DDP(net())
    with wrapped.join(enable=False):
        wrapped(batch(0)).sum().backward()
    return numbers(p.grad for p in wrapped.parameters())

class Counter(join.Joinable):
    # sums the numbers that all processes give, over passes
    def __init__(self, extra=None):
        super().__init__()
        self.total, self.after = 0.0, []

    def __call__(self, value):
        join.Join.notify_join_context(self)
        self.add(value)

    def add(self, value):
        found = fw.tensor([value])
        dist.all_reduce(found)
        self.total += found.item()

    def join_hook(self, **kwargs):
        return Hook(self, kwargs)

    @property
    def join_device(self):
        return fw.device("cpu")

    @property
    def join_process_group(self):
        return dist.group.WORLD

class Hook(join.JoinHook):
    def __init__(self, counter, kwargs):
        self.counter, self.kwargs = counter, kwargs

    def main_hook(self):
        self.counter.add(float(self.kwargs["shadow"]))

    def post_hook(self, is_last_joiner):
        self.counter.after.append(is_last_joiner)

def counters():
    first, second = Counter(), Counter()
    with join.Join([first, second], shadow=100):
        for i in range(2 * rank + 1):
            first(float(i))
            second(1.0)
    return [first.total, second.total, first.after, second.after]

def failing():
    counter = Counter()

    def loop():
        with join.Join([counter], shadow=0):
            raise KeyError("from the block")

    return [raised(loop), counter.after, join.Join.notify_join_context(counter) is None]

def refused():
    class Elsewhere(Counter):
        join_process_group = None
    return {
        "none": raised(join.Join, [])[0],
        "groups": raised(join.Join, [Counter(), Elsewhere()], shadow=0)[0],
    }

OPTIMIZERS = {
    "sgd": (lambda: fw.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adam": (lambda: fw.optim.Adam, {"lr": 0.05, "weight_decay": 0.1}),
}

def zero():
    found = {}
    for name, (kind, options) in OPTIMIZERS.items():
        for views in (False, True):
            plain, parts = net(), net()
            one = kind()(plain.parameters(), **options)
            many = Zero(parts.parameters(), kind(), parameters_as_bucket_view=views, **options)
            rates = [fw.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (one, many)]
            for step in range(4):
                for layer, steps, rate in ((plain, one, rates[0]), (parts, many, rates[1])):
                    steps.zero_grad()
                    (layer(batch(step, 0)) ** 2).mean().backward()
                    steps.step()
                    rate.step()
            many.consolidate_state_dict(to=size - 1)
            state = None
            if rank == size - 1:
                saved = many.state_dict()
                state = [sorted(saved["state"]), numbers(fw.as_tensor(v) for s in sorted(saved["state"])
                         for _, v in sorted(saved["state"][s].items()) if v is not None)]
                expected = one.state_dict()
                state.append(numbers(fw.as_tensor(v) for s in sorted(expected["state"])
                             for _, v in sorted(expected["state"][s].items()) if v is not None) == state[1])
                state.append(saved["param_groups"][0]["lr"] == expected["param_groups"][0]["lr"])
            found[f"{name} {views}"] = [numbers(parts.parameters()) == numbers(plain.parameters()),
                                        numbers(parts.parameters()),
                                        sorted(len(v) for v in many.optim.state.values()), state]
    return found

def resumed():
    kind, options = OPTIMIZERS["adam"]
    whole = net()
    one = kind()(whole.parameters(), **options)
    many_of = lambda layer: Zero(layer.parameters(), kind(), **options)
    def step(layer, steps, i):
        steps.zero_grad()
        (layer(batch(i, 0)) ** 2).mean().backward()
        steps.step()
    step(whole, one, 0)
    copied = copy.deepcopy(whole)
    many = many_of(copied)
    many.load_state_dict(copy.deepcopy(one.state_dict()))  # of one process; PyTorch shares its tensors
    owned = len(many.optim.state)
    step(whole, one, 1), step(copied, many, 1)
    many.consolidate_state_dict()
    states = [many.state_dict() if rank == 0 else None]
    dist.broadcast_object_list(states, src=0)
    again = copy.deepcopy(copied)
    more = many_of(again)
    more.load_state_dict(states[0])  # of several
    step(whole, one, 2), step(again, more, 2)
    return [owned, numbers(whole.parameters()) == numbers(again.parameters()), numbers(again.parameters())]

def groups():
    layer = net()
    first, *others = list(layer.parameters())
    many = Zero([{"params": [first], "lr": 0.5}], fw.optim.SGD, lr=0.1)
    many.add_param_group({"params": others})
    [p.grad if p.grad is not None else setattr(p, "grad", fw.ones_like(p)) for p in layer.parameters()]
    many.step()
    many.zero_grad()
    loss = many.step(lambda: 5.0)
    lonely = fw.nn.Linear(1, 1, bias=False)  # fewer parameters than processes
    with fw.no_grad():
        lonely.weight.fill_(1.0)
    fewer = Zero(lonely.parameters(), fw.optim.SGD, lr=0.5)
    lonely.weight.grad = fw.ones(1, 1)
    fewer.step()
    return [numbers(layer.parameters()), [g["lr"] for g in many.param_groups], loss, float(lonely.weight)]

def zero_refused():
    layer = net()
    many = Zero(layer.parameters(), fw.optim.Adam)
    other = fw.optim.Adam(list(layer.parameters())[:2]).state_dict()
    return {"early": raised(many.state_dict)[0], "none": raised(Zero, [], fw.optim.Adam)[0],
            "number": raised(Zero, [1.0], fw.optim.Adam)[0],
            "other": raised(many.load_state_dict, other)[0]}

def refused_by_flambeau():
    class Lost(Counter):
        def __init__(self):
            pass
    return [raised(join.Join, [fw.nn.Linear(1, 1)])[0], raised(join.Join, [Lost()])[0],
            raised(Zero, net().parameters(), fw.optim.Adam, overlap_with_ddp=True)[0]]

def zero_joined():
    options = {"lr": 0.1}
    ours = train(rank + 1, lambda p: Zero(p, fw.optim.SGD, **options), gradient_as_bucket_view=True)
    return [ours, ours == alone()]

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
found = {"alone": [alone(), alone(False)]}
CASES = [uneven, divided, nothing_in_the_first, even, branches, buffers, accumulating, hooked, disabled,
         counters, failing, refused, zero, resumed, groups, zero_refused]
if fw.__name__ == "flambeau":
    CASES += [zero_joined, refused_by_flambeau, thrown]
else:
    CASES.append(thrown)
for case in CASES:
    try:
        found[case.__name__] = case()
    except Exception as error:
        import traceback
        found[case.__name__] = "".join(traceback.format_exception(error))
        break
put(found)
"""
SAME = (
    "uneven divided nothing_in_the_first even branches buffers accumulating hooked disabled counters refused "
    "zero resumed groups zero_refused thrown"
).split()


@functools.cache
def values(size: int, framework: str = "flambeau") -> list:
    return run(size, CASES, framework, seconds=60)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("case", [*SAME, "failing", "zero_joined"])
def test_every_rank_has_a_result(case, size):
    for found in values(size):
        assert case in found and not isinstance(found[case], str), found


@pytest.mark.parametrize("case", SAME)
def test_as_in_pytorch(case):
    pytorch()
    for ours, theirs in zip(values(2), values(2, "torch"), strict=True):
        assert case in theirs, theirs
        assert near(ours[case], theirs[case]), (ours[case], theirs[case])


@pytest.mark.parametrize("size", [2, 3])
def test_uneven_training_is_that_of_one_process(size):
    for found in values(size):
        whole, running = found["alone"]
        assert all(near(way, whole) for way in found["uneven"])
        assert near(found["hooked"], whole)
        assert near(found["divided"], running)
        assert found["zero_joined"][1] is True


@pytest.mark.parametrize("size", [2, 3])
def test_all_processes_end_with_one_model(size):
    first, *others = values(size)
    for found in others:
        for case in ("uneven", "nothing_in_the_first", "branches", "buffers", "zero_joined"):
            assert found[case] == first[case], case


@pytest.mark.parametrize("size", [2, 3])
def test_ended_processes_answer_every_pass(size):
    passes = [2 * rank + 1 for rank in range(size)]
    most = max(passes)
    first = sum(sum(range(n)) + 100.0 * (most - n) for n in passes)
    second = sum(n + 100.0 * (most - n) for n in passes)
    for rank, found in enumerate(values(size)):
        last = [rank == size - 1]
        assert found["counters"] == [first, second, last, last]


def test_an_error_in_the_block_is_not_held_up():
    for found in values(2):
        assert found["failing"] == [["KeyError", "'from the block'"], [], True]


def test_all_processes_stop_where_the_first_one_does():
    for rank, found in enumerate(values(2)):
        assert found["thrown"] == ["RuntimeError", rank == 0, rank == 1, 1]


@pytest.mark.parametrize("size", [2, 3])
def test_parts_of_an_optimizer_do_what_the_whole_does(size):
    for rank, found in enumerate(values(size)):
        for name, (equal, _, states, saved) in found["zero"].items():
            assert equal, name
            assert len(states) < 4, "each process has the states of a part"
            assert saved is None if rank < size - 1 else saved[2:] == [True, True]
        assert found["resumed"][0] < 4
        assert found["resumed"][1] is True
    assert sum(len(found["zero"]["adam False"][2]) for found in values(size)) == 4
    assert sum(found["resumed"][0] for found in values(size)) == 4


def test_wrong_arguments_are_errors():
    for found in values(2):
        assert found["refused"] == {"none": "ValueError", "groups": "ValueError"}
        optimizers = {"early": "RuntimeError", "none": "ValueError", "number": "TypeError"}
        assert found["zero_refused"] == optimizers | {"other": "ValueError"}
        assert found["refused_by_flambeau"] == ["TypeError", "TypeError", "ValueError"]
