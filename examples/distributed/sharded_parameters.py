"""Parameters in parts: each process keeps a part of the parameters, gradients and states of the optimizer.

python -m flambeau.distributed.run --standalone --nproc-per-node 2 examples/distributed/sharded_parameters.py
"""

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.fsdp import fully_shard
from transformer import Transformer, batch, loss_of

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = dist.init_device_mesh("cpu", (size,))
torch.manual_seed(0)

model = Transformer()
for block in model.blocks:
    fully_shard(block, mesh=mesh)  # gathered before the block runs, and freed after it
fully_shard(model, mesh=mesh)  # what the blocks leave: embeddings, the last norm and the head
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)  # after the division: it has states of parts

for step in range(12):
    tokens, positions, targets = batch(step)
    rows = slice(rank * len(tokens) // size, (rank + 1) * len(tokens) // size)
    loss = loss_of(model, tokens[rows], positions, targets[rows])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # the norm over all processes
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach() / size
    dist.all_reduce(mean)
    if rank == 0:
        print(f"loss {mean.item():.6f}", flush=True)

dist.destroy_process_group()
