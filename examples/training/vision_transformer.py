"""A vision transformer on textures: patches by unfold, class token, stochastic depth, AdamW."""

import torch
from torch import nn

torch.manual_seed(10)


class DropPath(nn.Module):
    def __init__(self, probability):
        super().__init__()
        self.probability = probability

    def forward(self, x):
        if not self.training or self.probability == 0:
            return x
        keep = 1 - self.probability
        return x * x.new_empty(x.shape[0], 1, 1).bernoulli_(keep).div_(keep)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.drop = DropPath(0.1)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.drop(self.attention(y, y, y, need_weights=False)[0])
        return x + self.drop(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    def __init__(self, width=24, patch=4, size=16, classes=3):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch * patch, width)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(Layer(width, 4), Layer(width, 4))
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        patches = images.unfold(2, self.patch, self.patch).unfold(3, self.patch, self.patch)
        x = self.embed(patches.reshape(len(images), -1, self.patch**2))
        x = torch.cat((self.token.expand(len(x), -1, -1), x), 1) + self.position
        return self.head(self.layers(x)[:, 0])


def textures(count, size=16):
    kind = torch.randint(0, 3, (count,))
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    waves = torch.stack((rows.float(), columns.float(), (rows + columns).float())).mul(1.5).sin()
    return (waves[kind] + 0.4 * torch.randn(count, size, size)).unsqueeze(1), kind


model = ViT()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05, fused=False, foreach=False)
for _ in range(50):
    images, kinds = textures(16)
    loss = nn.functional.cross_entropy(model(images), kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
