"""A parameter server: process 0 has the model, the others train it through remote calls.

python -m flambeau.distributed.run --standalone --nproc-per-node 2 examples/distributed/parameter_server.py

With more processes, trainers take steps at the same time, and each sees the steps of the others.
"""

import os

import flambeau as torch
import flambeau.distributed.autograd as dist_autograd
import flambeau.distributed.rpc as rpc
from flambeau import nn
from flambeau.distributed.optim import DistributedOptimizer

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Server:
    """Has the model, and computes with it for the trainers."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3))

    def forward(self, x):
        return self.model(x)

    def parameters(self):
        return [rpc.RRef(p) for p in self.model.parameters()]

    def gradient_norm(self, context_id):
        gradients = dist_autograd.get_gradients(context_id)
        return sum(g.square().sum() for g in gradients.values()).sqrt()


def train(server, seed):
    """Train the model of a server, from a trainer; returns the mean losses of the epochs."""
    optimizer = DistributedOptimizer(torch.optim.SGD, server.rpc_sync().parameters(), lr=0.2, momentum=0.9)
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(160, 2, generator=generator)
    classes = (points.square().sum(1) > 1).long() + (points[:, 0] > 0).long()
    losses = []
    for _ in range(8):
        total = 0.0
        for x, target in zip(points.split(20), classes.split(20), strict=True):
            with dist_autograd.context() as context_id:  # gradients of this step, in both processes
                loss = nn.functional.cross_entropy(server.rpc_sync().forward(x), target)
                dist_autograd.backward(context_id, [loss])
                assert server.rpc_sync().gradient_norm(context_id) > 0
                optimizer.step(context_id)
            total += loss.item()
        losses.append(total / 8)
    return losses


rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
if rank == 0:
    server = rpc.RRef(Server())
    trainers = [rpc.rpc_async(f"worker{r}", train, args=(server, r), timeout=0) for r in range(1, size)]
    for losses in zip(*(trainer.wait() for trainer in trainers), strict=True):
        print(f"loss {sum(losses) / len(losses):.6f}", flush=True)
rpc.shutdown()
