"""Context parallelism: the processes divide each sequence. (PyTorch's context needs GPUs.)

python -m flambeau.distributed.run --standalone --nproc-per-node 2 examples/distributed/long_sequences.py
"""

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.fsdp import fully_shard
from flambeau.distributed.tensor.experimental import context_parallel
from transformer import Transformer, batch, loss_of

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)

model = fully_shard(Transformer(), mesh=mesh)  # also averages the gradients of the parts of a sequence
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

for step in range(12):
    tensors = batch(step)
    with context_parallel(mesh, buffers=list(tensors), buffer_seq_dims=[1, 1, 1]):
        loss = loss_of(model, *tensors)
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach() / mesh.size()
    dist.all_reduce(mean)
    if dist.get_rank() == 0:
        print(f"loss {mean.item():.6f}", flush=True)

dist.destroy_process_group()
