"""Segment discs with a small U-Net: skip connections, transposed convolution, Dice loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)


def double(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1),
        nn.GroupNorm(4, outside),
        nn.ReLU(inplace=True),
        nn.Conv2d(outside, outside, 3, padding="same"),
        nn.GroupNorm(4, outside),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down1, self.down2 = double(1, width), double(width, 2 * width)
        self.bottom = double(2 * width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, 2 * width, 2, stride=2)
        self.join2 = double(4 * width, width)
        self.join1 = double(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        one = self.down1(x)
        two = self.down2(F.max_pool2d(one, 2))
        deep = self.bottom(F.max_pool2d(two, 2))
        x = self.join2(torch.cat((self.up(deep), two), 1))
        x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        return self.out(self.join1(torch.cat([x, one], 1)))


def discs(count, size=16):
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij"))
    centre = torch.randint(4, size - 4, (count, 2, 1, 1))
    radius = torch.randint(2, 5, (count, 1, 1))
    mask = ((grid - centre) ** 2).sum(1) <= radius**2
    return (mask + 0.5 * torch.randn(count, size, size)).unsqueeze(1), mask.unsqueeze(1)


def dice(scores, mask):
    share = torch.sigmoid(scores)
    both = (share * mask).sum((1, 2, 3))
    return 1 - ((2 * both + 1) / (share.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)).mean()


model = UNet()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3, factor=0.7)
for _ in range(50):
    images, masks = discs(8)
    scores = model(images)
    loss = dice(scores, masks) + F.binary_cross_entropy_with_logits(scores, masks.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(loss.item())
    print(loss.item())
