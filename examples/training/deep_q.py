"""Double deep Q-learning from a replay buffer, with a target network that follows slowly."""

import copy
import random
from collections import deque, namedtuple

import torch
from torch import nn

torch.manual_seed(14)
random.seed(14)
Step = namedtuple("Step", "state action reward following done")


def move(state, action):
    """A point on a plane drifts to a goal at the origin."""
    following = state + 0.2 * torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])[action]
    done = bool(following.norm() < 0.3)
    return following, (1.0 if done else -0.1), done


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 24), nn.ReLU())
        self.value, self.advantage = nn.Linear(24, 1), nn.Linear(24, 4)

    def forward(self, x):
        x = self.body(x)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(-1, keepdim=True)


online = Dueling()
target = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.RAdam(online.parameters(), lr=5e-3)
memory = deque(maxlen=200)
state = torch.rand(2) * 2 - 1
for _ in range(82):
    with torch.no_grad():
        greedy = random.random() > 0.3
        action = int(online(state).argmax()) if greedy else random.randrange(4)
    following, reward, done = move(state, action)
    memory.append(Step(state, action, reward, following, done))
    state = torch.rand(2) * 2 - 1 if done else following
    if len(memory) <= 32:
        continue
    batch = Step(*zip(*random.sample(memory, 32), strict=True))
    values = online(torch.stack(batch.state)).gather(1, torch.tensor(batch.action)[:, None]).squeeze(1)
    with torch.no_grad():
        after = torch.stack(batch.following)
        best = online(after).argmax(1, keepdim=True)
        future = target(after).gather(1, best)[:, 0]
        wanted = torch.tensor(batch.reward) + 0.95 * future * ~torch.tensor(batch.done)
    loss = nn.HuberLoss()(values, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
        slow.lerp_(fast, 0.05)
    print(loss.item())
