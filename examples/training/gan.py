"""A Wasserstein GAN with gradient penalty: the critic's loss differentiates twice."""

import torch
import torch.nn as nn

torch.manual_seed(5)
generator = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
critic = nn.Sequential(
    nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 1)
)
generator_step = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
critic_step = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))


def real(count):
    angle = 6.283185 * torch.rand(count)
    return torch.stack((angle.cos(), angle.sin()), 1) + 0.05 * torch.randn(count, 2)


def penalty(data, fake):
    share = torch.rand(len(data), 1)
    between = (share * data + (1 - share) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


for _ in range(25):
    for _ in range(2):
        data, fake = real(32), generator(torch.randn(32, 4)).detach()
        loss = critic(fake).mean() - critic(data).mean() + 10 * penalty(data, fake)
        critic_step.zero_grad()
        loss.backward()
        critic_step.step()
        print(loss.item())
    for parameter in critic.parameters():
        parameter.requires_grad_(False)
    generator_loss = -critic(generator(torch.randn(32, 4))).mean()
    generator_step.zero_grad()
    generator_loss.backward()
    generator_step.step()
    for parameter in critic.parameters():
        parameter.requires_grad_(True)
