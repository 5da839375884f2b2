"""A server that updates its model once per round of gradients: trainers wait in futures, not in threads.

python -m flambeau.distributed.run --standalone --nproc-per-node 3 examples/distributed/batched_updates.py
"""

import os
import threading

import flambeau as torch
import flambeau.distributed.rpc as rpc
from flambeau import nn

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Server:
    """Adds the gradients of all trainers, then takes one step."""

    def __init__(self, trainers):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.2, momentum=0.9)
        self.trainers, self.lock = trainers, threading.Lock()
        self.round, self.given, self.loss = torch.futures.Future(), 0, 0.0
        self.optimizer.zero_grad()

    def get_model(self):
        return self.model

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch(reference, gradients, loss):
        """Return a future of the updated model, which all trainers of this round wait for."""
        self = reference.local_value()
        with self.lock:
            for p, gradient in zip(self.model.parameters(), gradients, strict=True):
                share = gradient / self.trainers
                p.grad = share if p.grad is None else p.grad + share
            self.given, self.loss = self.given + 1, self.loss + loss / self.trainers
            this_round = self.round
            if self.given == self.trainers:
                self.optimizer.step()
                self.optimizer.zero_grad()
                print(f"loss {self.loss:.6f}", flush=True)
                self.given, self.loss, self.round = 0, 0.0, torch.futures.Future()
                this_round.set_result(self.model)
        return this_round


def train(server, seed):
    """Compute gradients of the model that the server sends."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(240, 2, generator=generator)
    classes = (points.square().sum(1) > 1).long() + (points[:, 0] > 0).long()
    model = server.rpc_sync().get_model()
    for x, target in zip(points.split(20), classes.split(20), strict=True):
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        arguments = (server, [p.grad for p in model.parameters()], loss.item())
        model = rpc.rpc_sync(server.owner(), Server.update_and_fetch, args=arguments)


rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
if rank == 0:
    server = rpc.RRef(Server(size - 1))
    torch.futures.wait_all(
        [rpc.rpc_async(f"worker{r}", train, args=(server, r), timeout=0) for r in range(1, size)]
    )
rpc.shutdown()
