"""Train, save, resume in new objects: module, optimizer, scheduler and generator states in one file."""

import io

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(23)


def fresh():
    model = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.1)) for _ in range(3)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)


def step(model, optimizer, scheduler):
    x = torch.randn(16, 8)
    y = x
    for block in model:
        y = y + checkpoint(block, y, use_reentrant=False)
    loss = nn.functional.l1_loss(y, x.roll(1, dims=1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    return loss.item()


model, optimizer, scheduler = fresh()
for _ in range(25):
    print(step(model, optimizer, scheduler))

file = io.BytesIO()
state = {
    "model": model.state_dict(),
    "optimizer": optimizer.state_dict(),
    "scheduler": scheduler.state_dict(),
}
torch.save({**state, "random": torch.get_rng_state()}, file)
torch.manual_seed(99)
model, optimizer, scheduler = fresh()
file.seek(0)
found = torch.load(file, weights_only=True)
model.load_state_dict(found["model"])
optimizer.load_state_dict(found["optimizer"])
scheduler.load_state_dict(found["scheduler"])
torch.set_rng_state(found["random"])
for _ in range(25):
    print(step(model, optimizer, scheduler))
