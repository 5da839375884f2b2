"""REINFORCE with a learned baseline in a corridor: actions are sampled from the policy."""

import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(13)


class Corridor:
    """Walk left or right on nine cells; the right end pays 1, each step costs 0.05."""

    def reset(self):
        self.at, self.steps = 4, 0
        return self.state()

    def state(self):
        return nn.functional.one_hot(torch.tensor(self.at), 9).float()

    def step(self, action):
        self.at += 1 if action else -1
        self.steps += 1
        done = self.at in (0, 8) or self.steps == 20
        return self.state(), (1.0 if self.at == 8 else -0.05), done


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(9, 16), nn.Tanh())
        self.policy, self.value = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, state):
        hidden = self.body(state)
        return Categorical(logits=self.policy(hidden)), self.value(hidden).squeeze(-1)


agent, world = Agent(), Corridor()
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)
for _ in range(50):
    state, done, rewards, log_probs, values, entropies = world.reset(), False, [], [], [], []
    while not done:
        choice, value = agent(state)
        action = choice.sample()
        state, reward, done = world.step(action.item())
        rewards.append(reward)
        log_probs.append(choice.log_prob(action))
        values.append(value)
        entropies.append(choice.entropy())
    gains, gain = [], 0.0
    for reward in reversed(rewards):
        gain = reward + 0.97 * gain
        gains.insert(0, gain)
    gains, values = torch.tensor(gains), torch.stack(values)
    advantage = gains - values.detach()
    loss = -(torch.stack(log_probs) * advantage).sum() + nn.functional.smooth_l1_loss(values, gains)
    loss = loss - 0.01 * torch.stack(entropies).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
