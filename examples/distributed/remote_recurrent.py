"""A recurrent network in two processes: embedding and decoder are in the last one, the LSTM is in process 0.

python -m flambeau.distributed.run --standalone --nproc-per-node 2 examples/distributed/remote_recurrent.py
"""

import os

import flambeau as torch
import flambeau.distributed.autograd as dist_autograd
import flambeau.distributed.rpc as rpc
from flambeau import nn
from flambeau.distributed.optim import DistributedOptimizer

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WORDS, WIDTH, HIDDEN = 12, 16, 32


class Embedding(nn.Module):
    """Words as vectors."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        # Both parts are made at once, in threads that share the default generator.
        nn.init.normal_(self.table.weight, generator=torch.Generator().manual_seed(1))

    def forward(self, words):
        return torch.tanh(self.table(words))


class Decoder(nn.Module):
    """Logits of the next word."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(HIDDEN, WORDS)
        nn.init.uniform_(self.linear.weight, -0.17, 0.17, generator=torch.Generator().manual_seed(2))
        nn.init.zeros_(self.linear.bias)

    def forward(self, output):
        return self.linear(output)


def references_to_parameters(module):
    return [rpc.RRef(p) for p in module.local_value().parameters()]


class Recurrent(nn.Module):
    """Runs its first and last part in another worker."""

    def __init__(self, worker):
        super().__init__()
        self.embedding, self.decoder = rpc.remote(worker, Embedding), rpc.remote(worker, Decoder)
        torch.manual_seed(3)
        self.lstm = nn.LSTM(WIDTH, HIDDEN)

    def forward(self, words, state):
        output, state = self.lstm(self.embedding.rpc_sync().forward(words), state)
        return self.decoder.rpc_sync().forward(output), state

    def parameters_everywhere(self):
        found = [rpc.RRef(p) for p in self.lstm.parameters()]
        for part in (self.embedding, self.decoder):
            found += rpc.rpc_sync(part.owner(), references_to_parameters, args=(part,))
        return found


def train():
    model = Recurrent(f"worker{size - 1}")
    optimizer = DistributedOptimizer(torch.optim.Adam, model.parameters_everywhere(), lr=0.02)
    text = torch.arange(8 * 10 * 4).reshape(8, 10, 4)
    text = (text * text) % WORDS  # a pattern to learn: time, batch
    state = (torch.zeros(1, 4, HIDDEN), torch.zeros(1, 4, HIDDEN))
    for words in text.unbind(0):
        with dist_autograd.context() as context_id:
            logits, state = model(words[:-1], tuple(s.detach() for s in state))
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), words[1:].flatten())
            dist_autograd.backward(context_id, [loss])
            optimizer.step(context_id)
        print(f"loss {loss.item():.6f}", flush=True)


rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
if rank == 0:
    train()
rpc.shutdown()
