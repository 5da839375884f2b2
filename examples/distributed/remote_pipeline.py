"""A pipeline by remote calls: process 0 sends micro-batches through parts of a model in the other ones.

python -m flambeau.distributed.run --standalone --nproc-per-node 3 examples/distributed/remote_pipeline.py
"""

import itertools
import os
import threading

import flambeau as torch
import flambeau.distributed.autograd as dist_autograd
import flambeau.distributed.rpc as rpc
from flambeau import nn
from flambeau.distributed.nn import RemoteModule
from flambeau.distributed.optim import DistributedOptimizer

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Part(nn.Module):
    """Some layers of the network. It takes and returns references, so that tensors go from part to part."""

    def __init__(self, sizes, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential()
        for number, (before, after) in enumerate(itertools.pairwise(sizes)):
            self.layers.add_module(f"linear{number}", nn.Linear(before, after))
            self.layers.add_module(f"norm{number}", nn.LayerNorm(after))
            self.layers.add_module(f"tanh{number}", nn.Tanh())
        self.lock = threading.Lock()

    def forward(self, reference):
        x = reference.to_here()
        with self.lock:  # one micro-batch at a time
            return self.layers(x)


class Pipeline(nn.Module):
    """All parts, each in a worker of its own, and the head in this one."""

    def __init__(self, micro_batches):
        super().__init__()
        self.micro_batches = micro_batches
        workers = [f"worker{max(1, size - 2)}", f"worker{size - 1}"]
        self.first = RemoteModule(workers[0], Part, args=((2, 32, 32), 1))
        self.second = RemoteModule(workers[1], Part, args=((32, 32), 2))
        torch.manual_seed(3)
        self.head = nn.Linear(32, 3)

    def forward(self, batch):
        outputs = []
        for x in batch.chunk(self.micro_batches):
            middle = self.first.get_module_rref().remote().forward(rpc.RRef(x))
            outputs.append(self.second.forward_async(middle))
        return self.head(torch.cat(torch.futures.wait_all(outputs)))

    def parameters_everywhere(self):
        remote = self.first.remote_parameters() + self.second.remote_parameters()
        return remote + [rpc.RRef(p) for p in self.head.parameters()]


def train():
    model = Pipeline(micro_batches=4)
    optimizer = DistributedOptimizer(torch.optim.Adam, model.parameters_everywhere(), lr=0.02)
    torch.manual_seed(0)
    points = torch.randn(64, 2)
    classes = (points.square().sum(1) > 1).long() + (points[:, 0] > 0).long()
    for _ in range(8):
        with dist_autograd.context() as context_id:
            loss = nn.functional.cross_entropy(model(points), classes)
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        print(f"loss {loss.item():.6f}", flush=True)


rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
if rank == 0:
    train()
rpc.shutdown()
