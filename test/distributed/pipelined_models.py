"""Models in stages, and the same training in one process and in a pipeline; programs of `ranks`."""

STAGES = """
import copy
if fw.__name__ == "torch":
    from torch.distributed import pipelining
    from torch.distributed.pipelining import schedules
else:
    from flambeau.distributed import pipelining
    from flambeau.distributed.pipelining import schedules
nn, F = fw.nn, fw.nn.functional
cpu = fw.device("cpu")

class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(7, 6)

    def forward(self, tokens):
        return self.table(tokens), tokens  # the second output is of an integer dtype

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, h, tokens, scale=1.0):
        return h + self.down(fw.tanh(self.up(self.norm(h)))) * scale, tokens

class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.head, self.bias = nn.Linear(6, 7), nn.Embedding(7, 7)

    def forward(self, h, tokens, scale=1.0):
        return self.head(h) + self.bias(tokens)

def make_stages(count):
    fw.manual_seed(count)
    return [First(), *(Block() for _ in range(count - 2)), Last()]

def places(name, local):
    count = size * local
    return [rank, count - 1 - rank] if "V" in name[2:] else list(range(rank, count, size))

def chained(stages, inputs):
    for stage in stages:
        inputs = stage(*inputs) if isinstance(inputs, tuple) else stage(inputs)
    return inputs

def loss_fn(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())

def batch(rows):
    return fw.randint(0, 7, (rows, 3)), fw.randint(0, 7, (rows, 3))

def alone(stages, x, y, n, order, scale=True):
    \"\"\"Accumulate gradients over micro-batches in one process.\"\"\"
    losses, outputs = [None] * n, [None] * n
    pieces = list(zip(x.tensor_split(n), y.tensor_split(n)))
    for m in order:
        outputs[m] = chained(stages, pieces[m][0])
        loss = loss_fn(outputs[m], pieces[m][1])
        loss.backward()
        losses[m] = loss.item()
    for stage in stages if scale else ():
        for p in stage.parameters():
            p.grad.div_(n)
    return fw.cat(outputs).detach(), losses

def sgd(stages):
    parameters = [p for stage in stages for p in stage.parameters()]
    return fw.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)

def schedule_of(name, stages, own, n, **options):
    made = [pipelining.PipelineStage(stages[i], i, len(stages), cpu) for i in own]
    kind = schedules.get_schedule_class(name)
    single = issubclass(kind, schedules.PipelineScheduleSingle)
    return kind(made[0] if single else made, n, loss_fn, **options)
"""

EQUAL = """
def compare(name, local, n, rows, steps=3):
    \"\"\"Train in a pipeline and in one process; return how many numbers differ.\"\"\"
    stages = make_stages(size * local)
    twin = copy.deepcopy(stages)
    own = places(name, local)
    schedule = schedule_of(name, stages, own, n)
    order = list(range(n))[:: -1 if name == "LoopedBFS" else 1]
    mine, theirs = sgd([stages[i] for i in own]), sgd(twin)
    wrong = 0
    for step in range(steps):
        fw.manual_seed(100 + step)
        x, y = batch(rows[step % len(rows)])
        mine.zero_grad()
        theirs.zero_grad()
        losses = [None]
        out = schedule.step(x, target=y, losses=losses)
        wanted, means = alone(twin, x, y, n, order)
        last = len(stages) - 1 in own
        assert (out is not None) == last and (losses == [None]) == (not last), (out, losses)
        if last:
            wrong += int((out != wanted).sum()) + sum(a.item() != b for a, b in zip(losses, means))
            assert len(losses) == n and not out.requires_grad
        for i in own:
            for p, q in zip(stages[i].parameters(), twin[i].parameters()):
                wrong += int((p.grad != q.grad).sum())
        mine.step()
        theirs.step()
        for i in own:
            for p, q in zip(stages[i].parameters(), twin[i].parameters()):
                wrong += int((p != q).sum())
        found = schedule.eval(x, target=y, losses=losses)
        with fw.no_grad():
            wanted = chained(twin, x)
        if last:  # products of matrices with other numbers of rows may round differently
            assert fw.allclose(found, wanted, atol=1e-5) and len(losses) == n
    return wrong
"""
