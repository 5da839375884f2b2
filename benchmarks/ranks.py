"""One of several processes of a job, which times what standard input names and answers with seconds or bytes.

``ranks.py flambeau`` or ``ranks.py torch``, with the variables of env://. Each line of input is the name of a
function of this module and its numbers.
"""

import importlib
import resource
import statistics
import sys
import time
import warnings
from pathlib import Path

torch = importlib.import_module(sys.argv[1])
dist = importlib.import_module(f"{sys.argv[1]}.distributed")
nn = torch.nn
warnings.simplefilter("ignore")


def seconds(call, budget=0.2):
    """Return the median of five batches; the ranks agree about the number of calls."""
    for _ in range(3):
        call()
    start = time.perf_counter()
    call()
    once = torch.tensor(time.perf_counter() - start)
    dist.all_reduce(once, dist.ReduceOp.MAX)
    count = max(1, min(int(budget / 5 / once.item()), 2000))
    found = []
    for _ in range(5):
        dist.barrier()
        start = time.perf_counter()
        for _ in range(count):
            call()
        found.append((time.perf_counter() - start) / count)
    return statistics.median(found)


def all_reduce(count):
    x = torch.zeros(count)
    return seconds(lambda: dist.all_reduce(x))


def all_gather(count):
    x, every = torch.zeros(count), torch.zeros(count * dist.get_world_size())
    return seconds(lambda: dist.all_gather_into_tensor(every, x))


def reduce_scatter(count):
    x, every = torch.zeros(count), torch.zeros(count * dist.get_world_size())
    return seconds(lambda: dist.reduce_scatter_tensor(x, every))


def all_to_all(count):
    x = torch.zeros(count)
    y = torch.zeros(count)
    return seconds(lambda: dist.all_to_all_single(y, x))


def barrier():
    return seconds(dist.barrier)


def _steps(model, loss_of):
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()

    return seconds(step, 1.0)


def digits():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Dropout(0.25), nn.Linear(64, 10))  # fmt: skip
    x, y = torch.randn(32, 1, 8, 8), torch.randint(0, 10, (32,))
    return _steps(model, lambda model: nn.functional.cross_entropy(model(x), y))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.mix = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.second = nn.Linear(width, width), nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        heads = self.mix(self.first(x)).unflatten(-1, (3, 8, -1)).movedim(-3, 0).transpose(-3, -2)
        mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(-3, -2).flatten(-2))
        return x + self.feed(self.second(x))


class GPT(nn.Module):
    def __init__(self, width=256, words=256):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(6)))

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


def gpt():
    torch.manual_seed(0)
    tokens = torch.randint(0, 256, (4, 64))
    return _steps(
        GPT(), lambda model: nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    )


def fsdp_memory(layers):
    """Return by how much two steps with AdamW raise the peak of the memory of a fresh process."""
    fully_shard = importlib.import_module(f"{torch.__name__}.distributed.fsdp").fully_shard
    before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(layers)))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device="cpu")
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.01)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    x = torch.ones(8, 1024)
    for _ in range(2):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before


def init():
    return started


if __name__ == "__main__":
    start = time.perf_counter()
    dist.init_process_group("gloo")
    started = time.perf_counter() - start
    print("ready", flush=True)
    for line in sys.stdin:
        name, *numbers = line.split()
        print(globals()[name](*map(int, numbers)), flush=True)
    dist.barrier()
    dist.destroy_process_group()
