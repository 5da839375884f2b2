"""Recommend: matrix factorisation with bias embeddings and bags of tags; Adagrad and SGD groups."""

import torch
from torch import nn

torch.manual_seed(17)


class Factors(nn.Module):
    def __init__(self, users, items, tags, width=6):
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width, max_norm=2.0)
        self.tags = nn.EmbeddingBag(tags, width, mode="mean")
        self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        self.mean = nn.Parameter(torch.tensor(3.0))

    def forward(self, user, item, tags, offsets):
        item_vector = self.item(item) + self.tags(tags, offsets)
        match = (self.user(user) * item_vector).sum(-1)
        return self.mean + match + (self.user_bias(user) + self.item_bias(item)).squeeze(-1)


users, items, tags = 30, 20, 8
taste, kind = torch.randn(users, 3), torch.randn(items, 3)
tags_of = [torch.randint(0, tags, (int(n),)) for n in torch.randint(1, 4, (items,))]
model = Factors(users, items, tags)
biases = [model.user_bias.weight, model.item_bias.weight, model.mean]
rest = [p for p in model.parameters() if all(p is not b for b in biases)]
optimizer = torch.optim.Adagrad(
    [{"params": rest}, {"params": biases, "lr": 0.02}], lr=0.1, initial_accumulator_value=0.1
)
for _ in range(50):
    user, item = torch.randint(0, users, (64,)), torch.randint(0, items, (64,))
    rating = 3 + (taste[user] * kind[item]).sum(1) + 0.1 * torch.randn(64)
    bags = [tags_of[i] for i in item.tolist()]
    offsets = torch.tensor([0, *[len(bag) for bag in bags[:-1]]]).cumsum(0)
    loss = nn.functional.mse_loss(model(user, item, torch.cat(bags), offsets), rating)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
