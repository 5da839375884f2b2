"""Pipelines of several processes give what one process gives, bit for bit, and what PyTorch's give."""

import pytest
from distributed.pipelined_models import EQUAL, STAGES
from distributed.ranks import run

TRAINING = (
    STAGES
    + EQUAL
    + """
dist.init_process_group()
found = {}
for name, local, n in CASES:
    rows = [2 * n, 2 * n, 2 * n + 1, 3 * n, 2 * n + 1]  # equal and uneven micro-batches, new and known shapes
    found[f"{name} {local} {n}"] = compare(name, local, n, rows, steps=5)
put(found)
dist.destroy_process_group()
"""
)
# Names, stages per rank, and micro-batches per rank.
SCHEDULES = [
    ("GPipe", 1, 1),
    ("GPipe", 1, 2),
    ("1F1B", 1, 1),
    ("1F1B", 1, 2),
    ("LoopedBFS", 2, 1),
    ("Interleaved1F1B", 2, 2),
    ("Interleaved1F1B", 3, 1),
    ("InterleavedZeroBubble", 2, 2),
    ("InterleavedZeroBubble", 3, 1),
    ("ZBVZeroBubble", 2, 1),
    ("ZBVZeroBubble", 2, 3),
    ("DualPipeV", 2, 2),
    ("DualPipeV", 2, 3),
]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_training_equals_that_of_one_process(ranks):
    cases = [(name, local, n * ranks) for name, local, n in SCHEDULES if ranks * local > 1]
    cases += [("GPipe", 1, 1)] if ranks > 1 else []  # fewer micro-batches than stages
    cases += [("ZBVZeroBubble", 2, 1)] if ranks > 1 else []
    values = run(ranks, TRAINING.replace("CASES", repr(cases)), seconds=60)
    assert values == [{f"{name} {local} {n}": 0 for name, local, n in cases}] * ranks


AGAINST_PYTORCH = (
    STAGES
    + """
dist.init_process_group("gloo")

def set_to(stage, number):
    for k, p in enumerate(stage.parameters()):
        with fw.no_grad():
            values = fw.arange(p.numel()).reshape(p.shape) * 7 + 11 * k + number
            p.copy_((values % 13 - 6) / 20)

class Plain(nn.Module):  # PyTorch refuses outputs of integer dtypes
    def __init__(self, stage):
        super().__init__()
        self.stage = stage

    def forward(self, h):
        if isinstance(self.stage, First):
            return self.stage(h)[0]
        if isinstance(self.stage, Last):
            return self.stage.head(h)
        return self.stage(h, None)[0]

found = []
names = {"GPipe": 1, "1F1B": 1, "LoopedBFS": 2, "Interleaved1F1B": 2, "ZBVZeroBubble": 2, "DualPipeV": 2}
for name, local in names.items():
    stages = [Plain(stage) for stage in make_stages(size * local)]
    for number, stage in enumerate(stages):
        set_to(stage, number)
    own = places(name, local)
    schedule = schedule_of(name, stages, own, 4)
    optimizer = sgd([stages[i] for i in own])
    for step in range(2):
        x = (fw.arange(24).reshape(8, 3) * 5 + step) % 7
        y = (fw.arange(24).reshape(8, 3) * 3 + step) % 7
        losses = []
        optimizer.zero_grad()
        out = schedule.step(x, target=y, losses=losses)
        optimizer.step()
    trained = [p for i in own for p in stages[i].parameters() if p.grad is not None]
    sums = [[p.detach().double().sum().item(), p.grad.double().abs().sum().item()] for p in trained]
    outputs = [] if out is None else [out.detach().double().sum().item(), out.abs().double().sum().item()]
    found.append([name, sums, [loss.item() for loss in losses], outputs])
put(found)
dist.destroy_process_group()
"""
)


def near(a, b) -> bool:
    if isinstance(a, list):
        return len(a) == len(b) and all(near(x, y) for x, y in zip(a, b, strict=True))
    return a == b if isinstance(a, str) else a == pytest.approx(b, rel=1e-4, abs=1e-5)


def test_losses_gradients_and_parameters_equal_those_of_pytorch():
    pytest.importorskip("torch")
    ours, theirs = run(2, AGAINST_PYTORCH), run(2, AGAINST_PYTORCH, "torch", seconds=90)
    assert near(ours, theirs), (ours, theirs)
