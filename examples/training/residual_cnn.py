"""A residual network with batch norm on pictures of bars; cosine learning rate with warm restarts."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts

torch.manual_seed(2)


class Block(nn.Module):
    def __init__(self, inside, outside, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += self.shortcut(x)
        return F.relu(out)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.blocks = nn.Sequential(Block(8, 8), Block(8, 16, 2), Block(16, 16))
        self.head = nn.Linear(16, 2)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1))


def bars(count, size=12):
    labels = torch.randint(0, 2, (count,))
    places = torch.randint(0, size, (count,))
    images = 0.3 * torch.randn(count, 1, size, size)
    for image, label, place in zip(images, labels, places, strict=True):
        if label:
            image[0, place] += 1
        else:
            image[0, :, place] += 1
    return images, labels


images, labels = bars(64)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=5e-4)
scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=20)
for _ in range(50):
    pick = torch.randperm(64)[:16]
    loss = F.cross_entropy(model(images[pick]), labels[pick])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(loss.item())
