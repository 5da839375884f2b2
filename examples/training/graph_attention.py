"""Attention over the edges of a random graph, with scatter operations only."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(12)


class GraphAttention(nn.Module):
    def __init__(self, inside, outside, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(inside, heads * outside, bias=False)
        self.source = nn.Parameter(torch.empty(heads, outside))
        self.target = nn.Parameter(torch.empty(heads, outside))
        nn.init.xavier_normal_(self.source)
        nn.init.xavier_normal_(self.target)

    def forward(self, x, edges):
        nodes = len(x)
        h = self.project(x).view(nodes, self.heads, -1)
        score = (h * self.source).sum(-1)[edges[0]] + (h * self.target).sum(-1)[edges[1]]
        score = F.leaky_relu(score, 0.2)
        index = edges[1].unsqueeze(-1).expand_as(score)
        top = torch.full((nodes, self.heads), -1e9).scatter_reduce(0, index, score, "amax")
        weight = (score - top.detach()[edges[1]]).exp()
        total = torch.zeros(nodes, self.heads).scatter_add(0, index, weight)
        message = h[edges[0]] * (weight / total[edges[1]]).unsqueeze(-1)
        return torch.zeros_like(h).index_add(0, edges[1], message).flatten(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GraphAttention(8, 8, 3), GraphAttention(24, 3, 1)

    def forward(self, x, edges):
        x = F.dropout(x, 0.2, self.training)
        return self.second(F.elu(self.first(x, edges)), edges).log_softmax(-1)


nodes = 60
group = torch.arange(nodes) % 3
near = (group[:, None] == group[None]) & (torch.rand(nodes, nodes) < 0.25)
far = torch.rand(nodes, nodes) < 0.03
edges = (near | far | torch.eye(nodes, dtype=torch.bool)).nonzero().t()
features = F.one_hot(group, 8) + torch.randn(nodes, 8)
train = torch.rand(nodes) < 0.5
model = Net()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, weight_decay=5e-4)
for _ in range(50):
    loss = F.nll_loss(model(features, edges)[train], group[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
