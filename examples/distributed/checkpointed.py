"""Checkpoints: training that continues where the last checkpoint was written, with any number of processes.

python -m flambeau.distributed.run --standalone --nproc-per-node 2 --max-restarts 3 \
    examples/distributed/checkpointed.py FOLDER
"""

import sys
from pathlib import Path

import flambeau as torch
import flambeau.distributed as dist
import flambeau.distributed.checkpoint as checkpoint
from flambeau.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from flambeau.distributed.fsdp import fully_shard
from transformer import Transformer, batch, loss_of

STEPS, EVERY = 12, 3


class Training:
    """What a checkpoint holds; `checkpoint` calls the two functions."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self):
        weights, states = get_state_dict(self.model, self.optimizer)
        return {"model": weights, "optimizer": states, "step": self.step}

    def load_state_dict(self, state):
        weights, states = state["model"], state["optimizer"]
        set_state_dict(self.model, self.optimizer, model_state_dict=weights, optim_state_dict=states)
        self.step = state["step"]


folder = Path(sys.argv[1])
until = int(sys.argv[2]) if len(sys.argv) > 2 else STEPS  # as if the program were ended here

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = Transformer()
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
training = Training(model, torch.optim.AdamW(model.parameters(), lr=3e-3))

if folder.joinpath(".metadata").exists():
    checkpoint.load({"training": training}, checkpoint_id=folder)
    if rank == 0:
        print(f"continued at step {training.step}", flush=True)

while training.step < until:
    tokens, positions, targets = batch(training.step)
    rows = slice(rank * len(tokens) // size, (rank + 1) * len(tokens) // size)
    loss = loss_of(model, tokens[rows], positions, targets[rows])
    loss.backward()
    training.optimizer.step()
    training.optimizer.zero_grad()
    training.step += 1
    mean = loss.detach() / size
    dist.all_reduce(mean)
    if rank == 0:
        print(f"loss {mean.item():.6f}", flush=True)
    if training.step % EVERY == 0:
        checkpoint.save({"training": training}, checkpoint_id=folder)

dist.destroy_process_group()
