"""Data parallelism: each process has the whole model and a part of the data; gradients are averaged.

python -m flambeau.distributed.run --standalone --nproc-per-node 2 examples/distributed/data_parallel.py
"""

import flambeau as torch
import flambeau.distributed as dist
from flambeau import nn
from flambeau.nn.parallel import DistributedDataParallel
from flambeau.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)  # the data are equal in all processes

points = torch.randn(240, 2)
classes = (points.square().sum(1) > 1).long() + (points[:, 0] > 0).long()
data = TensorDataset(points, classes)
sampler = DistributedSampler(data, seed=1)
loader = DataLoader(data, batch_size=10, sampler=sampler)

model = DistributedDataParallel(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(8):
    sampler.set_epoch(epoch)  # another order in each pass
    total = torch.zeros(())
    for number, (x, target) in enumerate(loader):
        if number % 2 == 0:
            with model.no_sync():  # two batches per step: the first adds its gradients without communication
                loss = nn.functional.cross_entropy(model(x), target)
                (loss / 2).backward()
        else:
            loss = nn.functional.cross_entropy(model(x), target)
            (loss / 2).backward()
            optimizer.step()
            optimizer.zero_grad()
        total += loss.detach()
    dist.all_reduce(total)
    if rank == 0:
        print(f"loss {total.item() / (len(loader) * dist.get_world_size()):.6f}", flush=True)

dist.destroy_process_group()
