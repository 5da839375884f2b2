"""Two dimensions: tensor parallelism within rows of a mesh, parameters in parts and data along its columns.

python -m flambeau.distributed.run --standalone --nproc-per-node 4 examples/distributed/two_dimensions.py
"""

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor.parallel import loss_parallel
from plans import divide
from transformer import Transformer, batch, loss_of

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
row, rows = mesh["dp"].get_local_rank(), mesh["dp"].size()
torch.manual_seed(0)

model = divide(Transformer(), mesh["tp"])  # tensor parallelism comes first
for block in model.blocks:
    fully_shard(block, mesh=mesh["dp"])
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)

for step in range(12):
    tokens, positions, targets = batch(step)
    mine = slice(row * len(tokens) // rows, (row + 1) * len(tokens) // rows)
    with loss_parallel():
        loss = loss_of(model, tokens[mine], positions, targets[mine])
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.full_tensor().detach() / rows
    dist.all_reduce(mean, group=mesh["dp"].get_group())
    if dist.get_rank() == 0:
        print(f"loss {mean.item():.6f}", flush=True)

dist.destroy_process_group()
