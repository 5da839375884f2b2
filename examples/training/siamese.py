"""Metric learning: triplet and cosine losses, a shared encoder, weight normalisation, hooks."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

torch.manual_seed(16)
encoder = nn.Sequential(weight_norm(nn.Linear(10, 24)), nn.PReLU(), nn.Dropout1d(0.1), nn.Linear(24, 6))
norms = []
handle = encoder.register_forward_hook(lambda module, inputs, output: norms.append(output.norm().item()))
centres = torch.randn(4, 10)


def sample(kind):
    return centres[kind] + 0.7 * torch.randn(len(kind), 10)


triplet = nn.TripletMarginWithDistanceLoss(
    distance_function=lambda a, b: 1 - F.cosine_similarity(a, b), margin=0.5, swap=True
)
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: norms.clear())
for _ in range(50):
    kind = torch.randint(0, 4, (24,))
    other = (kind + torch.randint(1, 4, (24,))) % 4
    anchor, positive, negative = encoder(sample(kind)), encoder(sample(kind)), encoder(sample(other))
    loss = triplet(anchor, positive, negative)
    loss = loss + F.cosine_embedding_loss(anchor, negative, -torch.ones(24), margin=0.2)
    loss = loss + 0.01 * F.pairwise_distance(anchor, positive).mean() + 1e-3 * sum(norms) / len(norms)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
handle.remove()
