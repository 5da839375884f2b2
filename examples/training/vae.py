"""A variational autoencoder: reparameterised samples and an analytic divergence."""

import torch
from torch import distributions as D
from torch import nn

torch.manual_seed(4)


class VAE(nn.Module):
    def __init__(self, size, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(size, 32), nn.SiLU(), nn.Linear(32, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 32), nn.SiLU(), nn.Linear(32, size))

    def forward(self, x):
        mean, log_scale = self.encoder(x).chunk(2, dim=-1)
        posterior = D.Independent(D.Normal(mean, log_scale.exp()), 1)
        prior = D.Independent(D.Normal(torch.zeros_like(mean), torch.ones_like(mean)), 1)
        picture = D.Independent(D.Bernoulli(logits=self.decoder(posterior.rsample())), 1)
        return -(picture.log_prob(x) - D.kl_divergence(posterior, prior)).mean()


pictures = (torch.rand(48, 16) < torch.linspace(0.05, 0.95, 16)).float()
model = VAE(16, 3)
optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3, momentum=0.5, centered=True)
for _ in range(50):
    loss = model(pictures)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    print(loss.item())
