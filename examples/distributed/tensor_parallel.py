"""Tensor parallelism: the processes divide each layer of the model and see the same data.

python -m flambeau.distributed.run --standalone --nproc-per-node 2 examples/distributed/tensor_parallel.py
"""

import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.tensor.parallel import loss_parallel
from plans import divide
from transformer import Transformer, batch, loss_of

dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
torch.manual_seed(0)

model = divide(Transformer(), mesh["tp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, foreach=False)

for step in range(12):
    with loss_parallel():  # the logits stay divided along the vocabulary
        loss = loss_of(model, *batch(step))
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    value = loss.full_tensor().item()
    if dist.get_rank() == 0:
        print(f"loss {value:.6f}", flush=True)

dist.destroy_process_group()
