"""A convolutional autoencoder with tied first and last filters, trained with Adam."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(3)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Parameter(torch.empty(6, 1, 4, 4))
        nn.init.xavier_uniform_(self.filters)
        self.squeeze = nn.Linear(6 * 4 * 4, 5)
        self.expand = nn.Linear(5, 6 * 4 * 4)

    def forward(self, x):
        hidden = F.elu(F.conv2d(x, self.filters, stride=2, padding=1))
        code = self.squeeze(hidden.reshape(len(x), -1))
        back = F.elu(self.expand(code)).view(-1, 6, 4, 4)
        return F.conv_transpose2d(back, self.filters, stride=2, padding=1), code


position = torch.linspace(0, 3, 8)
phase = torch.rand(32, 1, 1, 1) * 6
data = torch.sin(position[None, None, :, None] + phase) * torch.cos(position[None, None, None, :] - phase)
model = Autoencoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.99), amsgrad=True)
for _ in range(50):
    restored, code = model(data)
    loss = F.mse_loss(restored, data) + 1e-3 * code.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
